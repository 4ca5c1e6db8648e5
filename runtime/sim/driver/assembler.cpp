#include "runtime/sim/driver/assembler.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace corrloom::sim::driver {
namespace {

/// A file that goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) {
    const char* folder = std::getenv("TMPDIR");
    name_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/corrloom-sim-XXXXXX";
    const int file = ::mkstemp(name_.data());
    if (file < 0) {
      name_.clear();
      return;
    }
    complete_ = ::write(file, text.data(), text.size()) == ssize_t(text.size());
    ::close(file);
  }
  ~TemporaryFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  bool complete() const { return complete_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  bool complete_ = false;
};

/// `text` as one word of the shell.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// The number that stands in front of `words` in a line; 0 when they are not there.
uint32_t number_before(std::string_view line, std::string_view words) {
  size_t at = line.find(words);
  if (at == std::string_view::npos) return 0;
  uint32_t number = 0;
  for (uint32_t scale = 1; at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9' && scale < 1000000000; scale *= 10) {
    number += uint32_t(line[--at] - '0') * scale;
  }
  return number;
}

}  // namespace

std::map<std::string, Assembled> read_assembler_log(std::string_view log) {
  std::map<std::string, Assembled> kernels;
  Assembled* current = nullptr;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    constexpr std::string_view kEntry = "Compiling entry function '";
    if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view name = line.substr(at + kEntry.size());
      current = &kernels[std::string(name.substr(0, name.find('\'')))];
    }
    if (current == nullptr) continue;
    if (line.find(" bytes spill stores") != std::string_view::npos) {
      current->spill_store_bytes = number_before(line, " bytes spill stores");
      current->spill_load_bytes = number_before(line, " bytes spill loads");
    }
    if (const uint32_t registers = number_before(line, " registers"); registers != 0) {
      current->registers = registers;
      current = nullptr;  // the last line about a kernel
    }
  }
  return kernels;
}

std::map<std::string, Assembled> assemble(const std::string& ptxas, const Arch& arch, std::string_view text) {
  const TemporaryFile file(text);
  if (!file.complete()) return {};
  const std::string command =
      quoted(ptxas) + " -v -arch=" + arch.name() + " -o /dev/null " + quoted(file.name()) + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  if (output == nullptr) return {};
  std::string log;
  char buffer[4096];
  while (const size_t bytes = std::fread(buffer, 1, sizeof(buffer), output.get())) log.append(buffer, bytes);
  return read_assembler_log(log);
}

}  // namespace corrloom::sim::driver
