#include <algorithm>
#include <cstring>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/machine.h"
#include "runtime/sim/ptx/module.h"

/// From PTX text to a module that can be launched.
namespace corrloom::sim {
namespace {

std::string error_line(int line, const std::string& message) {
  return "ptxas application ptx input, line " + std::to_string(line) + "; error   : " + message + "\n";
}

/// Whether code for `target` runs on `device`. Source: PTX ISA, ".target": code runs on later architectures, `a`
/// targets on exactly theirs, `f` targets within their family.
bool runs_on(const Arch& target, const Arch& device) {
  if (target.accelerated) return target.number == device.number && device.accelerated;
  if (target.family) return target.major() == device.major() && target.number <= device.number;
  return target.number <= device.number;
}

}  // namespace

/// Fills a Module; the only one who may.
struct ModuleLoader {
  const ptx::Module& source;
  Module& module;
  LoadResult& result;
  exec::SymbolTable symbols;

  /// Gives every variable of the module its place in memory.
  bool place_variables() {
    symbols.module = &source;
    symbols.addresses.assign(source.variables.size(), 0);
    for (size_t i = 0; i < source.variables.size(); ++i) {
      const ptx::Variable& variable = source.variables[i];
      if (variable.space == ptx::Space::Shared) continue;
      if (variable.is_extern)
        return fail(LoadStatus::SymbolNotFound, variable.line, "undefined variable '" + variable.name + "'");
      const uint64_t bytes = std::max<uint64_t>(1, variable.bytes);
      const DeviceAddress address = module.memory_->allocate(bytes, variable.alignment);
      if (address == 0) return fail(LoadStatus::OutOfMemory, variable.line, "no memory for '" + variable.name + "'");
      module.owned_.push_back(address);
      symbols.addresses[i] = address;
      if (variable.is_visible || !variable.is_extern) module.globals_[variable.name] = {address, variable.bytes};
    }
    return true;
  }

  bool initialise_variables(exec::Decoder& decoder) {
    for (size_t i = 0; i < source.variables.size(); ++i) {
      const ptx::Variable& variable = source.variables[i];
      if (variable.space == ptx::Space::Shared) continue;
      const uint64_t bytes = std::max<uint64_t>(1, variable.bytes);
      std::byte* host = module.memory_->host_pointer(symbols.addresses[i], bytes);
      std::memset(host, 0, bytes);
      if (!variable.initial.empty())
        std::memcpy(host, variable.initial.data(), std::min<uint64_t>(bytes, variable.initial.size()));
      module.memory_->mark_initialised(symbols.addresses[i], bytes);
      for (const ptx::SymbolReference& reference : variable.references) {
        uint64_t value = uint64_t(reference.addend);
        const auto found = std::ranges::find(source.variables, reference.name, &ptx::Variable::name);
        if (found != source.variables.end()) {
          value += symbols.addresses[size_t(found - source.variables.begin())];
        } else if (source.find_function(reference.name) != nullptr) {
          value += decoder.function_address(reference.name, reference.line);
        } else {
          return fail(LoadStatus::InvalidPtx, reference.line, "unknown symbol '" + reference.name + "'");
        }
        value >>= reference.mask_shift;
        const auto width = uint64_t(std::min(reference.bytes, 8));
        if (reference.byte_offset + width <= bytes) std::memcpy(host + reference.byte_offset, &value, width);
      }
    }
    return true;
  }

  bool fail(LoadStatus status, int line, const std::string& message) {
    result.status = status;
    result.error_log += error_line(line, message);
    return false;
  }

