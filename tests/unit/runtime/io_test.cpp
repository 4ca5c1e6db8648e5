#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "ir/base/errors.h"
#include "runtime/io/bytes.h"
#include "runtime/io/file.h"
#include "runtime/io/npy.h"

namespace corrloom::io {
namespace {

namespace fs = std::filesystem;

std::string data(const std::string& name) {
  return std::string(CORRLOOM_TEST_DATA) + "/data/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::vector<T> elements(const Tensor& t) {
  return std::vector<T>(t.data<T>(), t.data<T>() + t.element_count());
}

/// A folder of its own for each test.
class Io : public testing::Test {
 protected:
  Io() : folder_(fs::temp_directory_path() / ("corrloom_io_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Io() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  /// A .npy file of that header text and those elements.
  std::string write_npy(const std::string& header, const std::string& bytes, char version = 1) const {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    for (int k = 0; k < (version == 1 ? 2 : 4); ++k) file += static_cast<char>(header.size() >> (8 * k) & 0xFF);
    return write("x.npy", file + header + bytes);
  }
  void expect_same(const Tensor& a, const Tensor& b) const {
    ASSERT_EQ(a.type(), b.type());
    EXPECT_EQ(std::memcmp(a.contiguous().address(), b.contiguous().address(), static_cast<std::size_t>(a.byte_count())),
              0);
  }
  static std::string input_error(const std::string& path) {
    try {
      load(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }
  std::size_t files_left() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Io, EveryDtypeAndShapeComesBackFromNpy) {
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3, 5}, Shape{0, 4}}) {
      const Tensor before = arange(shape, dtype);
      if (dtype == DType::BF16) {
        EXPECT_THROW(save(path("x.npy"), before), InputError);
        continue;
      }
      save(path("x.npy"), before);
      EXPECT_EQ(fs::file_size(path("x.npy")), 128 + static_cast<std::size_t>(before.byte_count()));
      expect_same(load(path("x.npy")), before);
    }
  }
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(Io, WritesWhatNumPyWrites) {
  save(path("x.npz"), arange({3}, i64), "x");
  expect_same(load(data("stored.npz")), load(path("x.npz")));
  const std::string header = npy_header({f32, {2, 3}});
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\0\x76\0", 10));
  EXPECT_EQ(header.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_NE(npy_header({i8, {7}}).find("{'descr': '|i1', 'fortran_order': False, 'shape': (7,), }"), std::string::npos);
  EXPECT_NE(npy_header({i8, {}}).find("'shape': (), }"), std::string::npos);
}

TEST_F(Io, ReadsWhatNumPyWrites) {
  EXPECT_EQ(elements<std::int16_t>(load(data("fortran.npy"))), (std::vector<std::int16_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements<double>(load(data("big_endian.npy"))), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(load(data("rank0.npy")).type(), (TensorType{f16, {}}));
  EXPECT_EQ(load(data("rank0.npy")).item(), 2.5);
  EXPECT_EQ(elements<float>(load(data("deflated.npz") + ":a")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(load_all(data("deflated.npz")).size(), 2u);
  EXPECT_EQ(load_all(data("deflated.npz"))[1].first, "b");
  EXPECT_EQ(load(data("deflated.npz") + ":b").shape(), Shape{1000});
  EXPECT_NE(input_error(data("records.npy")).find("records"), std::string::npos);
  EXPECT_NE(input_error(data("deflated.npz")).find("name one"), std::string::npos);
  EXPECT_NE(input_error(data("deflated.npz") + ":c").find("there are: a, b"), std::string::npos);
}

TEST_F(Io, NpyHeadersMayBeWrittenInManyWays) {
  const std::string four(4, '\1');
  EXPECT_EQ(load(write_npy("{\"shape\":(4,),'descr':'|u1' , 'fortran_order':False}", four, 2)).shape(), Shape{4});
  EXPECT_EQ(load(write_npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2L, 2L)}\n", four, 3)).shape(),
            (Shape{2, 2}));
  EXPECT_EQ(elements<bool>(load(
                write_npy("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", std::string("\0\1\2\xff", 4)))),
            (std::vector<bool>{false, true, true, true}));
}

TEST_F(Io, BrokenNpyFilesAreInputErrors) {
  const auto refuses = [&](const std::string& file, const std::string& reason) {
    EXPECT_NE(input_error(file).find(reason), std::string::npos) << input_error(file);
  };
  const std::string one = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}";
  refuses(write("x.npy", ""), "too short");
  refuses(write("x.npy", "PK\3\4 and so on"), "does not begin");
  refuses(write("x.npy", std::string("\x93NUMPY\x09\0\0\0", 10)), "version 9.0");
  refuses(write("x.npy", std::string("\x93NUMPY\x01\0\xff\xff", 10)), "ends inside");
  refuses(write("x.npy", std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12)), "at most");
  refuses(write_npy(one, "abc"), "f32[1] takes 4 bytes, found 3");
  refuses(write_npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678"), "`<c8`");
  refuses(write_npy("{'descr': '<V2', 'fortran_order': False, 'shape': (1,)}", "12"), "safetensors");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': False}", "1234"), "not all of the keys");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "1234"), "neither True nor False");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "1234"), "an extent");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "1234"), "an extent");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}", ""), "2^63");
  refuses(write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "1234"), "ends early");
  refuses(write_npy("{'descr': '<f4', 'shape': (1,), 'shape': (1,)}", "1234"), "repeated key");
  refuses(write_npy("{'descr': '<f4", "1234"), "without an end");
}

TEST_F(Io, TheMachinesFaultsAreRuntimeErrors) {
  EXPECT_THROW(load(path("missing.npy")), RuntimeError);
  EXPECT_THROW(load("/dev/zero/x.npy"), RuntimeError);
  fs::create_directory(path("folder.npy"));
  EXPECT_THROW(load(path("folder.npy")), RuntimeError);
  EXPECT_THROW(save(path("folder.npy"), zeros({1})), RuntimeError);
  EXPECT_THROW(save(path("no/folder/x.npy"), zeros({1})), RuntimeError);
  EXPECT_THROW(load(std::string("a\0b.npy", 7)), RuntimeError);
  EXPECT_THROW(load(path("x.txt")), InputError);
  EXPECT_THROW(save(path("x.txt"), zeros({1})), InputError);
}

TEST_F(Io, AFileThatFailsLeavesNothingAndKeepsTheOldOne) {
  const std::string file = write("y.npy", "old");
  {
    OutputFile output(file);
    output.write("new", 3);
  }
  EXPECT_EQ(contents(file), "old");
  EXPECT_EQ(files_left(), 1u);
  OutputFile output(file);
  output.write("new", 3);
  output.commit();
  EXPECT_EQ(contents(file), "new");
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(Io, ArchivesKeepNamesAndOrder) {
  const NamedTensors tensors = {{"w", arange({2, 3})}, {"mask", ones({3}, boolean)}, {"half", full({5}, 0.5, f16)}};
  save_all(path("a.npz"), tensors);
  const NamedTensors back = load_all(path("a.npz"));
  ASSERT_EQ(back.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(back[k].first, tensors[k].first);
    expect_same(back[k].second, tensors[k].second);
  }
  expect_same(load(path("a.npz") + ":mask"), tensors[1].second);
  save(path("b.npz") + ":key", arange({4}).transpose());
  expect_same(load(path("b.npz") + ":key"), arange({4}));
  EXPECT_THROW(save_all(path("c.npz"), {{"a", zeros({1})}, {"a", zeros({1})}}), InputError);
  EXPECT_THROW(save_all(path("c.npz"), {{"a", zeros({1}, bf16)}}), InputError);
  EXPECT_FALSE(fs::exists(path("c.npz")));
}

TEST_F(Io, SafetensorsKeepEveryDtype) {
  NamedTensors tensors;
  for (const DType dtype : kAllDTypes) tensors.emplace_back(std::string(name_of(dtype)), arange({3, 1, 2}, dtype));
  tensors.emplace_back("empty \"one\"", zeros({0, 2}));
  tensors.emplace_back("scalar", full({}, 2.0, bf16));
  save_all(path("w.safetensors"), tensors);
  for (const auto& [name, tensor] : tensors) expect_same(load(path("w.safetensors") + ":" + name), tensor);
  EXPECT_EQ(load_all(path("w.safetensors")).size(), tensors.size());
  EXPECT_THROW(save_all(path("w.safetensors"), {{"\xff", zeros({1})}}), InputError);
  EXPECT_THROW(save_all(path("w.safetensors"), {{"a", zeros({1})}, {"a", zeros({1})}}), InputError);
}

TEST_F(Io, BrokenSafetensorsAreInputErrors) {
  const auto refuses = [&](const std::string& header, std::size_t bytes, const std::string& reason) {
    std::string file;
    for (int k = 0; k < 8; ++k) file += static_cast<char>(header.size() >> (8 * k) & 0xFF);
    const std::string found = input_error(write("x.safetensors", file + header + std::string(bytes, '\0')));
    EXPECT_NE(found.find(reason), std::string::npos) << found;
  };
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "ends early");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "bytes follow");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "f32[2] takes 8");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "no pair in order");
  refuses(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "no number");
  refuses(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "no number");
  refuses(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1, "F8_E4M3");
  refuses(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", 4, "2^63");
  refuses(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      4, "two tensors");
  refuses(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      4, "overlap");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "gap");
  refuses("[1]", 0, "no JSON object");
  refuses("{\"a\":", 0, "no JSON");
  refuses("{\"a\":7}", 0, "no JSON object");
  refuses(std::string(1000000, '['), 0, "nested too deeply");
  EXPECT_NE(input_error(write("x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff")).find("its header would take"),
            std::string::npos);
  EXPECT_NE(input_error(write("x.safetensors", "1234")).find("too short"), std::string::npos);
}

TEST_F(Io, ReadsPngsOfEveryKindAs8Bits) {
  const Tensor palette = load(data("palette.png"));
  EXPECT_EQ(palette.type(), (TensorType{u8, {3, 2, 3}}));
  EXPECT_EQ(elements<std::uint8_t>(palette.select(0, 2).contiguous()), (std::vector<std::uint8_t>{0, 0, 3, 3, 0, 0}));
  EXPECT_EQ(elements<std::uint8_t>(load(data("grey16.png"))), (std::vector<std::uint8_t>{255, 7}));
  EXPECT_EQ(elements<std::uint8_t>(load(data("one_bit.png"))),
            (std::vector<std::uint8_t>{255, 0, 255, 255, 0, 0, 0, 0, 255}));
  EXPECT_EQ(load(data("rgba.png")).shape(), (Shape{4, 1, 1}));
}

TEST_F(Io, ImagesComeBack) {
  for (const Shape& shape : {Shape{2, 3}, Shape{3, 5, 7}, Shape{4, 1, 2}, Shape{2, 3, 3}}) {
    save(path("x.png"), arange(shape, u8));
    expect_same(load(path("x.png")), arange(shape, u8));
  }
  save(path("x.PGM"), arange({3, 5}, u8));
  expect_same(load(path("x.PGM")), arange({3, 5}, u8));
  save(path("x.ppm"), arange({3, 2, 5}, u8));
  expect_same(load(path("x.ppm")), arange({3, 2, 5}, u8));
  save(path("x.png"), arange({1, 2, 3}, u8).transpose({0, 2, 1}));
  EXPECT_EQ(load(path("x.png")).shape(), (Shape{3, 2}));
  EXPECT_THROW(save(path("y.png"), zeros({2, 3})), InputError);
  EXPECT_THROW(save(path("y.png"), zeros({5, 2, 3}, u8)), InputError);
  EXPECT_THROW(save(path("y.png"), zeros({0, 3}, u8)), InputError);
  EXPECT_THROW(save(path("y.png"), zeros({1, 2000000}, u8)), InputError);
  EXPECT_THROW(save(path("y.pgm"), zeros({3, 2, 2}, u8)), InputError);
  EXPECT_FALSE(fs::exists(path("y.png")));
}

TEST_F(Io, BrokenImagesAreInputErrors) {
  EXPECT_NE(input_error(write("x.png", "not a png at all")).find("no PNG"), std::string::npos);
  EXPECT_NE(input_error(write("x.png", "")).find("no PNG"), std::string::npos);
  EXPECT_NE(input_error(data("short.png")).find("damaged"), std::string::npos);
  EXPECT_NE(input_error(data("lying.png")).find("1000000 x 1000000 pixels"), std::string::npos);
  const auto refuses = [&](const std::string& bytes, const std::string& reason) {
    EXPECT_NE(input_error(write("x.pgm", bytes)).find(reason), std::string::npos) << input_error(path("x.pgm"));
  };
  refuses("", "wanted P2");
  refuses("P4\n1 1\n\1", "wanted P2");
  refuses("P5 2 2 255\n123", "ends early");
  refuses("P5 2 x 255\n1234", "height is missing");
  refuses("P5 2 2 0\n1234", "out of range");
  refuses("P5 2 2 99999\n1234", "out of range");
  refuses("P5 99999999999 2 255\n1234", "too large");
  refuses("P5 2000000000 2000000000 255\n1234", "ends early");
  refuses("P2 2 1 7\n1 8", "above the largest");
  refuses("P2 2 2 7\n1 2 3 ", "sample is missing");
  refuses("P2 2 2 7\n1 2 3", "ends early");
  EXPECT_EQ(elements<std::uint8_t>(load(write("x.pgm", "P2 # text\n2 1\n# more\n15\n0 15"))),
            (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(elements<std::uint8_t>(load(write("x.pgm", std::string("P5 2 1 65535\n\xff\xff\0\0", 17)))),
            (std::vector<std::uint8_t>{255, 0}));
}

// Whatever is done to a good file, it is read or refused in one of the two ways.
TEST_F(Io, MutatedFilesNeverDoMoreThanThrow) {
  save_all(path("w.safetensors"), {{"a", arange({2, 3})}, {"b", arange({4}, u8)}});
  save(path("t.npy"), arange({2, 3}, i16));
  const std::string sources[] = {data("deflated.npz"), data("stored.npz"),    data("palette.png"),
                                 data("grey16.png"),   path("w.safetensors"), path("t.npy")};
  std::mt19937 random(20240607);
  for (const std::string& source : sources) {
    const std::string good = contents(source);
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
        bad[random() % bad.size()] = static_cast<char>(random());
      if (round % 3 == 0) bad.resize(random() % bad.size());
      const std::string file = write("bad" + fs::path(source).extension().string(), bad);
      try {
        load_all(file);
      } catch (const InputError&) {
      } catch (const RuntimeError&) {
      }
    }
  }
}

TEST(SplitKey, SplitsOnlyBehindArchives) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(split_key("w.npz:a"), Parts("w.npz", "a"));
  EXPECT_EQ(split_key("w.NPZ:a:b"), Parts("w.NPZ", "a:b"));
  EXPECT_EQ(split_key("d:/w.safetensors:a.npy"), Parts("d:/w.safetensors", "a.npy"));
  EXPECT_EQ(split_key("x.npy"), Parts("x.npy", ""));
  EXPECT_EQ(split_key("x.npy:a"), Parts("x.npy:a", ""));
  EXPECT_TRUE(has_known_suffix("a/b.PNG"));
  EXPECT_FALSE(has_known_suffix(".npy"));
  EXPECT_FALSE(has_known_suffix("x.npy:a"));
}

}  // namespace
}  // namespace corrloom::io
