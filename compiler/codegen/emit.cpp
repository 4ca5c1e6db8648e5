#include "compiler/codegen/emit.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/buffer_bytes.h"
#include "compiler/codegen/emit_function.h"
#include "compiler/codegen/host_passes.h"
#include "compiler/codegen/llvm_messages.h"
#include "compiler/codegen/llvm_session.h"
#include "compiler/codegen/target_description.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), fits);
}

void check_sources(std::span<const KernelSource> kernels) {
  std::set<std::string> entries;
  for (const KernelSource& kernel : kernels) {
    CORRLOOM_CHECK(kernel.function != nullptr && kernel.function->stage == loop::Stage::Flat, kernel.entry,
                   " is not at stage flat");
    CORRLOOM_CHECK(is_word(kernel.entry), "\"", kernel.entry, "\" cannot be the symbol of a kernel");
    CORRLOOM_CHECK(entries.insert(kernel.entry).second, "two kernels have the symbol ", kernel.entry);
    const auto alignment = static_cast<unsigned>(kernel.alignment_bytes);
    CORRLOOM_CHECK(kernel.alignment_bytes > 0 && (alignment & (alignment - 1)) == 0, kernel.entry,
                   " states an alignment of ", kernel.alignment_bytes, " bytes");
  }
}

void check_limit(const KernelSource& kernel, std::string_view what, std::int64_t needed, std::int64_t granted,
                 Diagnostics& diagnostics) {
  if (needed <= granted) return;
  diagnostics.report(Code::E0301, {}, "kernel `" + kernel.function->name + "` needs too much " + std::string(what))
      .note("it needs " + std::to_string(needed) + ", the target has " + std::to_string(granted));
}

void check_limits(const KernelSource& kernel, const kernel::Target& target, const TargetTraits& traits,
                  Diagnostics& diagnostics) {
  std::int64_t local = constant_bytes(*kernel.function, loop::Space::Local);
  const std::int64_t shared = constant_bytes(*kernel.function, loop::Space::Shared);
  if (traits.runs_threads) {
    check_limit(kernel, "shared memory (bytes)", shared, target.shared_bytes, diagnostics);
    check_limit(kernel, "room in a block (threads)", thread_count(*kernel.function), target.max_threads_per_block,
                diagnostics);
  } else {
    local += shared;
  }
  check_limit(kernel, "private memory (bytes)", local, traits.private_bytes, diagnostics);
}

/// The arguments of a PTX kernel have more room from version 8.1 on.
void admit_arguments(std::span<const KernelSource> kernels, TargetDescription& description, Diagnostics& diagnostics) {
  constexpr std::int64_t kLittleRoom = 4096, kRoom = 32764, kArgumentBytes = 8;
  constexpr int kVersionWithRoom = 81;
  for (const KernelSource& kernel : kernels) {
    const std::int64_t bytes = static_cast<std::int64_t>(kernel.arguments.size()) * kArgumentBytes;
    check_limit(kernel, "room for arguments (bytes)", bytes, kRoom, diagnostics);
    if (bytes <= kLittleRoom || description.ptx_version >= kVersionWithRoom) continue;
    description.ptx_version = kVersionWithRoom;
    description.features = "+ptx" + std::to_string(kVersionWithRoom);
  }
}

/// What LLVM has under construction. After a fatal error its parts refer to each other in ways that only LLVM's lost
/// frames knew, so they are left alone.
struct Session {
  std::unique_ptr<llvm::OptPassGate> gate;
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<HostPipeline> pipeline;        ///< of the host
  std::unique_ptr<llvm::TargetMachine> machine;  ///< of other targets
  std::unique_ptr<llvm::Module> module;
  Messages messages;

  void abandon() {
    (void)module.release();
    (void)machine.release();
    (void)pipeline.release();
    (void)context.release();
    (void)gate.release();
  }
};

void build_module(Session& session, std::span<const KernelSource> kernels, const TargetDescription& description,
                  const llvm::TargetMachine& machine) {
  collect_messages(*session.context, session.messages);
  session.module = std::make_unique<llvm::Module>("corrloom", *session.context);
  session.module->setTargetTriple(machine.getTargetTriple());
  session.module->setDataLayout(machine.createDataLayout());
  for (const KernelSource& kernel : kernels) {
    const bool is_ptx = description.ptx_version != 0;
    const Entry entry = is_ptx ? open_ptx_entry(*session.module, kernel) : open_host_entry(*session.module, kernel);
    emit_function(*session.module, kernel, description.traits, entry);
  }
  std::string faults;
  llvm::raw_string_ostream out(faults);
  const bool is_broken = llvm::verifyModule(*session.module, &out);
  CORRLOOM_CHECK(!is_broken, "the emitter wrote LLVM IR that LLVM refuses: ", faults);
}

void print_module(const Session& session, const EmitOptions& options, EmittedCode& code) {
  if (!options.want_llvm) return;
  llvm::raw_string_ostream out(code.llvm_ir);
  session.module->print(out, nullptr);
}

bool has_local_buffers(std::span<const KernelSource> kernels) {
  return std::any_of(kernels.begin(), kernels.end(), [](const KernelSource& kernel) {
    const auto& buffers = kernel.function->buffers;
    return std::any_of(buffers.begin(), buffers.end(),
                       [](const loop::Buffer& buffer) { return buffer.space != loop::Space::Global; });
  });
}

