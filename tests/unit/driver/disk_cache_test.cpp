#include "compiler/driver/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "compiler/codegen/host_target.h"
#include "compiler/driver/compile.h"
#include "tests/unit/driver/program_testing.h"

namespace corrloom::driver {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test, deleted at the end.
class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "corrloom-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static CacheKey key(const std::string& text) { return {{{"op", "f"}, {"text", text}}}; }
  /// The only entry's file.
  fs::path entry_file() const {
    const std::vector<CacheEntry> entries = DiskCache(folder_).list();
    EXPECT_EQ(entries.size(), 1u);
    return entries.empty() ? fs::path() : entries.front().file;
  }
  static std::string contents(const fs::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  static void overwrite(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }

  fs::path folder_;
};

TEST_F(DiskCacheTest, GivesBackWhatWasStored) {
  const DiskCache cache(folder_ / "below" / "cache");
  EXPECT_EQ(cache.find(key("a")), std::nullopt);
  const std::string payload("\0code\n\xff", 7);
  EXPECT_TRUE(cache.store(key("a"), payload));
  EXPECT_TRUE(cache.store(key("b"), ""));
  EXPECT_EQ(cache.find(key("a")), payload);
  EXPECT_EQ(cache.find(key("b")), "");
  EXPECT_EQ(cache.find(key("c")), std::nullopt);
  EXPECT_TRUE(cache.store(key("a"), "newer"));
  EXPECT_EQ(cache.find(key("a")), "newer");
}

TEST_F(DiskCacheTest, ListsAndClears) {
  const DiskCache cache(folder_);
  EXPECT_TRUE(cache.list().empty());
  ASSERT_TRUE(cache.store(key("a"), "one"));
  ASSERT_TRUE(cache.store(key("b"), "three"));
  const std::vector<CacheEntry> entries = cache.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].payload_bytes + entries[1].payload_bytes, 8u);
  EXPECT_EQ(cache.clear(), 2u);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(DiskCacheTest, EveryChangedByteIsAMiss) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store(key("a"), "payload"));
  const fs::path file = entry_file();
  const std::string good = contents(file);
  for (std::size_t k = 0; k < good.size(); ++k) {
    std::string bad = good;
    bad[k] = static_cast<char>(bad[k] ^ 0x10);
    overwrite(file, bad);
    EXPECT_EQ(cache.find(key("a")), std::nullopt) << "byte " << k;
  }
  overwrite(file, good);
  EXPECT_EQ(cache.find(key("a")), "payload");
}

TEST_F(DiskCacheTest, EveryTruncationIsAMiss) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store(key("a"), "payload"));
  const fs::path file = entry_file();
  const std::string good = contents(file);
  for (std::size_t size = 0; size < good.size(); ++size) {
    overwrite(file, good.substr(0, size));
    EXPECT_EQ(cache.find(key("a")), std::nullopt) << size << " bytes";
  }
  overwrite(file, good + "x");
  EXPECT_EQ(cache.find(key("a")), std::nullopt);
}

TEST_F(DiskCacheTest, AnEntryUnderAnotherNameIsAMiss) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store(key("a"), "of a"));
  const fs::path file_a = entry_file();
  ASSERT_TRUE(cache.store(key("b"), "of b"));
  for (const CacheEntry& entry : cache.list()) {
    if (entry.file != file_a) fs::copy_file(file_a, entry.file, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.find(key("b")), std::nullopt);
  EXPECT_EQ(cache.find(key("a")), "of a");
}

TEST_F(DiskCacheTest, WhatOthersCanWriteIsNotRead) {
  const DiskCache cache(folder_);
  ASSERT_TRUE(cache.store(key("a"), "payload"));
  const fs::path file = entry_file();
  ASSERT_EQ(::chmod(file.c_str(), 0620), 0);
  EXPECT_EQ(cache.find(key("a")), std::nullopt);
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(cache.find(key("a")), "payload");
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(cache.find(key("a")), std::nullopt);
  EXPECT_FALSE(cache.store(key("b"), "payload"));
}

