// A walk over the devices of this machine, step by step: what is there, where tensors live, and how they move.
//
//   example_devices examples/devices/devices.loom
#include <corrloom/corrloom.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

using namespace corrloom;

namespace {

void print(const std::string& what, const std::string& answer) {
  std::printf("%s\n    %s\n", what.c_str(), answer.c_str());
}
void print(const std::string& what, const Tensor& tensor) {
  print(what, tensor.to_string());
}
std::string yes_or_no(bool answer) {
  return answer ? "yes" : "no";
}

/// Whether two f32 tensors of the host have the same elements.
bool same_elements(const Tensor& a, const Tensor& b) {
  return std::equal(a.data<float>(), a.data<float>() + a.element_count(), b.data<float>());
}

/// What there is, and how to ask for it.
void ask_for_devices() {
  print("device_count()", std::to_string(device_count()));
  print("try_gpu()", try_gpu().name());
  print("try_gpu(10), which nobody has", try_gpu(10).name());
  std::string all;
  for (const Device device : try_all_gpus()) all += (all.empty() ? "" : ", ") + device.name();
  print("try_all_gpus()", all);
}

/// Adding tensors that live on two devices is an error, and the error says what to do.
std::string error_of_mixing(const Op& add, const Tensor& x, const Tensor& y) {
  try {
    (void)add(x, y);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error: both are on " + x.device().name();
}

/// Tensors are made on a device, and stay there until somebody moves them.
void move_tensors(const Library& ops) {
  const Op add = ops["add"];
  const Device first = try_gpu(), second = try_gpu(1);
  print("x = ones({3}): a tensor lives on the host unless told otherwise", ones({3}).device().name());
  const Tensor x = ones({2, 3}, f32, first);
  print("X = ones({2, 3}, f32, try_gpu())", x);
  const Tensor y = rand({2, 3}, f32, second, /*seed=*/1);
  print("Y = rand({2, 3}, f32, try_gpu(1), seed 1)", y);
  print("add(X, Y)", error_of_mixing(add, x, y));

  const Tensor z = x.to(second);
  print("Z = X.to(try_gpu(1))", z);
  print("add(Y, Z): both are there, and so is the sum", add(y, z));
  print("Z.to(try_gpu(1)) is Z: nothing moves", yes_or_no(z.to(second).is_same_as(z)));
  print("X.copy() is X: a copy has storage of its own", yes_or_no(x.copy().is_same_as(x)));
  print("the same seed gives the same numbers on the host",
        yes_or_no(same_elements(rand({2, 3}, f32, cpu(), 1), y.to(cpu()))));
}

/// The weights of a network live where it was sent; what it is given must be there too.
void send_network(const Library& ops) {
  const Module net = Module::sequential({ops.module("linear", {{"I", 3}, {"O", 1}})});
  net.init(/*seed=*/0);
  net.to(try_gpu());
  print("net(X) on try_gpu()", net(ones({2, 3}, f32, try_gpu())));
  print("where the weights of its first layer are", net.parameter("0.W").device().name());
}

int run(const char* file) {
  const Library ops = Library::load(file);
  ask_for_devices();
  move_tensors(ops);
  send_network(ops);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_devices FILE.loom\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
