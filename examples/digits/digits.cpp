// Trains a small convolutional network on 1,797 handwritten digits, and shows how it went.
//
//   example_digits FOLDER OUT [EPOCHS [STEPS]]     FOLDER holds digits.loom, pictures.loom and digits.npz; STEPS: of an
//   epoch
//
// Writes OUT/loss.png (the loss of every step), OUT/misread.png (the test images that were misread, each beside one of
// the digit that it was taken for) and OUT/digits.safetensors (the weights, which are loaded again and tested).
#include <corrloom/corrloom.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

using namespace corrloom;

namespace {

constexpr std::int64_t kBatch = 32;
/// Every fifth image is kept for the test.
constexpr std::int64_t kTestEvery = 5;

struct Data {
  Tensor images, labels;  ///< u8[S, 8, 8], u8[S]
  std::vector<std::int64_t> training, test;
};

Data load_data(const std::string& path, Device device) {
  Data data{io::load(path + ":images").to(device), io::load(path + ":labels").to(device), {}, {}};
  for (std::int64_t k = 0; k < data.labels.shape()[0]; ++k)
    (k % kTestEvery == 0 ? data.test : data.training).push_back(k);
  return data;
}

/// The same order for a seed on every machine.
void shuffle(std::vector<std::int64_t>& numbers, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Tensor draws = randint(0, std::int64_t{1} << 40, {count}, i64, cpu(), seed);
  for (std::int64_t k = count - 1; k > 0; --k)
    std::swap(numbers[static_cast<std::size_t>(k)],
              numbers[static_cast<std::size_t>(draws.data<std::int64_t>()[k] % (k + 1))]);
}

Tensor numbers_on(const std::vector<std::int64_t>& numbers, Device device) {
  return Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())}, device);
}

/// What the network takes each of the images for.
std::vector<std::int64_t> readings(const Library& ops, const Module& net, const Data& data,
                                   const std::vector<std::int64_t>& which) {
  const Tensor X = ops["batch"](data.images, numbers_on(which, data.images.device()));
  const Tensor R = ops["read"](net(X)).to(cpu());
  return {R.data<std::int64_t>(), R.data<std::int64_t>() + R.element_count()};
}

/// Where the test set was misread: pairs of the image and one that shows the digit it was taken for.
std::vector<std::int64_t> misread(const Data& data, const std::vector<std::int64_t>& read) {
  const Tensor labels = data.labels.to(cpu());
  const auto* const right = labels.data<std::uint8_t>();
  std::vector<std::int64_t> pairs;
  for (std::size_t k = 0; k < data.test.size(); ++k) {
    if (read[k] == right[data.test[k]]) continue;
    std::int64_t example = 0;
    while (right[example] != read[k]) ++example;
    pairs.insert(pairs.end(), {data.test[k], example});
  }
  return pairs;
}

void draw_progress(std::int64_t done, std::int64_t all) {
  if (isatty(2) == 0) return;
  constexpr int kWidth = 40;
  const int filled = static_cast<int>(kWidth * done / all);
  std::fprintf(stderr, "\r[%s%s] %3d %%%s", std::string(filled, '#').c_str(), std::string(kWidth - filled, ' ').c_str(),
               static_cast<int>(100 * done / all), done == all ? "\n" : "");
}

void run(const std::string& folder, const std::string& out, int epochs, std::int64_t most_steps) {
  const Device device = try_gpu();
  const Library ops = Library::load(folder + "/digits.loom"), pictures = Library::load(folder + "/pictures.loom");
  Data data = load_data(folder + "/digits.npz", device);
  const Module net = ops.module("digits");
  net.init(/*seed=*/1, {{"K1", Init::kaiming_uniform(std::sqrt(2.0))}, {"K2", Init::kaiming_uniform(std::sqrt(2.0))}},
           device);
  std::printf("%s\n%zu images to learn from, %zu to test with\n", net.to_string().c_str(), data.training.size(),
              data.test.size());

  // One op for the loss and its gradients, one for what they change: both run where the parameters are.
  const Training training(ops["loss"], net, Library::load("std")["adam"]);
  std::printf("a step is %zu kernels\n",
              training.kernels({TensorType{f32, {kBatch, 8, 8}}, TensorType{i64, {kBatch}}}).size());
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t steps = std::min(static_cast<std::int64_t>(data.training.size()) / kBatch, most_steps);
  // Losses stay on the device: to look at one is to wait for it.
  const Tensor losses = zeros({epochs * steps}, f32, device);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    shuffle(data.training, static_cast<std::uint64_t>(epoch));
    // The rate falls to a tenth on the way.
    training.set("rate", 3e-3 * std::pow(0.1, static_cast<double>(epoch) / epochs));
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto first = data.training.begin() + step * kBatch;
      const Tensor I = numbers_on({first, first + kBatch}, device);
      training.step(ops["batch"](data.images, I), ops["batch_labels"](data.labels, I));
      const std::int64_t done = epoch * steps + step;
      losses.slice(0, done, done + 1).copy_from(training.loss().reshape({1}));
      draw_progress(done + 1, epochs * steps);
    }
  }
  const Tensor course = losses.to(cpu());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::vector<std::int64_t> wrong = misread(data, readings(ops, net, data, data.test));
  const auto share = [&](const std::vector<std::int64_t>& pairs) {
    return 100.0 * (1 - static_cast<double>(pairs.size()) / 2 / static_cast<double>(data.test.size()));
  };
  std::printf("loss %.4f -> %.4f in %zu steps, %.1f s on %s\n", course.element(0).as_f64(),
              course.element(course.element_count() - 1).as_f64(), static_cast<std::size_t>(course.element_count()),
              seconds, device.name().c_str());
  std::printf("test accuracy %.2f %% (%zu of %zu misread)\n", share(wrong), wrong.size() / 2, data.test.size());

  io::save(out + "/loss.png", pictures["curve"](course));
  if (!wrong.empty()) {
    const Tensor I = Tensor::from(wrong, {static_cast<std::int64_t>(wrong.size()) / 2, 2});
    io::save(out + "/misread.png", pictures["sheet"](data.images.to(cpu()), I));
  }
  net.save(out + "/digits.safetensors");
  const Module again = ops.module("digits");
  again.load(out + "/digits.safetensors");
  again.to(device);
  const bool is_same = readings(ops, again, data, data.test) == readings(ops, net, data, data.test);
  std::printf("loaded again: %s\n", is_same ? "reads the same" : "reads otherwise");
}

}  // namespace

int main(int argc, char** argv) {
  const int epochs = argc > 3 ? std::atoi(argv[3]) : 30;
  const std::int64_t steps = argc > 4 ? std::atoll(argv[4]) : INT64_MAX;
  if (argc < 3 || epochs < 1 || steps < 1) {
    std::fprintf(stderr, "usage: example_digits FOLDER OUT [EPOCHS [STEPS]]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], epochs, steps);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
