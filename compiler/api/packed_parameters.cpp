#include <algorithm>

#include "compiler/api/module_state.h"
#include "runtime/storage.h"

namespace corrloom::api {

bool PackedParameters::are_stable(const std::vector<Tensor>& parameters) {
  std::vector<std::pair<const void*, std::uint64_t>> seen;
  bool traceable = true;
  for (const Tensor& parameter : parameters) {
    const runtime::Storage& storage = *parameter.storage();
    traceable = traceable && parameter.is_contiguous() && !storage.is_exposed();
    seen.emplace_back(&storage, storage.version());
  }
  const std::lock_guard lock(mutex_);
  const bool same = last_seen_.empty() || seen == last_seen_;
  last_seen_ = std::move(seen);
  return traceable && same;
}

runtime::PreparedRef PackedParameters::prepared_for(const CompiledState& compiled, runtime::Operands operands,
                                                    std::span<const scalar::Value> scalars) {
  if (!compiled.loaded->can_prepare()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.compiled == &compiled; });
  if (found != kept_.end()) {
    std::rotate(found, found + 1, kept_.end());
    if (kept_.back().prepared->is_current(operands)) return kept_.back().prepared;
    kept_.pop_back();
  }
  runtime::PreparedRef prepared = compiled.loaded->prepare(operands, scalars);
  if (kept_.size() == kKept) kept_.erase(kept_.begin());
  kept_.push_back({&compiled, prepared});
  return prepared;
}

void PackedParameters::clear() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
}

}  // namespace corrloom::api
