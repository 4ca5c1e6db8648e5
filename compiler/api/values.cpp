#include "compiler/api/values.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace corrloom::api {
namespace {

[[noreturn]] void refuse(const scalar::Value& value, const std::string& wanted, const std::string& where) {
  throw InputError(where + " is " + scalar::to_text(value) + " (" + std::string(name_of(value.dtype)) + "); wanted " +
                   wanted);
}

/// Whether an integer of any dtype is the same number in `dtype`.
bool fits(const scalar::Value& value, DType dtype) {
  const bool above_i64 = value.dtype == DType::U64 && value.as_i64() < 0;
  if (above_i64) return dtype == DType::U64;
  const std::int64_t number = value.as_i64();
  if (is_unsigned_integer(dtype) && number < 0) return false;
  return scalar::Value::integer(dtype, number).as_i64() == number;
}

/// The same letter, whatever its case.
bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Levenshtein's distance, with upper and lower case alike.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t k = 0; k < row.size(); ++k) row[k] = k;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (same_letter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

scalar::Value convert(const scalar::Value& value, DType wanted, const std::string& where) {
  if (value.dtype == wanted) return value;
  const std::string name(name_of(wanted));
  if (is_integer(value.dtype) && is_integer(wanted)) {
    if (!fits(value, wanted)) refuse(value, "a number that " + name + " holds", where);
    return scalar::Value::integer(wanted, value.as_i64());
  }
  const bool is_number = is_integer(value.dtype) || is_float(value.dtype);
  if (!is_number || !is_float(wanted)) refuse(value, name, where);
  const scalar::Value rounded = scalar::Value::floating(wanted, value.as_f64());
  const bool is_exact = rounded.as_f64() == value.as_f64();
  const bool overflows = std::isfinite(value.as_f64()) && !std::isfinite(rounded.as_f64());
  if (overflows || (is_integer(value.dtype) && !is_exact)) refuse(value, "a number that " + name + " holds", where);
  return rounded;
}

scalar::Value convert_attribute(const scalar::Value& value, DType wanted, const std::string& where) {
  if (value.dtype == wanted) return value;
  if (value.dtype == DType::I64 && wanted == DType::F64) return convert(value, wanted, where);
  throw InputError(where + " is " + scalar::to_text(value) + ", " +
                   (value.dtype == DType::F64   ? "a "
                    : value.dtype == DType::I64 ? "an "
                                                : "a ") +
                   attribute_kind(value.dtype) + "; wanted " + (wanted == DType::I64 ? "an " : "a ") +
                   attribute_kind(wanted));
}

std::string attribute_kind(DType dtype) {
  return dtype == DType::Bool ? "bool" : dtype == DType::F64 ? "float" : "int";
}

std::string suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  // A name of thousands of characters is a mistake of another kind.
  constexpr std::size_t kLongest = 64;
  const std::string* nearest = nullptr;
  std::size_t least = name.size() <= kLongest ? std::min<std::size_t>(3, name.size() / 2 + 1) : 0;
  for (const std::string& candidate : candidates) {
    if (least == 0 || candidate.size() > kLongest) continue;
    const std::size_t steps = distance(name, candidate);
    if (steps >= least) continue;
    least = steps;
    nearest = &candidate;
  }
  if (nearest != nullptr) return "did you mean `" + *nearest + "`?";
  if (candidates.empty()) return "there are none";
  std::string list;
  constexpr std::size_t kMostShown = 20;
  for (std::size_t k = 0; k < std::min(candidates.size(), kMostShown); ++k)
    list += (k > 0 ? ", `" : "`") + candidates[k] + "`";
  return (candidates.size() == 1 ? "there is " : "there are ") + list + (candidates.size() > kMostShown ? ", ..." : "");
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace corrloom::api
