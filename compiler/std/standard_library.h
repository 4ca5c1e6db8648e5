#pragma once

#include <span>
#include <string_view>

namespace corrloom {

/// A file that is part of the program.
struct EmbeddedFile {
  std::string_view name;  ///< `std/pooling.loom`
  std::string_view text;
};

/// The files that `import "std"` brings, sorted by name. Together they are one module: a name stands in one of them.
std::span<const EmbeddedFile> standard_library();

}  // namespace corrloom
