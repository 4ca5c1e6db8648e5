#include "runtime/faults.h"

#include <exception>
#include <utility>

#include "ir/base/errors.h"
#include "ir/kernel/error_slot.h"

namespace corrloom::runtime {
namespace {

/// From so many checks on, those that are over are looked at before another is added.
constexpr std::size_t kManyChecks = 64;

/// Whether a check is over without a fault. A device that is lost answers nothing.
bool is_settled(FaultCheck& check) {
  try {
    return check.is_clean() || (check.is_done() && !check.has_fault());
  } catch (const RuntimeError&) {
    return false;
  }
}

}  // namespace

FaultCheck::FaultCheck(DeviceBackend& backend, std::shared_ptr<const kernel::CompiledProgram> program)
    : backend_(backend),
      program_(std::move(program)),
      slot_(static_cast<std::uint64_t*>(backend.allocate_pinned(sizeof kernel::kNoFault))) {
  *slot_ = kernel::kNoFault;
}

FaultCheck::~FaultCheck() {
  backend_.destroy_event(event_);
  backend_.free_pinned(slot_, sizeof kernel::kNoFault);
}

bool FaultCheck::has_fault() {
  if (is_clean()) return false;
  backend_.synchronise(event_);
  if (*slot_ != kernel::kNoFault) return true;
  is_clean_.store(true, std::memory_order_release);
  return false;
}

void FaultCheck::raise() {
  if (!has_fault()) return;
  is_reported_.store(true, std::memory_order_release);
  throw InputError(fault_message(*program_, *slot_));
}

void FaultList::add(std::shared_ptr<FaultCheck> check) {
  const std::lock_guard lock(mutex_);
  if (checks_.size() >= kManyChecks && checks_.size() == checks_.capacity()) {
    std::erase_if(checks_, [](const FaultCheckRef& one) { return is_settled(*one); });
  }
  checks_.push_back(std::move(check));
}

void FaultList::raise() {
  std::vector<FaultCheckRef> checks;
  {
    const std::lock_guard lock(mutex_);
    checks.swap(checks_);
  }
  std::vector<FaultCheckRef> open;
  std::exception_ptr first;
  for (FaultCheckRef& check : checks) {
    if (check->is_reported() || check->is_clean()) continue;
    if (!check->is_done()) {
      open.push_back(std::move(check));
      continue;
    }
    try {
      check->raise();
    } catch (const InputError&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (!open.empty()) {
    const std::lock_guard lock(mutex_);
    checks_.insert(checks_.begin(), open.begin(), open.end());
  }
  if (first != nullptr) std::rethrow_exception(first);
}

void FaultList::clear() noexcept {
  const std::lock_guard lock(mutex_);
  checks_.clear();
}

std::string fault_message(const kernel::CompiledProgram& program, std::uint64_t word) {
  const std::int64_t site = kernel::fault_site(word);
  const std::string value = kernel::fault_value_text(word);
  CORRLOOM_CHECK(site < static_cast<std::int64_t>(program.check_sites.size()), "op ", program.op,
                 " reports a failure of site ", site, ", which it does not have");
  std::string message = program.check_sites[static_cast<std::size_t>(site)].message;
  constexpr std::string_view kPlace = "{value}";
  const std::size_t place = message.find(kPlace);
  if (place == std::string::npos) return message + "\n  note: the value was " + value;
  return message.replace(place, kPlace.size(), value);
}

}  // namespace corrloom::runtime
