#include "tests/fuzz/schedule_mutator.h"

#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

namespace corrloom::fuzz {
namespace {

using tools::Random;
using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Where the whole numbers of a line begin, but for those in names.
std::vector<std::size_t> numbers_in(const std::string& line) {
  std::vector<std::size_t> places;
  for (std::size_t k = 1; k < line.size(); ++k) {
    if (std::isdigit(static_cast<unsigned char>(line[k])) && line[k - 1] == ' ') places.push_back(k);
  }
  return places;
}

std::string other_number(const std::string& digits, Random& random) {
  constexpr const char* kExtreme[] = {"0", "-1", "1000000007", "4611686018427387904", "9223372036854775807"};
  constexpr int kSteps[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};
  const long long number = digits.size() < 10 ? std::stoll(digits) : 1;
  switch (random.between(0, 9)) {
    case 0:
      return random.one_in(4) ? random.pick(kExtreme) : "1";
    case 1:
    case 2:
      return std::to_string(number * 2);
    case 3:
      return std::to_string(number / 2);
    case 4:
      return std::to_string(number * 3);
    default:
      return std::to_string(random.pick(kSteps));
  }
}

void change_number(std::string& line, Random& random) {
  const std::vector<std::size_t> places = numbers_in(line);
  if (places.empty()) return;
  const std::size_t begin = random.pick(places);
  std::size_t end = begin;
  while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end]))) ++end;
  line.replace(begin, end - begin, other_number(line.substr(begin, end - begin), random));
}

/// How a loop is bound, or where its result goes.
void change_words(std::string& line, Random& random) {
  static constexpr const char* kBinds[] = {"", "", " block", " unroll", " vector"};
  if (const std::size_t root = line.find(" root"); root != std::string::npos) {
    const std::size_t streaming = line.find(" streaming");
    if (streaming == std::string::npos)
      line.insert(root + 5, " streaming");
    else
      line.erase(streaming, 10);
  } else if (const std::size_t by = line.find(" by "); by != std::string::npos) {
    std::size_t end = by + 4;
    while (end < line.size() && line[end] != ' ') ++end;
    line = line.substr(0, end) + random.pick(kBinds);
  } else if (const std::size_t at = line.find(" at "); at != std::string::npos && line.find("stage ") < at) {
    line.erase(at, line.find(' ', at + 4) - at);
  } else if (const std::size_t layout = line.find(" ["); layout != std::string::npos) {
    line.insert(layout, " at " + std::to_string(random.between(0, 4)));
  }
}

void change_line(Lines& lines, Random& random) {
  const auto last = static_cast<std::int64_t>(lines.size()) - 1;
  const auto place = static_cast<std::size_t>(random.between(0, last));
  std::string& line = lines[place];
  switch (random.between(0, 9)) {
    case 0:
      if (line.find('{') == std::string::npos && line.find('}') == std::string::npos)
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(place));
      return;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(place), line);
      change_number(lines[place], random);
      return;
    case 2:
    case 3:
      if (place > 0) std::swap(lines[place - 1], line);
      return;
    case 4:
      if (random.one_in(8) && !line.empty())
        line[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(line.size()) - 1))] =
            static_cast<char>(random.between(1, 127));
      return;
    case 5:
    case 6:
      return change_words(line, random);
    default:
      return change_number(line, random);
  }
}

}  // namespace

std::string mutated_schedule(const std::string& text, Random& random) {
  Lines lines = lines_of(text);
  for (std::int64_t changes = random.between(1, 4); changes > 0; --changes) change_line(lines, random);
  return joined(lines);
}

}  // namespace corrloom::fuzz
