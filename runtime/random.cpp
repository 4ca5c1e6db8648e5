#include "runtime/random.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "ir/base/errors.h"
#include "runtime/cast.h"
#include "runtime/host/host_backend.h"
#include "runtime/tensor_state.h"

namespace corrloom {
namespace runtime {
namespace {

using Block = std::array<std::uint32_t, 4>;

/// The 64 bits of draw 2 * j + half.
std::uint64_t half_of(const Block& block, std::uint64_t half) {
  const std::size_t word = 2 * static_cast<std::size_t>(half);
  return block[word] | (std::uint64_t{block[word + 1]} << 32);
}

Block block_of(std::uint64_t seed, std::uint64_t j) {
  return philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(j >> 32), 0, 0},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

constexpr double kPi = 3.141592653589793238462643383279502884;
constexpr double kLn2 = 0.693147180559945309417232121458176568;
constexpr double kSqrt2 = 1.414213562373095048801688724209698079;

/// The natural logarithm of x in [2^-53, 1]: x = m * 2^e with m around 1, and log m = 2 atanh((m - 1) / (m + 1)) by its
/// series, whose argument is below 0.172, so that 13 terms reach below 2^-53.
double log_of(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1023} << 52));
  if (mantissa > kSqrt2) {
    mantissa = mantissa / 2;
    ++exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 12; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return exponent * kLn2 + 2 * s * sum;
}

struct CosSin {
  double cos, sin;
};

/// cos and sin of 2 pi u for u in [0, 1): the nearest quarter turn is taken off exactly, the rest is at most pi/4,
/// where 10 terms of Taylor's series reach below 2^-53.
CosSin cos_sin_turns(double u) {
  const int quarter = static_cast<int>(u * 4 + 0.5);
  const double x = (u - quarter * 0.25) * (2 * kPi);
  const double square = x * x;
  double cosine = 1, sine = 1;
  for (int k = 9; k >= 1; --k) {
    cosine = 1 - cosine * square / ((2 * k - 1) * (2 * k));
    sine = 1 - sine * square / ((2 * k) * (2 * k + 1));
  }
  sine = sine * x;
  switch (quarter % 4) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

/// Normal numbers 2j and 2j + 1.
std::array<double, 2> normal_pair(std::uint64_t seed, std::uint64_t j) {
  const Block block = block_of(seed, j);
  const double in_open = static_cast<double>((half_of(block, 0) >> 11) + 1) * 0x1p-53;  // in (0, 1]
  const double turns = static_cast<double>(half_of(block, 1) >> 11) * 0x1p-53;          // in [0, 1)
  const double radius = std::sqrt(-2 * log_of(in_open));
  const CosSin direction = cos_sin_turns(turns);
  return {radius * direction.cos, radius * direction.sin};
}

/// Stores a double in a float dtype, rounded once.
void store(std::byte* elements, std::int64_t k, DType dtype, double value) {
  if (dtype == DType::F32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(elements + 4 * k, &narrow, 4);
  } else {
    write_element(elements + byte_size(dtype) * k, scalar::Value::floating(dtype, value));
  }
}

/// A host tensor whose elements 2j and 2j + 1 are written by `write(elements, j, count of the two that exist)`.
template <class Write>
Tensor fill_pairs(Shape shape, DType dtype, Device device, double ns_of_pair, Write write) {
  Tensor result = Tensor::empty(std::move(shape), dtype);
  auto* const elements = static_cast<std::byte*>(runtime::TensorAccess::address(result));
  const std::int64_t count = result.element_count(), pairs = count / 2 + count % 2;
  for_each_range(pairs, static_cast<double>(pairs) * ns_of_pair, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t j = first; j < last; ++j) write(elements, j, j * 2 + 1 < count ? 2 : 1);
  });
  return result.to(device);
}

void check_float(DType dtype, const char* generator) {
  if (is_float(dtype)) return;
  throw InputError(
      detail::concat(generator, " gives floats; found dtype ", name_of(dtype), ", wanted f16, bf16, f32 or f64"));
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // the golden ratio and sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0], product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t draw(std::uint64_t seed, std::uint64_t k) {
  return half_of(block_of(seed, k / 2), k % 2);
}

double normal(std::uint64_t seed, std::uint64_t k) {
  return normal_pair(seed, k / 2)[k % 2];
}

}  // namespace runtime

Tensor rand(Shape shape, DType dtype, Device device, std::uint64_t seed) {
  runtime::check_float(dtype, "rand");
  const int precision = significand_bits(dtype);
  const double unit = std::ldexp(1.0, -precision);
  return runtime::fill_pairs(std::move(shape), dtype, device, 16, [=](std::byte* elements, std::int64_t j, int count) {
    const auto block = runtime::block_of(seed, static_cast<std::uint64_t>(j));
    for (int half = 0; half < count; ++half) {
      const std::uint64_t bits = runtime::half_of(block, static_cast<std::uint64_t>(half)) >> (64 - precision);
      runtime::store(elements, 2 * j + half, dtype, static_cast<double>(bits) * unit);
    }
  });
}

Tensor randn(Shape shape, DType dtype, Device device, std::uint64_t seed) {
  runtime::check_float(dtype, "randn");
  return runtime::fill_pairs(std::move(shape), dtype, device, 100, [=](std::byte* elements, std::int64_t j, int count) {
    const std::array<double, 2> pair = runtime::normal_pair(seed, static_cast<std::uint64_t>(j));
    for (int half = 0; half < count; ++half)
      runtime::store(elements, 2 * j + half, dtype, pair[static_cast<std::size_t>(half)]);
  });
}

Tensor randint(std::int64_t low, std::int64_t high, Shape shape, DType dtype, Device device, std::uint64_t seed) {
  if (low >= high) throw InputError(detail::concat("randint(", low, ", ", high, ") is empty; wanted low < high"));
  if (dtype == DType::Bool) throw InputError("randint gives numbers; found dtype bool");
  using runtime::cast;
  for (const std::int64_t end : {low, high - 1}) {
    const scalar::Value held = cast(scalar::Value::i64(end), dtype);
    // An integer that a float or a narrower integer does not hold comes back as another one.
    const bool wraps = is_unsigned_integer(dtype) && end < 0;
    if (!wraps && cast(held, DType::I64) == scalar::Value::i64(end)) continue;
    throw InputError(detail::concat("randint(", low, ", ", high, ") does not fit ", name_of(dtype)));
  }
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return runtime::fill_pairs(std::move(shape), dtype, device, 24, [=](std::byte* elements, std::int64_t j, int count) {
    const auto block = runtime::block_of(seed, static_cast<std::uint64_t>(j));
    for (int half = 0; half < count; ++half) {
      __extension__ using Wide = unsigned __int128;
      const auto offset =
          static_cast<std::uint64_t>((Wide{runtime::half_of(block, static_cast<std::uint64_t>(half))} * span) >> 64);
      const auto number = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
      runtime::write_element(elements + byte_size(dtype) * (2 * j + half), cast(scalar::Value::i64(number), dtype));
    }
  });
}

}  // namespace corrloom
