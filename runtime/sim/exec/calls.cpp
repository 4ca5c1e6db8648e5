#include "runtime/sim/exec/calls.h"

#include <cstdio>

#include "runtime/sim/exec/access.h"
#include "runtime/sim/exec/lanes.h"

namespace corrloom::sim::exec {
namespace {

constexpr std::string_view kNames[] = {"vprintf", "__assertfail", "malloc", "free"};
constexpr size_t kMaxStringBytes = 64 * 1024;

/// A lane's arguments, as 64-bit values.
class Arguments {
 public:
  Arguments(Warp& warp, const DecodedFunction& function, Frame& frame, int lane)
      : base_(warp.local.get() + size_t(lane) * warp.local_stride + frame.local_base), function_(function) {}
  uint64_t operator[](size_t i) const {
    uint64_t value = 0;
    if (i < function_.params.size())
      std::memcpy(&value, base_ + function_.params[i].offset, std::min<size_t>(8, function_.params[i].bytes));
    return value;
  }
  void set_result(uint64_t value) {
    if (!function_.returns.empty())
      std::memcpy(base_ + function_.returns[0].offset, &value, std::min<size_t>(8, function_.returns[0].bytes));
  }

 private:
  std::byte* base_;
  const DecodedFunction& function_;
};

std::byte* read_at(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes) {
  const Access access{.space = Space::Generic, .bytes = bytes, .reads = true, .alignment = 1};
  return resolve(warp, inst, lane, address, access);
}

std::string read_string(Warp& warp, const Inst& inst, int lane, uint64_t address) {
  std::string text;
  while (text.size() < kMaxStringBytes) {
    const char c = char(*read_at(warp, inst, lane, address + text.size(), 1));
    if (c == '\0') break;
    text.push_back(c);
  }
  return text;
}

/// Formats like printf, taking each argument from a buffer where it stands at its natural alignment. Counts them.
/// Source: CUDA C Programming Guide, "Formatted Output": flags, width, precision, sizes h l ll, types
/// %cdiouxXpeEfgGaAs.
std::string format_device(Warp& warp, const Inst& inst, int lane, const std::string& format, uint64_t buffer,
                          int& arguments) {
  std::string out;
  uint64_t offset = 0;
  const auto take = [&](uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    std::memcpy(&value, read_at(warp, inst, lane, buffer + offset, bytes), bytes);
    offset += bytes;
    ++arguments;
    return value;
  };
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out.push_back('%');
      ++i;
      continue;
    }
    std::string spec = "%";
    size_t at = i + 1;
    int longs = 0, shorts = 0;
    bool bad = false;
    for (; at < format.size(); ++at) {
      const char c = format[at];
      if (c == '*') {
        spec += std::to_string(int32_t(take(4)));
      } else if (std::string_view("-+ #0123456789.").find(c) != std::string_view::npos) {
        spec += c;
      } else if (c == 'l' || c == 'L' || c == 'j' || c == 'z' || c == 't') {
        ++longs;
      } else if (c == 'h') {
        ++shorts;
      } else {
        break;
      }
      if (spec.size() > 40) bad = true;
    }
    if (at >= format.size() || bad) {
      out += format.substr(i, 1);
      continue;
    }
    char text[512];
    const char type = format[at];
    // A width beyond the buffer is cut off.
    switch (type) {
      case 'd':
      case 'i':
        std::snprintf(text, sizeof(text), (spec + "lld").c_str(),
                      (long long)(longs         ? int64_t(take(8))
                                  : shorts == 1 ? int16_t(take(4))
                                  : shorts > 1  ? int8_t(take(4))
                                                : int32_t(take(4))));
        break;
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        std::snprintf(text, sizeof(text), (spec + "ll" + type).c_str(),
                      (unsigned long long)(longs         ? take(8)
                                           : shorts == 1 ? uint16_t(take(4))
                                           : shorts > 1  ? uint8_t(take(4))
                                                         : take(4)));
        break;
      case 'c':
        std::snprintf(text, sizeof(text), (spec + "c").c_str(), int(take(4)));
        break;
      case 'p':
        std::snprintf(text, sizeof(text), (spec + "s").c_str(), hex(take(8)).c_str());
        break;
      case 's': {
        const std::string value = read_string(warp, inst, lane, take(8));
        if (spec == "%") {
          out += value;
          text[0] = '\0';
        } else {
          std::snprintf(text, sizeof(text), (spec + "s").c_str(), value.c_str());
        }
        break;
      }
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        std::snprintf(text, sizeof(text), (spec + type).c_str(), std::bit_cast<double>(take(8)));
        break;
      default:
        text[0] = '\0';
        out += format.substr(i, at - i + 1);
        break;
    }
    out += text;
    i = at;
  }
  return out;
}

void emit(LaunchState& launch, const std::string& text) {
  const std::lock_guard lock(launch.mutex);
  if (launch.options.print) {
    launch.options.print(text);
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

}  // namespace

int find_intrinsic(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return int(i);
  }
  return -1;
}

void run_intrinsic(Warp& warp, const Inst& inst, LaneMask mask, const DecodedFunction& function, Frame& frame) {
  for_lanes(mask, [&](int lane) {
    Arguments arguments(warp, function, frame, lane);
    switch (Intrinsic(function.intrinsic)) {
      case Intrinsic::Vprintf: {
        int count = 0;
        const std::string text =
            format_device(warp, inst, lane, read_string(warp, inst, lane, arguments[0]), arguments[1], count);
        emit(warp.worker->launch, text);
        arguments.set_result(uint64_t(count));  // unlike C
        break;
      }
      case Intrinsic::Assertfail: {
        const std::string message = "assertion '" + read_string(warp, inst, lane, arguments[0]) + "' failed in " +
                                    read_string(warp, inst, lane, arguments[3]) + " at " +
                                    read_string(warp, inst, lane, arguments[1]) + ":" +
                                    std::to_string(uint32_t(arguments[2]));
        warp.fault(LaunchError::Assert, FindingKind::Assert, inst, lane, 0, 0, message);
      }
      case Intrinsic::Malloc:
        arguments.set_result(arguments[0] == 0 ? 0 : warp.worker->launch.memory.allocate(arguments[0]));
        break;
      case Intrinsic::Free:
        if (arguments[0] != 0 && !warp.worker->launch.memory.release(arguments[0])) {
          warp.fault(LaunchError::IllegalAddress, FindingKind::UseAfterFree, inst, lane, arguments[0], 0,
                     "free of " + hex(arguments[0]) + ", which is not the start of an allocation");
        }
        break;
    }
  });
}

}  // namespace corrloom::sim::exec
