#include <new>
#include <span>
#include <string_view>
#include <system_error>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// The exported symbols: each wraps an implementation so that no exception leaves the library, and cuGetProcAddress,
/// which knows them all.
namespace corrloom::sim::driver {
namespace {

enum class Needs { Nothing, Initialisation };
enum class DefaultStream { Legacy, PerThread };

/// Makes stream 0 the calling thread's own for the time of a call.
class PerThreadDefault {
 public:
  explicit PerThreadDefault(bool value) : previous_(this_thread().per_thread_default) {
    this_thread().per_thread_default = value;
  }
  ~PerThreadDefault() { this_thread().per_thread_default = previous_; }
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

 private:
  bool previous_;
};

template <Needs needs, DefaultStream stream, class Call>
CUresult enter(Call call) noexcept {
  try {
    if constexpr (needs == Needs::Initialisation) {
      if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
      // A host function runs on the thread of its stream, which a wait would block for ever.
      if (this_thread().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    }
    const PerThreadDefault guard(stream == DefaultStream::PerThread);
    return call();
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace

#define DEFINE(symbol, needs, stream, implementation, ...)                                        \
  extern "C" __attribute__((visibility("default"))) CUresult symbol(CU_PARAMETERS(__VA_ARGS__)) { \
    return enter<needs, stream>([&] { return implementation(CU_ARGUMENTS(__VA_ARGS__)); });       \
  }
#define GLOBAL(base, suffix, version, implementation, ...) \
  DEFINE(base##suffix, Needs::Nothing, DefaultStream::Legacy, implementation, __VA_ARGS__)
#define CALL(base, suffix, version, implementation, ...) \
  DEFINE(base##suffix, Needs::Initialisation, DefaultStream::Legacy, implementation, __VA_ARGS__)
#define STREAM_CALL(base, suffix, version, implementation, ...)                                   \
  DEFINE(base##suffix, Needs::Initialisation, DefaultStream::Legacy, implementation, __VA_ARGS__) \
  DEFINE(base##suffix##_ptsz, Needs::Initialisation, DefaultStream::PerThread, implementation, __VA_ARGS__)
#define COPY_CALL(base, suffix, version, implementation, ...)                                     \
  DEFINE(base##suffix, Needs::Initialisation, DefaultStream::Legacy, implementation, __VA_ARGS__) \
  DEFINE(base##suffix##_ptds, Needs::Initialisation, DefaultStream::PerThread, implementation, __VA_ARGS__)
#define ALIAS(symbol, target) extern "C" __attribute__((visibility("default"), alias(#target))) decltype(target) symbol;
#include "runtime/sim/driver/entry_points.def"
#undef GLOBAL
#undef CALL
#undef STREAM_CALL
#undef COPY_CALL
#undef ALIAS
#undef DEFINE

// Functions that are not here take any arguments: the caller cleans up.
#define UNSUPPORTED(symbol, base)                                                 \
  extern "C" __attribute__((visibility("default"))) CUresult symbol() {           \
    return initialised() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED; \
  }
#include "runtime/sim/driver/unsupported.def"
#undef UNSUPPORTED

namespace {

/// A symbol as cuGetProcAddress sees it. `per_thread` is its `_ptsz` or `_ptds` form, if it has one.
struct Symbol {
  std::string_view base, name;
  int version;
  void* address;
  void* per_thread;
  std::string_view per_thread_name;
};

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

/// Every symbol, newer versions of a function after older ones.
std::span<const Symbol> symbols() {
#define GLOBAL(base, suffix, version, ...) {#base, #base #suffix, version, address_of(base##suffix), nullptr, ""},
#define CALL(base, suffix, version, ...) {#base, #base #suffix, version, address_of(base##suffix), nullptr, ""},
#define STREAM_CALL(base, suffix, version, ...) \
  {#base, #base #suffix, version, address_of(base##suffix), address_of(base##suffix##_ptsz), #base #suffix "_ptsz"},
#define COPY_CALL(base, suffix, version, ...) \
  {#base, #base #suffix, version, address_of(base##suffix), address_of(base##suffix##_ptds), #base #suffix "_ptds"},
#define ALIAS(symbol, target)
  static const Symbol kSymbols[] = {
#include "runtime/sim/driver/entry_points.def"
#define UNSUPPORTED(symbol, base) {#base, #symbol, 0, address_of(symbol), nullptr, ""},
#include "runtime/sim/driver/unsupported.def"
#undef UNSUPPORTED
  };
#undef GLOBAL
#undef CALL
#undef STREAM_CALL
#undef COPY_CALL
#undef ALIAS
  return kSymbols;
}

}  // namespace

CUresult get_proc_address_v2(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  require(name != nullptr && function != nullptr && flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  require(version <= kDriverVersion);
  *function = nullptr;
  bool known = false;
  for (const Symbol& symbol : symbols()) {
    const bool per_thread = symbol.per_thread != nullptr && flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    // The name of one version is taken at its word.
    if (symbol.name == name && symbol.name != symbol.base) *function = symbol.address;
    if (symbol.per_thread_name == name && symbol.per_thread != nullptr) *function = symbol.per_thread;
    if (symbol.base != name) continue;
    known = true;
    if (symbol.version <= version) *function = per_thread ? symbol.per_thread : symbol.address;
  }
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known              ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

CUresult get_proc_address(const char* name, void** function, int version, cuuint64_t flags) {
  return get_proc_address_v2(name, function, version, flags, nullptr);
}

}  // namespace corrloom::sim::driver