EmittedCode compile_host(Session& session, std::span<const KernelSource> kernels, const TargetDescription& description,
                         const EmitOptions& options) {
  EmittedCode code;
  // Accumulators live in phis; only arrays that a kernel makes for itself are left to be broken up.
  const bool breaks_up = has_local_buffers(kernels);
  session.pipeline = take_host_pipeline(description, breaks_up);
  session.gate = make_host_gate();
  session.context->setOptPassGate(*session.gate);
  build_module(session, kernels, description, session.pipeline->machine());
  print_module(session, options, code);
  if (options.want_assembly) {
    const auto copy = llvm::CloneModule(*session.module);
    code.assembly = HostPipeline(description, HostPipeline::Output::Assembly, breaks_up).run(*copy);
  }
  session.messages.spills = 0;  // of the code itself
  code.bytes = session.pipeline->run(*session.module);
  code.spills = session.messages.spills;
  session.module.reset();
  give_back(std::move(session.pipeline));
  return code;
}

EmittedCode compile_ptx(Session& session, std::span<const KernelSource> kernels, const TargetDescription& description,
                        const EmitOptions& options) {
  EmittedCode code;
  session.machine = make_target_machine(description);
  build_module(session, kernels, description, *session.machine);
  print_module(session, options, code);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  const bool has_none = session.machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile,
                                                             /*DisableVerify=*/true);
  CORRLOOM_CHECK(!has_none, "LLVM writes no such file for ", session.machine->getTargetTriple().str());
  passes.run(*session.module);
  code.ptx_version = description.ptx_version;
  code.bytes = {bytes.data(), bytes.size()};
  if (options.want_assembly) code.assembly = code.bytes;
  return code;
}

std::string names_of(std::span<const KernelSource> kernels) {
  std::string names;
  for (const KernelSource& kernel : kernels) names += (names.empty() ? "" : ", ") + kernel.entry;
  return names;
}

}  // namespace

std::optional<TargetDescription> describe(const kernel::Target& target) {
  return target.kind == kernel::TargetKind::Ptx ? describe_ptx(target) : describe_host(target);
}

std::optional<EmittedCode> emit(std::span<const KernelSource> kernels, const kernel::Target& target,
                                const EmitOptions& options, Diagnostics& diagnostics) {
  check_sources(kernels);
  std::optional<TargetDescription> description = describe(target);
  CORRLOOM_CHECK(description.has_value(), "no code can be made for `", target.name, "`");
  for (const KernelSource& kernel : kernels) check_limits(kernel, target, description->traits, diagnostics);
  if (description->ptx_version != 0) admit_arguments(kernels, *description, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;

  initialise_llvm();
  EmittedCode code;
  Session session;
  const auto compile = description->ptx_version != 0 ? compile_ptx : compile_host;
  const std::optional<std::string> fatal =
      run_guarded([&] { code = compile(session, kernels, *description, options); });
  if (fatal) session.abandon();
  CORRLOOM_CHECK(!fatal && session.messages.errors.empty(), "LLVM cannot compile ", names_of(kernels), " for ",
                 target.name, ": ", session.messages.errors, fatal.value_or(""));
  return code;
}

std::string symbol_name(std::string_view kernel) {
  std::string symbol = "loom_";
  for (char c : kernel) symbol += is_word(std::string("_") + c) ? c : '_';
  return symbol;
}

std::vector<kernel::Argument> all_arguments(const loop::Function& function) {
  std::vector<kernel::Argument> arguments;
  int position = 0;
  for (const loop::Buffer& buffer : function.buffers) {
    if (buffer.space != loop::Space::Global) continue;
    arguments.push_back({kernel::Argument::Kind::Buffer, position++});
  }
  for (std::size_t k = 0; k < function.symbols.size(); ++k) {
    arguments.push_back({kernel::Argument::Kind::Scalar, static_cast<int>(k)});
  }
  if (loop::has_checks(function)) arguments.push_back({kernel::Argument::Kind::ErrorSlot});
  return arguments;
}

int thread_count(const loop::Function& function) {
  std::optional<std::int64_t> threads;
  std::vector<const loop::Instr*> constants(function.values.size());
  loop::for_each_block(function.body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      if (std::holds_alternative<loop::Constant>(instr.kind)) {
        constants.at(static_cast<std::size_t>(instr.results[0].index)) = &instr;
      }
      const auto* loop = std::get_if<loop::For>(&instr.kind);
      if (loop == nullptr || loop->binding != loop::Binding::Thread) continue;
      const loop::Instr* extent = constants.at(static_cast<std::size_t>(loop->extent.index));
      CORRLOOM_CHECK(extent != nullptr, function.name, " has a thread loop without a constant extent");
      const std::int64_t count = std::get<loop::Constant>(extent->kind).value.as_i64();
      CORRLOOM_CHECK(count > 0 && !threads, function.name, " has a second thread loop, or one of no threads");
      threads = count;
    }
  });
  return static_cast<int>(std::min<std::int64_t>(threads.value_or(1), 1 << 30));
}

}  // namespace corrloom::codegen
