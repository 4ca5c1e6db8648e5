#include "runtime/tensor.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "ir/base/errors.h"
#include "runtime/cast.h"
#include "runtime/host/host_backend.h"
#include "runtime/layout.h"
#include "runtime/tensor_state.h"
#include "runtime/trace.h"

namespace corrloom {

using runtime::BackendRef;
using runtime::DeviceBackend;
using runtime::Storage;

namespace {

/// A range of bytes of memory.
struct ByteRange {
  const std::byte* begin;
  const std::byte* end;
};

/// The bytes that elements of a tensor may occupy; empty without elements.
ByteRange byte_range(const Tensor& tensor) {
  const auto* const address = static_cast<const std::byte*>(runtime::TensorAccess::address(tensor));
  if (tensor.element_count() == 0) return {address, address};
  // A tensor that exists has offsets that fit.
  const runtime::OffsetRange range = *runtime::offset_range(tensor.shape(), tensor.strides());
  const std::int64_t bytes = byte_size(tensor.dtype());
  return {address + range.lowest * bytes, address + (range.highest + 1) * bytes};
}

/// `index` counted from the front, in [0, bound). Throws InputError.
std::int64_t from_front(std::int64_t index, std::int64_t bound, const char* what) {
  const std::int64_t front = index < 0 ? index + bound : index;
  if (front < 0 || front >= bound) {
    throw InputError(detail::concat(what, " ", index, " is out of range; wanted ", -bound, " to ", bound - 1));
  }
  return front;
}

std::size_t axis_of(const Tensor& tensor, int axis) {
  if (tensor.rank() == 0) throw InputError("a tensor of rank 0 has no axes");
  return static_cast<std::size_t>(from_front(axis, tensor.rank(), "axis"));
}

/// Copies elements between two layouts of one device.
void copy_on_device(const Tensor& to, const Tensor& from) {
  Storage& target = *to.storage();
  Storage& source = *from.storage();
  const BackendRef& backend = target.backend();
  const int bytes = byte_size(from.dtype());
  void* const to_address = runtime::TensorAccess::address(to);
  const void* const from_address = runtime::TensorAccess::address(from);
  if (!backend->is_asynchronous()) {
    source.wait();
    target.wait_for_all();
    runtime::copy_elements(to_address, to.strides(), from_address, from.strides(), from.shape(), bytes);
    return;
  }
  source.order_read(*backend, {});
  target.order_write(*backend, {});
  const std::vector<runtime::CopyAxis> axes = runtime::copy_axes(from.shape(), to.strides(), from.strides());
  std::exception_ptr failure;
  try {
    backend->strided_copy().run(*backend, to_address, from_address, axes, bytes, {});
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  // Also of a copy that failed: parts of it may be under way.
  std::vector<runtime::FaultCheckRef> checks;
  source.collect_checks(checks);
  const auto work = std::make_shared<const runtime::Work>(backend, runtime::Stream{}, std::move(checks));
  source.note_read(work);
  target.note_write(work);
  if (failure != nullptr) std::rethrow_exception(failure);
}

/// A copy this large is worth a stream of its own, beside the kernels of the default one.
constexpr std::int64_t kOwnStreamBytes = std::int64_t{64} << 10;

runtime::Stream stream_of_copy(DeviceBackend& worker, bool is_upload, std::int64_t bytes) {
  if (bytes < kOwnStreamBytes) return {};
  return is_upload ? worker.upload_stream() : worker.download_stream();
}

/// Enqueues a copy of dense elements from one device to another, or within one, behind the work that it depends on.
/// Gives the work of a GPU; null when the host did it. Host memory that is not pinned is free again on return.
runtime::WorkRef enqueue_copy(const Tensor& to, const Tensor& from) {
  Storage& target = *to.storage();
  Storage& source = *from.storage();
  const BackendRef& to_backend = target.backend();
  const BackendRef& from_backend = source.backend();
  const auto bytes = static_cast<std::size_t>(from.byte_count());
  const bool to_host = to.device().is_cpu(), from_host = from.device().is_cpu();
  // The copy is work of the GPU that takes part; of two GPUs, of the one that receives.
  const BackendRef& worker = to_host ? from_backend : to_backend;
  const runtime::Stream stream =
      to_host != from_host ? stream_of_copy(*worker, from_host, from.byte_count()) : runtime::Stream{};
  runtime::TraceScope trace("copy", "copy");
  if (trace.is_active()) {
    trace.add_detail("from", from.device().name());
    trace.add_detail("to", to.device().name());
    trace.add_detail("bytes", std::to_string(bytes));
  }
  if (from_host) source.wait();
  source.order_read(*worker, stream);
  target.order_write(*worker, stream);
  std::exception_ptr failure;
  try {
    if (to_backend == from_backend) {
      worker->copy_within(runtime::TensorAccess::address(to), runtime::TensorAccess::address(from), bytes, stream);
    } else if (to_host) {
      worker->copy_to_host(runtime::TensorAccess::address(to), runtime::TensorAccess::address(from), bytes, stream,
                           target.host_memory());
    } else if (from_host) {
      worker->copy_from_host(runtime::TensorAccess::address(to), runtime::TensorAccess::address(from), bytes, stream,
                             source.host_memory());
    } else {
      worker->copy_from_peer(runtime::TensorAccess::address(to), *from_backend, runtime::TensorAccess::address(from),
                             bytes, stream);
    }
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  runtime::WorkRef work;
  if (worker->is_asynchronous()) {
    // Also of a copy that failed: parts of it may be under way.
    std::vector<runtime::FaultCheckRef> checks;
    source.collect_checks(checks);
    work = std::make_shared<const runtime::Work>(worker, stream, std::move(checks));
    source.note_read(work);
    target.note_write(work);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
  return work;
}

/// The same; copies to the host, and from pinned memory, which the caller may change, are done on return.
void copy_dense(const Tensor& to, const Tensor& from) {
  const runtime::WorkRef work = enqueue_copy(to, from);
  const bool touches_host = to.device().is_cpu() || from.storage()->host_memory() == runtime::HostMemory::Pinned;
  if (work != nullptr && touches_host) work->wait();
}

/// A dense host tensor whose element k is `value_of(k)`, moved to the device.
template <class ValueOf>
Tensor generate(Shape shape, DType dtype, Device device, ValueOf value_of) {
  Tensor result = Tensor::empty(std::move(shape), dtype);
  auto* const elements = static_cast<std::byte*>(runtime::TensorAccess::address(result));
  const int bytes = byte_size(dtype);
  runtime::for_each_range(result.element_count(), static_cast<double>(result.element_count()) * 4,
                          [&](std::int64_t first, std::int64_t last) {
                            for (std::int64_t k = first; k < last; ++k) {
                              runtime::write_element(elements + k * bytes, value_of(k));
                            }
                          });
  return result.to(device);
}

}  // namespace

std::int64_t element_count(const Shape& shape, DType dtype) {
  std::int64_t count = 1, bytes = 0;
  bool fits = true, empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw InputError(detail::concat("an extent is ", extent, "; wanted 0 or more"));
    empty |= extent == 0;
    // Zeros count as 1 here, so that the strides of empty shapes fit as well.
    fits = fits && !__builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count);
  }
  fits = fits && !__builtin_mul_overflow(count, std::int64_t{byte_size(dtype)}, &bytes);
  if (!fits) {
    throw InputError(
        "a tensor of type " + TensorType{dtype, shape}.to_string() +
        (empty ? " has no elements, but strides of 2^63 bytes or more" : " would take 2^63 bytes or more"));
  }
  return empty ? 0 : count;
}

std::string TensorType::to_string() const {
  std::string text = std::string(name_of(dtype)) + "[";
  for (std::size_t k = 0; k < shape.size(); ++k) text += (k > 0 ? ", " : "") + std::to_string(shape[k]);
  return text + "]";
}

Tensor Tensor::make(std::shared_ptr<Storage> storage, std::int64_t byte_offset, DType dtype, Shape shape,
                    Shape strides) {
  const std::int64_t count = corrloom::element_count(shape, dtype);
  const bool dense = runtime::is_dense(shape, strides);
  return Tensor(std::make_shared<const State>(
      State{std::move(storage), byte_offset, dtype, std::move(shape), std::move(strides), count, dense}));
}

void Tensor::check_count(std::size_t found, const Shape& shape) {
  const std::int64_t wanted = corrloom::element_count(shape, DType::U8);
  if (found != static_cast<std::size_t>(wanted)) {
    throw InputError(detail::concat("found ", found, " elements; wanted ", wanted, " for this shape"));
  }
}

Tensor Tensor::make_dense(std::shared_ptr<Storage> storage, DType dtype, Shape shape) {
  Shape strides = runtime::dense_strides(shape);
  return make(std::move(storage), 0, dtype, std::move(shape), std::move(strides));
}

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  const std::int64_t bytes = corrloom::element_count(shape, dtype) * byte_size(dtype);
  return make_dense(Storage::allocate(runtime::backend_of(device), static_cast<std::size_t>(bytes)), dtype,
                    std::move(shape));
}

Tensor Tensor::empty_for_upload(Shape shape, DType dtype, Device device) {
  const std::int64_t bytes = corrloom::element_count(shape, dtype) * byte_size(dtype);
  BackendRef backend = runtime::backend_of(device);
  const runtime::Stream stream = stream_of_copy(*backend, true, bytes);
  return make_dense(Storage::allocate(std::move(backend), static_cast<std::size_t>(bytes), stream), dtype,
                    std::move(shape));
}

Tensor Tensor::from_data(const void* elements, Shape shape, DType dtype, Device device) {
  Tensor result = empty_for_upload(std::move(shape), dtype, device);
  Storage& storage = *result.storage();
  const BackendRef& backend = storage.backend();
  const runtime::Stream stream = stream_of_copy(*backend, true, result.byte_count());
  backend->copy_from_host(runtime::TensorAccess::address(result), elements,
                          static_cast<std::size_t>(result.byte_count()), stream);
  if (backend->is_asynchronous()) storage.note_write(std::make_shared<const runtime::Work>(backend, stream));
  return result;
}

Tensor Tensor::from_scalar(scalar::Value value, Device device) {
  return from_data(&value.bits, {}, value.dtype, device);
}

Tensor Tensor::wrap(void* elements, Shape shape, DType dtype, std::function<void()> release, Shape strides) {
  const std::int64_t count = corrloom::element_count(shape, dtype);
  const std::int64_t bytes = byte_size(dtype);
  if (strides.empty()) strides = runtime::dense_strides(shape);
  if (strides.size() != shape.size()) {
    throw InputError(
        detail::concat("found ", strides.size(), " strides; wanted ", shape.size(), ", one for each axis"));
  }
  if (reinterpret_cast<std::uintptr_t>(elements) % static_cast<std::uintptr_t>(bytes) != 0) {
    throw InputError(detail::concat("memory to wrap is not aligned to elements of ", bytes, " bytes"));
  }
  if (count > 0 && elements == nullptr)
    throw InputError("memory to wrap is null; wanted " + std::to_string(count) + " elements");
  runtime::OffsetRange range;
  std::int64_t length = 0, start = 0;
  if (count > 0) {
    const std::optional<runtime::OffsetRange> found = runtime::offset_range(shape, strides);
    if (!found || __builtin_sub_overflow(found->highest, found->lowest, &length) ||
        __builtin_add_overflow(length, 1, &length) || __builtin_mul_overflow(length, bytes, &length) ||
        __builtin_mul_overflow(found->lowest, bytes, &start)) {
      throw InputError("the strides of memory to wrap lead beyond 2^63 bytes");
    }
    range = *found;
  }
  std::byte* const first = static_cast<std::byte*>(elements) + start;
  std::shared_ptr<Storage> storage =
      Storage::wrap(runtime::backend_of(cpu()), first, static_cast<std::size_t>(length), std::move(release));
  return make(std::move(storage), -start, dtype, std::move(shape), std::move(strides));
}

void Tensor::reject_undefined() {
  throw InputError("a tensor is used that was never given a value");
}

const Shape& Tensor::shape() const {
  return state().shape;
}
const Shape& Tensor::strides() const {
  return state().strides;
}
DType Tensor::dtype() const {
  return state().dtype;
}
Device Tensor::device() const {
  return state().storage->backend()->device();
}
TensorType Tensor::type() const {
  return {state().dtype, state().shape};
}
std::int64_t Tensor::element_count() const {
  return state().count;
}
std::int64_t Tensor::byte_count() const {
  return state().count * byte_size(state().dtype);
}
bool Tensor::is_contiguous() const {
  return state().dense;
}
void* Tensor::address() const {
  state().storage->note_exposed();
  return state().address();
}
void Tensor::wait() const {
  state().storage->wait();
}
const std::shared_ptr<Storage>& Tensor::storage() const {
  return state().storage;
}

void* Tensor::host_data(DType wanted, bool may_write) const {
  const std::string self = type().to_string() + " on " + device().name();
  if (dtype() != wanted)
    throw InputError("the elements of " + self + " are asked for as " + std::string(name_of(wanted)));
  if (!device().is_cpu()) throw InputError("the elements of " + self + " are not on the host; use `.to(cpu())` first");
  if (!is_contiguous()) throw InputError(self + " is a strided view; use `.contiguous()` first");
  wait();
  if (may_write) storage()->note_exposed();
  return state().address();
}

scalar::Value Tensor::element(std::int64_t position) const {
  const State& self = state();
  from_front(position, self.count, "element");
  std::int64_t rest = position < 0 ? position + self.count : position, offset = 0;
  for (std::size_t k = self.shape.size(); k-- > 0;) {
    offset += rest % self.shape[k] * self.strides[k];
    rest /= self.shape[k];
  }
  wait();
  const std::byte* const place = self.address() + offset * byte_size(self.dtype);
  if (device().is_cpu()) return runtime::read_element(place, self.dtype);
  // Nothing writes the tensor any more, so the copy need not queue behind other work.
  std::uint64_t bits = 0;
  DeviceBackend& backend = *self.storage->backend();
  backend.copy_to_host(&bits, place, static_cast<std::size_t>(byte_size(self.dtype)), backend.download_stream());
  return runtime::read_element(&bits, self.dtype);
}

scalar::Value Tensor::at(std::initializer_list<std::int64_t> index) const {
  if (index.size() != shape().size()) {
    throw InputError(detail::concat("found ", index.size(), " indices; wanted ", rank(), " for ", type().to_string()));
  }
  std::int64_t position = 0;
  std::size_t axis = 0;
  for (const std::int64_t i : index) {
    position = position * shape()[axis] + from_front(i, shape()[axis], "index");
    ++axis;
  }
  return element(position);
}

double Tensor::item() const {
  if (element_count() != 1) throw InputError(type().to_string() + " has not exactly one element");
  return element(0).as_f64();
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end, std::int64_t step) const {
  const std::size_t k = axis_of(*this, axis);
  if (step < 1) throw InputError(detail::concat("the step of a slice is ", step, "; wanted 1 or more"));
  const std::int64_t extent = shape()[k];
  const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + extent : i, 0, extent); };
  const std::int64_t first = clamped(begin), last = std::max(clamped(end), first);
  Shape new_shape = shape(), new_strides = strides();
  new_shape[k] = last == first ? 0 : (last - first - 1) / step + 1;
  // Beyond one element the step is below the extent, so the product fits; otherwise the stride is never used.
  if (new_shape[k] > 1) new_strides[k] *= step;
  const std::int64_t offset = last == first ? 0 : first * strides()[k] * byte_size(dtype());
  return make(storage(), state().byte_offset + offset, dtype(), std::move(new_shape), std::move(new_strides));
}

