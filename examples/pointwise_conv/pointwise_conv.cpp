// Compiles both forms, shows what is left of them after the passes, and compares their results bit for bit.
//
//   example_pointwise_conv examples/pointwise_conv/pointwise_conv.loom
#include <corrloom/corrloom.h>

#include <cstdio>
#include <cstring>
#include <exception>

using namespace corrloom;

namespace {

int run(const char* file) {
  const Library ops = Library::load(file);
  const Device device = try_gpu();
  const Tensor X = randn({5, 24, 36}, f32, device, 1), K = randn({7, 5}, f32, device, 2);
  for (const char* name : {"direct", "by_matmul"}) {
    const Compiled compiled = ops[name].compile({X.type(), K.type()}, device);
    std::printf("%s: %zu kernel\n%s\n", name, compiled.kernels().size(), compiled.text(Stage::Tensor).c_str());
  }
  const Tensor a = ops["direct"](X, K).to(cpu()), b = ops["by_matmul"](X, K).to(cpu());
  const bool same = std::memcmp(a.data<float>(), b.data<float>(), static_cast<std::size_t>(a.byte_count())) == 0;
  std::printf("the results are %s\n", same ? "equal, bit for bit" : "different");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_pointwise_conv FILE.loom\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
