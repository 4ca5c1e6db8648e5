#pragma once

#include <cstdint>
#include <string>

namespace corrloom::testing {

/// The text of a random op `f(X: f64[N, M], Z: f64[N]) -> (Y: f64[N, M], V: f64[N])` with a derivative by X and Z, the
/// same on every machine for one seed: locals, reductions of every kind with nested and triangular ranges, reads that
/// are shifted, strided, divided, wrapped, padded in every way or made of data, conditions and functions.
std::string random_op(std::uint64_t seed);

}  // namespace corrloom::testing
