#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/host/host_backend.h"

namespace corrloom::runtime {
namespace {

/// Puts the number of threads back.
struct KeepThreads {
  int before = host_threads();
  ~KeepThreads() { set_host_threads(before); }
};

TEST(Threads, VisitEveryPartOnceForEveryCount) {
  const KeepThreads keep;
  for (const int threads : {1, 2, 3, 8}) {
    set_host_threads(threads);
    std::vector<std::atomic<int>> visits(1001);
    for_each_range(1001, 1e9, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t k = first; k < last; ++k) ++visits[static_cast<std::size_t>(k)];
    });
    for (const std::atomic<int>& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(Threads, SmallWorkStaysWithItsCaller) {
  const std::thread::id self = std::this_thread::get_id();
  int calls = 0;
  for_each_range(1000, 100, [&](std::int64_t, std::int64_t) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), self);
  });
  EXPECT_EQ(calls, 1);
  for_each_range(0, 1e9, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

/// How many parts the runtime makes of work that is said to take so long.
int parts(double work_ns) {
  std::atomic<int> calls = 0;
  for_each_range(1000, work_ns, [&](std::int64_t, std::int64_t) { ++calls; });
  return calls;
}

TEST(Threads, ShortWorkWakesThemOnlyWhereMoreOfItComes) {
  const KeepThreads keep;
  set_host_threads(2);
  // A slow machine may take longer than they stay awake between two calls, but not every time.
  bool is_spread = false;
  for (int round = 0; round < 100 && !is_spread; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(parts(20e3), 1) << "after a pause";
    is_spread = parts(20e3) > 1;
  }
  EXPECT_TRUE(is_spread);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(parts(1e6), 1) << "long work is worth waking them";
}

TEST(Threads, LongWorkIsCutIntoMoreParts) {
  const KeepThreads keep;
  set_host_threads(2);
  EXPECT_GE(parts(100e6), 256);
  EXPECT_LE(parts(1e6), 32);
}

TEST(Threads, WorkersKeepOffTheProcessorOfTheirCaller) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "one processor";
  const KeepThreads keep;
  set_host_threads(2);
  // Pinned to one processor for the time of the test, so that it does not move in between.
  const int here = sched_getcpu();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(here, &one);
  const auto work = [&]() -> std::optional<bool> {
    const pid_t self = gettid();
    std::mutex mutex;
    std::optional<bool> keeps_off;
    for_each_range(64, 1e9, [&](std::int64_t, std::int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (gettid() == self) return;
      cpu_set_t processors;
      if (sched_getaffinity(0, sizeof processors, &processors) != 0) return;
      const std::lock_guard lock(mutex);
      keeps_off = CPU_ISSET(here, &processors) == 0;
    });
    return keeps_off;
  };
  (void)work();  // the worker is known once it has begun
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const std::optional<bool> keeps_off = work();
  ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
  ASSERT_TRUE(keeps_off.has_value());
  EXPECT_TRUE(*keeps_off);
}

TEST(Threads, CallersMayComeAtOnceAndChangeTheCount) {
  const KeepThreads keep;
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int number = 0; number < 4; ++number) {
    callers.emplace_back([&, number] {
      for (int round = 0; round < 20; ++round) {
        if (number == 0) set_host_threads(1 + round % 4);
        for_each_range(100, 1e9, [&](std::int64_t first, std::int64_t last) { total += last - first; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 20 * 100);
}

TEST(Threads, RefuseSillyCounts) {
  EXPECT_THROW(set_host_threads(0), InputError);
  EXPECT_THROW(set_host_threads(1025), InputError);
}

TEST(Threads, AForkedChildWorksAlone) {
  const KeepThreads keep;
  set_host_threads(2);
  const auto sum = [] {
    std::atomic<std::int64_t> total{0};
    for_each_range(100, 1e9, [&](std::int64_t first, std::int64_t last) { total += last - first; });
    return total.load();
  };
  EXPECT_EQ(sum(), 100);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(sum() == 100 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace corrloom::runtime
