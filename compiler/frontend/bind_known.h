#pragma once

#include <cstdint>

#include "compiler/frontend/frontend.h"

namespace corrloom::frontend {

/// An extent of an argument that is not known yet.
inline constexpr std::int64_t kOpenExtent = -1;

/// `bind` for arguments some of whose extents are `kOpenExtent`: the symbols whose values are known. What agrees or not
/// for some values of the others only is not looked at.
std::optional<SymbolValues> bind_known(const OpSignature& signature, const tensor::Graph& graph,
                                       const Arguments& arguments, Diagnostics& diagnostics);

}  // namespace corrloom::frontend
