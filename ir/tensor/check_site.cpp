#include "ir/tensor/check_site.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "ir/base/diagnostics.h"

namespace corrloom::tensor {
namespace {

/// `first`, `second`, ... of a subscript.
std::string ordinal(std::size_t position) {
  static constexpr const char* kWords[] = {"first", "second", "third", "fourth", "fifth", "sixth"};
  if (position < std::size(kWords)) return kWords[position];
  return std::to_string(position + 1) + "th";
}

scalar::Names names_in(const Graph& graph) {
  scalar::Names names;
  names.axis = [&](AxisId axis) { return graph.axis_names[static_cast<std::size_t>(axis.index)]; };
  names.symbol = [&](SymbolId symbol) { return graph.symbols[static_cast<std::size_t>(symbol.index)].name; };
  names.tensor = [&](TensorId id) { return graph.op(id).name; };
  names.accumulator = [](int index, bool) { return "acc" + std::to_string(index); };
  return names;
}

/// The read as the user wrote it. Empty where that is not known: in IR text the span is the tensor's name alone.
std::string_view written_text(const scalar::Read& read) {
  const std::string_view written = read.span ? read.span.text() : std::string_view();
  return written.find('[') == std::string_view::npos ? std::string_view() : written;
}

}  // namespace

bool operator<(const CheckSite& a, const CheckSite& b) {
  static const std::string nowhere;
  const auto key = [](const CheckSite& site) {
    const std::string& file = site.span ? site.span.file->name() : nowhere;
    return std::tie(file, site.span.begin, site.span.end, site.dimension, site.extent, site.tensor, site.read);
  };
  return key(a) < key(b);
}

std::string extent_text(const Graph& graph, const Expr& extent) {
  if (const std::optional<std::int64_t> known = scalar::as_i64(extent)) return std::to_string(*known);
  return scalar::to_text(extent, names_in(graph));
}

std::string spelling(const Graph& graph, const scalar::Read& read) {
  if (const std::string_view written = written_text(read); !written.empty()) return std::string(written);
  scalar::Read bare = read;
  bare.check = scalar::ReadCheck::Unchecked;
  return scalar::to_text(scalar::read(std::move(bare), graph.op(read.source).dtype), names_in(graph));
}

CheckSite check_site(const Graph& graph, const scalar::Read& read, std::size_t dimension, std::string extent) {
  const std::string_view written = written_text(read);
  return {read.span,
          spelling(graph, read),
          written.empty() ? graph.op(read.source).name : std::string(written.substr(0, written.find('['))),
          dimension,
          std::move(extent),
          graph.op(read.source).extents[dimension]};
}

std::vector<CheckSite> check_sites(const Graph& graph) {
  std::vector<CheckSite> sites;
  for (const Op& op : graph.ops) {
    for_each_expr(op, [&](const Expr& expr) {
      scalar::for_each_node(expr, [&](const Expr& node) {
        const scalar::Read* read = scalar::as_read(node);
        if (read == nullptr || read->check != scalar::ReadCheck::Runtime) return;
        for (std::size_t k = 0; k < read->index.size(); ++k)
          sites.push_back(check_site(graph, *read, k, extent_text(graph, graph.op(read->source).extents[k])));
      });
    });
  }
  std::sort(sites.begin(), sites.end());
  const auto same = [](const CheckSite& a, const CheckSite& b) { return !(a < b) && !(b < a); };
  sites.erase(std::unique(sites.begin(), sites.end(), same), sites.end());
  return sites;
}

std::string fault_message(const CheckSite& site, const std::string& value) {
  Diagnostic fault{Code::E0256, "`" + site.read + "` reads outside of " + site.tensor, site.span};
  fault.note("the " + ordinal(site.dimension) + " subscript is " + value + ", but " + site.tensor + " has extent " +
             site.extent + " there");
  return render(fault);
}

}  // namespace corrloom::tensor
