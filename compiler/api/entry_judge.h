#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "runtime/operands.h"

namespace corrloom::api {

/// Judges the calls of a program with open dimensions as compiling for their shapes would: entry conditions, and
/// whether reads stay inside. Each set of shapes once; safe to ask from many threads.
class EntryJudge {
 public:
  /// `scalars` are the names of the op's scalar parameters, `deciding` those whose values decide what is read.
  EntryJudge(frontend::OpSignature signature, std::shared_ptr<const tensor::Graph> graph,
             std::vector<std::string> scalars, std::set<std::string> deciding);

  /// Throws InputError when the op does not accept the arguments. Deciding scalars have the values it was compiled for.
  void admit(runtime::Operands tensors, std::span<const scalar::Value> scalars) const;

 private:
  void judge(runtime::Operands tensors, std::span<const scalar::Value> scalars) const;

  frontend::OpSignature signature_;
  std::shared_ptr<const tensor::Graph> graph_;
  std::vector<std::string> scalars_;
  std::set<std::string> deciding_;
  mutable std::shared_mutex mutex_;
  mutable std::set<std::vector<std::int64_t>> admitted_;  ///< dtypes, ranks and extents
};

}  // namespace corrloom::api
