#include "compiler/driver/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace corrloom::driver {
namespace {

namespace fs = std::filesystem;

/// An entry is: these 8 bytes, the XXH3 sum of the rest (8 bytes), one zstd frame. In the frame: the number of parts,
/// then each part's name and text, then the payload; numbers and lengths take 8 bytes each. Little-endian. The last
/// character is the version of the format.
constexpr char kMagic[8] = {'L', 'O', 'O', 'M', 'C', 'A', 'C', '1'};
/// One in so many stores looks through all entries: that takes as long as a compile when there are tens of thousands.
constexpr unsigned long kStoresToALook = 64;
constexpr std::size_t kHeaderBytes = sizeof kMagic + sizeof(std::uint64_t);
constexpr const char* kSuffix = ".loomc";
constexpr std::uintmax_t kMaxEntryBytes = std::uintmax_t{1} << 28;

void append_number(std::string& out, std::uint64_t number) {
  for (int k = 0; k < 8; ++k) out += static_cast<char>(number >> (8 * k));
}

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out += text;
}

/// Reads what `append_*` wrote; every function gives nothing at the end of the text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::uint64_t> number() {
    if (text_.size() < 8) return std::nullopt;
    std::uint64_t out = 0;
    for (int k = 0; k < 8; ++k)
      out |= std::uint64_t{static_cast<unsigned char>(text_[static_cast<std::size_t>(k)])} << (8 * k);
    text_.remove_prefix(8);
    return out;
  }
  std::optional<std::string> text() {
    const std::optional<std::uint64_t> size = number();
    if (!size || *size > text_.size()) return std::nullopt;
    std::string out(text_.substr(0, *size));
    text_.remove_prefix(*size);
    return out;
  }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::string serialise(const CacheKey& key) {
  std::string out;
  append_number(out, key.parts.size());
  for (const CacheKey::Part& part : key.parts) {
    append_text(out, part.name);
    append_text(out, part.text);
  }
  return out;
}

struct Contents {
  CacheKey key;
  std::string payload;
};

std::optional<Contents> deserialise(std::string_view text) {
  Reader reader(text);
  const std::optional<std::uint64_t> count = reader.number();
  if (!count || *count > 64) return std::nullopt;
  Contents out;
  for (std::uint64_t k = 0; k < *count; ++k) {
    std::optional<std::string> name = reader.text();
    std::optional<std::string> value = name ? reader.text() : std::nullopt;
    if (!value) return std::nullopt;
    out.key.parts.push_back({*std::move(name), *std::move(value)});
  }
  std::optional<std::string> payload = reader.text();
  if (!payload || !reader.at_end()) return std::nullopt;
  out.payload = *std::move(payload);
  return out;
}

std::optional<std::string> compress(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1);
  if (ZSTD_isError(size)) return std::nullopt;
  out.resize(size);
  return out;
}

std::optional<std::string> decompress(std::string_view frame) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kMaxEntryBytes) return std::nullopt;
  std::string out(size, '\0');
  if (ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size()) != size) return std::nullopt;
  return out;
}

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// Closes; false when what was written did not reach the file.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

/// Whether nobody but this user could have put the contents there.
bool is_private(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool is_private_folder(const fs::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_private(status);
}

std::optional<std::string> read_file(const fs::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode) || !is_private(status) ||
      static_cast<std::uintmax_t>(status.st_size) > kMaxEntryBytes)
    return std::nullopt;
  std::string out(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::read(file.descriptor(), out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    done += static_cast<std::size_t>(count);
  }
  return out;
}

/// A new file that only this user can read, with the text in it; false when not all of it could be written.
bool write_file(const fs::path& path, std::string_view text) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return false;
  while (!text.empty()) {
    const ssize_t count = ::write(file.descriptor(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return file.close();
}

std::optional<Contents> read_entry(const fs::path& path) {
  const std::optional<std::string> file = read_file(path);
  if (!file || file->size() < kHeaderBytes || std::memcmp(file->data(), kMagic, sizeof kMagic) != 0)
    return std::nullopt;
  const std::string_view frame = std::string_view(*file).substr(kHeaderBytes);
  Reader sum(std::string_view(*file).substr(sizeof kMagic, 8));
  if (sum.number() != XXH3_64bits(frame.data(), frame.size())) return std::nullopt;
  const std::optional<std::string> text = decompress(frame);
  return text ? deserialise(*text) : std::nullopt;
}

/// The files of a folder that are entries by name, or that a writer left behind.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find(kSuffix) != std::string::npos) out.push_back(it->path());
  }
  return out;
}

