#include <cstring>

#include "runtime/sim/driver/export.h"
#include "runtime/sim/driver/state.h"

/// The linker: several PTX texts become one.
namespace corrloom::sim::driver {
namespace {

std::shared_ptr<LinkState> find_link(CUlinkState handle) {
  std::shared_ptr<LinkState> state = driver().links.find(handle);
  require(state != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return state;
}

/// Appends a text; the first one says version, target and address size for all.
void append(LinkState& state, std::string_view text) {
  const bool first = state.text.empty();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    const size_t start = line.find_first_not_of(" \t");
    const std::string_view word = start == std::string_view::npos ? "" : line.substr(start);
    const bool directive =
        word.starts_with(".version") || word.starts_with(".target") || word.starts_with(".address_size");
    if (first || !directive) state.text += line;
    text.remove_prefix(end);
  }
  state.text += '\n';
}

void require_ptx(CUjitInputType type) {
  require(type <= CU_JIT_INPUT_NVVM);
  require(type == CU_JIT_INPUT_PTX,
          type == CU_JIT_INPUT_NVVM ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NO_BINARY_FOR_GPU);
}

}  // namespace

CUresult link_create(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  require(out != nullptr);
  current_context();
  auto state = std::make_shared<LinkState>();
  state->options = read_jit_options(count, options, values);
  *out = driver().links.insert(std::move(state));
  return CUDA_SUCCESS;
}

CUresult link_add_data(CUlinkState handle, CUjitInputType type, void* data, size_t bytes, const char*, unsigned count,
                       CUjit_option* options, void** values) {
  const std::shared_ptr<LinkState> state = find_link(handle);
  require_ptx(type);
  require(data != nullptr && bytes != 0);
  read_jit_options(count, options, values);
  const auto* text = static_cast<const char*>(data);
  append(*state, {text, ::strnlen(text, bytes)});
  return CUDA_SUCCESS;
}

CUresult link_add_file(CUlinkState handle, CUjitInputType type, const char* path, unsigned count, CUjit_option* options,
                       void** values) {
  const std::shared_ptr<LinkState> state = find_link(handle);
  require_ptx(type);
  require(path != nullptr);
  read_jit_options(count, options, values);
  append(*state, read_file(path));
  return CUDA_SUCCESS;
}

CUresult link_complete(CUlinkState handle, void** image, size_t* bytes) {
  const std::shared_ptr<LinkState> state = find_link(handle);
  require(image != nullptr);
  // Loading it once writes the logs and says whether everything is defined.
  parse_image(current_context()->device, state->text.c_str(), state->options);
  *image = state->text.data();
  if (bytes != nullptr) *bytes = state->text.size() + 1;
  return CUDA_SUCCESS;
}

CUresult link_destroy(CUlinkState handle) {
  require(driver().links.remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return CUDA_SUCCESS;
}

}  // namespace corrloom::sim::driver
