#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/loop/function.h"

namespace corrloom::loop {

/// A function as text, total and stable: print(parse(print(x))) == print(x).
///
///   func @dot stage flat symbols [] (%A: f32[64], %B: f32[64], %Y: f32[1] out) {
///     %v0: i64 = const 1:i64
///     %v1: i64 = const 0:i64
///     %v2: f32x16 = const 0.0:f32
///     %v3: i64 = const 4:i64
///     %v4: i64 = const 16:i64
///     for %block below %v0 block {
///       %v5: f32x16 = for %k below %v3 carry (%v6 = %v2) {
///         %v7: i64 = mul %k, %v4
///         %v8: i64x16 = ramp %v7 by 1
///         %v9: f32x16 = load %A[%v8]
///         %v10: f32x16 = load %B[%v8]
///         %v11: f32x16 = fma %v9, %v10, %v6
///         yield %v11
///       }
///       ...
///       store %Y[%v1] = %v20
///     }
///   }
std::string print(const Function& function);

/// Reads exactly what `print` writes, plus `//` comments. Reports E04xx and returns nothing on an error.
std::optional<Function> parse(const SourceRef& text, Diagnostics& diagnostics);
std::optional<std::vector<Function>> parse_all(const SourceRef& text, Diagnostics& diagnostics);

}  // namespace corrloom::loop
