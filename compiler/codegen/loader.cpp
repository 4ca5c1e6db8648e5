#include "compiler/codegen/loader.h"

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "compiler/codegen/llvm_session.h"
#include "ir/base/errors.h"

namespace corrloom::codegen {
namespace {

namespace orc = llvm::orc;

/// One routine that generated code may call.
struct Routine {
  const char* name;
  void* address;
};

template <class Float>
using Unary = Float (*)(Float);
template <class Float>
using Ternary = Float (*)(Float, Float, Float);

extern "C" {
double roundeven(double) noexcept;
float roundevenf(float) noexcept;
}

/// What LLVM calls on processors that lack the instruction, and nothing else: code cannot reach into the process.
std::vector<Routine> routines() {
  const auto address = [](auto function) { return reinterpret_cast<void*>(function); };
  return {{"fma", address(static_cast<Ternary<double>>(std::fma))},
          {"fmaf", address(static_cast<Ternary<float>>(std::fma))},
          {"floor", address(static_cast<Unary<double>>(std::floor))},
          {"floorf", address(static_cast<Unary<float>>(std::floor))},
          {"ceil", address(static_cast<Unary<double>>(std::ceil))},
          {"ceilf", address(static_cast<Unary<float>>(std::ceil))},
          {"trunc", address(static_cast<Unary<double>>(std::trunc))},
          {"truncf", address(static_cast<Unary<float>>(std::trunc))},
          {"roundeven", address(&roundeven)},
          {"roundevenf", address(&roundevenf)},
          {"memcpy", address(&std::memcpy)},
          {"memmove", address(&std::memmove)},
          {"memset", address(&std::memset)}};
}

orc::SymbolMap runtime_symbols(orc::ExecutionSession& session) {
  orc::SymbolMap symbols;
  for (const Routine& routine : routines()) {
    symbols[session.intern(routine.name)] = {orc::ExecutorAddr::fromPtr(routine.address),
                                             llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  }
  return symbols;
}

void check(llvm::Error error) {
  if (error) throw InternalError("cannot load host code: " + llvm::toString(std::move(error)));
}
template <class Result>
Result check(llvm::Expected<Result> result) {
  if (!result) throw InternalError("cannot load host code: " + llvm::toString(result.takeError()));
  return std::move(*result);
}

/// The global functions of an object.
std::vector<std::string> global_functions(llvm::MemoryBufferRef bytes) {
  const auto object = check(llvm::object::ObjectFile::createObjectFile(bytes));
  std::vector<std::string> names;
  for (const llvm::object::SymbolRef& symbol : object->symbols()) {
    const std::uint32_t flags = check(symbol.getFlags());
    const bool is_global = (flags & llvm::object::SymbolRef::SF_Global) != 0;
    const bool is_defined = (flags & llvm::object::SymbolRef::SF_Undefined) == 0;
    const bool is_function = check(symbol.getType()) == llvm::object::SymbolRef::ST_Function;
    if (is_global && is_defined && is_function) names.push_back(check(symbol.getName()).str());
  }
  return names;
}

}  // namespace

struct LoadedObject::Linked {
  std::unique_ptr<orc::ExecutionSession> session;
  std::unique_ptr<orc::ObjectLinkingLayer> layer;
  std::map<std::string, void*, std::less<>> functions;

  ~Linked() {
    // Frees the memory of the code, which the layer still has to see.
    if (session) llvm::consumeError(session->endSession());
  }

  void link(std::string_view object) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), "kernels");
    const std::vector<std::string> names = global_functions(*buffer);
    auto process =
        check(orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()));
    session = std::make_unique<orc::ExecutionSession>(std::move(process));
    // Every error also comes back from the call that met it.
    session->setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
    layer = std::make_unique<orc::ObjectLinkingLayer>(*session);
    orc::JITDylib& routines = session->createBareJITDylib("routines");
    check(routines.define(orc::absoluteSymbols(runtime_symbols(*session))));
    orc::JITDylib& kernels = session->createBareJITDylib("kernels");
    kernels.addToLinkOrder(routines);
    check(layer->add(kernels, std::move(buffer)));
    orc::SymbolLookupSet wanted;
    for (const std::string& name : names) wanted.add(session->intern(name));
    const auto found = check(session->lookup({{&kernels, orc::JITDylibLookupFlags::MatchExportedSymbolsOnly}}, wanted));
    for (const auto& [name, symbol] : found) functions[(*name).str()] = symbol.getAddress().toPtr<void*>();
  }
};

LoadedObject::LoadedObject(std::string_view object) : linked_(std::make_unique<Linked>()) {
  initialise_llvm();
  const std::optional<std::string> fatal = run_guarded([&] { linked_->link(object); });
  if (!fatal) return;
  (void)linked_.release();
  throw InternalError("cannot load host code: " + *fatal);
}
LoadedObject::LoadedObject(LoadedObject&&) noexcept = default;
LoadedObject& LoadedObject::operator=(LoadedObject&&) noexcept = default;
LoadedObject::~LoadedObject() = default;

void* LoadedObject::find(std::string_view symbol) const {
  const auto found = linked_->functions.find(symbol);
  return found == linked_->functions.end() ? nullptr : found->second;
}

HostEntry LoadedObject::entry(std::string_view symbol) const {
  return reinterpret_cast<HostEntry>(find(symbol));
}

}  // namespace corrloom::codegen
