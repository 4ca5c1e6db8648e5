#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/sim/driver/assembler.h"
#include "runtime/sim/driver/cuda_types.h"
#include "runtime/sim/machine.h"

namespace corrloom::sim::driver {

class Context;
class Device;

/// The module behind a CUmodule, and behind a library in one context.
class LoadedModule {
 public:
  LoadedModule(std::unique_ptr<Module> module, CUcontext context);

  const std::unique_ptr<Module> module;
  const CUcontext context;
  CUmodule handle = nullptr;
  std::mutex mutex;
  std::map<int, CUfunction> functions;  ///< handles made so far, by kernel index

  /// What is known of a kernel: the module's own knowledge, with the registers an assembler found if one was asked.
  const KernelInfo& info(int index) const { return infos_[size_t(index)]; }
  /// What the assembler said of a kernel; nullptr when none was asked.
  const Assembled* assembled(int index) const;
  /// Takes over what an assembler said, before the module is used.
  void take(std::map<std::string, Assembled> kernels);

 private:
  std::vector<KernelInfo> infos_;
  std::map<std::string, Assembled> assembled_;
};

/// What `cuFuncSetAttribute` and `cuKernelSetAttribute` set.
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared_bytes{0};  ///< 0: not set
  std::atomic<int> shared_carveout{-1};
  std::atomic<int> non_portable_cluster{0};
  std::atomic<int> cluster_policy{0};
  std::atomic<int> cluster[3] = {0, 0, 0};

  /// Takes over what is set in `other`.
  void take(const FunctionSettings& other);
};

/// The kernel behind a CUfunction. Keeps its module alive for work that is queued.
class Function {
 public:
  Function(std::shared_ptr<LoadedModule> module, int index) : module(std::move(module)), index(index) {}

  const std::shared_ptr<LoadedModule> module;
  const int index;
  CUfunction handle = nullptr;
  FunctionSettings settings;

  const KernelInfo& info() const { return module->info(index); }
};

/// A library: PTX text that is loaded into each context that uses it.
class Library {
 public:
  std::string text;
  std::vector<KernelInfo> kernels;
  std::mutex mutex;
  std::map<CUcontext, std::weak_ptr<LoadedModule>> modules;
  std::map<int, CUkernel> handles;  ///< made so far, by kernel index
};

/// The kernel behind a CUkernel.
class Kernel {
 public:
  Kernel(std::shared_ptr<Library> library, int index) : library(std::move(library)), index(index) {}

  const std::shared_ptr<Library> library;
  const int index;

  const KernelInfo& info() const { return library->kernels[size_t(index)]; }
  /// What was set for a device.
  FunctionSettings& settings_on(int device);

 private:
  std::mutex mutex_;
  std::map<int, FunctionSettings> settings_;
};

/// Options of a load: where logs go.
struct JitOptions {
  char* info_buffer = nullptr;
  char* error_buffer = nullptr;
  size_t info_bytes = 0, error_bytes = 0;
  void** info_bytes_out = nullptr;  ///< receives how many bytes of log were written
  void** error_bytes_out = nullptr;
  void** wall_time_out = nullptr;  ///< receives milliseconds as float
  bool verbose = false;
};

/// Reads option arrays; fails with INVALID_VALUE on unknown ones.
JitOptions read_jit_options(unsigned count, const CUjit_option* options, void** values);

/// Parses an image for a device and places its variables there. Anything but PTX text is refused: there is no machine
/// that runs its code. Fails with the driver's code after writing the logs.
std::unique_ptr<Module> parse_image(Device& device, const void* image, const JitOptions& options);
/// Loads an image into a context, with a handle.
std::shared_ptr<LoadedModule> load_image(Context& context, const void* image, const JitOptions& options);
/// PTX texts on their way to one module (cuLink*). What comes out is PTX again: there is no machine code here.
struct LinkState {
  JitOptions options;
  std::string text;
};

/// Makes the handles of a module and its functions invalid; what is queued keeps it.
void forget_module(const std::shared_ptr<LoadedModule>& module);

/// A function handle of the module; made on first use.
CUfunction function_handle(const std::shared_ptr<LoadedModule>& module, int index);

/// The function a handle names. A CUkernel is accepted in its place and means the kernel in the current context. Fails
/// with INVALID_HANDLE.
std::shared_ptr<Function> find_function(CUfunction handle);

/// What cuFuncGetAttribute, cuFuncSetAttribute and cuFuncGetParamInfo do, for a function or a kernel of a library.
CUresult get_attribute(const KernelInfo& info, const FunctionSettings& settings, const Device& device,
                       CUfunction_attribute attribute, int* value);
void set_attribute(const KernelInfo& info, FunctionSettings& settings, const Device& device,
                   CUfunction_attribute attribute, int value);
CUresult get_param_info(const KernelInfo& info, size_t index, size_t* offset, size_t* bytes);

/// The whole file. Fails with FILE_NOT_FOUND.
std::string read_file(const char* path);

/// The library's module in a context, loaded on first use.
std::shared_ptr<LoadedModule> library_module(Library& library, Context& context);

}  // namespace corrloom::sim::driver
