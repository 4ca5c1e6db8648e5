#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/io/bytes.h"
#include "runtime/io/image.h"
#include "runtime/tensor_state.h"

namespace corrloom::io {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 31;
constexpr png_uint_32 kMaxExtent = 1 << 20;
/// No deflate stream expands further.
constexpr std::uint64_t kMaxExpansion = 1032;

/// libpng reports errors by a jump. So whatever has a destructor lives in one of these, outside of the functions that
/// may be left by that jump.
struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = "unknown";
};

void on_error(png_structp png, png_const_charp message) {
  auto* const session = static_cast<Session*>(png_get_error_ptr(png));
  std::strncpy(session->message, message, sizeof session->message - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

struct Reader : Session {
  std::vector<unsigned char> bytes;
  std::size_t next = 0;
  png_uint_32 width = 0, height = 0;
  int channels = 0;
  std::size_t row_bytes = 0;
  int passes = 1;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_read(png_structp png, png_bytep to, std::size_t count) {
  auto* const reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->bytes.size() - reader->next) png_error(png, "the file ends early");
  std::memcpy(to, reader->bytes.data() + reader->next, count);
  reader->next += count;
}

/// Reads up to the pixels and asks for 8-bit samples without a palette. False: `message` says why not.
bool read_head(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, on_read);
  png_set_user_limits(reader.png, kMaxExtent, kMaxExtent);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);    // palettes, few bits, transparent colours
  png_set_scale_16(reader.png);  // 16 bits
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  reader.channels = png_get_channels(reader.png, reader.info);
  reader.row_bytes = png_get_rowbytes(reader.png, reader.info);
  return true;
}

bool read_rows(Reader& reader, unsigned char* pixels) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (png_uint_32 row = 0; row < reader.height; ++row)
      png_read_row(reader.png, pixels + row * reader.row_bytes, nullptr);
  }
  png_read_end(reader.png, nullptr);
  return true;
}

struct Writer : Session {
  std::vector<unsigned char> bytes;

  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

/// False when there is no memory; no exception may pass libpng.
bool append(std::vector<unsigned char>& bytes, const unsigned char* from, std::size_t count) noexcept {
  try {
    bytes.insert(bytes.end(), from, from + count);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void on_write(png_structp png, png_bytep from, std::size_t count) {
  if (!append(static_cast<Writer*>(png_get_io_ptr(png))->bytes, from, count)) png_error(png, "out of memory");
}
void on_flush(png_structp) {}

bool write_image(Writer& writer, const unsigned char* pixels, png_uint_32 width, png_uint_32 height, int channels) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  constexpr int kColourTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                  PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_write_fn(writer.png, &writer, on_write, on_flush);
  png_set_user_limits(writer.png, kMaxExtent, kMaxExtent);
  png_set_IHDR(writer.png, writer.info, width, height, 8, kColourTypes[channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  const std::size_t row_bytes = std::size_t{width} * static_cast<std::size_t>(channels);
  for (png_uint_32 row = 0; row < height; ++row) png_write_row(writer.png, pixels + row * row_bytes);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

Tensor read_png(const std::string& path) {
  Reader reader;
  reader.bytes = InputFile(path).read_all(kMaxFileBytes);
  constexpr std::size_t kSignatureBytes = 8;
  if (reader.bytes.size() < kSignatureBytes || png_sig_cmp(reader.bytes.data(), 0, kSignatureBytes) != 0) {
    throw InputError(path + ": no PNG");
  }
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&reader), on_error, on_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) throw RuntimeError("png_create_read_struct: out of memory");
  if (!read_head(reader)) throw InputError(path + ": a damaged PNG: " + reader.message);

  // One bit a pixel is the least that a PNG stores, and it may become four bytes.
  const std::uint64_t pixel_bytes = reader.row_bytes * std::uint64_t{reader.height};
  if (pixel_bytes / (kMaxExpansion * 32) > reader.bytes.size()) {
    throw InputError(detail::concat(path, ": a damaged PNG: ", reader.width, " x ", reader.height, " pixels in ",
                                    reader.bytes.size(), " bytes"));
  }
  const Tensor rows = Tensor::empty({reader.height, reader.width, reader.channels}, DType::U8);
  CORRLOOM_CHECK(static_cast<std::uint64_t>(rows.byte_count()) == pixel_bytes, "PNG rows of ", reader.row_bytes,
                 " bytes");
  if (!read_rows(reader, static_cast<unsigned char*>(runtime::TensorAccess::address(rows)))) {
    throw InputError(path + ": a damaged PNG: " + reader.message);
  }
  return planar(rows);
}

void write_png(const std::string& path, const Tensor& image) {
  const Tensor rows = interleaved(path, image);
  const Shape& shape = rows.shape();
  if (shape[0] > kMaxExtent || shape[1] > kMaxExtent) {
    throw InputError(path + ": " + image.type().to_string() +
                     " is too large for a PNG; wanted at most 1048576 pixels along each axis");
  }
  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&writer), on_error, on_warning);
  if (writer.png != nullptr) writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) throw RuntimeError("png_create_write_struct: out of memory");
  if (!write_image(writer, static_cast<const unsigned char*>(runtime::TensorAccess::address(rows)),
                   static_cast<png_uint_32>(shape[1]), static_cast<png_uint_32>(shape[0]),
                   static_cast<int>(shape[2]))) {
    throw RuntimeError("png_write_row(" + path + "): " + writer.message);
  }
  OutputFile file(path);
  file.write(writer.bytes.data(), writer.bytes.size());
  file.commit();
}

}  // namespace corrloom::io
