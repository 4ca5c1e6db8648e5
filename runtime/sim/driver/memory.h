#pragma once

#include "runtime/sim/driver/memory_blocks.h"

/// Making and ending blocks of memory.
namespace corrloom::sim::driver {

class Context;

/// Device memory for the context's device. Fails with INVALID_VALUE for 0 bytes and OUT_OF_MEMORY.
DeviceAddress allocate_device(Context& context, uint64_t bytes, CUmemoryPool pool = nullptr);
/// Host memory that all devices reach: pinned or managed. Fails as above.
void* allocate_host(Context& context, uint64_t bytes, MemoryKind kind, unsigned flags);
/// Makes the client's own memory reachable. Fails with HOST_MEMORY_ALREADY_REGISTERED.
void register_host(Context& context, void* host, uint64_t bytes, unsigned flags);

/// Gives the memory of a block back that was taken out of the table.
void release_block(const Block& block);
/// Takes a block out of the table and gives its memory back, if it is still there.
void free_block(const Block& block);
/// The same for the block that starts at `address`.
void free_address(DeviceAddress address);

}  // namespace corrloom::sim::driver
