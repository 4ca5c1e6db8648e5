#include "runtime/host/pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ir/base/errors.h"

namespace corrloom::runtime {
namespace {

TEST(HostPool, ReusesFreedBlocks) {
  HostPool pool(1 << 20);
  void* const first = pool.allocate(1000);
  pool.free(first, 1000);
  EXPECT_EQ(pool.allocate(990), first);
  pool.free(first, 990);
  EXPECT_EQ(pool.stats().in_use, 0);
}

TEST(HostPool, EveryClassHoldsItsBytesAndTrimsToNothing) {
  HostPool pool(std::int64_t{1} << 40);
  for (std::size_t bytes = 1; bytes < (std::size_t{5} << 20); bytes = bytes * 9 / 8 + 1) {
    void* const memory = pool.allocate(bytes);
    std::memset(memory, 1, bytes);
    const std::int64_t used = pool.stats().in_use;
    EXPECT_GE(used, static_cast<std::int64_t>(bytes));
    if (bytes > 512 && bytes < HostPool::kHugeBytes) {
      EXPECT_LE(used, static_cast<std::int64_t>(bytes + bytes / 8 + 64)) << bytes;
    }
    pool.free(memory, bytes);
    EXPECT_EQ(pool.stats().in_use, 0);
  }
  pool.trim(0);
  EXPECT_EQ(pool.stats().reserved, 0);
}

TEST(HostPool, AlignsLargeBlocksToHugePages) {
  HostPool pool(0);
  void* const memory = pool.allocate((std::size_t{2} << 20) + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % HostPool::kHugeBytes, 0u);
  EXPECT_EQ(pool.stats().in_use, std::int64_t{4} << 20);
  pool.free(memory, (std::size_t{2} << 20) + 1);
}

TEST(HostPool, KeepsNoMoreThanItMay) {
  HostPool pool(1000);
  void* const small = pool.allocate(500);
  void* const large = pool.allocate(5000);
  pool.free(large, 5000);
  pool.free(small, 500);
  EXPECT_LE(pool.stats().reserved, 1000);
  EXPECT_GT(pool.stats().reserved, 0);
}

TEST(HostPool, LimitNamesWantedAndInUse) {
  HostPool pool(1 << 20);
  pool.set_limit(10000);
  void* const memory = pool.allocate(4096);
  try {
    pool.allocate(8192);
    ADD_FAILURE();
  } catch (const RuntimeError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("allocate(8192 bytes) on cpu"), std::string::npos) << text;
    EXPECT_NE(text.find("in use 4096"), std::string::npos) << text;
  }
  pool.free(memory, 4096);
  pool.free(pool.allocate(8192), 8192);
  EXPECT_EQ(pool.stats().peak, 8192);
}

}  // namespace
}  // namespace corrloom::runtime
