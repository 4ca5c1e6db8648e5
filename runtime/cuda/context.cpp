#include "runtime/cuda/context.h"

#include <algorithm>
#include <utility>

namespace corrloom::runtime::gpu {

Context::Context(std::shared_ptr<const Driver> driver, int index) : driver_(std::move(driver)), index_(index) {
  check(api().device_get(&device_, index), "cuDeviceGet", index);
  check(api().primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain", index);
}

Context::~Context() {
  if (driver_->is_usable()) (void)api().primary_context_release(device_);
}

void Context::require_usable() const {
  driver_->require_usable();
  if (!lost_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw RuntimeError("device " + device().name() + " is lost, and what it held with it: " + lost_reason_);
}

void Context::fail(Result result, const std::string& call, const std::string& more) const {
  std::string text = call + " on " + device().name() + ": " + driver_->describe(result) + more;
  if (std::find(std::begin(kStickyErrors), std::end(kStickyErrors), result) != std::end(kStickyErrors)) {
    const std::lock_guard lock(mutex_);
    text += last_launches();
    if (lost_reason_.empty()) lost_reason_ = text;
    lost_.store(true, std::memory_order_release);
  }
  throw RuntimeError(text);
}

void Context::note_launch(const std::shared_ptr<const std::string>& label) const {
  const std::lock_guard lock(mutex_);
  last_launches_[launches_ % last_launches_.size()] = label;
  ++launches_;
}

std::string Context::last_launches() const {
  std::string text;
  for (std::size_t back = 1; back <= std::min(launches_, last_launches_.size()); ++back) {
    const std::string& label = *last_launches_[(launches_ - back) % last_launches_.size()];
    text += (back == 1 ? "\n  note: launched last: " : "\n  note: before it: ") + label;
  }
  return text;
}

int Context::attribute(int attribute) const {
  int value = 0;
  return api().device_get_attribute(&value, attribute, device_) == kSuccess ? value : 0;
}

ContextScope::ContextScope(const Context& context) : context_(context) {
  context.require_usable();
  context.check(context.api().context_get_current(&previous_), "cuCtxGetCurrent");
  if (previous_ == context.context()) return;
  context.check(context.api().context_push(context.context()), "cuCtxPushCurrent");
}

ContextScope::~ContextScope() {
  if (previous_ == context_.context()) return;
  ContextHandle popped = nullptr;
  // Not usable any more only when the process was forked or ends inside the scope: nobody is left to mind.
  if (!context_.driver().is_usable()) return;
  // Once more when it fails, so that the thread's stack of contexts does not grow; at least the right one is on top.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (context_.api().context_pop(&popped) == kSuccess) return;
  }
  (void)context_.api().context_set_current(previous_);
}

}  // namespace corrloom::runtime::gpu
