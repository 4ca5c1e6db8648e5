#include "runtime/io/npz.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <set>

#include "ir/base/errors.h"
#include "runtime/io/npy.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint16_t kStored = 0, kDeflated = 8, kZip64Field = 1;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  ///< the value is in the zip64 field
constexpr std::size_t kMaxDirectoryBytes = std::size_t{64} << 20;
/// No deflate stream expands further: 258 bytes from 2 bits.
constexpr std::uint64_t kMaxExpansion = 1032;

std::uint64_t little(const unsigned char* from, int bytes) {
  std::uint64_t value = 0;
  for (int k = bytes; k-- > 0;) value = value << 8 | from[k];
  return value;
}
std::uint16_t u16_at(const unsigned char* from) {
  return static_cast<std::uint16_t>(little(from, 2));
}
std::uint32_t u32_at(const unsigned char* from) {
  return static_cast<std::uint32_t>(little(from, 4));
}

[[noreturn]] void broken(const InputFile& file, const std::string& what) {
  throw InputError(file.path() + ": no .npz file, or a broken one: " + what);
}

/// Where the central directory lies.
struct Directory {
  std::uint64_t offset, bytes, members;
};

/// The zip64 end record, which stands before the plain one when that has no room.
Directory find_directory64(const InputFile& file, std::uint64_t end_offset) {
  if (end_offset < kLocator64Bytes) broken(file, "its end record is cut");
  unsigned char locator[kLocator64Bytes], end[kEnd64Bytes];
  file.read_at(end_offset - kLocator64Bytes, locator, sizeof locator);
  if (u32_at(locator) != kLocator64Signature) broken(file, "the zip64 locator is missing");
  const std::uint64_t offset = little(locator + 8, 8);
  if (offset > file.byte_count() || file.byte_count() - offset < sizeof end)
    broken(file, "the zip64 end record is out of place");
  file.read_at(offset, end, sizeof end);
  if (u32_at(end) != kEnd64Signature) broken(file, "the zip64 end record is missing");
  return {little(end + 48, 8), little(end + 40, 8), little(end + 32, 8)};
}

Directory find_directory(const InputFile& file) {
  if (file.byte_count() < kEndBytes) broken(file, "it is too short");
  // A comment of up to 65535 bytes may follow the end record.
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(file.byte_count(), kEndBytes + 0xFFFF);
  std::vector<unsigned char> tail(static_cast<std::size_t>(tail_bytes));
  file.read_at(file.byte_count() - tail_bytes, tail.data(), tail.size());
  for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    const unsigned char* const end = tail.data() + at;
    if (u32_at(end) != kEndSignature || at + kEndBytes + u16_at(end + 20) != tail.size()) continue;
    const Directory plain{u32_at(end + 16), u32_at(end + 12), u16_at(end + 10)};
    const bool in64 = plain.offset == kIn64 || plain.bytes == kIn64 || plain.members == 0xFFFF;
    return in64 ? find_directory64(file, file.byte_count() - tail_bytes + at) : plain;
  }
  broken(file, "it has no end record");
}

/// Takes the 64-bit values, in their order, for those of `member` that had no room.
void read_zip64_field(const InputFile& file, const unsigned char* extra, std::size_t extra_bytes, ZipMember& member) {
  for (std::size_t at = 0; at + 4 <= extra_bytes;) {
    const std::size_t field_bytes = u16_at(extra + at + 2);
    if (field_bytes > extra_bytes - at - 4) broken(file, "an extra field is cut");
    if (u16_at(extra + at) == kZip64Field) {
      std::size_t next = at + 4;
      for (std::uint64_t* value : {&member.full_bytes, &member.stored_bytes, &member.header_offset}) {
        if (*value != kIn64) continue;
        if (next + 8 > at + 4 + field_bytes) broken(file, "a zip64 field is cut");
        *value = little(extra + next, 8);
        next += 8;
      }
    }
    at += 4 + field_bytes;
  }
}

