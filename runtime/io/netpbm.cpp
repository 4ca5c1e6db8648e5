#include <cstring>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/io/bytes.h"
#include "runtime/io/image.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 31;

/// Reads numbers and samples of a PGM or PPM.
/// Source: Netpbm's format descriptions, pgm(5) and ppm(5).
class NetpbmReader {
 public:
  NetpbmReader(const std::string& path, std::vector<unsigned char> bytes) : path_(path), bytes_(std::move(bytes)) {}

  Tensor read() {
    if (bytes_.size() < 2 || bytes_[0] != 'P' || std::strchr("2356", bytes_[1]) == nullptr || bytes_[1] == '\0') {
      fail("wanted P2, P3, P5 or P6 at the beginning");
    }
    const bool is_text = bytes_[1] < '5';
    const std::int64_t channels = bytes_[1] == '3' || bytes_[1] == '6' ? 3 : 1;
    at_ = 2;
    const std::int64_t width = number("width"), height = number("height");
    maximum_ = number("largest sample");
    if (width == 0 || height == 0 || maximum_ == 0 || maximum_ > 65535)
      fail("an extent or the largest sample is out of range");
    // One white space ends the head; samples follow at once.
    if (!is_text && (at_ >= bytes_.size() || !is_space(bytes_[at_++]))) fail("no white space behind the head");

    const std::int64_t sample_bytes = maximum_ > 255 ? 2 : 1;
    const std::int64_t left = static_cast<std::int64_t>(bytes_.size() - at_);
    // Samples of a text take a digit and a space each, but for the last one.
    const std::int64_t room = is_text ? (left + 1) / 2 : left / sample_bytes;
    if (width > room || height > room / width || channels > room / (width * height)) {
      fail(detail::concat("the file ends early: ", width, " x ", height, " pixels in ", left, " bytes"));
    }
    const Tensor rows = Tensor::empty({height, width, channels}, DType::U8);
    auto* const samples = static_cast<unsigned char*>(runtime::TensorAccess::address(rows));
    for (std::int64_t k = 0; k < rows.element_count(); ++k) {
      samples[k] = scaled(is_text ? number("sample") : binary_sample(sample_bytes));
    }
    return planar(rows);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path_ + ": no PGM or PPM, or a damaged one: " + what);
  }

  static bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void skip_space_and_comments() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      } else {
        ++at_;
      }
    }
  }

  std::int64_t number(const char* what) {
    skip_space_and_comments();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9') {
      value = value * 10 + (bytes_[at_++] - '0');
      if (value > INT32_MAX) fail(std::string("the ") + what + " is too large");
    }
    if (at_ == begin) fail(std::string("the ") + what + " is missing");
    return value;
  }

  std::int64_t binary_sample(std::int64_t sample_bytes) {
    if (sample_bytes == 1) return bytes_[at_++];
    const std::int64_t value = bytes_[at_] << 8 | bytes_[at_ + 1];
    at_ += 2;
    return value;
  }

  unsigned char scaled(std::int64_t sample) const {
    if (sample > maximum_) fail(detail::concat("sample ", sample, " is above the largest, ", maximum_));
    return static_cast<unsigned char>((sample * 255 + maximum_ / 2) / maximum_);
  }

  const std::string& path_;
  std::vector<unsigned char> bytes_;
  std::size_t at_ = 0;
  std::int64_t maximum_ = 0;
};

}  // namespace

Tensor read_netpbm(const std::string& path) {
  return NetpbmReader(path, InputFile(path).read_all(kMaxFileBytes)).read();
}

void write_netpbm(const std::string& path, const Tensor& image) {
  const Tensor rows = interleaved(path, image);
  const Shape& shape = rows.shape();
  const std::int64_t channels = shape[2];
  if (channels != 1 && channels != 3) {
    throw InputError(path + ": " + image.type().to_string() + " has " + std::to_string(channels) +
                     " channels; PGM holds 1 and PPM 3; write it as .png");
  }
  const bool wants_colour = path.ends_with(".ppm");
  if (wants_colour != (channels == 3)) {
    throw InputError(path + ": " + image.type().to_string() + " is " +
                     (channels == 3 ? "in colour; write it as .ppm" : "grey; write it as .pgm"));
  }
  const std::string head = detail::concat(channels == 3 ? "P6\n" : "P5\n", shape[1], " ", shape[0], "\n255\n");
  OutputFile file(path);
  file.write(head.data(), head.size());
  file.write(runtime::TensorAccess::address(rows), static_cast<std::size_t>(rows.byte_count()));
  file.commit();
}

}  // namespace corrloom::io
