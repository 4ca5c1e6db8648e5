#include "runtime/sim/driver/stream.h"

#include <thread>

#include "runtime/sim/driver/state.h"

namespace corrloom::sim::driver {

void Fence::complete() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
}

bool Fence::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Fence::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

std::shared_ptr<Mark> Event::start_recording() {
  auto mark = std::make_shared<Mark>();
  const std::lock_guard lock(mutex_);
  mark_ = mark;
  capture_ = nullptr;
  return mark;
}

std::shared_ptr<Mark> Event::last() const {
  const std::lock_guard lock(mutex_);
  return mark_;
}

void Event::set_captured(std::shared_ptr<Capture> capture, std::vector<CUgraphNode> nodes) {
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
  captured_nodes_ = std::move(nodes);
}

std::shared_ptr<Capture> Event::captured(std::vector<CUgraphNode>* nodes) const {
  const std::lock_guard lock(mutex_);
  if (nodes != nullptr) *nodes = captured_nodes_;
  return capture_;
}

std::shared_ptr<Fence> Stream::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::shared_ptr<Capture> Stream::capture() const {
  const std::lock_guard lock(mutex_);
  return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
}

std::shared_ptr<Fence> Stream::push(Operation operation, std::vector<std::shared_ptr<Fence>> after,
                                    std::vector<std::shared_ptr<Mark>> marks) {
  auto done = std::make_shared<Fence>();
  {
    const std::lock_guard lock(mutex_);
    // Fails, and leaves no trace, when the machine has no thread to give.
    if (!running_) std::thread([self = shared_from_this()] { self->work(); }).detach();
    running_ = true;
    queue_.push_back({std::move(operation), std::move(after), std::move(marks), done});
    last_ = done;
  }
  changed_.notify_one();
  return done;
}

void Stream::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
}

void Stream::work() {
  Driver& all = driver();
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    for (const std::shared_ptr<Fence>& fence : task.after) fence->wait();
    ++all.busy_workers;
    if (!all.exiting) run(task.operation, *context_, task.marks);
    --all.busy_workers;
    task.operation = Nothing{};  // lets go of modules before a waiter goes on
    task.done->complete();
  }
}

}  // namespace corrloom::sim::driver
