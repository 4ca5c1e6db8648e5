#include "runtime/io/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ir/base/errors.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kLengthBytes = 8;
/// The header, a tensor, a list in it.
constexpr int kMaxDepth = 3;

[[noreturn]] void broken(const InputFile& file, const std::string& what) {
  throw InputError(file.path() + ": no .safetensors file, or a broken one: " + what);
}

std::string format_name(DType dtype) {
  std::string name(name_of(dtype));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

std::optional<DType> dtype_of_format(const std::string& name) {
  for (const DType dtype : kAllDTypes) {
    if (format_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

Json parse_header(const InputFile& file, const std::string& text) {
  std::set<std::string> names;
  const auto inspect = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) broken(file, "its header is nested too deeply");
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second) {
      broken(file, "two tensors are called `" + value.get<std::string>() + "`");
    }
    return true;
  };
  try {
    Json header = Json::parse(text, inspect);
    if (!header.is_object()) broken(file, "its header is no JSON object");
    return header;
  } catch (const Json::exception& error) {
    broken(file, std::string("its header is no JSON: ") + error.what());
  }
}

/// A list of numbers from 0 to 2^63 - 1.
std::vector<std::int64_t> numbers(const InputFile& file, const Json& object, const char* key, const std::string& name) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) broken(file, "tensor `" + name + "` has no list `" + key + "`");
  std::vector<std::int64_t> values;
  for (const Json& item : *list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
      broken(file,
             "`" + std::string(key) + "` of tensor `" + name + "` has an entry that is no number from 0 to 2^63 - 1");
    }
    values.push_back(item.get<std::int64_t>());
  }
  return values;
}

SafetensorsEntry read_entry(const InputFile& file, const std::string& name, const Json& object,
                            std::uint64_t data_begin) {
  if (!object.is_object()) broken(file, "tensor `" + name + "` is no JSON object");
  const auto dtype_text = object.find("dtype");
  if (dtype_text == object.end() || !dtype_text->is_string()) broken(file, "tensor `" + name + "` has no `dtype`");
  const std::optional<DType> dtype = dtype_of_format(dtype_text->get<std::string>());
  if (!dtype) {
    throw InputError(file.path() + ": tensor `" + name + "` has dtype " + dtype_text->get<std::string>().substr(0, 40) +
                     ", which the language does not have");
  }
  const TensorType type{*dtype, numbers(file, object, "shape", name)};
  const std::vector<std::int64_t> offsets = numbers(file, object, "data_offsets", name);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    broken(file, "`data_offsets` of tensor `" + name + "` is no pair in order");
  const std::int64_t wanted = element_count(type.shape, type.dtype) * byte_size(type.dtype);
  if (offsets[1] - offsets[0] != wanted) {
    broken(file, detail::concat("tensor `", name, "` has ", offsets[1] - offsets[0], " bytes; ", type.to_string(),
                                " takes ", wanted));
  }
  const std::uint64_t data_bytes = file.byte_count() - data_begin;
  if (static_cast<std::uint64_t>(offsets[1]) > data_bytes) {
    broken(file,
           detail::concat("the file ends early: tensor `", name, "` ends at byte ", offsets[1], " of ", data_bytes));
  }
  return {name, type, data_begin + static_cast<std::uint64_t>(offsets[0])};
}

std::uint64_t end_of(const SafetensorsEntry& entry) {
  return entry.offset +
         static_cast<std::uint64_t>(element_count(entry.type.shape, entry.type.dtype) * byte_size(entry.type.dtype));
}

}  // namespace

std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file) {
  if (file.byte_count() < kLengthBytes) broken(file, "it is too short");
  unsigned char length[kLengthBytes];
  file.read_at(0, length, sizeof length);
  std::uint64_t header_bytes = 0;
  for (std::size_t k = kLengthBytes; k-- > 0;) header_bytes = header_bytes << 8 | length[k];
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.byte_count() - kLengthBytes) {
    broken(file, detail::concat("its header would take ", header_bytes, " bytes"));
  }
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  file.read_at(kLengthBytes, text.data(), text.size());
  const Json header = parse_header(file, text);

  const std::uint64_t data_begin = kLengthBytes + header_bytes;
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, object] : header.items()) {
    if (name != "__metadata__") entries.push_back(read_entry(file, name, object, data_begin));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.offset != b.offset ? a.offset < b.offset : end_of(a) < end_of(b);
  });
  std::uint64_t next = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != next) broken(file, "the elements of tensor `" + entry.name + "` leave a gap or overlap others");
    next = end_of(entry);
  }
  if (next != file.byte_count()) broken(file, "bytes follow that belong to no tensor");
  return entries;
}

Tensor read_safetensors_entry(const InputFile& file, const SafetensorsEntry& entry) {
  Tensor result = Tensor::empty(entry.type.shape, entry.type.dtype);
  auto* const memory = static_cast<unsigned char*>(runtime::TensorAccess::address(result));
  const auto bytes = static_cast<std::size_t>(result.byte_count());
  file.read_at(entry.offset, memory, bytes);
  if (entry.type.dtype == DType::Bool) {
    std::transform(memory, memory + bytes, memory, [](unsigned char b) { return static_cast<unsigned char>(b != 0); });
  }
  return result;
}

void write_safetensors(const std::string& path, const NamedTensors& tensors) {
  NamedTensors sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return byte_size(a.second.dtype()) > byte_size(b.second.dtype());
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::int64_t next = 0;
  for (const auto& [name, tensor] : sorted) {
    if (name == "__metadata__" || header.contains(name)) throw InputError(path + ": the name `" + name + "` is taken");
    const std::int64_t begin = next;
    next += tensor.byte_count();
    header[name] = {{"dtype", format_name(tensor.dtype())}, {"shape", tensor.shape()}, {"data_offsets", {begin, next}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw InputError(path + ": the name of a tensor is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');

  OutputFile file(path);
  unsigned char length[kLengthBytes];
  for (std::size_t k = 0; k < kLengthBytes; ++k) length[k] = static_cast<unsigned char>(text.size() >> (8 * k) & 0xFF);
  file.write(length, sizeof length);
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : sorted) {
    const Tensor dense = tensor.to(cpu()).contiguous();
    dense.wait();
    file.write(runtime::TensorAccess::address(dense), static_cast<std::size_t>(dense.byte_count()));
  }
  file.commit();
}

}  // namespace corrloom::io
