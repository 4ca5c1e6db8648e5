#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/dtype.h"
#include "ir/base/source.h"
#include "ir/tensor/graph.h"

/// From `.loom` text to symbolic tensor graphs. Start reading at `Program`.
namespace corrloom::frontend {

struct Library;

/// `stride: int = 1`. Integers are i64 values, floats f64, bools bool.
struct AttributeSignature {
  std::string name;
  DType dtype = DType::I64;                    ///< I64 for `int`, F64 for `float`, Bool for `bool`
  std::optional<scalar::Value> default_value;  ///< of `dtype`; without one the attribute must be given
  Span span;
};

/// `T: float`
struct TypeParameterSignature {
  std::string name;
  std::string type_class;  ///< `float`, `integer`, `number` or `any`
};

/// What the type parameters and packs of an op stand for in one call.
struct Instance {
  std::map<std::string, DType> types;
  std::map<std::string, std::size_t> ranks;  ///< of packs: `...D` stands for that many dimensions

  bool operator==(const Instance&) const = default;
};

/// One argument: a tensor with one text a dimension, or a scalar without any.
struct ParameterSignature {
  std::string name;
  bool is_tensor = false;
  DType dtype = DType::F32;
  std::string type_parameter;     ///< when its type is one: `dtype` is only the first of its class then
  std::vector<std::string> dims;  ///< as written: `H`, `C // groups`, `3`, `...D`; in an instance `D.0`, `D.1`
  bool is_owned = false;          ///< a `param`, which a module owns
  std::optional<scalar::Value> default_value;  ///< of a scalar
  Span span;
  std::optional<scalar::Value> initial_value = {};  ///< of a `param`: what its elements start from, `= 0`
};

struct ResultSignature {
  std::string name;
  DType dtype = DType::F32;
  std::string type_parameter;  ///< as of a parameter
  std::vector<std::string> dims;
  std::string storage_of;  ///< the input whose storage it takes over, or empty
  Span span;
};

/// What a caller sees of an op.
struct OpSignature {
  std::string name;
  std::vector<TypeParameterSignature> type_parameters;
  std::vector<AttributeSignature> attributes;
  std::vector<ParameterSignature> parameters;  ///< tensors and scalars, in the order of the call
  std::vector<ResultSignature> results;
  std::string text;  ///< from `op` to the last result, as written
  Span span;
  Instance instance;  ///< what it is an instance for; nothing for a signature as declared

  const ParameterSignature* parameter(const std::string& name) const;
  /// True for a signature with type parameters or packs, which has instances.
  bool is_generic() const;
};

/// A derivative as asked for.
struct DerivativeOptions {
  std::vector<std::string> wrt;  ///< float arguments
  std::string name;              ///< of the derivative; empty: `d_OP`, or `OP_and_grad` with values
  /// The op's own results come first, and the derivative is that of the first of them, a float of rank 0.
  bool with_values = false;
  /// Which intermediates of the op are kept and which computed again; names win over the mode, which is by cost.
  enum class Intermediates { ByCost, KeepAll, RecomputeAll };
  Intermediates intermediates = Intermediates::ByCost;
  std::vector<std::string> keep, recompute;
};

/// A derivative as index notation: the canonical text of a file that stands by itself.
struct DerivativeText {
  std::string name;
  std::string text;
  /// For each intermediate of the op, a line that says what becomes of it and why.
  std::vector<std::string> intermediates;
};

/// What `bind` needs to know of a tensor argument.
struct TensorType {
  DType dtype = DType::F32;
  std::vector<std::int64_t> extents;
};

/// The arguments of one call, by parameter name.
struct Arguments {
  std::map<std::string, TensorType> tensors;
  std::map<std::string, scalar::Value> scalars;  ///< of the parameter's dtype
};

/// What the arguments say that type parameters and packs stand for. Reports E0240 and E0241 for arguments that do not
/// agree with each other or with a class, E0245 for one that is missed.
std::optional<Instance> infer_instance(const OpSignature& signature, const Arguments& arguments,
                                       Diagnostics& diagnostics);

/// An instance to look at a generic op by: the first dtype of each class, packs of `rank` dimensions.
Instance example_instance(const OpSignature& signature, std::size_t rank);

/// Gives the text of an imported file, or nothing when there is none. `path` is `std`, or the path written after
/// `import`, resolved against the folder of the importing file. Nothing for `std` means the library that ships with the
/// compiler.
using ImportResolver = std::function<std::optional<SourceRef>(const std::string& path)>;

/// Reads imported files from the disk; leaves `std` to the compiler.
ImportResolver read_imports_from_disk();

/// A `.loom` file with all that it imports, checked. Immutable, cheap to copy, safe to share between threads.
class Program {
 public:
  /// Parses and checks a text and its imports. Every independent error is reported (E01xx, E02xx); nothing is returned
  /// when there was one. Any sequence of bytes is accepted.
  static std::optional<Program> load(const SourceRef& source, const ImportResolver& imports, Diagnostics& diagnostics);
  /// Reads the file, then as above. Reports E0220 when it cannot be read.
  static std::optional<Program> load_file(const std::string& path, Diagnostics& diagnostics);
  /// What `import "std"` brings, as a program of its own. Its ops are checked when they are lowered.
  static std::optional<Program> load_standard_library(Diagnostics& diagnostics);

