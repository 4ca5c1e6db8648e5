#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Bytes of files, in and out. The machine's faults are RuntimeError, contents that end early are InputError.
namespace corrloom::io {

/// Bytes that are read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// What it is called in messages.
  virtual const std::string& name() const = 0;
  /// How many are left, or an upper bound that the length of the file vouches for.
  virtual std::uint64_t remaining() const = 0;
  /// Reads exactly `bytes`. Throws InputError when there are fewer.
  virtual void read(void* to, std::size_t bytes) = 0;
};

/// A regular file, open for reading. Throws RuntimeError when it cannot be opened or is no regular file.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t byte_count() const { return byte_count_; }
  /// Reads exactly `bytes` from `offset`. Throws InputError when the file ends before.
  void read_at(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// The whole file. Throws InputError when it has more than `limit` bytes.
  std::vector<unsigned char> read_all(std::uint64_t limit) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t byte_count_ = 0;
};

/// A part of a file as a source. The file must outlive it.
class FileSource final : public ByteSource {
 public:
  FileSource(const InputFile& file, std::uint64_t begin, std::uint64_t bytes, std::string name)
      : file_(file), next_(begin), remaining_(bytes), name_(std::move(name)) {}
  explicit FileSource(const InputFile& file) : FileSource(file, 0, file.byte_count(), file.path()) {}

  const std::string& name() const override { return name_; }
  std::uint64_t remaining() const override { return remaining_; }
  void read(void* to, std::size_t bytes) override;

 private:
  const InputFile& file_;
  std::uint64_t next_;
  std::uint64_t remaining_;
  std::string name_;
};

/// A file that appears whole or not at all: it is written beside its place and renamed by `commit`; without that it is
/// removed. What is there and no regular file (a terminal, a pipe) is written to directly. Throws RuntimeError when the
/// machine refuses.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* from, std::size_t bytes);
  void commit();

 private:
  std::string path_;
  std::string staged_path_;  ///< empty: written directly
  int descriptor_ = -1;
};

}  // namespace corrloom::io
