#pragma once

#include <cstddef>
#include <vector>

#include "compiler/frontend/token.h"

namespace corrloom::frontend {

/// What a token is where it stands, as far as its kind leaves that open.
struct TokenRole {
  bool is_prefix = false;       ///< a `-`, `!` or `~` before its operand
  bool is_angle = false;        ///< a `<` or `>` around type parameters
  bool is_pad_word = false;     ///< the `pad` behind a read
  bool ends_list = false;       ///< the `)` behind the indices of a reduction
  bool is_slice_colon = false;  ///< the `:` of a slice, not one between a name and its type or range
  bool is_spaced = false;       ///< a `..` or the `:` of a slice with something longer than one operand beside it
  bool is_tight = false;        ///< an arithmetic operator that stays without spaces, as it was written
  int depth = 0;                ///< parentheses and square brackets open before the token
};

/// The roles of all tokens of a correct file.
std::vector<TokenRole> token_roles(const TokenList& list);

/// Whether canonical text has a space between the tokens `at - 1` and `at` when they stand on one line.
bool has_space_before(const TokenList& list, const std::vector<TokenRole>& roles, std::size_t at);

/// How bad a line end before token `at` would be, or -1 where the grammar or good taste allows none.
int break_cost(const TokenList& list, const std::vector<TokenRole>& roles, std::size_t at);

}  // namespace corrloom::frontend