  /// The ops of the file itself, in its order.
  const std::vector<OpSignature>& ops() const;
  /// The names of all ops that `find` gives: of the file itself in its order, then of imports in alphabetical order.
  std::vector<std::string> op_names() const;
  /// The op of that name (also of an imported file, as `m.name` or `name`), or null.
  const OpSignature* find(const std::string& name) const;

  /// The signature of a generic op with types and packs put in place.
  OpSignature instantiate(const std::string& op, const Instance& instance) const;

  /// The graph of an op for given attributes (those left out have their defaults) and, when it is generic, an instance.
  /// Dimensions stay symbols; calls of other ops are inlined. Reports E0222 when an attribute is missing or unknown,
  /// E0201 when there is no such op.
  std::optional<tensor::Graph> lower(const std::string& op, const std::map<std::string, scalar::Value>& attributes,
                                     Diagnostics& diagnostics, const Instance& instance = {}) const;

  /// What the `op d = grad ...` of the file itself stand for, in its order.
  std::vector<DerivativeText> declared_derivatives() const;
  /// The derivative of an op by some of its arguments. Reports E0201, E0260 and E0261.
  std::optional<DerivativeText> derivative(const std::string& op, const DerivativeOptions& options,
                                           Diagnostics& diagnostics) const;

 private:
  explicit Program(std::shared_ptr<const Library> library);
  /// The program unless it has errors; `own` are those found so far.
  static std::optional<Program> checked(std::unique_ptr<Library> library, Diagnostics& own, Diagnostics& diagnostics);
  std::shared_ptr<const Library> library_;
};

/// Values of all symbols of the graph, by name, in the order of `Graph::symbols` where a list is needed.
using SymbolValues = std::map<std::string, scalar::Value>;

/// Matches arguments against the declaration: a name that stands alone as a dimension takes the extent that it meets.
/// Reports what does not agree as errors of the inputs (E0240 to E0245), naming both sides; then checks every condition
/// of the graph with `check_entry`. Nothing is returned when there was an error.
std::optional<SymbolValues> bind(const OpSignature& signature, const tensor::Graph& graph, const Arguments& arguments,
                                 Diagnostics& diagnostics);

/// Evaluates the conditions and extents of a graph with exact arithmetic. Reports E0243 for each condition that does
/// not hold and E0244 where arithmetic leaves 64 bits or divides by zero, with the values of the names in it.
bool check_entry(const tensor::Graph& graph, const std::vector<scalar::Value>& symbols, Diagnostics& diagnostics);

/// The values in the order of `graph.symbols`.
std::vector<scalar::Value> in_symbol_order(const tensor::Graph& graph, const SymbolValues& values);

}  // namespace corrloom::frontend
