#include "runtime/trace.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace corrloom::runtime {
namespace {

/// `thread 1` for the first thread that traces anything, and so on.
std::string thread_name() {
  static std::atomic<int> threads{0};
  thread_local const int number = ++threads;
  return "thread " + std::to_string(number);
}

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Trace* Trace::active() {
  // Never destroyed: devices take their sources back when they end, which may be after the process's other objects.
  static Trace* const trace = []() -> Trace* {
    const char* const path = std::getenv("CORRLOOM_TRACE");
    if (path == nullptr || *path == '\0') return nullptr;
    Trace* const made = std::make_unique<Trace>(path).release();
    std::atexit([] { active()->end(); });
    return made;
  }();
  return trace;
}

Trace::Trace(std::string path) : path_(std::move(path)), owner_(getpid()) {}

Trace::~Trace() {
  end();
}

void Trace::end() {
  if (getpid() != owner_) return;
  try {
    write();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "corrloom: the trace is lost: %s\n", error.what());
  }
}

void Trace::add(const std::string& process, const std::string& lane, const std::string& name,
                const std::string& category, Clock::time_point start, Clock::duration duration, Details details) {
  const std::lock_guard lock(mutex_);
  const int process_number = processes_.emplace(process, static_cast<int>(processes_.size()) + 1).first->second;
  const int lane_number =
      lanes_.emplace(std::pair(process_number, lane), static_cast<int>(lanes_.size()) + 1).first->second;
  entries_.push_back({process_number, lane_number, name, category, microseconds(start - begin_), microseconds(duration),
                      std::move(details)});
}

void Trace::add_on_host(const std::string& name, const std::string& category, Clock::time_point start,
                        Details details) {
  add("host", thread_name(), name, category, start, Clock::now() - start, std::move(details));
}

int Trace::add_source(std::function<void()> collect) {
  const std::lock_guard lock(mutex_);
  sources_[next_source_] = std::move(collect);
  return next_source_++;
}

void Trace::remove_source(int number) {
  const std::lock_guard lock(mutex_);
  sources_.erase(number);
}

void Trace::collect() {
  std::map<int, std::function<void()>> sources;
  {
    const std::lock_guard lock(mutex_);
    sources = sources_;
  }
  for (const auto& [number, source] : sources) source();
}

void Trace::write() {
  using Json = nlohmann::ordered_json;
  const std::lock_guard lock(mutex_);
  Json events = Json::array();
  for (const auto& [name, number] : processes_)
    events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", number}, {"args", {{"name", name}}}});
  for (const auto& [lane, number] : lanes_) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", lane.first},
                      {"tid", number},
                      {"args", {{"name", lane.second}}}});
  }
  for (const Entry& entry : entries_) {
    Json arguments = Json::object();
    for (const auto& [name, value] : entry.details) arguments[name] = value;
    events.push_back({{"name", entry.name},
                      {"cat", entry.category},
                      {"ph", "X"},
                      {"pid", entry.process},
                      {"tid", entry.lane},
                      {"ts", entry.start_us},
                      {"dur", entry.duration_us},
                      {"args", std::move(arguments)}});
  }
  std::ofstream file(path_);
  file << Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}.dump(1) << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path_);
}

}  // namespace corrloom::runtime
