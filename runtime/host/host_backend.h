#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace corrloom::runtime {

/// The entry of a host kernel: runs blocks `first` to `last - 1`.
using HostEntry = void (*)(void* const* arguments, std::int64_t first, std::int64_t last);

/// Host code in memory.
class HostCode {
 public:
  virtual ~HostCode() = default;
  /// The address of a symbol, or null.
  virtual void* find(const std::string& symbol) const = 0;
};

/// Turns the bytes of a relocatable object into callable code; throws RuntimeError or InternalError. The layer that
/// knows LLVM provides it.
using HostLoader = std::function<std::unique_ptr<HostCode>(const std::string& object)>;

/// Sets how this process loads host objects. Call it before the first host program is loaded; a later call holds for
/// later loads.
void set_host_loader(HostLoader loader);

/// How many threads host kernels spread over: CORRLOOM_NUM_THREADS, else the processors this process may use.
int host_threads();
/// Changes it (1 to 1024) for launches from now on. Results have the same bits for every number.
void set_host_threads(int threads);

/// A host device with memory of its own; `backend_of(cpu())` is the process's one.
BackendRef make_host_backend();

/// Runs `body(first, last)` over parts of [0, count) on the host's threads when `work_ns` of estimated time is worth
/// it, else at once.
void for_each_range(std::int64_t count, double work_ns, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace corrloom::runtime