/// The bytes of one member, decompressed; the sum is checked behind the last one.
class MemberSource final : public ByteSource {
 public:
  MemberSource(const InputFile& file, const ZipMember& member, std::uint64_t data_offset)
      : name_(file.path() + ":" + array_name(member)),
        packed_(file, data_offset, member.stored_bytes, name_),
        deflated_(member.method == kDeflated),
        wanted_crc_(member.crc),
        remaining_(member.full_bytes) {
    // Negative window bits: a raw stream without zlib's header.
    if (deflated_ && inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw RuntimeError("inflateInit2: out of memory");
  }
  ~MemberSource() override {
    if (deflated_) inflateEnd(&stream_);
  }
  MemberSource(const MemberSource&) = delete;
  MemberSource& operator=(const MemberSource&) = delete;

  const std::string& name() const override { return name_; }
  std::uint64_t remaining() const override { return remaining_; }

  void read(void* to, std::size_t bytes) override {
    if (bytes > remaining_) throw InputError(name_ + ": the member ends early");
    auto* place = static_cast<unsigned char*>(to);
    remaining_ -= bytes;
    while (bytes > 0) {
      const auto piece = static_cast<uInt>(std::min<std::size_t>(bytes, kPiece));
      if (deflated_) {
        inflate_into(place, piece);
      } else {
        packed_.read(place, piece);
      }
      crc_ = crc32(crc_, place, piece);
      place += piece;
      bytes -= piece;
    }
  }

  /// Reads what is left and compares the sum.
  void finish() {
    std::vector<unsigned char> rest(static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, kPiece)));
    while (remaining_ > 0)
      read(rest.data(), static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, rest.size())));
    if (crc_ != wanted_crc_) throw InputError(name_ + ": the check sum of the member is wrong");
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  void inflate_into(unsigned char* to, uInt bytes) {
    stream_.next_out = to;
    stream_.avail_out = bytes;
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(packed_.remaining(), sizeof input_));
        if (piece == 0) throw InputError(name_ + ": the compressed data ends early");
        packed_.read(input_, piece);
        stream_.next_in = input_;
        stream_.avail_in = static_cast<uInt>(piece);
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END && stream_.avail_out > 0) throw InputError(name_ + ": the compressed data ends early");
      if (result == Z_MEM_ERROR) throw RuntimeError("inflate: out of memory");
      if (result != Z_OK && result != Z_STREAM_END) throw InputError(name_ + ": the compressed data is damaged");
    }
  }

  std::string name_;
  FileSource packed_;
  bool deflated_;
  std::uint32_t wanted_crc_;
  std::uint64_t remaining_;
  uLong crc_ = crc32(0, nullptr, 0);
  z_stream stream_{};
  unsigned char input_[1 << 16];
};