/// Whether to look for old entries after that file was stored: names are hashes, so this is as good as drawing lots.
bool is_time_to_look(const fs::path& file) {
  return std::stoul(file.stem().string().substr(0, 4), nullptr, 16) % kStoresToALook == 0;
}

/// A name that no other writer uses.
fs::path staging_name(const fs::path& target) {
  static std::atomic<std::uint64_t> counter{0};
  return target.string() + "." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

}  // namespace

DiskCache::DiskCache(fs::path folder, std::uintmax_t limit_bytes)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

std::shared_ptr<const DiskCache> DiskCache::from_environment() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string own = variable("CORRLOOM_CACHE_DIR");
  if (own == "off" || own == "OFF") return nullptr;
  if (!own.empty()) return std::make_shared<const DiskCache>(own);
  const std::string shared = variable("XDG_CACHE_HOME");
  if (fs::path(shared).is_absolute()) return std::make_shared<const DiskCache>(fs::path(shared) / "corrloom");
  const std::string home = variable("HOME");
  if (!fs::path(home).is_absolute()) return nullptr;
  return std::make_shared<const DiskCache>(fs::path(home) / ".cache" / "corrloom");
}

fs::path DiskCache::file_of(const CacheKey& key) const {
  const std::string text = serialise(key);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  char name[33];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return folder_ / (std::string(name) + kSuffix);
}

std::optional<std::string> DiskCache::find(const CacheKey& key) const {
  if (!is_private_folder(folder_)) return std::nullopt;
  std::optional<Contents> contents = read_entry(file_of(key));
  if (!contents || contents->key != key) return std::nullopt;
  return std::move(contents->payload);
}

bool DiskCache::store(const CacheKey& key, std::string_view payload) const {
  std::string text = serialise(key);
  append_text(text, payload);
  const std::optional<std::string> frame = compress(text);
  if (!frame || text.size() > kMaxEntryBytes) return false;
  std::string file(kMagic, sizeof kMagic);
  append_number(file, XXH3_64bits(frame->data(), frame->size()));
  file += *frame;

  std::error_code error;
  fs::create_directories(folder_.parent_path(), error);
  ::mkdir(folder_.c_str(), 0700);
  if (!is_private_folder(folder_)) return false;
  const fs::path target = file_of(key);
  const fs::path staging = staging_name(target);
  if (!write_file(staging, file) || ::rename(staging.c_str(), target.c_str()) != 0) {
    ::unlink(staging.c_str());
    return false;
  }
  if (is_time_to_look(target)) drop_oldest();
  return true;
}

void DiskCache::drop_oldest() const {
  struct Aged {
    fs::file_time_type written;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<Aged> files;
  std::uintmax_t total = 0;
  for (const fs::path& path : files_in(folder_)) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error) continue;
    const fs::file_time_type written = fs::last_write_time(path, error);
    if (error) continue;
    files.push_back({written, bytes, path});
    total += bytes;
  }
  if (total <= limit_bytes_) return;
  std::sort(files.begin(), files.end(), [](const Aged& a, const Aged& b) { return a.written < b.written; });
  for (const Aged& file : files) {
    if (total <= limit_bytes_) break;
    std::error_code error;
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

std::vector<CacheEntry> DiskCache::list() const {
  std::vector<CacheEntry> out;
  if (!is_private_folder(folder_)) return out;
  for (const fs::path& path : files_in(folder_)) {
    if (path.extension() != kSuffix) continue;
    std::optional<Contents> contents = read_entry(path);
    std::error_code error;
    const fs::file_time_type written = fs::last_write_time(path, error);
    const std::uintmax_t bytes = error ? 0 : fs::file_size(path, error);
    if (!contents || error) continue;
    out.push_back({path, std::move(contents->key), bytes, contents->payload.size(), written});
  }
  std::sort(out.begin(), out.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return a.written != b.written ? a.written > b.written : a.file < b.file;
  });
  return out;
}

std::size_t DiskCache::clear() const {
  std::size_t gone = 0;
  for (const fs::path& path : files_in(folder_)) {
    std::error_code error;
    if (fs::remove(path, error)) ++gone;
  }
  return gone;
}

}  // namespace corrloom::driver
