#include "tests/fuzz/coverage.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace corrloom::fuzz {
namespace {

/// What is counted, and what a line holds that shows it: these texts, one behind the other, where a `*` stands between.
struct Mark {
  const char* what;
  std::string_view pattern;
};
constexpr Mark kInGraphs[] = {{"orders by lanes", "reduce [*] lanes("},
                              {"cut reductions", ".parts* = compute"},
                              {"words", "dot("},
                              {"checks at run time", "check runtime"}};
constexpr Mark kInSchedules[] = {{"computes inside others", "  %* at %*{"},
                                 {"stage copies", "  stage %"},
                                 {"panels", "  stage %* / *, * mod *]"},
                                 {"phases", "  stage %* mod *, * / *]"},
                                 {"streaming stores", " root streaming {"},
                                 {"prefetches", "  prefetch %"},
                                 {"blocks", " block"},
                                 {"register tiles", " unroll"},
                                 {"vectors", " vector"}};
constexpr Mark kInLoops[] = {{"masks", " mask %"}, {"shuffles", " = shuffle %"}};
constexpr const char* kSweeps = "sweeps";
constexpr const char* kRolls = "tile rolls";
constexpr const char* kTransposed = "transposed tiles";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool matches(std::string_view line, std::string_view pattern) {
  while (true) {
    const std::size_t end = std::min(pattern.find('*'), pattern.size());
    const std::size_t at = line.find(pattern.substr(0, end));
    if (at == std::string_view::npos) return false;
    if (end == pattern.size()) return true;
    line.remove_prefix(at + end);
    pattern.remove_prefix(end + 1);
  }
}

bool has_line(const std::vector<std::string_view>& lines, std::string_view pattern) {
  return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) { return matches(line, pattern); });
}

/// The words of a line.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return words;
    const std::size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

/// How many loops of an axis that stay loops a schedule has, where it has most.
std::map<std::string, int, std::less<>> scheduled_loops(const std::vector<std::string_view>& schedule) {
  std::map<std::string, int, std::less<>> most, here;
  for (const std::string_view line : schedule) {
    const std::vector<std::string_view> words = words_of(line);
    if (!line.empty() && line.back() == '{') here.clear();
    const bool is_serial = words.size() == 3 && words[1] == "by";
    if (!is_serial) continue;
    int& count = here[std::string(words[0])];
    int& largest = most[std::string(words[0])];
    largest = std::max(largest, ++count);
  }
  return most;
}

/// Whether a loop stands where the schedule has none: inside more loops of its axis than it has there.
bool has_rolled_tiles(const std::vector<std::string_view>& schedule, const std::vector<std::string_view>& loops) {
  const auto most = scheduled_loops(schedule);
  std::vector<std::string_view> open;  // the axes of the loops around, and what else has braces
  for (const std::string_view line : loops) {
    const std::vector<std::string_view> words = words_of(line);
    if (!words.empty() && words.front().substr(0, 1) == "}") open.pop_back();
    if (line.empty() || line.back() != '{') continue;
    const auto found = std::find(words.begin(), words.end(), "for");
    std::string_view axis;
    if (found != words.end() && found + 1 != words.end()) axis = (found + 1)->substr(1, (found + 1)->find('.') - 1);
    open.push_back(axis);
    const auto scheduled = most.find(axis);
    if (!axis.empty() && scheduled != most.end() && std::count(open.begin(), open.end(), axis) > scheduled->second)
      return true;
  }
  return false;
}

/// Whether results of vectors along one axis are stored along another one: as many shuffles as a transpose takes.
bool has_transposes(const std::vector<std::string_view>& loops) {
  constexpr std::ptrdiff_t kOfSmallest = 8;
  return std::count_if(loops.begin(), loops.end(),
                       [](std::string_view line) { return matches(line, " = shuffle %*, %*["); }) >= kOfSmallest;
}

/// Whether a reduction is walked in pieces around loops over results.
bool has_sweeps(const std::vector<std::string_view>& schedule) {
  std::vector<std::string_view> reduced;
  for (const std::string_view line : schedule) {
    const std::vector<std::string_view> words = words_of(line);
    if (!line.empty() && line.back() == '{') reduced.clear();
    if (words.size() < 3 || words[1] != "by") continue;
    const bool is_reduced = words[0].substr(0, 1) == "k";
    if (is_reduced && words.size() == 3) reduced.push_back(words[0]);
    if (!is_reduced && !reduced.empty() && words.size() == 3) return true;
  }
  return false;
}

}  // namespace

Coverage::Coverage() {
  const auto note = [this](const auto& marks) {
    for (const Mark& mark : marks) seen_[mark.what] = 0;
  };
  note(kInGraphs);
  note(kInSchedules);
  note(kInLoops);
  for (const char* what : {kSweeps, kRolls, kTransposed}) seen_[what] = 0;
}

void Coverage::add(const tools::Verdict& verdict) {
  if (verdict.schedule.empty()) return;
  ++schedules_;
  const auto graph = lines_of(verdict.graph), schedule = lines_of(verdict.schedule), loops = lines_of(verdict.loops);
  const auto count = [this](const auto& marks, const std::vector<std::string_view>& lines) {
    for (const Mark& mark : marks) seen_[mark.what] += has_line(lines, mark.pattern) ? 1 : 0;
  };
  count(kInGraphs, graph);
  count(kInSchedules, schedule);
  count(kInLoops, loops);
  seen_[kSweeps] += has_sweeps(schedule) ? 1 : 0;
  seen_[kRolls] += has_rolled_tiles(schedule, loops) ? 1 : 0;
  seen_[kTransposed] += has_transposes(loops) ? 1 : 0;
}

std::string Coverage::to_text() const {
  std::string text = "of " + std::to_string(schedules_) + " schedules:";
  for (const auto& [what, count] : seen_)
    text += (text.back() == ':' ? " " : ", ") + what + " " + std::to_string(count);
  return text;
}

}  // namespace corrloom::fuzz
