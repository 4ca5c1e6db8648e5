#pragma once

#include <string>
#include <vector>

#include "runtime/io/bytes.h"
#include "runtime/io/file.h"

/// The safetensors format: the length of a JSON header in 8 bytes, the header, the elements.
/// Source: https://huggingface.co/docs/safetensors, "Format".
namespace corrloom::io {

/// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  TensorType type;
  std::uint64_t offset = 0;  ///< of its elements in the file
};

/// What a file holds, in the order of its elements. Throws InputError unless the tensors cover the data without gap or
/// overlap.
std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file);

Tensor read_safetensors_entry(const InputFile& file, const SafetensorsEntry& entry);

/// Writes the tensors, those with the larger elements first, so that all are aligned.
void write_safetensors(const std::string& path, const NamedTensors& tensors);

}  // namespace corrloom::io
