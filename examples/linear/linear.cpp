// A network of one layer: moved to a GPU if there is one, called, asked where its weight lives, derived, and trained
// until it computes what the data show.
//
//   example_linear FOLDER     FOLDER holds linear.loom
#include <corrloom/corrloom.h>

#include <cstdio>
#include <exception>
#include <string>

using namespace corrloom;

namespace {

void print(const char* question, const std::string& answer) {
  std::printf("%s\n    %s\n", question, answer.c_str());
}
void print(const char* question, const Tensor& answer) {
  std::printf("%s\n%s\n", question, answer.to_string().c_str());
}

void run(const std::string& folder) {
  const Library ops = Library::load(folder + "/linear.loom");
  const Module net = Module::sequential({ops.module("linear", {{"I", 3}, {"O", 1}})});
  net.init(/*seed=*/0);
  net.to(try_gpu());
  const Tensor X = ones({2, 3}, f32, try_gpu());
  print("net(X)", net(X));
  print("the device of its weight", net.parameter("0.W").device().name());

  // How a loss changes with every parameter, as an op in index notation and as numbers.
  const Tensor T = zeros({2, 1}, f32, net.device());
  std::printf("the loss and its gradients\n%s", ops.derivative("loss", {"W", "b"}, {.with_values = true}).text.c_str());
  const std::vector<Tensor> found =
      ops.value_and_grad("loss", {"W", "b"}).all(X, T, net.parameter("0.W"), net.parameter("0.b"));
  print("loss", found[0]);
  print("dW", found[1]);
  print("db", found[2]);

  // Learns Y = 2*x0 - 3*x1 + 0.5*x2 + 1 from 64 examples.
  const Module rule = ops.module("linear", {{"I", 3}, {"O", 1}});
  rule.set_parameter("W", Tensor::from<float>({2, -3, 0.5}, {1, 3}, net.device()));
  rule.set_parameter("b", Tensor::from<float>({1}, {1}, net.device()));
  const Tensor inputs = randn({64, 3}, f32, net.device(), /*seed=*/1), wanted = rule(inputs);
  const Training training(ops["loss"], net, Library::load("std")["sgd"], {{"W", "0.W"}, {"b", "0.b"}});
  training.set("rate", 0.1);
  for (int step = 0; step < 100; ++step) training.step(inputs, wanted);
  std::printf("loss after 100 steps: %.1e\n", training.loss().item());
  print("what it has learned of 2, -3, 0.5", net.parameter("0.W"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_linear FOLDER\n");
    return 2;
  }
  try {
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
