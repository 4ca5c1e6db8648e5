#include "compiler/api/entry_judge.h"

#include <mutex>
#include <utility>

#include "compiler/api/op_core.h"
#include "compiler/driver/compile.h"

namespace corrloom::api {
namespace {

/// Most sets of shapes that are remembered; then they are judged anew.
constexpr std::size_t kMostAdmitted = 4096;

std::vector<std::int64_t> key_of(runtime::Operands tensors) {
  std::vector<std::int64_t> key;
  for (const Tensor& tensor : tensors) {
    key.push_back(static_cast<std::int64_t>(tensor.dtype()));
    key.push_back(static_cast<std::int64_t>(tensor.shape().size()));
    key.insert(key.end(), tensor.shape().begin(), tensor.shape().end());
  }
  return key;
}

}  // namespace

EntryJudge::EntryJudge(frontend::OpSignature signature, std::shared_ptr<const tensor::Graph> graph,
                       std::vector<std::string> scalars, std::set<std::string> deciding)
    : signature_(std::move(signature)),
      graph_(std::move(graph)),
      scalars_(std::move(scalars)),
      deciding_(std::move(deciding)) {}

void EntryJudge::admit(runtime::Operands tensors, std::span<const scalar::Value> scalars) const {
  std::vector<std::int64_t> key = key_of(tensors);
  {
    const std::shared_lock lock(mutex_);
    if (admitted_.contains(key)) return;
  }
  judge(tensors, scalars);
  const std::unique_lock lock(mutex_);
  if (admitted_.size() == kMostAdmitted) admitted_.clear();
  admitted_.insert(std::move(key));
}

void EntryJudge::judge(runtime::Operands tensors, std::span<const scalar::Value> scalars) const {
  frontend::Arguments arguments;
  std::size_t next = 0;
  for (const frontend::ParameterSignature& parameter : signature_.parameters) {
    if (!parameter.is_tensor) continue;
    if (next == tensors.size()) break;
    const Tensor& tensor = tensors[next++];
    arguments.tensors[parameter.name] = {tensor.dtype(), tensor.shape()};
  }
  for (std::size_t k = 0; k < scalars_.size() && k < scalars.size(); ++k) arguments.scalars[scalars_[k]] = scalars[k];
  Diagnostics diagnostics;
  std::optional<frontend::SymbolValues> values = frontend::bind(signature_, *graph_, arguments, diagnostics);
  if (!values) throw_diagnostics(diagnostics, signature_.name);
  for (const std::string& scalar : scalars_) {
    if (!deciding_.contains(scalar)) values->erase(scalar);
  }
  if (!driver::check_call(*graph_, *values, diagnostics)) throw_diagnostics(diagnostics, signature_.name);
}

}  // namespace corrloom::api
