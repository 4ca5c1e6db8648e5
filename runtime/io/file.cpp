#include "runtime/io/file.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "ir/base/errors.h"
#include "runtime/io/bytes.h"
#include "runtime/io/image.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

enum class Format { Npy, Npz, Safetensors, Png, Netpbm };

struct Suffix {
  std::string_view text;
  Format format;
};
constexpr Suffix kSuffixes[] = {{".npy", Format::Npy}, {".npz", Format::Npz},    {".safetensors", Format::Safetensors},
                                {".png", Format::Png}, {".pgm", Format::Netpbm}, {".ppm", Format::Netpbm}};

bool holds_names(Format format) {
  return format == Format::Npz || format == Format::Safetensors;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::optional<Format> known_format(const std::string& path) {
  const std::string name = lower(path);
  for (const Suffix& suffix : kSuffixes) {
    if (name.size() > suffix.text.size() && name.ends_with(suffix.text)) return suffix.format;
  }
  return std::nullopt;
}

Format format_of(const std::string& path) {
  if (const std::optional<Format> format = known_format(path)) return *format;
  throw InputError(path +
                   ": the name has no suffix that is known; wanted .npy, .npz, .safetensors, .png, .pgm or .ppm");
}

Tensor read_npy_file(const std::string& path) {
  const InputFile file(path);
  FileSource source(file);
  return read_npy(source);
}

void write_npy_file(const std::string& path, const Tensor& tensor) {
  const std::string header = npy_header(tensor.type());
  const Tensor dense = tensor.to(cpu()).contiguous();
  dense.wait();
  OutputFile file(path);
  file.write(header.data(), header.size());
  file.write(runtime::TensorAccess::address(dense), static_cast<std::size_t>(dense.byte_count()));
  file.commit();
}

/// The position of `key` among the names of an archive; of the only one when the key is empty.
std::size_t find_key(const std::string& path, const std::string& key, const std::vector<std::string>& names) {
  if (key.empty() && names.size() == 1) return 0;
  const auto place = std::find(names.begin(), names.end(), key);
  if (!key.empty() && place != names.end()) return static_cast<std::size_t>(place - names.begin());
  constexpr std::size_t kMaxShown = 20;
  std::string all;
  for (std::size_t k = 0; k < std::min(names.size(), kMaxShown); ++k) all += (k > 0 ? ", " : "") + names[k];
  if (names.size() > kMaxShown) all += ", ...";
  throw InputError(
      path +
      (key.empty() ? ": the file holds " + std::to_string(names.size()) + " tensors; name one as `" + path + ":KEY`"
                   : ": no tensor is called `" + key + "`") +
      "; there are: " + (all.empty() ? "none" : all));
}

/// An archive's names, and how to read one of its tensors.
struct Archive {
  std::vector<std::string> names;
  std::function<Tensor(std::size_t)> read;
};

Archive open_archive(const InputFile& file, Format format) {
  Archive archive;
  if (format == Format::Npz) {
    std::vector<ZipMember> members = read_zip_directory(file);
    for (const ZipMember& member : members) archive.names.push_back(array_name(member));
    archive.read = [&file, members = std::move(members)](std::size_t k) { return read_npz_member(file, members[k]); };
  } else {
    std::vector<SafetensorsEntry> entries = read_safetensors_header(file);
    for (const SafetensorsEntry& entry : entries) archive.names.push_back(entry.name);
    archive.read = [&file, entries = std::move(entries)](std::size_t k) {
      return read_safetensors_entry(file, entries[k]);
    };
  }
  return archive;
}

Tensor load_single(const std::string& path, Format format) {
  if (format == Format::Npy) return read_npy_file(path);
  return format == Format::Png ? read_png(path) : read_netpbm(path);
}

}  // namespace

std::pair<std::string, std::string> split_key(const std::string& path) {
  const std::string name = lower(path);
  std::size_t split = std::string::npos;
  for (const Suffix& suffix : kSuffixes) {
    if (!holds_names(suffix.format)) continue;
    const std::size_t place = name.find(std::string(suffix.text) + ":");
    if (place != std::string::npos) split = std::min(split, place + suffix.text.size());
  }
  if (split == std::string::npos) return {path, ""};
  return {path.substr(0, split), path.substr(split + 1)};
}

bool has_known_suffix(const std::string& path) {
  return known_format(split_key(path).first).has_value();
}

Tensor load(const std::string& path) {
  const auto [file_path, key] = split_key(path);
  const Format format = format_of(file_path);
  if (!holds_names(format)) return load_single(file_path, format);
  const InputFile file(file_path);
  const Archive archive = open_archive(file, format);
  return archive.read(find_key(file_path, key, archive.names));
}

NamedTensors load_all(const std::string& path) {
  const Format format = format_of(path);
  if (!holds_names(format)) return {{"", load_single(path, format)}};
  const InputFile file(path);
  const Archive archive = open_archive(file, format);
  NamedTensors tensors;
  for (std::size_t k = 0; k < archive.names.size(); ++k) tensors.emplace_back(archive.names[k], archive.read(k));
  return tensors;
}

void save(const std::string& path, const Tensor& tensor, const std::string& name) {
  const auto [file_path, key] = split_key(path);
  switch (format_of(file_path)) {
    case Format::Npy:
      return write_npy_file(file_path, tensor);
    case Format::Png:
      return write_png(file_path, tensor);
    case Format::Netpbm:
      return write_netpbm(file_path, tensor);
    case Format::Npz:
    case Format::Safetensors:
      return save_all(file_path, {{key.empty() ? name : key, tensor}});
  }
}

void save_all(const std::string& path, const NamedTensors& tensors) {
  const Format format = format_of(path);
  if (!holds_names(format)) throw InputError(path + ": only .npz and .safetensors files hold several tensors");
  format == Format::Npz ? write_npz(path, tensors) : write_safetensors(path, tensors);
}

}  // namespace corrloom::io
