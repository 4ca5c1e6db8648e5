#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/host/host_backend.h"

namespace corrloom::runtime {
namespace {

constexpr int kMaxThreads = 1024;
using Clock = std::chrono::steady_clock;

/// Below this much work a second thread costs more than it brings: 2 to 3 us while TBB's workers look for work, which
/// they do for some 100 us after they had some, and 20 to 130 us when they must be woken.
constexpr double kWorthThreadsNs = 8'000, kWorthWakingNs = 200'000;
constexpr std::chrono::microseconds kWorkersStayAwake{100};
/// The least work of one task, and the number of tasks a thread for uneven work. More of them where they are long: the
/// threads end at times as far apart as a task.
constexpr double kTaskNs = 5'000, kLongTaskNs = 250'000;
constexpr std::int64_t kTasksPerThread = 4;

/// How many of `count` pieces one task takes.
std::int64_t grain_of(std::int64_t count, double work_ns, int threads) {
  const auto within = [&](double ns) {
    return static_cast<std::int64_t>(static_cast<double>(count) * std::min(1.0, ns / work_ns));
  };
  const std::int64_t by_threads = count / (kTasksPerThread * threads);
  return std::max<std::int64_t>({1, within(kTaskNs), std::min(by_threads, within(kLongTaskNs))});
}

/// Keeps the workers of an arena off the processor of the thread that gives them work. Linux likes to wake a thread
/// where its waker runs, and on a busy machine does not look for an idle processor: the worker then waits there until
/// the work is done. Only where there is a processor for each thread.
class Workers : public tbb::task_scheduler_observer {
 public:
  Workers(tbb::task_arena& arena, int threads) : tbb::task_scheduler_observer(arena) {
    CPU_ZERO(&processors_);
    const bool known = sched_getaffinity(0, sizeof processors_, &processors_) == 0;
    if (known && CPU_COUNT(&processors_) >= threads) observe(true);
  }
  ~Workers() override { observe(false); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    const std::lock_guard lock(mutex_);
    const pid_t worker = gettid();
    if (std::find(workers_.begin(), workers_.end(), worker) == workers_.end()) workers_.push_back(worker);
  }

  /// Called by the thread that is about to give work.
  void make_room() {
    const int here = sched_getcpu();
    if (here < 0 || here == avoided_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    if (workers_.empty()) return;
    cpu_set_t others = processors_;
    if (here < CPU_SETSIZE) CPU_CLR(here, &others);
    // It is a wish: a worker that has ended meanwhile, or may not be moved, does not matter.
    for (const pid_t worker : workers_) (void)sched_setaffinity(worker, sizeof others, &others);
    avoided_.store(here, std::memory_order_relaxed);
  }

 private:
  cpu_set_t processors_;  ///< that this process may use
  std::mutex mutex_;
  std::vector<pid_t> workers_;
  std::atomic<int> avoided_ = -1;
};

/// The threads of one setting.
struct Arena {
  explicit Arena(int count) : threads(count), arena(count), workers(arena, count) {}

  const int threads;
  tbb::task_arena arena;
  Workers workers;
  const pid_t process = getpid();
  std::atomic<Clock::rep> last_work = 0;  ///< when work that could have used the threads ended
};

/// Whether several threads are worth waking now. Where calls follow each other closely the second one wakes them for
/// all that come after it.
bool are_worth_waking(const Arena& arena, double work_ns) {
  const Clock::duration last{arena.last_work.load(std::memory_order_relaxed)};
  return work_ns >= kWorthWakingNs || Clock::now().time_since_epoch() - last <= kWorkersStayAwake;
}

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
  if (!are_worth_waking(*arena, work_ns)) {
    body(0, count);
    arena->last_work.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    return;
  }
  const std::int64_t grain = grain_of(count, work_ns, arena->threads);
  arena->workers.make_room();
  arena->arena.execute([&] {
    // Its own context: a caller's cancelled task group must not cancel half of a kernel.
    tbb::task_group_context context(tbb::task_group_context::isolated);
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
        [&](const tbb::blocked_range<std::int64_t>& range) { body(range.begin(), range.end()); },
        tbb::simple_partitioner(), context);
  });
  arena->last_work.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace corrloom::runtime
