#include "runtime/io/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "ir/base/errors.h"

namespace corrloom::io {
namespace {

/// One system call moves at most this much.
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;

[[noreturn]] void fail(const char* call, const std::string& path, int error) {
  throw RuntimeError(std::string(call) + "(" + path + "): " + std::generic_category().message(error));
}

/// A name beside `path` that no other writer of this machine uses now.
std::string staged_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + "." + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".part";
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // A path with a zero byte would name another file.
  if (path_.find('\0') != std::string::npos) fail("open", path_, EINVAL);
  // Without O_NONBLOCK the opening of a pipe would wait for a writer.
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("open", path_, errno);
  struct stat status {};
  const int error = fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(status.st_mode)) {
    byte_count_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  close(descriptor_);
  if (error != 0) fail("fstat", path_, error);
  throw RuntimeError("open(" + path_ + "): " + (S_ISDIR(status.st_mode) ? "is a directory" : "is no regular file"));
}

InputFile::~InputFile() {
  close(descriptor_);
}

void InputFile::read_at(std::uint64_t offset, void* to, std::size_t bytes) const {
  if (offset > byte_count_ || bytes > byte_count_ - offset) {
    throw InputError(
        detail::concat(path_, ": the file ends early: ", byte_count_, " bytes, wanted ", bytes, " from byte ", offset));
  }
  auto* place = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const ssize_t done = pread(descriptor_, place, std::min(bytes, kMaxPiece), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("read", path_, errno);
    if (done == 0) throw InputError(path_ + ": the file became shorter while it was read");
    place += done;
    offset += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
}

std::vector<unsigned char> InputFile::read_all(std::uint64_t limit) const {
  if (byte_count_ > limit) {
    throw InputError(
        detail::concat(path_, ": the file has ", byte_count_, " bytes; files of this kind may have ", limit));
  }
  std::vector<unsigned char> bytes(static_cast<std::size_t>(byte_count_));
  read_at(0, bytes.data(), bytes.size());
  return bytes;
}

void FileSource::read(void* to, std::size_t bytes) {
  if (bytes > remaining_) {
    throw InputError(detail::concat(name_, ": the file ends early: wanted ", bytes, " bytes more, found ", remaining_));
  }
  file_.read_at(next_, to, bytes);
  next_ += bytes;
  remaining_ -= bytes;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty() || path_.find('\0') != std::string::npos) fail("open", path_, path_.empty() ? ENOENT : EINVAL);
  struct stat status {};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail("open", path_, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    staged_path_ = staged_name(path_);
    descriptor_ = open(staged_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) fail("open", path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!staged_path_.empty()) unlink(staged_path_.c_str());
}

void OutputFile::write(const void* from, std::size_t bytes) {
  const auto* place = static_cast<const unsigned char*>(from);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, place, std::min(bytes, kMaxPiece));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write", path_, errno);
    place += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void OutputFile::commit() {
  // Network file systems report a full disk only here.
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("close", path_, errno);
  if (staged_path_.empty()) return;
  if (std::rename(staged_path_.c_str(), path_.c_str()) != 0) fail("rename", path_, errno);
  staged_path_.clear();
}

}  // namespace corrloom::io
