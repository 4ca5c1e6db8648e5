// Makes a picture, or reads one, and writes its edges as PNG.
//
//   example_edges FOLDER OUT.png [IN.png [HEIGHT WIDTH]]     FOLDER holds edges.loom and scene.loom
//
// Without IN.png, or when it is `-`, the picture is made, and written as scene.png beside OUT.png.
#include <corrloom/corrloom.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

using namespace corrloom;

namespace {

Tensor make_scene(const std::string& folder, std::int64_t height, std::int64_t width, Device device) {
  return Library::load(folder + "/scene.loom")["scene"].with({{"H", height}, {"W", width}}).on(device)();
}

/// Three channels of a picture that has one (grey), two (and opacity), three, or four.
Tensor three_channels(const Tensor& picture) {
  const bool grey = picture.rank() == 2 || picture.shape()[0] < 3;
  if (!grey) return picture.slice(0, 0, 3).contiguous();
  const Tensor plane = picture.rank() == 2 ? picture : picture.select(0, 0);
  const Tensor out = Tensor::empty({3, plane.shape()[0], plane.shape()[1]}, u8);
  for (int channel = 0; channel < 3; ++channel) out.select(0, channel).copy_from(plane);
  return out;
}

void run(const std::string& folder, const std::filesystem::path& out, const std::string& in, std::int64_t height,
         std::int64_t width) {
  const Device device = try_gpu();
  Tensor picture;
  if (in == "-") {
    picture = make_scene(folder, height, width, device);
    io::save((out.parent_path() / "scene.png").string(), picture);
  } else {
    picture = three_channels(io::load(in)).to(device);
  }
  const Op edges = Library::load(folder + "/edges.loom")["edges"];
  Tensor result = edges(picture);  // compiles
  synchronise(device);
  const auto start = std::chrono::steady_clock::now();
  result = edges(picture);
  synchronise(device);
  const double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  io::save(out.string(), result);
  std::printf("%s -> %s in %.2f ms on %s\n", picture.type().to_string().c_str(), result.type().to_string().c_str(),
              milliseconds, device.name().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: example_edges FOLDER OUT.png [IN.png [HEIGHT WIDTH]]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argc > 3 ? argv[3] : "-", argc > 5 ? std::atoll(argv[4]) : 1080,
        argc > 5 ? std::atoll(argv[5]) : 1920);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
