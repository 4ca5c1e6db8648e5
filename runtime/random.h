#pragma once

#include <array>
#include <cstdint>

#include "runtime/tensor.h"

namespace corrloom {

/// Uniform in [0, 1), a float dtype. Element k has the top p bits of draw k, times 2^-p, with p = 53, 24, 11, 8 for
/// f64, f32, f16, bf16.
CORRLOOM_API Tensor rand(Shape shape, DType dtype = f32, Device device = cpu(), std::uint64_t seed = 0);
/// Normal with mean 0 and deviation 1, a float dtype; computed in f64 and rounded once.
CORRLOOM_API Tensor randn(Shape shape, DType dtype = f32, Device device = cpu(), std::uint64_t seed = 0);
/// Uniform integers in [low, high), any dtype but bool that holds them: low + floor(draw * (high - low) / 2^64). Throws
/// InputError when the range is empty or does not fit.
CORRLOOM_API Tensor randint(std::int64_t low, std::int64_t high, Shape shape, DType dtype = i64, Device device = cpu(),
                            std::uint64_t seed = 0);

namespace runtime {

/// Philox 4x32 with 10 rounds: 128 random bits from a counter and a key.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// 64 random bits that depend on `seed` and `k` alone: words 2 * (k % 2) (low) and 2 * (k % 2) + 1 (high) of the block
/// with counter (k / 2, 0) and the seed as key.
std::uint64_t draw(std::uint64_t seed, std::uint64_t k);

/// Normal number k of a seed. Numbers 2j and 2j + 1 are the cosine and sine branch of Box and Muller's method on draws
/// 2j and 2j + 1; only + - * / and sqrt of doubles are used, which IEEE 754 rounds alike everywhere.
double normal(std::uint64_t seed, std::uint64_t k);

}  // namespace runtime
}  // namespace corrloom
