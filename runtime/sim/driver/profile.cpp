#include "runtime/sim/driver/profile.h"

namespace corrloom::sim::driver {
namespace {

constexpr size_t kMostRecords = 1024;
constexpr size_t kMostFindings = 1024;

}  // namespace

void Profile::add(LaunchRecord record, std::vector<Finding> findings) {
  const std::lock_guard lock(mutex_);
  record.number = ++launches_;
  auto& [launches, counters] = totals_[record.kernel];
  ++launches;
  counters += record.counters;
  records_.push_back(std::move(record));
  if (records_.size() > kMostRecords) records_.pop_front();
  for (Finding& finding : findings) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(finding));
  }
}

uint64_t Profile::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}

std::optional<LaunchRecord> Profile::record(uint64_t back) const {
  const std::lock_guard lock(mutex_);
  if (back >= records_.size()) return std::nullopt;
  return records_[records_.size() - 1 - back];
}

std::vector<LaunchRecord> Profile::records() const {
  const std::lock_guard lock(mutex_);
  return {records_.begin(), records_.end()};
}

std::pair<uint64_t, Counters> Profile::total(const std::string& kernel) const {
  const std::lock_guard lock(mutex_);
  std::pair<uint64_t, Counters> sum;
  for (const auto& [name, total] : totals_) {
    if (!kernel.empty() && name != kernel) continue;
    sum.first += total.first;
    sum.second += total.second;
  }
  return sum;
}

std::vector<std::string> Profile::kernels() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, total] : totals_) names.push_back(name);
  return names;
}

std::vector<Finding> Profile::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

void Profile::clear() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  totals_.clear();
  findings_.clear();
}

}  // namespace corrloom::sim::driver
