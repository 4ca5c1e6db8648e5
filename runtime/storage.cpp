#include "runtime/storage.h"

#include <algorithm>
#include <utility>

#include "ir/base/errors.h"

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

/// Work with more open checks than this is looked at: most are over, and clean.
constexpr std::size_t kManyChecks = 16;

}  // namespace

Work::Work(BackendRef backend, Stream stream, std::vector<FaultCheckRef> checks)
    : backend_(std::move(backend)), stream_(stream), checks_(std::move(checks)), event_(backend_->record(stream)) {}

Work::~Work() {
  backend_->destroy_event(event_);
}

void Work::wait() const {
  backend_->synchronise(event_);
  for (const FaultCheckRef& check : checks_) check->raise();
}

std::shared_ptr<Storage> Storage::allocate(BackendRef backend, std::size_t bytes, Stream home) {
  // The object is there before the memory, so that no failure in between can lose it.
  auto storage = std::shared_ptr<Storage>(new Storage(std::move(backend), bytes, home));
  storage->data_ = static_cast<std::byte*>(storage->backend_->allocate(bytes, home));
  storage->is_owned_ = true;
  return storage;
}

std::shared_ptr<Storage> Storage::allocate_pinned(BackendRef host, BackendRef gpu, std::size_t bytes) {
  auto storage = std::shared_ptr<Storage>(new Storage(std::move(host), bytes, {}));
  storage->release_ = [gpu, bytes, memory = &storage->data_] { gpu->free_pinned(*memory, bytes); };
  storage->data_ = static_cast<std::byte*>(gpu->allocate_pinned(bytes));
  storage->host_memory_ = HostMemory::Pinned;
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(BackendRef backend, void* memory, std::size_t bytes,
                                       std::function<void()> release) {
  auto storage = std::shared_ptr<Storage>(new Storage(std::move(backend), bytes, {}));
  storage->data_ = static_cast<std::byte*>(memory);
  storage->release_ = std::move(release);
  storage->note_exposed();
  return storage;
}

Storage::~Storage() {
  Stream last = home_;
  try {
    if (is_owned_ && backend_->is_asynchronous())
      last = stream_behind_all();
    else
      wait_for_all();
  } catch (const std::exception&) {
    if (!is_idle_after_all()) return;
  }
  if (is_owned_) backend_->free(data_, bytes_, last);
  if (release_) release_();
}

bool Storage::is_idle_after_all() const noexcept {
  try {
    wait_for_all();
    return true;
  } catch (const std::exception&) {
    // Nobody knows when the work ends that uses the memory: it is never used again. A lost device has lost it anyway.
    return false;
  }
}

Stream Storage::stream_behind_all() const {
  Stream last = home_;
  if (!has_work()) return last;
  // Reads are behind the write already.
  std::vector<WorkRef> open = reads_;
  if (open.empty() && last_write_ != nullptr) open.push_back(last_write_);
  for (const WorkRef& work : open) {
    if (work->backend() == backend_ && !(work->stream() == home_)) last = work->stream();
  }
  for (const WorkRef& work : open) order_behind(work, *backend_, last);
  return last;
}

void Storage::wait_for_work() const {
  std::vector<WorkRef> open;
  {
    const std::lock_guard lock(mutex_);
    open = reads_;
    if (last_write_ != nullptr) open.push_back(last_write_);
  }
  for (const WorkRef& work : open) work->backend()->synchronise(work->event());
}

void Storage::order_read(DeviceBackend& backend, Stream stream) const {
  if (!has_work()) return;
  const std::lock_guard lock(mutex_);
  order_behind(last_write_, backend, stream);
}

void Storage::order_write(DeviceBackend& backend, Stream stream) const {
  if (!has_work()) return;
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
  has_work_.store(true, std::memory_order_release);
}

void Storage::note_write(WorkRef work) {
  note_change();
  const std::lock_guard lock(mutex_);
  reads_.clear();
  last_write_ = std::move(work);
  has_work_.store(true, std::memory_order_release);
}

void Storage::collect_checks(std::vector<FaultCheckRef>& checks) const {
  if (!has_work()) return;
  const std::lock_guard lock(mutex_);
  if (last_write_ == nullptr) return;
  for (const FaultCheckRef& check : last_write_->checks()) {
    if (!check->is_clean() && std::find(checks.begin(), checks.end(), check) == checks.end()) checks.push_back(check);
  }
  if (checks.size() > kManyChecks) {
    std::erase_if(checks, [](const FaultCheckRef& check) { return check->is_done() && !check->has_fault(); });
  }
}

void Storage::wait_for_write() const {
  WorkRef work;
  {
    const std::lock_guard lock(mutex_);
    work = last_write_;
  }
  if (work != nullptr) work->wait();
}

}  // namespace corrloom::runtime
