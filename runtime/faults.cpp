#include "runtime/faults.h"

#include <exception>
#include <string_view>
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

/// Puts a value in the last place that is marked for it, which is the message's own: what comes before may quote the
/// user. False when there is none.
bool fill(std::string& message, std::string_view mark, const std::string& value) {
  const std::size_t place = message.rfind(mark);
  if (place == std::string::npos) return false;
  message.replace(place, mark.size(), value);
  return true;
}

}  // namespace

FaultCheck::FaultCheck(DeviceBackend& backend, std::shared_ptr<const kernel::CompiledProgram> program,
                       std::vector<std::int64_t> symbols)
    : backend_(backend),
      program_(std::move(program)),
      symbols_(std::move(symbols)),
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
  throw InputError(fault_message(*program_, *slot_, symbols_));
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

std::string fault_message(const kernel::CompiledProgram& program, std::uint64_t word,
                          const std::vector<std::int64_t>& symbols) {
  const std::int64_t number = kernel::fault_site(word);
  CORRLOOM_CHECK(number < static_cast<std::int64_t>(program.check_sites.size()), "op ", program.op,
                 " reports a failure of site ", number, ", which it does not have");
  const kernel::CheckSite& site = program.check_sites[static_cast<std::size_t>(number)];
  std::string message = site.message;
  if (const auto extent = kernel::evaluate(site.extent, symbols); extent && !site.extent.as_constant())
    fill(message, "{extent}", std::to_string(*extent));
  const std::string value = kernel::fault_value_text(word);
  if (!fill(message, "{value}", value)) message += "\n  note: the value was " + value;
  return message;
}

}  // namespace corrloom::runtime
