#include <elf.h>
#include <link.h>

#include <cstring>

#include "compiler/driver/disk_cache.h"

namespace corrloom::driver {
namespace {

/// What `dl_iterate_phdr` is asked for: the object that holds an address, and its build id.
struct Search {
  std::uintptr_t address = 0;
  std::string id;
};

bool holds(const dl_phdr_info& object, std::uintptr_t address) {
  for (int k = 0; k < object.dlpi_phnum; ++k) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[k];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) return true;
  }
  return false;
}

std::string hex(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t k = 0; k < count; ++k) {
    out += kDigits[bytes[k] >> 4];
    out += kDigits[bytes[k] & 15];
  }
  return out;
}

/// The NT_GNU_BUILD_ID among the notes of a segment.
std::string id_in_notes(const unsigned char* notes, std::size_t size) {
  const auto aligned = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t total = sizeof header + aligned(header.n_namesz) + aligned(header.n_descsz);
    if (total > size) break;
    const unsigned char* name = notes + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return hex(name + aligned(header.n_namesz), header.n_descsz);
    notes += total;
    size -= total;
  }
  return {};
}

int visit(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (!holds(*object, search.address)) return 0;
  for (int k = 0; k < object->dlpi_phnum && search.id.empty(); ++k) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[k];
    if (segment.p_type != PT_NOTE) continue;
    // The loader's own mapping of the notes; there is no other way to get at them than through the address.
    const auto* notes = reinterpret_cast<const unsigned char*>(object->dlpi_addr + segment.p_vaddr);
    search.id = id_in_notes(notes, segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&visit), {}};
  dl_iterate_phdr(visit, &search);
  return search.id;
}

}  // namespace corrloom::driver
