#pragma once

#include <string>
#include <vector>

#include "runtime/io/bytes.h"
#include "runtime/io/file.h"

/// NumPy's archive: a zip file with one `.npy` member for each array.
/// Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5 (members, central directory, zip64).
namespace corrloom::io {

/// One member of a zip file.
struct ZipMember {
  std::string name;
  std::uint16_t method = 0;  ///< 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t full_bytes = 0;
  std::uint64_t header_offset = 0;
};

/// The members by the central directory. Throws InputError for what is no zip file, or a broken one.
std::vector<ZipMember> read_zip_directory(const InputFile& file);

/// One array of a `.npz` file; checks its sum. Throws InputError for a broken or encrypted member and unknown
/// compression.
Tensor read_npz_member(const InputFile& file, const ZipMember& member);

/// Name of the array in a member: without `.npy`.
std::string array_name(const ZipMember& member);

/// Writes the tensors, stored.
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace corrloom::io
