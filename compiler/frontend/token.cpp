#include "compiler/frontend/token.h"

namespace corrloom::frontend {

using Kind = TokenKind;

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case Kind::EndOfFile:
      return "the end of the file";
    case Kind::LineEnd:
      return "the end of the line";
    case Kind::Bad:
      return "something unknown";
    case Kind::Name:
      return "a name";
    case Kind::Integer:
      return "an integer";
    case Kind::Decimal:
      return "a decimal";
    case Kind::String:
      return "a string";
    case Kind::ReductionWord:
      return "a reduction";
    case Kind::MinMaxWord:
      return "`min` or `max`";
    case Kind::Import:
      return "`import`";
    case Kind::As:
      return "`as`";
    case Kind::Const:
      return "`const`";
    case Kind::Fn:
      return "`fn`";
    case Kind::Op:
      return "`op`";
    case Kind::Grad:
      return "`grad`";
    case Kind::Wrt:
      return "`wrt`";
    case Kind::Param:
      return "`param`";
    case Kind::Along:
      return "`along`";
    case Kind::Where:
      return "`where`";
    case Kind::With:
      return "`with`";
    case Kind::If:
      return "`if`";
    case Kind::Then:
      return "`then`";
    case Kind::Else:
      return "`else`";
    case Kind::Let:
      return "`let`";
    case Kind::In:
      return "`in`";
    case Kind::Inf:
      return "`inf`";
    case Kind::Nan:
      return "`nan`";
    case Kind::True:
      return "`true`";
    case Kind::False:
      return "`false`";
    case Kind::Pad:
      return "`pad`";
    case Kind::Edge:
      return "`edge`";
    case Kind::Reflect:
      return "`reflect`";
    case Kind::Wrap:
      return "`wrap`";
    case Kind::LeftParen:
      return "`(`";
    case Kind::RightParen:
      return "`)`";
    case Kind::LeftBracket:
      return "`[`";
    case Kind::RightBracket:
      return "`]`";
    case Kind::LeftBrace:
      return "`{`";
    case Kind::RightBrace:
      return "`}`";
    case Kind::Comma:
      return "`,`";
    case Kind::Colon:
      return "`:`";
    case Kind::Assign:
      return "`=`";
    case Kind::Arrow:
      return "`->`";
    case Kind::Dots:
      return "`..`";
    case Kind::Ellipsis:
      return "`...`";
    case Kind::Star:
      return "`*`";
    case Kind::Slash:
      return "`/`";
    case Kind::DoubleSlash:
      return "`//`";
    case Kind::Percent:
      return "`%`";
    case Kind::Plus:
      return "`+`";
    case Kind::Minus:
      return "`-`";
    case Kind::ShiftLeft:
      return "`<<`";
    case Kind::ShiftRight:
      return "`>>`";
    case Kind::Ampersand:
      return "`&`";
    case Kind::Caret:
      return "`^`";
    case Kind::Bar:
      return "`|`";
    case Kind::EqualEqual:
      return "`==`";
    case Kind::BangEqual:
      return "`!=`";
    case Kind::Less:
      return "`<`";
    case Kind::LessEqual:
      return "`<=`";
    case Kind::Greater:
      return "`>`";
    case Kind::GreaterEqual:
      return "`>=`";
    case Kind::AndAnd:
      return "`&&`";
    case Kind::BarBar:
      return "`||`";
    case Kind::Bang:
      return "`!`";
    case Kind::Tilde:
      return "`~`";
  }
  return "something unknown";
}

int precedence(Kind kind) {
  switch (kind) {
    case Kind::BarBar:
      return 1;
    case Kind::AndAnd:
      return 2;
    case Kind::EqualEqual:
    case Kind::BangEqual:
    case Kind::Less:
    case Kind::LessEqual:
    case Kind::Greater:
    case Kind::GreaterEqual:
      return kComparisonPrecedence;
    case Kind::Bar:
      return 4;
    case Kind::Caret:
      return 5;
    case Kind::Ampersand:
      return 6;
    case Kind::ShiftLeft:
    case Kind::ShiftRight:
      return 7;
    case Kind::Plus:
    case Kind::Minus:
      return kSumPrecedence;
    case Kind::Star:
    case Kind::Slash:
    case Kind::DoubleSlash:
    case Kind::Percent:
      return kTermPrecedence;
    default:
      return 0;
  }
}

}  // namespace corrloom::frontend
