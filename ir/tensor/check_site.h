#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/tensor/graph.h"

namespace corrloom::tensor {

/// A read and one dimension of it whose subscript is checked while the op runs. Sites are ordered by the place of the
/// read in the user's text, so the order is the same before and after passes: when several checks fail, the first site
/// is named, with its lowest offending subscript.
struct CheckSite {
  Span span;           ///< of the read; may be nowhere
  std::string read;    ///< how it is spelled
  std::string tensor;  ///< what it reads, as the user calls it there
  std::size_t dimension = 0;
  std::string extent;  ///< of the tensor there, as a message shows it
  Expr size = {};      ///< the same as the graph has it

  friend bool operator<(const CheckSite& a, const CheckSite& b);
};

/// How the user wrote the read, or its IR text where that is not known.
std::string spelling(const Graph& graph, const scalar::Read& read);

/// An extent as a message shows it: a number, or an expression over symbols.
std::string extent_text(const Graph& graph, const Expr& extent);

/// The site of one dimension of a read. `extent` is what the message shows.
CheckSite check_site(const Graph& graph, const scalar::Read& read, std::size_t dimension, std::string extent);

/// The sites of all reads that are checked at run time, each once, in order.
std::vector<CheckSite> check_sites(const Graph& graph);

/// The rendered error of a check that failed. `value` is the subscript that it found; a message that is made before it
/// is known holds a mark in its place.
std::string fault_message(const CheckSite& site, const std::string& value);

}  // namespace corrloom::tensor
