// The four correlations of the textbook: its small example, then the sizes at which loops over a tensor library give
// up.
//
//   example_quickstart examples/conv.loom [REPEATS [HEIGHT WIDTH]]
#include <corrloom/corrloom.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

using namespace corrloom;

namespace {

/// What is timed: an op on X and K, into outputs that exist already.
struct Job {
  const char* title;
  Op op;
  Tensor X, K, Y;
};

/// Milliseconds of each of `repeats` runs, from the call to the end of its work.
std::vector<double> time_runs(const Job& job, int repeats) {
  job.op.run_into({job.X, job.K}, {job.Y});  // compiles
  synchronise(job.Y.device());
  std::vector<double> runs;
  for (int run = 0; run < repeats; ++run) {
    const auto start = std::chrono::steady_clock::now();
    job.op.run_into({job.X, job.K}, {job.Y});
    synchronise(job.Y.device());
    runs.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return runs;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor left = a.to(cpu()), right = b.to(cpu());
  const float* x = left.data<float>();
  const float* y = right.data<float>();
  double largest = 0;
  for (std::int64_t k = 0; k < left.element_count(); ++k)
    largest = std::max(largest, std::abs(double{x[k]} - double{y[k]}));
  return largest;
}

void print_small_example(const Library& ops, Device device) {
  const Tensor X = arange({3, 3}, f32, device), K = arange({2, 2}, f32, device);
  std::printf("corr2d of 0..8 with 0..3:\n%s\n", ops["corr2d"](X, K).to_string().c_str());
  const Tensor X2 = Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {2, 3, 3}, device);
  const Tensor K2 = Tensor::from<float>({0, 1, 2, 3, 1, 2, 3, 4}, {2, 2, 2}, device);
  std::printf("corr2d_multi_in of two channels, 0..8 and 1..9, with 0..3 and 1..4:\n%s\n\n",
              ops["corr2d_multi_in"](X2, K2).to_string().c_str());
}

void report(const Job& job, int repeats) {
  std::vector<double> runs = time_runs(job, repeats);
  double total = 0;
  for (double run : runs) total += run;
  std::sort(runs.begin(), runs.end());
  std::printf("  %-44s %9.3f ms a run (median), %9.2f ms for %d\n", job.title, runs[runs.size() / 2], total, repeats);
}

/// Loops over a tensor library launch a product, a sum and an assignment for each window of each pair of channels.
void explain_launches(std::int64_t height, std::int64_t width) {
  const double measured = 3.0 * 2 * 3 * 192 * 108, here = 3.0 * 2 * 3 * static_cast<double>(height * width);
  const double microseconds = 7757.1e3 / measured;
  std::printf(
      "Where the minutes of the loops over a tensor library went: each window of each pair of channels was a product, "
      "a sum\n"
      "and an assignment, launched one by one. On [3, 192, 108] that made %.0f launches; 7757.1 ms on a GPU are %.1f "
      "us for\n"
      "each, whatever it computes. At this size it would be %.0f launches, %.1f minutes for one run. Here the whole op "
      "is one\n"
      "launch.\n",
      measured, microseconds, here, here * microseconds / 60e6);
}

void run(const std::string& file, int repeats, std::int64_t height, std::int64_t width) {
  const Library ops = Library::load(file);
  const Device device = try_gpu();
  print_small_example(ops, device);

  const Tensor X = randn({3, height, width}, f32, device, 1), K = randn({2, 3, 1, 1}, f32, device, 2);
  const Tensor window = randn({2, 3, 3, 3}, f32, device, 3);
  const Job loop_form{"1x1, loop form (corr2d_multi_in_out)", ops["corr2d_multi_in_out"], X, K,
                      Tensor::empty({2, height, width}, f32, device)};
  const Job matmul_form{"1x1, matmul form (corr2d_multi_in_out_1x1)", ops["corr2d_multi_in_out_1x1"], X, K,
                        Tensor::empty({2, height, width}, f32, device)};
  const Job wide{"3x3 windows (corr2d_multi_in_out)", ops["corr2d_multi_in_out"], X, window,
                 Tensor::empty({2, height - 2, width - 2}, f32, device)};
  std::printf("X [3, %lld, %lld], K [2, 3, 1, 1], %d runs on %s, each waited for:\n", static_cast<long long>(height),
              static_cast<long long>(width), repeats, device.name().c_str());
  for (const Job* job : {&loop_form, &matmul_form, &wide}) report(*job, repeats);
  std::printf("  largest difference between the two 1x1 forms: %g\n\n", largest_difference(loop_form.Y, matmul_form.Y));
  explain_launches(height, width);
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 100;
  const std::int64_t height = argc > 4 ? std::atoll(argv[3]) : 1920, width = argc > 4 ? std::atoll(argv[4]) : 1080;
  if (argc < 2 || repeats < 1 || height < 3 || width < 3) {
    std::fprintf(stderr, "usage: example_quickstart CONV.loom [REPEATS [HEIGHT WIDTH]]; height and width from 3 on\n");
    return 2;
  }
  try {
    run(argv[1], repeats, height, width);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
