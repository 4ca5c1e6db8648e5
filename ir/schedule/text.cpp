#include <string>

#include "ir/base/ir_lexer.h"
#include "ir/schedule/schedule.h"

namespace corrloom::schedule {
namespace {

using Kind = IrToken::Kind;

std::string bind_suffix(Bind bind) {
  switch (bind) {
    case Bind::Serial:
      return "";
    case Bind::Block:
      return " block";
    case Bind::Thread:
      return " thread";
    case Bind::Unroll:
      return " unroll";
    case Bind::Vector:
      return " vector";
  }
  return "";
}

std::string placement_text(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::Root:
      return "root";
    case Placement::Kind::Inline:
      return "inline";
    case Placement::Kind::At:
      return "at %" + placement.consumer + " " + std::to_string(placement.loop);
  }
  return "root";
}

std::string dim_text(const Staging::Dim& dim) {
  switch (dim.kind) {
    case Staging::Dim::Kind::Whole:
      return dim.index;
    case Staging::Dim::Kind::Outer:
      return dim.index + " / " + std::to_string(dim.block);
    case Staging::Dim::Kind::Inner:
      return dim.index + " mod " + std::to_string(dim.block);
  }
  return dim.index;
}

std::string staging_text(const Staging& staging) {
  std::string out = "stage %" + staging.tensor;
  if (staging.loop >= 0) out += " at " + std::to_string(staging.loop);
  if (staging.shared) out += " shared";
  out += " [";
  for (std::size_t k = 0; k < staging.layout.size(); ++k) out += (k == 0 ? "" : ", ") + dim_text(staging.layout[k]);
  out += "]";
  if (staging.pitch != 0) out += " pitch " + std::to_string(staging.pitch);
  if (staging.stages != 1) out += " stages " + std::to_string(staging.stages);
  return out;
}

class Parser {
 public:
  explicit Parser(IrCursor& cursor) : cursor_(cursor) {}

  Schedule run() {
    Schedule schedule;
    cursor_.expect_word("schedule");
    schedule.graph = cursor_.expect(Kind::Global, "the graph's name, `@name`");
    cursor_.expect_word("target");
    schedule.target = cursor_.expect(Kind::Word, "a target's name");
    cursor_.expect("{");
    while (cursor_.peek().kind == Kind::Value) schedule.stages.push_back(stage());
    cursor_.expect("}");
    if (!cursor_.at_end()) cursor_.fail_expected("the end of the schedule");
    return schedule;
  }

 private:
  Stage stage() {
    Stage stage;
    stage.compute = cursor_.next().text;
    stage.placement = placement();
    stage.streaming = cursor_.accept_word("streaming");
    cursor_.expect("{");
    while (cursor_.peek().kind == Kind::Word) {
      if (cursor_.peek().is_word("stage") && cursor_.peek(1).kind == Kind::Value) {
        stage.staging.push_back(staging());
      } else if (cursor_.peek().is_word("prefetch") && cursor_.peek(1).kind == Kind::Value) {
        stage.prefetches.push_back(prefetch());
      } else {
        stage.loops.push_back(loop());
      }
    }
    cursor_.expect("}");
    return stage;
  }

  Placement placement() {
    if (cursor_.accept_word("root")) return {};
    if (cursor_.accept_word("inline")) return {Placement::Kind::Inline, "", -1};
    Placement placement{Placement::Kind::At, "", -1};
    if (!cursor_.accept_word("at")) cursor_.fail_expected("`root`, `inline` or `at`");
    placement.consumer = cursor_.expect(Kind::Value, "the consumer, `%name`");
    placement.loop = static_cast<int>(cursor_.expect_integer("the position of a loop"));
    return placement;
  }

  Loop loop() {
    Loop loop;
    loop.axis = cursor_.next().text;
    cursor_.expect_word("by");
    loop.step = cursor_.expect_integer("the step of the loop");
    for (Bind bind : {Bind::Block, Bind::Thread, Bind::Unroll, Bind::Vector}) {
      if (cursor_.accept_word(bind_suffix(bind).substr(1))) loop.bind = bind;
    }
    return loop;
  }

  Prefetch prefetch() {
    Prefetch prefetch;
    cursor_.expect_word("prefetch");
    prefetch.tensor = cursor_.expect(Kind::Value, "a tensor, `%name`");
    prefetch.axis = cursor_.expect(Kind::Word, "an axis");
    cursor_.expect("+");
    prefetch.distance = cursor_.expect_integer("a distance");
    return prefetch;
  }

  Staging staging() {
    Staging staging;
    cursor_.expect_word("stage");
    staging.tensor = cursor_.expect(Kind::Value, "a tensor, `%name`");
    if (cursor_.accept_word("at")) staging.loop = static_cast<int>(cursor_.expect_integer("the position of a loop"));
    staging.shared = cursor_.accept_word("shared");
    cursor_.expect("[");
    while (!cursor_.failed() && !cursor_.peek().is("]")) {
      staging.layout.push_back(dim());
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect("]");
    if (cursor_.accept_word("pitch")) staging.pitch = cursor_.expect_integer("elements between rows");
    if (cursor_.accept_word("stages"))
      staging.stages = static_cast<int>(cursor_.expect_integer("the number of copies"));
    return staging;
  }

  /// `i + p`, `2 * i - p`, with `/ 32` or `mod 32` behind.
  Staging::Dim dim() {
    Staging::Dim dim;
    bool more = true;
    for (std::string sign; more && !cursor_.failed();) {
      dim.index += sign;
      if (cursor_.peek().kind == Kind::Number) {
        dim.index += std::to_string(cursor_.expect_integer("a factor")) + " * ";
        cursor_.expect("*");
      }
      dim.index += cursor_.expect(Kind::Word, "an axis");
      sign = cursor_.peek().is("+") ? " + " : " - ";
      more = cursor_.accept("+") || cursor_.accept("-");
    }
    const bool outer = cursor_.accept("/");
    if (!outer && !cursor_.accept_word("mod")) return dim;
    dim.kind = outer ? Staging::Dim::Kind::Outer : Staging::Dim::Kind::Inner;
    dim.block = cursor_.expect_integer("the elements of a block");
    return dim;
  }

  IrCursor& cursor_;
};

}  // namespace

std::string print(const Schedule& schedule) {
  std::string out = "schedule @" + schedule.graph + " target " + schedule.target + " {\n";
  for (const Stage& stage : schedule.stages) {
    out +=
        "  %" + stage.compute + " " + placement_text(stage.placement) + (stage.streaming ? " streaming {\n" : " {\n");
    for (const Loop& loop : stage.loops)
      out += "    " + loop.axis + " by " + std::to_string(loop.step) + bind_suffix(loop.bind) + "\n";
    for (const Staging& staging : stage.staging) out += "    " + staging_text(staging) + "\n";
    for (const Prefetch& prefetch : stage.prefetches)
      out +=
          "    prefetch %" + prefetch.tensor + " " + prefetch.axis + " + " + std::to_string(prefetch.distance) + "\n";
    out += "  }\n";
  }
  return out + "}\n";
}

std::optional<Schedule> parse(const SourceRef& text, Diagnostics& diagnostics) {
  IrCursor cursor(text, diagnostics);
  Schedule schedule = Parser(cursor).run();
  if (cursor.failed()) return std::nullopt;
  return schedule;
}

}  // namespace corrloom::schedule
