#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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
