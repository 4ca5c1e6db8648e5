#include <algorithm>

#include "compiler/api/corrloom.h"
#include "compiler/api/host_loader.h"
#include "compiler/api/op_core.h"
#include "compiler/api/values.h"
#include "compiler/frontend/parser.h"
#include "runtime/host/host_backend.h"
#include "runtime/io/bytes.h"

namespace corrloom {
namespace api {
namespace {

/// The caller's reader first, then the file system.
frontend::ImportResolver resolver(const ImportReader& reader) {
  return [reader, disk = frontend::read_imports_from_disk()](const std::string& path) -> std::optional<SourceRef> {
    if (reader) {
      if (std::optional<std::string> text = reader(path))
        return std::make_shared<const SourceFile>(path, *std::move(text));
    }
    return disk(path);
  };
}

frontend::Program checked(const SourceRef& source, const ImportReader& imports) {
  Diagnostics diagnostics;
  std::optional<frontend::Program> program = frontend::Program::load(source, resolver(imports), diagnostics);
  if (!program) throw CompileError(diagnostics.render());
  return *std::move(program);
}

frontend::Program standard_program() {
  Diagnostics diagnostics;
  std::optional<frontend::Program> program = frontend::Program::load_standard_library(diagnostics);
  CORRLOOM_CHECK(program.has_value(), "the standard library has errors:\n", diagnostics.render());
  return *std::move(program);
}

/// The text of a program's file. Throws RuntimeError when it cannot be read.
SourceRef read_source(const std::string& path) {
  const io::InputFile file(path);
  const std::uint64_t limit = frontend::kMaxSourceBytes;
  // One byte above the limit is enough for the parser to say that the text is too large.
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(file.byte_count(), limit + 1)), '\0');
  file.read_at(0, text.data(), text.size());
  return std::make_shared<const SourceFile>(path, std::move(text));
}

std::vector<std::string> names_of(const std::vector<AttributeInfo>& attributes) {
  std::vector<std::string> names;
  for (const AttributeInfo& attribute : attributes) names.push_back(attribute.name);
  return names;
}

}  // namespace

LibraryState::LibraryState(frontend::Program program)
    : program_(std::move(program)), cache_(driver::DiskCache::from_environment()) {
  install_host_loader();
}

std::shared_ptr<OpCore> LibraryState::op(const std::string& name,
                                         const std::map<std::string, scalar::Value>& attributes) {
  const frontend::OpSignature* signature = program_.find(name);
  if (signature == nullptr) {
    throw InputError("there is no op `" + name.substr(0, 80) + "`; " + suggestion(name, program_.op_names()));
  }
  std::map<std::string, scalar::Value> values;
  for (const frontend::AttributeSignature& attribute : signature->attributes) {
    if (attribute.default_value) values[attribute.name] = *attribute.default_value;
  }
  for (const auto& [given, value] : attributes) values.insert_or_assign(given, value);

  return {shared_from_this(), find(name, {}, values)};
}

const OpCore& LibraryState::instance(const std::string& name, const frontend::Instance& instance,
                                     const std::map<std::string, scalar::Value>& attributes) {
  return *find(name, instance, attributes);
}

/// The op for those attributes, or an instance of it; made when it is asked for first.
OpCore* LibraryState::find(const std::string& name, const frontend::Instance& instance,
                           const std::map<std::string, scalar::Value>& attributes) {
  const std::lock_guard lock(mutex_);
  std::vector<std::unique_ptr<OpCore>>& known = ops_[name];
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& core) {
    return core->attributes() == attributes && core->signature().instance == instance;
  });
  if (found != known.end()) return found->get();
  const bool is_declared = instance == frontend::Instance{};
  known.push_back(std::make_unique<OpCore>(
      program_, name, is_declared ? *program_.find(name) : program_.instantiate(name, instance), attributes, *this));
  return known.back().get();
}

}  // namespace api

std::string version() {
  return CORRLOOM_VERSION;
}

int thread_count() {
  return runtime::host_threads();
}
void set_thread_count(int threads) {
  if (threads < 1 || threads > 1024)
    throw InputError("the number of threads is " + std::to_string(threads) + "; wanted 1 to 1024");
  runtime::set_host_threads(threads);
}

Library Library::load(const std::string& path, const ImportReader& imports) {
  if (path == "std") return Library(std::make_shared<api::LibraryState>(api::standard_program()));
  return Library(std::make_shared<api::LibraryState>(api::checked(api::read_source(path), imports)));
}

Library Library::parse(const std::string& text, const std::string& name, const ImportReader& imports) {
  return Library(
      std::make_shared<api::LibraryState>(api::checked(std::make_shared<const SourceFile>(name, text), imports)));
}

Op Library::operator[](const std::string& name) const {
  return Op(state_->op(name, {}), std::nullopt);
}

std::vector<std::string> Library::op_names() const {
  std::vector<std::string> names;
  for (const frontend::OpSignature& op : state_->program().ops()) names.push_back(op.name);
  return names;
}

Derivative api::derive(const frontend::Program& program, const std::string& op, const std::vector<std::string>& wrt,
                       const GradOptions& options) {
  frontend::DerivativeOptions wishes{wrt, options.name};
  using Mode = frontend::DerivativeOptions::Intermediates;
  wishes.intermediates = options.intermediates == Intermediates::KeepAll        ? Mode::KeepAll
                         : options.intermediates == Intermediates::RecomputeAll ? Mode::RecomputeAll
                                                                                : Mode::ByCost;
  wishes.with_values = options.with_values;
  wishes.keep = options.keep;
  wishes.recompute = options.recompute;
  Diagnostics diagnostics;
  auto derived = program.derivative(op, wishes, diagnostics);
  if (!derived) throw CompileError(diagnostics.render());
  return {std::move(derived->name), std::move(derived->text), std::move(derived->intermediates)};
}

Derivative Library::derivative(const std::string& op, const std::vector<std::string>& wrt,
                               const GradOptions& options) const {
  return api::derive(state_->program(), op, wrt, options);
}

std::vector<Derivative> Library::declared_derivatives() const {
  std::vector<Derivative> all;
  for (frontend::DerivativeText& one : state_->program().declared_derivatives())
    all.push_back({std::move(one.name), std::move(one.text), {}});
  return all;
}

Op Library::grad(const std::string& op, const std::vector<std::string>& wrt, const GradOptions& options) const {
  const Derivative derived = derivative(op, wrt, options);
  return parse(derived.text, "derivative of " + op)[derived.name];
}

Op Library::value_and_grad(const std::string& loss, const std::vector<std::string>& wrt,
                           const GradOptions& options) const {
  GradOptions wishes = options;
  wishes.with_values = true;
  return grad(loss, wrt, wishes);
}

Op Op::with(const Attributes& attributes) const {
  std::map<std::string, scalar::Value> values = core_->attributes();
  for (const auto& [name, given] : attributes) {
    const auto& declared = info().attributes;
    const auto attribute = std::find_if(declared.begin(), declared.end(),
                                        [&, wanted = name](const AttributeInfo& one) { return one.name == wanted; });
    if (attribute == declared.end()) {
      throw InputError("op `" + this->name() + "` has no attribute `" + name.substr(0, 80) + "`; " +
                       api::suggestion(name, api::names_of(declared)) + "\n  note: it is declared at " + info().place +
                       ": " + info().text);
    }
    values.insert_or_assign(
        name, api::convert_attribute(given.value(), attribute->dtype, "op `" + this->name() + "`: attribute " + name));
  }
  return Op(core_->library().op(name(), values), device_);
}

}  // namespace corrloom
