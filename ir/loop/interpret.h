#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/loop/function.h"
#include "ir/tensor/interpret.h"

namespace corrloom::loop {

/// A failed check: its site, and the index that it found.
struct Fault {
  int site;
  std::int64_t index;
  friend auto operator<=>(const Fault&, const Fault&) = default;
};

/// What a function means: runs blocks and threads one after the other. `buffers` holds an array for each buffer, in
/// order, updated in place. Returns the smallest of the faults, if any. Throws InternalError for an access outside a
/// buffer and for an element of a result that is written twice without a read in between.
std::optional<Fault> interpret(const Function& function, std::vector<tensor::Array>& buffers,
                               const std::vector<scalar::Value>& symbols);

}  // namespace corrloom::loop