TEST_F(DiskCacheTest, NoFolderAndNoFileStopTheCaller) {
  overwrite(folder_ / "file", "not a folder");
  const DiskCache in_a_file(folder_ / "file" / "cache");
  EXPECT_FALSE(in_a_file.store(key("a"), "payload"));
  EXPECT_EQ(in_a_file.find(key("a")), std::nullopt);
  EXPECT_EQ(in_a_file.clear(), 0u);

  const DiskCache cache(folder_ / "cache");
  ASSERT_TRUE(cache.store(key("a"), "payload"));
  const fs::path file = cache.list().front().file;
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // would block whoever opens it for reading
  EXPECT_EQ(cache.find(key("a")), std::nullopt);
}

TEST_F(DiskCacheTest, ALimitDropsTheOldest) {
  // One in 64 stores looks, as the hashes of the names fall.
  constexpr std::uintmax_t kLimit = 2000;
  const DiskCache cache(folder_, kLimit);
  const auto total = [&] {
    std::uintmax_t bytes = 0;
    for (const CacheEntry& entry : cache.list()) bytes += entry.file_bytes;
    return bytes;
  };
  std::uintmax_t after_a_look = 0;
  for (int k = 0; k < 500; ++k) {
    const std::uintmax_t before = total();
    ASSERT_TRUE(cache.store(key(std::to_string(k)), std::string(20, 'x')));
    if (total() < before) after_a_look = std::max(after_a_look, total());
  }
  EXPECT_GT(after_a_look, kLimit / 2);
  EXPECT_LE(after_a_look, kLimit);
  EXPECT_EQ(cache.find(key("0")), std::nullopt);
  EXPECT_NE(cache.find(key("499")), std::nullopt);
}

TEST_F(DiskCacheTest, ReadersSeeAllOfAnEntryOrNothing) {
  const DiskCache cache(folder_);
  const std::string payloads[] = {std::string(50000, 'a'), std::string(70000, 'b')};
  std::atomic<bool> stop = false;
  std::atomic<int> hits = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (int k = 0; k < 60; ++k) cache.store(key("shared"), payloads[writer]);
      stop = true;
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      do {
        const std::optional<std::string> found = cache.find(key("shared"));
        if (!found) continue;
        ++hits;
        if (*found != payloads[0] && *found != payloads[1]) ++wrong;
      } while (!stop);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(cache.list().size(), 1u);
}

TEST_F(DiskCacheTest, TheRunningCodeHasABuildId) {
  EXPECT_EQ(build_id().size(), 40u);
}

/// A graph that multiplies by a constant.
tensor::Graph scaled(const std::string& factor) {
  return testing::parsed_graph("graph @scale(%X: f32[5]) -> (%Y) {\n  %Y: f32[5] = compute [i: 5] { yield mul(%X[i], " +
                               factor + ":f32) }\n}\n");
}

TEST_F(DiskCacheTest, CompileTakesTheCodeFromIt) {
  CompileOptions options;
  options.target = codegen::host_target();
  options.cache = std::make_shared<const DiskCache>(folder_);
  const auto compiled = [&](const std::string& factor) {
    Diagnostics diagnostics;
    std::optional<Compiled> out = compile(scaled(factor), options, diagnostics);
    EXPECT_TRUE(out) << diagnostics.render();
    return *std::move(out);
  };
  const Compiled first = compiled("2.0"), again = compiled("2.0"), other = compiled("3.0");
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(again.from_cache);
  EXPECT_FALSE(other.from_cache);
  EXPECT_EQ(first.program->code, again.program->code);
  EXPECT_NE(first.program->code, other.program->code);

  options.target = *kernel::ptx_target("sm_80");
  const Compiled ptx = compiled("2.0"), ptx_again = compiled("2.0");
  EXPECT_FALSE(ptx.from_cache);
  EXPECT_TRUE(ptx_again.from_cache);
  EXPECT_EQ(ptx.program->code, ptx_again.program->code);
  EXPECT_EQ(ptx.program->ptx_version, ptx_again.program->ptx_version);
  EXPECT_GT(ptx.program->ptx_version, 0);

  options.keep_assembly = true;
  EXPECT_FALSE(compiled("2.0").from_cache);
}

}  // namespace
}  // namespace corrloom::driver
