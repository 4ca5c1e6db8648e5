#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace corrloom::codegen {

/// Runs blocks `first_block` to `last_block - 1` of a host kernel; `kernel::Kernel` says what `args` holds.
using HostEntry = void (*)(void* const* args, std::int64_t first_block, std::int64_t last_block);

/// A host object linked into memory, which is freed with it. Entries may be looked up and run from any thread.
class LoadedObject {
 public:
  /// Links the bytes of a relocatable object, as `emit` makes them. Throws InternalError when they are not one for this
  /// processor, or use a symbol that neither they nor the small table of mathematical routines define.
  explicit LoadedObject(std::string_view object);
  LoadedObject(LoadedObject&&) noexcept;
  LoadedObject& operator=(LoadedObject&&) noexcept;
  ~LoadedObject();

  /// The address of a global function of the object, or null.
  void* find(std::string_view symbol) const;
  /// The same as an entry.
  HostEntry entry(std::string_view symbol) const;

 private:
  struct Linked;
  std::unique_ptr<Linked> linked_;
};

}  // namespace corrloom::codegen
