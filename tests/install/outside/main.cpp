// A project that has nothing of Corrloom's but the installed package.
#include <corrloom/corrloom.h>

#include <cstdio>

namespace {

/// Whether each kind of error arrives as its own class across the library's border.
bool errors_arrive() {
  using namespace corrloom;
  try {
    Library::parse("op f(X: f32[N]) -> Y: f32[N] { Y[i] = Z[i] }", "f.loom");
    return false;
  } catch (const CompileError&) {
  }
  try {
    Tensor::from<float>({1, 2}, {3});
    return false;
  } catch (const InputError&) {
  }
  try {
    Library::load("no_such_file.loom");
    return false;
  } catch (const RuntimeError&) {
  }
  return true;
}

}  // namespace

int main() {
  using namespace corrloom;
  const Library ops = Library::parse(
      "op corr2d(X: f32[H, W], K: f32[P, Q]) -> Y: f32[H - P + 1, W - Q + 1] { Y[i, j] = sum(p, q) X[i + p, j + q] * "
      "K[p, q] }",
      "corr2d.loom");
  const Tensor y = ops["corr2d"](arange({3, 4}), ones({2, 2}, f32, try_gpu(99)));
  const bool right = y.type() == TensorType{f32, {2, 3}} && y.data<float>()[5] == 34 && y.at({0, 0}).as_f64() == 10;
  if (right && errors_arrive() && !version().empty()) return 0;
  std::printf("%s\n", y.to_string().c_str());
  return 1;
}
