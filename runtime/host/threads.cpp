#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "ir/base/errors.h"
#include "runtime/host/host_backend.h"

namespace corrloom::runtime {
namespace {

constexpr int kMaxThreads = 1024;
/// Below this much work a second thread costs more than it brings (waking a cold pool takes 3 to 13 us).
constexpr double kWorthThreadsNs = 10'000;
/// The least work of one task, and the number of tasks a thread for uneven work.
constexpr double kTaskNs = 5'000;
constexpr std::int64_t kTasksPerThread = 4;

/// The threads of one setting.
struct Arena {
  explicit Arena(int count) : threads(count), arena(count) {}

  const int threads;
  tbb::task_arena arena;
  const pid_t process = getpid();
};

int threads_of_environment() {
  const char* const setting = std::getenv("CORRLOOM_NUM_THREADS");
  if (setting == nullptr || *setting == '\0') return std::min(tbb::info::default_concurrency(), kMaxThreads);
  const std::string_view text = setting;
  int threads = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || stop != text.data() + text.size() || threads < 1 || threads > kMaxThreads) {
    throw InputError("CORRLOOM_NUM_THREADS is `" + std::string(text.substr(0, 40)) + "`; wanted a number from 1 to " +
                     std::to_string(kMaxThreads));
  }
  return threads;
}

/// The process's threads: one set, so that concurrent launches share the processors.
class Threads {
 public:
  Threads() : count_(threads_of_environment()) {}

  int count() const { return count_.load(std::memory_order_relaxed); }
  void set_count(int count) {
    const std::lock_guard lock(mutex_);
    count_.store(count, std::memory_order_relaxed);
    arena_ = nullptr;  // launches under way keep theirs
  }
  std::shared_ptr<Arena> arena() {
    const std::lock_guard lock(mutex_);
    // TBB uses no more threads than there are processors unless it is allowed to; the lowest allowance in the process
    // holds.
    if (count() > tbb::info::default_concurrency() && allowance_ == nullptr) {
      allowance_ = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, kMaxThreads);
    }
    if (arena_ == nullptr) arena_ = std::make_shared<Arena>(count());
    return arena_;
  }

 private:
  std::atomic<int> count_;
  std::mutex mutex_;
  std::unique_ptr<tbb::global_control> allowance_;
  std::shared_ptr<Arena> arena_;
};

Threads& threads() {
  static Threads instance;
  return instance;
}

}  // namespace

int host_threads() {
  return threads().count();
}

void set_host_threads(int count) {
  if (count < 1 || count > kMaxThreads) {
    throw InputError(detail::concat("the number of threads is ", count, "; wanted 1 to ", kMaxThreads));
  }
  threads().set_count(count);
}

void for_each_range(std::int64_t count, double work_ns, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  if (count == 1 || work_ns < kWorthThreadsNs || host_threads() == 1) return body(0, count);
  const std::shared_ptr<Arena> arena = threads().arena();
  // A child made by fork has none of the parent's threads: it does its work alone.
  if (arena->process != getpid()) return body(0, count);

  const auto by_work = static_cast<std::int64_t>(static_cast<double>(count) * std::min(1.0, kTaskNs / work_ns));
  const std::int64_t by_threads = count / (kTasksPerThread * arena->threads);
  const std::int64_t grain = std::max<std::int64_t>({1, by_work, by_threads});
  arena->arena.execute([&] {
    // Its own context: a caller's cancelled task group must not cancel half of a kernel.
    tbb::task_group_context context(tbb::task_group_context::isolated);
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
        [&](const tbb::blocked_range<std::int64_t>& range) { body(range.begin(), range.end()); },
        tbb::simple_partitioner(), context);
  });
}

}  // namespace corrloom::runtime
