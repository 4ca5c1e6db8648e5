#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/kernel/error_slot.h"
#include "ir/kernel/kernel.h"
#include "ir/tensor/graph.h"
#include "ir/tensor/interpret.h"

namespace corrloom::testing {

/// The elements of an array as they lie in memory.
std::vector<std::byte> to_bytes(const tensor::Array& array);

/// Memory of every buffer of a program before its first kernel: inputs, constants, and a pattern where nothing was
/// written.
std::vector<std::vector<std::byte>> memory_of(const kernel::CompiledProgram& program,
                                              const std::vector<tensor::Array>& inputs);

/// The memory of the results, in order.
std::vector<std::vector<std::byte>> outputs_of(const kernel::CompiledProgram& program,
                                               std::vector<std::vector<std::byte>> memory);

/// Fails the test unless the bytes are the array's elements; any NaN equals any other.
void expect_bytes(const tensor::Array& want, const std::vector<std::byte>& got, const std::string& what);

/// The graph of an IR text; fails the test when it is none.
tensor::Graph parsed_graph(const std::string& text);
/// The same, with reads that stand nowhere, as those of a random graph do.
tensor::Graph parsed_graph_without_places(const std::string& text);

/// What running a program left: its results and the word of the error slot.
struct ProgramRun {
  std::vector<std::vector<std::byte>> outputs;
  std::uint64_t error_word = kernel::kNoFault;
};

/// Fails the test unless the program did what the interpreter does on its final graph: the same results bit by bit, or
/// the same failed check.
void expect_meaning(const tensor::Graph& final_graph, const kernel::CompiledProgram& program,
                    const std::vector<tensor::Array>& inputs, const std::vector<scalar::Value>& symbols,
                    const ProgramRun& run, const std::string& what);

}  // namespace corrloom::testing