/// Bytes of a header that is being put together.
class Record {
 public:
  Record& put(std::uint64_t value, int bytes) {
    for (int k = 0; k < bytes; ++k) text_ += static_cast<char>(value >> (8 * k) & 0xFF);
    return *this;
  }
  Record& put(const std::string& text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::uint64_t capped(std::uint64_t value) {
  return std::min<std::uint64_t>(value, kIn64);
}

/// What local and central header share: flags (UTF-8 name) to the length of the name. The date is 1980-01-01, so that
/// equal tensors give equal files.
void put_common(Record& record, const ZipMember& member, bool in64, std::size_t extra_bytes) {
  constexpr std::uint16_t kUtf8 = 1 << 11, kFirstDay = (1 << 5) | 1;
  record.put(in64 ? 45 : 20, 2).put(kUtf8, 2).put(kStored, 2).put(0, 2).put(kFirstDay, 2).put(member.crc, 4);
  record.put(in64 ? kIn64 : member.full_bytes, 4).put(in64 ? kIn64 : member.full_bytes, 4);
  record.put(member.name.size(), 2).put(extra_bytes, 2);
}

std::string local_header(const ZipMember& member) {
  const bool in64 = member.full_bytes >= kIn64;
  Record record;
  record.put(kLocalSignature, 4);
  put_common(record, member, in64, in64 ? 20 : 0);
  record.put(member.name);
  if (in64) record.put(kZip64Field, 2).put(16, 2).put(member.full_bytes, 8).put(member.full_bytes, 8);
  return record.text();
}

std::string central_header(const ZipMember& member) {
  const bool in64 = member.full_bytes >= kIn64 || member.header_offset >= kIn64;
  Record record;
  record.put(kCentralSignature, 4).put(45, 2);
  put_common(record, member, in64, in64 ? 28 : 0);
  record.put(0, 2).put(0, 2).put(0, 2).put(0, 4).put(in64 ? kIn64 : member.header_offset, 4).put(member.name);
  if (in64)
    record.put(kZip64Field, 2)
        .put(24, 2)
        .put(member.full_bytes, 8)
        .put(member.full_bytes, 8)
        .put(member.header_offset, 8);
  return record.text();
}

std::string end_records(std::uint64_t offset, std::uint64_t bytes, std::uint64_t members) {
  Record record;
  if (offset >= kIn64 || bytes >= kIn64 || members >= 0xFFFF) {
    record.put(kEnd64Signature, 4).put(kEnd64Bytes - 12, 8).put(45, 2).put(45, 2).put(0, 4).put(0, 4);
    record.put(members, 8).put(members, 8).put(bytes, 8).put(offset, 8);
    record.put(kLocator64Signature, 4).put(0, 4).put(offset + bytes, 8).put(1, 4);
  }
  const std::uint64_t few = std::min<std::uint64_t>(members, 0xFFFF);
  record.put(kEndSignature, 4)
      .put(0, 2)
      .put(0, 2)
      .put(few, 2)
      .put(few, 2)
      .put(capped(bytes), 4)
      .put(capped(offset), 4)
      .put(0, 2);
  return record.text();
}

std::uint32_t crc_of(const std::string& header, const Tensor& tensor) {
  uLong crc = crc32(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(header.data()), header.size());
  // An empty range would start the sum anew.
  if (tensor.byte_count() > 0) {
    crc = crc32_z(crc, static_cast<const Bytef*>(runtime::TensorAccess::address(tensor)),
                  static_cast<std::size_t>(tensor.byte_count()));
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

std::string array_name(const ZipMember& member) {
  constexpr std::string_view kSuffix = ".npy";
  return member.name.ends_with(kSuffix) ? member.name.substr(0, member.name.size() - kSuffix.size()) : member.name;
}

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  if (directory.bytes > kMaxDirectoryBytes) broken(file, "its directory is larger than 64 MiB");
  if (directory.offset > file.byte_count() || directory.bytes > file.byte_count() - directory.offset) {
    broken(file, "its directory lies outside of the file");
  }
  std::vector<unsigned char> bytes(static_cast<std::size_t>(directory.bytes));
  file.read_at(directory.offset, bytes.data(), bytes.size());
  std::vector<ZipMember> members;
  std::size_t at = 0;
  while (members.size() < directory.members) {
    if (bytes.size() - at < kCentralBytes) broken(file, "its directory is cut");
    const unsigned char* const header = bytes.data() + at;
    if (u32_at(header) != kCentralSignature) broken(file, "a directory entry is missing");
    const std::size_t name_bytes = u16_at(header + 28), extra_bytes = u16_at(header + 30),
                      comment_bytes = u16_at(header + 32);
    if (bytes.size() - at - kCentralBytes < name_bytes + extra_bytes + comment_bytes)
      broken(file, "its directory is cut");
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(header + kCentralBytes), name_bytes);
    member.method = u16_at(header + 10);
    member.crc = u32_at(header + 16);
    member.stored_bytes = u32_at(header + 20);
    member.full_bytes = u32_at(header + 24);
    member.header_offset = u32_at(header + 42);
    if ((u16_at(header + 8) & 1) != 0) broken(file, "member `" + member.name + "` is encrypted");
    read_zip64_field(file, header + kCentralBytes + name_bytes, extra_bytes, member);
    members.push_back(std::move(member));
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }
  return members;
}

Tensor read_npz_member(const InputFile& file, const ZipMember& member) {
  const std::string what = "member `" + member.name + "` ";
  if (member.method != kStored && member.method != kDeflated) {
    broken(file,
           what + "is compressed by method " + std::to_string(member.method) + "; wanted 0 (stored) or 8 (deflated)");
  }
  unsigned char header[kLocalBytes];
  if (member.header_offset > file.byte_count() || file.byte_count() - member.header_offset < sizeof header) {
    broken(file, what + "lies outside of the file");
  }
  file.read_at(member.header_offset, header, sizeof header);
  if (u32_at(header) != kLocalSignature) broken(file, what + "has no header");
  const std::uint64_t data_offset = member.header_offset + kLocalBytes + u16_at(header + 26) + u16_at(header + 28);
  if (data_offset > file.byte_count() || member.stored_bytes > file.byte_count() - data_offset)
    broken(file, what + "lies outside of the file");
  if (member.method == kStored && member.full_bytes != member.stored_bytes) broken(file, what + "has two sizes");
  if (member.full_bytes / kMaxExpansion > member.stored_bytes)
    broken(file, what + "claims a size that its data cannot have");

  const auto source = std::make_unique<MemberSource>(file, member, data_offset);
  Tensor tensor = read_npy(*source);
  source->finish();
  return tensor;
}

void write_npz(const std::string& path, const NamedTensors& tensors) {
  // All that can be wrong with the tensors shows before the file is touched.
  std::set<std::string> names;
  std::vector<std::string> headers;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || name.size() > 0xFF00)
      throw InputError(path + ": the name of an array has " + std::to_string(name.size()) + " bytes");
    if (!names.insert(name).second) throw InputError(path + ": two arrays are called `" + name + "`");
    headers.push_back(npy_header(tensor.type()));
  }
  OutputFile file(path);
  std::uint64_t offset = 0;
  const auto write = [&](const void* from, std::size_t bytes) {
    file.write(from, bytes);
    offset += bytes;
  };
  std::string directory;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const Tensor dense = tensors[k].second.to(cpu()).contiguous();
    dense.wait();
    const auto bytes = static_cast<std::size_t>(dense.byte_count());
    ZipMember member{.name = tensors[k].first + ".npy", .crc = crc_of(headers[k], dense)};
    member.full_bytes = member.stored_bytes = headers[k].size() + bytes;
    member.header_offset = offset;
    const std::string local = local_header(member);
    write(local.data(), local.size());
    write(headers[k].data(), headers[k].size());
    write(runtime::TensorAccess::address(dense), bytes);
    directory += central_header(member);
  }
  const std::uint64_t directory_offset = offset;
  write(directory.data(), directory.size());
  const std::string end = end_records(directory_offset, directory.size(), tensors.size());
  write(end.data(), end.size());
  file.commit();
}

}  // namespace corrloom::io
