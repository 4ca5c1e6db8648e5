#include "compiler/tools/check/shrink.h"

#include <set>

namespace corrloom::tools {
namespace {

constexpr int kMostQuestions = 300;

class Shrinker {
 public:
  Shrinker(Question question, const StillFails& still_fails) : best_(std::move(question)), still_fails_(still_fails) {}

  Question run() {
    while (asked_ < kMostQuestions && (shrink_dimensions() || simplify_elements())) {
    }
    return std::move(best_);
  }

 private:
  /// Takes the question over if it still fails.
  bool take(const Question& question) {
    if (asked_++ >= kMostQuestions || !still_fails_(question)) return false;
    best_ = question;
    return true;
  }

  bool shrink_dimensions() {
    for (const auto& [name, extent] : std::map(best_.dimensions)) {
      for (const std::int64_t smaller : std::set<std::int64_t>{0, 1, 2, 3, extent / 2, extent - 1}) {
        if (smaller < 0 || smaller >= extent) continue;
        std::map<std::string, std::int64_t> dimensions = best_.dimensions;
        dimensions[name] = smaller;
        const std::optional<Question> question = with_dimensions(best_, std::move(dimensions));
        if (question && take(*question)) return true;
      }
    }
    return false;
  }

  /// Plainer kinds of elements, plainest first.
  bool simplify_elements() {
    using Kind = io::GeneratedValue::Kind;
    for (std::size_t k = 0; k < best_.tensors.size(); ++k) {
      for (const Kind kind : {Kind::Zeros, Kind::Ones, Kind::Arange}) {
        if (best_.tensors[k].kind == kind) break;
        if (kind == Kind::Arange && best_.tensors[k].dtype == DType::Bool) continue;
        Question question = best_;
        question.tensors[k].kind = kind;
        question.tensors[k].numbers.clear();
        if (take(question)) return true;
      }
    }
    return false;
  }

  Question best_;
  const StillFails& still_fails_;
  int asked_ = 0;
};

}  // namespace

Question shrink(Question question, const StillFails& still_fails) {
  return Shrinker(std::move(question), still_fails).run();
}

}  // namespace corrloom::tools
