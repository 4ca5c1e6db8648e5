// Hides a patch in a picture of noise and finds it again.
//
//   example_correlation examples/correlation/correlation.loom
#include <corrloom/corrloom.h>

#include <cstdio>
#include <exception>
#include <vector>

using namespace corrloom;

namespace {

constexpr std::int64_t kHeight = 120, kWidth = 200, kPatch = 9, kRow = 71, kColumn = 133;

/// The patch at (kRow, kColumn), three times as bright, with noise of a tenth of the picture's.
Tensor disturbed_patch(const Tensor& picture) {
  const Tensor noise = randn({kPatch, kPatch}, f32, cpu(), 2);
  const float* from = picture.data<float>();
  const float* disturbance = noise.data<float>();
  std::vector<float> patch;
  for (std::int64_t i = 0; i < kPatch; ++i) {
    for (std::int64_t j = 0; j < kPatch; ++j) {
      patch.push_back(3 * (from[(kRow + i) * kWidth + kColumn + j] + 0.1F * disturbance[i * kPatch + j]) + 7);
    }
  }
  return Tensor::from(patch, {kPatch, kPatch});
}

int run(const char* file) {
  const Library ops = Library::load(file);
  const Device device = try_gpu();
  const Tensor picture = randn({kHeight, kWidth}, f32, cpu(), 1);
  const std::vector<Tensor> found = ops["find"].all(picture.to(device), disturbed_patch(picture).to(device));
  const auto at = static_cast<std::int64_t>(found[1].item());
  const std::int64_t row = at / (kWidth - kPatch + 1), column = at % (kWidth - kPatch + 1);
  std::printf("hidden at [%lld, %lld], found at [%lld, %lld] with score %.4f\n", static_cast<long long>(kRow),
              static_cast<long long>(kColumn), static_cast<long long>(row), static_cast<long long>(column),
              found[0].reshape({-1}).select(0, at).item());
  return row == kRow && column == kColumn ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_correlation FILE.loom\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
