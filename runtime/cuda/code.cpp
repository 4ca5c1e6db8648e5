#include "runtime/cuda/code.h"

#include <array>
#include <limits>

namespace corrloom::runtime::gpu {
namespace {

/// Dynamic shared memory that a block may use without asking.
constexpr std::int64_t kSharedWithoutAsking = std::int64_t{48} << 10;

std::string label_of(const kernel::CompiledProgram& program, const kernel::Kernel& kernel) {
  return "op `" + program.op + "`" + (kernel.place.empty() ? "" : " (" + kernel.place + ")") + ", kernel `" +
         kernel.name + "`";
}

/// What the driver's compiler said, each line indented; empty when it said nothing.
std::string log_text(const char* log) {
  std::string text;
  for (const char* c = log; *c != '\0'; ++c) {
    if (text.empty() || text.back() == '\n') text += "  ";
    text += *c;
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

LoadedCudaCode::LoadedCudaCode(const Context& context, const kernel::CompiledProgram& program) : context_(context) {
  CORRLOOM_CHECK(program.target.kind == kernel::TargetKind::Ptx, "op ", program.op, " is compiled for ",
                 program.target.name, ", not for a CUDA device");
  const ContextScope scope(context_);
  load_module(program);
  try {
    for (const kernel::Kernel& kernel : program.kernels) entries_.push_back(find_entry(program, kernel));
  } catch (...) {
    (void)context_.api().module_unload(module_);
    throw;
  }
}

LoadedCudaCode::~LoadedCudaCode() {
  if (!context_.is_usable()) return;
  try {
    const ContextScope scope(context_);
    (void)context_.api().module_unload(module_);
  } catch (const RuntimeError&) {
    // The module stays until the process ends.
  }
}

void LoadedCudaCode::load_module(const kernel::CompiledProgram& program) {
  std::array<char, 8192> error_log{};
  std::array<int, 2> options = {kJitErrorLog, kJitErrorLogBytes};
  std::array<void*, 2> values = {error_log.data(), reinterpret_cast<void*>(error_log.size())};
  const Result result =
      context_.api().module_load(&module_, program.code.c_str(), options.size(), options.data(), values.data());
  if (result == kSuccess) return;
  error_log.back() = '\0';
  const std::string call = detail::concat("cuModuleLoadDataEx(op `", program.op, "`, ", program.code.size(),
                                          " bytes of PTX for ", program.target.name, ")");
  if (result == kInvalidPtx) {
    throw InternalError(call + " on " + context_.device().name() + ": " + context_.driver().describe(result) +
                        log_text(error_log.data()));
  }
  context_.fail(result, call, log_text(error_log.data()));
}

LoadedCudaCode::Entry LoadedCudaCode::find_entry(const kernel::CompiledProgram& program,
                                                 const kernel::Kernel& kernel) const {
  Entry entry{nullptr, static_cast<unsigned>(kernel.threads), static_cast<unsigned>(kernel.cluster), 0,
              std::make_shared<const std::string>(label_of(program, kernel))};
  context_.check(context_.api().module_get_function(&entry.function, module_, kernel.name.c_str()),
                 "cuModuleGetFunction", kernel.name);
  CORRLOOM_CHECK(kernel.threads >= 1 && kernel.cluster >= 1 && kernel.shared_bytes >= 0, *entry.label,
                 " has a malformed launch");
  const std::int64_t most = context_.attribute(kAttributeMaxSharedOptIn);
  if (kernel.shared_bytes > kSharedWithoutAsking) {
    if (kernel.shared_bytes > most) {
      throw RuntimeError(detail::concat(*entry.label, " needs ", kernel.shared_bytes,
                                        " bytes of shared memory a block; ", context_.device().name(), " has ", most));
    }
    context_.check(context_.api().function_set_attribute(entry.function, kFunctionMaxDynamicShared,
                                                         static_cast<int>(kernel.shared_bytes)),
                   "cuFuncSetAttribute", kernel.name, "MAX_DYNAMIC_SHARED_SIZE_BYTES", kernel.shared_bytes);
  }
  entry.shared_bytes = static_cast<unsigned>(kernel.shared_bytes);
  return entry;
}

}  // namespace corrloom::runtime::gpu
