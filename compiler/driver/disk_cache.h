#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corrloom::driver {

/// What a piece of compiled code depends on: named texts, in a fixed order. Two keys are the same when all parts are.
struct CacheKey {
  struct Part {
    std::string name;  ///< as `corrloom cache why` shows it: `build`, `target`, `tensor IR`, ...
    std::string text;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};

/// One entry, for people.
struct CacheEntry {
  std::filesystem::path file;
  CacheKey key;
  std::uintmax_t file_bytes = 0;
  std::size_t payload_bytes = 0;
  std::filesystem::file_time_type written;
};

/// Compiled code on disk, shared by all processes of a user.
///
/// An entry is a file of its own that holds its whole key, so entries are never taken for one another. It is written to
/// a private file first and published by one rename: a reader sees all of it or nothing. Whatever is not exactly an
/// entry of this format with this key and a right checksum is a miss: truncated, corrupted, foreign or of another
/// version. Entries and folders that other users own or can write are not read, since their contents are executed.
/// No failure of the file system reaches the caller: the code is compiled then. Safe to use from many threads.
class DiskCache {
 public:
  /// Keeps entries below `folder`, which is made at the first `store`. Once all entries take more than `limit_bytes`,
  /// the oldest ones go, at one of the next few dozen stores.
  explicit DiskCache(std::filesystem::path folder, std::uintmax_t limit_bytes = std::uintmax_t{1} << 30);

  /// The cache that the environment names: CORRLOOM_CACHE_DIR, else `corrloom` in XDG_CACHE_HOME or in ~/.cache.
  /// Null when it is `off` or when there is no home.
  static std::shared_ptr<const DiskCache> from_environment();

  const std::filesystem::path& folder() const { return folder_; }
  /// The payload stored with this key.
  std::optional<std::string> find(const CacheKey& key) const;
  /// Keeps a payload; false when that did not work.
  bool store(const CacheKey& key, std::string_view payload) const;
  /// All readable entries, newest first.
  std::vector<CacheEntry> list() const;
  /// Deletes all entries, also unreadable ones and files left behind by dead writers. Gives how many files went.
  std::size_t clear() const;

 private:
  std::filesystem::path file_of(const CacheKey& key) const;
  void drop_oldest() const;

  std::filesystem::path folder_;
  std::uintmax_t limit_bytes_;
};

/// Identifies the build of the running code: the build id that the linker put into the library or program. Empty when
/// there is none; code must not be cached then.
std::string build_id();

}  // namespace corrloom::driver