  static std::unique_ptr<Module> make(DeviceMemory& memory) {
    std::unique_ptr<Module> made(new Module());
    made->memory_ = &memory;
    return made;
  }
  static void set_program(Module& module, std::shared_ptr<const exec::Program> program) {
    module.program_ = std::move(program);
  }
};

Module::~Module() {
  for (const DeviceAddress address : owned_) memory_->release(address);
}

std::optional<int> Module::find_kernel(std::string_view name) const {
  const auto it = program_->kernel_names.find(name);
  if (it == program_->kernel_names.end()) return std::nullopt;
  return it->second;
}

int Module::kernel_count() const {
  return int(program_->kernels.size());
}
const KernelInfo& Module::kernel(int index) const {
  return program_->kernels.at(size_t(index)).info;
}

std::optional<GlobalVariable> Module::find_global(std::string_view name) const {
  const auto it = globals_.find(name);
  if (it == globals_.end()) return std::nullopt;
  return it->second;
}

LoadResult load_module(std::string_view text, const Arch& arch, DeviceMemory& memory, const LoadOptions& options) {
  LoadResult result;
  std::vector<ptx::Error> errors;
  const ptx::Module source = ptx::parse(text, errors);
  const auto report = [&] {
    std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    const auto same = [](const auto& a, const auto& b) { return a.line == b.line && a.message == b.message; };
    errors.erase(std::unique(errors.begin(), errors.end(), same), errors.end());
    result.status = LoadStatus::InvalidPtx;
    for (const ptx::Error& error : errors) result.error_log += error_line(error.line, error.message);
    result.error_log += "ptxas fatal   : Ptx assembly aborted due to errors\n";
  };
  if (source.version > kMaxPtxVersion) {
    result.status = LoadStatus::UnsupportedPtxVersion;
    result.error_log = error_line(source.version_line, "unsupported .version " + std::to_string(source.version / 10) +
                                                           "." + std::to_string(source.version % 10) +
                                                           "; the newest is " + std::to_string(kMaxPtxVersion / 10) +
                                                           "." + std::to_string(kMaxPtxVersion % 10));
    return result;
  }
  if (!source.targets.empty()) {
    const std::optional<Arch> target = parse_arch(source.targets.front());
    if (!target) errors.push_back({source.target_line, "unknown .target '" + source.targets.front() + "'"});
    if (target && !runs_on(*target, arch)) {
      result.status = LoadStatus::NoBinaryForGpu;
      result.error_log =
          error_line(source.target_line, "code for " + source.targets.front() + " does not run on " + arch.name());
      return result;
    }
  }
  if (!errors.empty()) {
    report();
    return result;
  }
  std::unique_ptr<Module> module = ModuleLoader::make(memory);
  ModuleLoader loader{source, *module, result, {}};
  if (!loader.place_variables()) return result;

  auto program = std::make_shared<exec::Program>();
  program->ptx_version = source.version;
  uint64_t const_bytes = 0;
  for (const ptx::Variable& variable : source.variables)
    const_bytes += variable.space == ptx::Space::Const ? variable.bytes : 0;
  std::vector<bool> reached(source.functions.size(), false);
  for (size_t i = 0; i < source.functions.size() && errors.size() < 20; ++i) {
    const ptx::Function& function = source.functions[i];
    if (!function.is_entry || !function.has_body) continue;
    exec::KernelProgram kernel;
    exec::Decoder decoder(source, loader.symbols, kernel, arch, text);
    decoder.decode_kernel(function, errors);
    kernel.info.const_bytes = uint32_t(const_bytes);
    const std::optional<Arch> target = parse_arch(source.targets.front());
    kernel.info.target = target->number;
    for (const exec::DecodedFunction& decoded : kernel.functions) {
      for (size_t f = 0; f < source.functions.size(); ++f)
        reached[f] = reached[f] || source.functions[f].name == decoded.name;
    }
    program->kernel_names[function.name] = int(program->kernels.size());
    program->kernels.push_back(std::move(kernel));
  }
  // Functions that no kernel calls must be valid all the same.
  exec::KernelProgram rest;
  exec::Decoder rest_decoder(source, loader.symbols, rest, arch, text);
  for (size_t i = 0; i < source.functions.size() && errors.empty(); ++i) {
    const ptx::Function& function = source.functions[i];
    if (function.is_entry || !function.has_body || reached[i]) continue;
    exec::KernelProgram alone;
    exec::Decoder decoder(source, loader.symbols, alone, arch, text);
    decoder.decode_kernel(function, errors);
  }
  if (!errors.empty()) {
    report();
    return result;
  }
  if (!loader.initialise_variables(rest_decoder)) return result;
  if (options.verbose) {
    for (const exec::KernelProgram& kernel : program->kernels) {
      result.info_log += "ptxas info    : Compiling entry function '" + kernel.info.name + "' for '" + arch.name() +
                         "'\n" + "ptxas info    : Used " + std::to_string(kernel.info.registers) +
                         " registers (estimate), " + std::to_string(kernel.info.static_shared_bytes) + " bytes smem, " +
                         std::to_string(kernel.info.local_bytes) + " bytes lmem, " +
                         std::to_string(kernel.info.const_bytes) + " bytes cmem\n";
    }
  }
  ModuleLoader::set_program(*module, std::move(program));
  result.module = std::move(module);
  return result;
}

}  // namespace corrloom::sim