Tensor Tensor::select(int axis, std::int64_t index) const {
  const std::size_t k = axis_of(*this, axis);
  const std::int64_t place = from_front(index, shape()[k], "index");
  Shape new_shape = shape(), new_strides = strides();
  new_shape.erase(new_shape.begin() + static_cast<std::ptrdiff_t>(k));
  new_strides.erase(new_strides.begin() + static_cast<std::ptrdiff_t>(k));
  const std::int64_t offset = place * strides()[k] * byte_size(dtype());
  return make(storage(), state().byte_offset + offset, dtype(), std::move(new_shape), std::move(new_strides));
}

Tensor Tensor::transpose(std::vector<int> order) const {
  const std::size_t axes = shape().size();
  if (order.empty()) {
    order.resize(axes);
    std::iota(order.rbegin(), order.rend(), 0);
  }
  std::vector<bool> seen(axes, false);
  bool is_order = order.size() == axes;
  for (const int axis : order) {
    is_order = is_order && axis >= 0 && static_cast<std::size_t>(axis) < axes && !seen[static_cast<std::size_t>(axis)];
    if (is_order) seen[static_cast<std::size_t>(axis)] = true;
  }
  if (!is_order) throw InputError(detail::concat("the order of a transpose must name each of ", axes, " axes once"));
  Shape new_shape, new_strides;
  for (const int axis : order) {
    new_shape.push_back(shape()[static_cast<std::size_t>(axis)]);
    new_strides.push_back(strides()[static_cast<std::size_t>(axis)]);
  }
  return make(storage(), state().byte_offset, dtype(), std::move(new_shape), std::move(new_strides));
}

