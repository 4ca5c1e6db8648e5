#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace corrloom::runtime {

/// What happened when, written to the file that CORRLOOM_TRACE names when the process ends, in the format that
/// chrome://tracing and Perfetto read. Any thread may call.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  using Details = std::vector<std::pair<std::string, std::string>>;

  /// The process's trace; null when none was asked for.
  static Trace* active();

  explicit Trace(std::string path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Something of a lane, which is a thread of the host or a stream of a device: `host` and `thread 1`, `cuda:0` and
  /// `default stream`.
  void add(const std::string& process, const std::string& lane, const std::string& name, const std::string& category,
           Clock::time_point start, Clock::duration duration, Details details = {});
  /// The same on the calling thread.
  void add_on_host(const std::string& name, const std::string& category, Clock::time_point start, Details details = {});

  /// Calls `collect` once before the trace ends, to add what is not there yet; gives a number to take it back with.
  int add_source(std::function<void()> collect);
  void remove_source(int number);
  /// Calls all sources.
  void collect();
  /// Writes the file.
  void write();
  /// The same where the process ends: a fault is said on standard error, and a child of fork writes nothing.
  void end();

 private:
  struct Entry {
    int process = 0, lane = 0;
    std::string name, category;
    double start_us = 0, duration_us = 0;
    Details details;
  };

  std::string path_;
  Clock::time_point begin_ = Clock::now();
  int owner_;  ///< the process that writes: a child of fork does not
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<std::string, int> processes_;
  std::map<std::pair<int, std::string>, int> lanes_;
  std::map<int, std::function<void()>> sources_;
  int next_source_ = 0;
};

/// Traces the time from here to the end of the scope, on the calling thread. Costs a test when nothing is traced.
class TraceScope {
 public:
  TraceScope(const char* category, const std::string& name) : trace_(Trace::active()) {
    if (trace_ == nullptr) return;
    category_ = category;
    name_ = name;
    start_ = Trace::Clock::now();
  }
  ~TraceScope() {
    if (trace_ != nullptr) trace_->add_on_host(name_, category_, start_, std::move(details_));
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  bool is_active() const { return trace_ != nullptr; }
  void add_detail(const std::string& name, const std::string& value) { details_.emplace_back(name, value); }

 private:
  Trace* trace_;
  const char* category_ = "";
  std::string name_;
  Trace::Clock::time_point start_;
  Trace::Details details_;
};

}  // namespace corrloom::runtime
