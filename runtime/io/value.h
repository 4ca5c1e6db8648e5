#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/visibility.h"
#include "runtime/tensor.h"

/// The values of the command line: `x.npy`, `w.npz:key`, `img.png`, `0.5`, `randn[3,1920,1080]`,
/// `randint(0,10)[4,4]:i32@7`.
namespace corrloom::io {

/// The command line alone shows that it is wrong (exit code 2).
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file, with the key of a tensor in it (empty: the only one).
struct FileValue {
  std::string path;
  std::string key;
};
/// A number or `true`, `false`, `inf`, `nan` as written; which dtype it takes depends on the operand.
struct NumberValue {
  std::string text;
};
/// A generated tensor.
struct GeneratedValue {
  enum class Kind : std::uint8_t { Zeros, Ones, Full, Arange, Rand, Randn, Randint, Extremes };
  Kind kind = Kind::Zeros;
  std::vector<std::string>
      numbers;  ///< in parentheses: Full (value), Randint (low, high), Arange (start, step; optional)
  Shape shape;
  std::optional<DType> dtype;
  std::uint64_t seed = 0;
};
using ValueSpec = std::variant<FileValue, NumberValue, GeneratedValue>;

/// Parses a VALUE. Throws UsageError, which shows the text, the place and what was wanted there.
CORRLOOM_API ValueSpec parse_value(std::string_view text);

/// The tensor of a value, on the host. `wanted` is the operand's dtype where the op fixes it: generated values and
/// numbers take it unless they name their own (default: f32, for randint and integer numbers i64). A number gives rank
/// 0. Throws RuntimeError when a file cannot be read, InputError when its contents are wrong or when a number does not
/// suit its dtype.
CORRLOOM_API Tensor make_tensor(const ValueSpec& value, std::optional<DType> wanted = {});

/// A number in a dtype. Throws InputError when the value is not a number or does not suit the dtype.
CORRLOOM_API scalar::Value make_scalar(const ValueSpec& value, DType dtype);

/// A TYPE of the command line, `f32[3,1920,1080]` or `f32[?,1920]`: `?` is a dimension that stays symbolic.
struct TypeSpec {
  DType dtype = DType::F32;
  std::vector<std::optional<std::int64_t>> extents;
};
/// Parses a TYPE. Throws UsageError.
CORRLOOM_API TypeSpec parse_type(std::string_view text);

}  // namespace corrloom::io