Tensor Tensor::reshape(Shape wanted) const {
  const auto open = std::find(wanted.begin(), wanted.end(), -1);
  if (open != wanted.end()) {
    *open = 1;
    const std::int64_t others = corrloom::element_count(wanted, dtype());
    if (others == 0 || element_count() % others != 0) {
      throw InputError(type().to_string() + " cannot be reshaped: its elements do not fill the extent that is -1");
    }
    *open = element_count() / others;
  }
  if (corrloom::element_count(wanted, dtype()) != element_count()) {
    throw InputError(type().to_string() + " cannot be reshaped to " + TensorType{dtype(), wanted}.to_string() +
                     ": the numbers of elements differ");
  }
  std::optional<Shape> new_strides = runtime::reshaped_strides(shape(), strides(), wanted);
  if (!new_strides) return copy().reshape(std::move(wanted));
  return make(storage(), state().byte_offset, dtype(), std::move(wanted), std::move(*new_strides));
}

Tensor Tensor::contiguous() const {
  return is_contiguous() ? *this : copy();
}

Tensor Tensor::copy() const {
  Tensor result = empty(shape(), dtype(), device());
  result.copy_from(*this);
  return result;
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  const Tensor dense = contiguous();
  Tensor result =
      dense.device().is_cpu() ? empty_for_upload(shape(), dtype(), target) : empty(shape(), dtype(), target);
  copy_dense(result, dense);
  return result;
}

