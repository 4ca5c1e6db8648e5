#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/api/corrloom.h"
#include "compiler/tools/corrloom/options.h"
#include "runtime/io/value.h"

/// From what is written on the command line to an op and its arguments.
namespace corrloom::tools {

/// `FILE.loom[:OP]` in its two parts; the op is empty when none is named.
struct ProgramName {
  std::string file;
  std::string op;
};
/// Throws UsageError when nothing stands before or after the colon.
ProgramName split_program(const std::string& text);

/// The op that is named, or the only one of the file, with `--set` applied. Throws UsageError, which lists the ops,
/// when none is named and there are several.
Op find_op(const Options& options);

/// The device of `--device`. Throws UsageError for a word that names no device.
Device find_device(const Options& options);

/// Texts by parameter, in the op's order; those not given are empty. Throws UsageError for an unknown parameter, and
/// for a tensor or a scalar without a default that is missing. `required_scalars` is false where scalars may stay open.
std::vector<std::optional<std::string>> match_parameters(
    const OpInfo& info, const std::vector<std::pair<std::string, std::string>>& settings, const std::string& form,
    bool required_scalars);

/// The arguments of a call, on the device. Throws UsageError, InputError, RuntimeError.
std::vector<Argument> make_arguments(const Op& op, const Options& options, Device device);

/// The same with dense tensors, as a bound call wants them.
std::vector<Argument> dense_arguments(const std::vector<Argument>& arguments);

/// The types to compile for, with the scalars that are given in their places. Throws UsageError for some scalars given
/// and others not.
std::vector<TypeArgument> make_types(const OpInfo& info, const Options& options);

/// The types of the arguments of a call. Dimensions that `open` names, `N,H` or `*` for all, are left open, with the
/// extents in which they stand. Throws UsageError for a name that is no dimension of the op's tensors.
std::vector<TypeArgument> types_of(const Op& op, const std::vector<Argument>& arguments, const std::string& open);

/// The text of the file of `--schedule`, or an empty one. Throws RuntimeError.
std::string read_schedule(const Options& options);

}  // namespace corrloom::tools
