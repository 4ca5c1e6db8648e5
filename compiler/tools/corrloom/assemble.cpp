#include "compiler/tools/corrloom/assemble.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "ir/base/errors.h"
#include "runtime/io/bytes.h"

extern char** environ;

namespace corrloom::tools {
namespace {

constexpr std::uint64_t kMaxCodeBytes = std::uint64_t{1} << 30;

/// A folder of our own, which goes with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "corrloom-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw RuntimeError("mkdtemp(" + pattern + "): " + std::strerror(errno));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& text) {
  io::OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

std::string read_file(const std::string& path) {
  const std::vector<unsigned char> bytes = io::InputFile(path).read_all(kMaxCodeBytes);
  return {bytes.begin(), bytes.end()};
}

/// Runs a program, its messages into a file, and gives its exit status.
int run_program(std::vector<std::string> words, const std::string& messages) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  const int refused = posix_spawnp(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (refused == ENOENT) throw RuntimeError(words[0] + " is not on PATH; it comes with the CUDA toolkit");
  if (refused != 0) throw RuntimeError("posix_spawnp(" + words[0] + "): " + std::strerror(refused));
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) throw RuntimeError("waitpid(" + words[0] + "): " + std::strerror(errno));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string assemble_ptx(const std::string& ptx, const std::string& architecture) {
  const TemporaryFolder folder;
  const std::string source = folder.file("op.ptx"), code = folder.file("op.cubin"), messages = folder.file("messages");
  write_file(source, ptx);
  const int status = run_program({"ptxas", "-arch=" + architecture, "-o", code, source}, messages);
  if (status != 0) {
    const std::string said = std::filesystem::exists(messages) ? read_file(messages) : "";
    throw RuntimeError("ptxas -arch=" + architecture + " ended with status " + std::to_string(status) +
                       (said.empty() ? "" : ":\n" + said));
  }
  return read_file(code);
}

}  // namespace corrloom::tools