Tensor Tensor::to_async(Device target) const {
  if (target == device()) return *this;
  const Tensor dense = contiguous();
  if (dense.device().is_cpu()) {
    Tensor result = empty_for_upload(shape(), dtype(), target);
    (void)enqueue_copy(result, dense);
    return result;
  }
  if (!target.is_cpu()) return dense.to(target);
  Tensor result = make_dense(Storage::allocate_pinned(runtime::backend_of(target), dense.storage()->backend(),
                                                      static_cast<std::size_t>(byte_count())),
                             dtype(), shape());
  (void)enqueue_copy(result, dense);
  return result;
}

Tensor Tensor::to(DType target) const {
  if (target == dtype()) return *this;
  const Tensor source = to(cpu()).contiguous();
  source.wait();  // a tensor of the host may have work in flight itself
  const auto* const elements = static_cast<const std::byte*>(runtime::TensorAccess::address(source));
  const int bytes = byte_size(dtype());
  return generate(shape(), target, device(), [&](std::int64_t k) {
    return runtime::cast(runtime::read_element(elements + k * bytes, source.dtype()), target);
  });
}

void Tensor::copy_from(const Tensor& source) const {
  if (source.type() != type()) {
    throw InputError("cannot copy " + source.type().to_string() + " into " + type().to_string());
  }
  if (element_count() == 0 || is_same_as(source)) return;
  if (overlaps(source)) return copy_from(source.copy());
  storage()->note_change();
  if (is_contiguous() && source.is_contiguous()) return copy_dense(*this, source);
  copy_on_device(*this, source.to(device()));
}

