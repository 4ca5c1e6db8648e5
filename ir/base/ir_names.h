#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace corrloom {

/// Gives names for IR text that are distinct and that the lexer reads as one token: `Y`, then `Y.1`, `Y.2`. Names that
/// are distinct and well formed come out as they are, so printing what was parsed changes nothing.
class IrNames {
 public:
  /// Names of which the words that a bare name must not be are taken: the text gives them another meaning (literals,
  /// pads).
  static IrNames with_reserved_words();

  /// `wanted`, with characters outside letters, digits, `_` and `.` replaced, and a number added when the name is
  /// taken.
  std::string make_unique(std::string_view wanted);

 private:
  std::unordered_set<std::string> taken_;
};

/// `name` as one token of IR text: characters that a name cannot have become `_`. An empty name becomes `_`.
std::string as_ir_name(std::string_view name);

}  // namespace corrloom
