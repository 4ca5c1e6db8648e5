#include "runtime/storage.h"

#include <utility>

namespace corrloom::runtime {
namespace {

/// Lets `stream` wait for work of another stream; work of the same stream is ordered already.
void order_behind(const WorkRef& work, DeviceBackend& backend, Stream stream) {
  if (work == nullptr) return;
  if (work->backend().get() == &backend && work->stream() == stream) return;
  if (work->backend()->device().kind() == backend.device().kind()) {
    backend.wait(stream, work->event());
  } else {
    work->backend()->synchronise(work->event());
  }
}

}  // namespace

Work::Work(BackendRef backend, Stream stream, std::function<void()> check)
    : backend_(std::move(backend)), stream_(stream), event_(backend_->record(stream)), check_(std::move(check)) {}

Work::~Work() {
  backend_->destroy_event(event_);
}

void Work::wait() const {
  backend_->synchronise(event_);
  if (check_) check_();
}

Storage::Storage(BackendRef backend, std::byte* data, std::size_t bytes, std::function<void()> release, bool owned)
    : backend_(std::move(backend)), data_(data), bytes_(bytes), release_(std::move(release)), owned_(owned) {}

std::shared_ptr<Storage> Storage::allocate(BackendRef backend, std::size_t bytes) {
  // The object is there before the memory, so that no failure in between can lose it.
  auto storage = std::shared_ptr<Storage>(new Storage(std::move(backend), nullptr, bytes, {}, true));
  storage->data_ = static_cast<std::byte*>(storage->backend_->allocate(bytes));
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(BackendRef backend, void* memory, std::size_t bytes,
                                       std::function<void()> release) {
  return std::shared_ptr<Storage>(
      new Storage(std::move(backend), static_cast<std::byte*>(memory), bytes, std::move(release), false));
}

Storage::~Storage() {
  try {
    if (backend_->is_asynchronous() && data_ != nullptr) {
      // The pool takes the block back behind its default stream: that one waits for every other user first.
      order_write(*backend_, {});
      // Somebody else's memory may be gone as soon as `release` returns.
      if (!owned_) backend_->synchronise(Stream{});
    }
  } catch (const std::exception&) {
    // The device is lost; what remains is to give the memory back.
  }
  if (owned_ && data_ != nullptr) backend_->free(data_, bytes_);
  if (release_) release_();
}

void Storage::order_read(DeviceBackend& backend, Stream stream) const {
  if (!backend_->is_asynchronous()) return;
  const std::lock_guard lock(mutex_);
  order_behind(last_write_, backend, stream);
}

void Storage::order_write(DeviceBackend& backend, Stream stream) const {
  if (!backend_->is_asynchronous()) return;
  const std::lock_guard lock(mutex_);
  order_behind(last_write_, backend, stream);
  for (const WorkRef& work : reads_) order_behind(work, backend, stream);
}

void Storage::note_read(WorkRef work) {
  const std::lock_guard lock(mutex_);
  std::erase_if(reads_, [&](const WorkRef& earlier) {
    return earlier->backend() == work->backend() && earlier->stream() == work->stream();
  });
  reads_.push_back(std::move(work));
}

void Storage::note_write(WorkRef work) {
  const std::lock_guard lock(mutex_);
  reads_.clear();
  last_write_ = std::move(work);
}

void Storage::wait() const {
  if (!backend_->is_asynchronous()) return;
  WorkRef work;
  {
    const std::lock_guard lock(mutex_);
    work = last_write_;
  }
  if (work != nullptr) work->wait();
}

}  // namespace corrloom::runtime