bool Tensor::is_same_as(const Tensor& other) const {
  if (state_ == other.state_) return true;
  if (!is_defined() || !other.is_defined()) return false;
  return storage() == other.storage() && state().byte_offset == other.state().byte_offset && dtype() == other.dtype() &&
         shape() == other.shape() && strides() == other.strides();
}

bool Tensor::shares_storage_with(const Tensor& other) const {
  return is_defined() && other.is_defined() && storage() == other.storage();
}

bool Tensor::overlaps(const Tensor& other) const {
  if (storage()->backend() != other.storage()->backend()) return false;
  const ByteRange a = byte_range(*this), b = byte_range(other);
  return a.begin != a.end && b.begin != b.end && a.begin < b.end && b.begin < a.end;
}

Tensor zeros(Shape shape, DType dtype, Device device) {
  Tensor result = Tensor::empty(std::move(shape), dtype, device);
  const BackendRef& backend = result.storage()->backend();
  backend->fill(runtime::TensorAccess::address(result), std::byte{0}, static_cast<std::size_t>(result.byte_count()));
  if (backend->is_asynchronous()) result.storage()->note_write(std::make_shared<const runtime::Work>(backend));
  return result;
}

Tensor ones(Shape shape, DType dtype, Device device) {
  return full(std::move(shape), 1.0, dtype, device);
}

Tensor full(Shape shape, double value, DType dtype, Device device) {
  return full(std::move(shape), runtime::cast(scalar::Value::f64(value), dtype), device);
}

Tensor full(Shape shape, scalar::Value value, Device device) {
  return generate(std::move(shape), value.dtype, device, [&](std::int64_t) { return value; });
}

Tensor arange(Shape shape, DType dtype, Device device) {
  return generate(std::move(shape), dtype, device,
                  [&](std::int64_t k) { return runtime::cast(scalar::Value::i64(k), dtype); });
}

}  // namespace corrloom
