#include <fmt/format.h>

#include <algorithm>

#include "compiler/api/op_core.h"
#include "compiler/driver/disk_cache.h"
#include "compiler/tools/common/output.h"
#include "compiler/tools/corrloom/commands.h"
#include "compiler/tools/corrloom/program.h"
#include "ir/kernel/target.h"

namespace corrloom::tools {
namespace {

using driver::CacheEntry;
using driver::CacheKey;
using driver::DiskCache;

constexpr const char* kOff = "no code is kept: CORRLOOM_CACHE_DIR is `off`, or there is no home folder\n";

std::string part(const CacheKey& key, const std::string& name) {
  const auto found =
      std::find_if(key.parts.begin(), key.parts.end(), [&](const CacheKey::Part& one) { return one.name == name; });
  return found == key.parts.end() ? "" : found->text;
}

/// `sm_90a` out of a target's text.
std::string target_name(const CacheKey& key) {
  const std::string text = part(key, "target");
  const std::size_t begin = text.find("\nname = ");
  if (begin == std::string::npos) return "?";
  return text.substr(begin + 8, text.find('\n', begin + 8) - begin - 8);
}

std::string age(std::filesystem::file_time_type written) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::filesystem::file_time_type::clock::now() - written).count();
  if (seconds < 120) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return seconds < 172800 ? fmt::format("{} h", seconds / 3600) : fmt::format("{} d", seconds / 86400);
}

/// How many parts of two keys are the same.
int agreement(const CacheKey& a, const CacheKey& b) {
  const std::size_t count = std::min(a.parts.size(), b.parts.size());
  int same = 0;
  for (std::size_t k = 0; k < count; ++k) same += a.parts[k] == b.parts[k] ? 1 : 0;
  return same;
}

/// The first line in which two texts differ, as found in each.
std::string first_difference(const std::string& kept, const std::string& wanted) {
  std::size_t begin_kept = 0, begin_wanted = 0;
  while (begin_kept < kept.size() || begin_wanted < wanted.size()) {
    const auto line = [](const std::string& text, std::size_t begin) {
      return begin >= text.size() ? std::string("(nothing)") : text.substr(begin, text.find('\n', begin) - begin);
    };
    const std::string a = line(kept, begin_kept), b = line(wanted, begin_wanted);
    if (a != b) return fmt::format("    kept:   {}\n    wanted: {}\n", a.substr(0, 160), b.substr(0, 160));
    begin_kept += a.size() + 1;
    begin_wanted += b.size() + 1;
  }
  return "";
}

}  // namespace

ExitCode cache_list_command(const Options&) {
  const std::shared_ptr<const DiskCache> cache = DiskCache::from_environment();
  if (cache == nullptr) {
    write_result(kOff);
    return ExitCode::Done;
  }
  std::uintmax_t total = 0;
  const std::vector<CacheEntry> entries = cache->list();
  std::string text;
  for (const CacheEntry& entry : entries) {
    text +=
        fmt::format("{:<28} {:<8} {:>8} bytes of code {:>8} ago  {}\n", part(entry.key, "op").substr(0, 60),
                    target_name(entry.key), entry.payload_bytes, age(entry.written), entry.file.filename().string());
    total += entry.file_bytes;
  }
  text += fmt::format("{} {}, {} bytes in {}\n", entries.size(), entries.size() == 1 ? "entry" : "entries", total,
                      cache->folder().string());
  write_result(text);
  return ExitCode::Done;
}

ExitCode cache_clear_command(const Options&) {
  const std::shared_ptr<const DiskCache> cache = DiskCache::from_environment();
  if (cache == nullptr) {
    write_result(kOff);
    return ExitCode::Done;
  }
  const std::size_t gone = cache->clear();
  write_result(fmt::format("deleted {} {} in {}\n", gone, gone == 1 ? "file" : "files", cache->folder().string()));
  return ExitCode::Done;
}

ExitCode cache_why_command(const Options& options) {
  const std::string target = options.target.empty() ? "host" : options.target;
  if (target != "host" && !kernel::ptx_target(target))
    throw io::UsageError("--target " + target.substr(0, 80) + ": there are host, " + kernel::known_ptx_targets());
  const std::shared_ptr<const DiskCache> cache = DiskCache::from_environment();
  if (cache == nullptr) {
    write_result(kOff);
    return ExitCode::Done;
  }
  const std::vector<CacheEntry> before = cache->list();
  const Op op = find_op(options);
  const Compiled compiled = op.compile_for(make_types(op.info(), options), target, read_schedule(options));
  const driver::Compiled& result = compiled.state()->result;
  const CacheKey& key = result.cache_key;
  if (result.from_cache) {
    write_result("kept: this code was taken from the cache\n");
    return ExitCode::Done;
  }
  const auto nearest = std::max_element(before.begin(), before.end(), [&](const CacheEntry& a, const CacheEntry& b) {
    return agreement(a.key, key) < agreement(b.key, key);
  });
  if (nearest == before.end()) {
    write_result("not kept: the cache was empty\n");
    return ExitCode::Done;
  }
  std::string text = fmt::format("not kept; the nearest entry ({}, {}) differs in:\n", part(nearest->key, "op"),
                                 target_name(nearest->key));
  for (const CacheKey::Part& wanted : key.parts) {
    const std::string kept = part(nearest->key, wanted.name);
    if (kept != wanted.text) text += "  " + wanted.name + "\n" + first_difference(kept, wanted.text);
  }
  if (nearest->key == key) text += "  nothing: its file is damaged or not this user's alone\n";
  write_result(text);
  return ExitCode::Done;
}

}  // namespace corrloom::tools
