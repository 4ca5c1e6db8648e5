#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/visibility.h"
#include "runtime/tensor.h"

namespace corrloom {

/// How the elements of a parameter start.
class CORRLOOM_API Init {
 public:
  static Init zeros() { return constant(0); }
  static Init ones() { return constant(1); }
  static Init constant(double value) { return {Kind::Constant, value, 0}; }
  /// Uniform in [low, high).
  static Init uniform(double low, double high) { return {Kind::Uniform, low, high}; }
  static Init normal(double mean, double deviation) { return {Kind::Normal, mean, deviation}; }
  /// Uniform with the variance gain^2 / fan_in, which keeps the variance of what flows forward. The gain of a layer
  /// before a rectifier is sqrt(2). Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers" (2015).
  static Init kaiming_uniform(double gain = 1.0) { return {Kind::KaimingUniform, gain, 0}; }
  static Init kaiming_normal(double gain = 1.0) { return {Kind::KaimingNormal, gain, 0}; }
  /// Uniform with the variance 2 gain^2 / (fan_in + fan_out). Source: Glorot and Bengio, "Understanding the difficulty
  /// of training deep feedforward neural networks" (2010).
  static Init xavier_uniform(double gain = 1.0) { return {Kind::XavierUniform, gain, 0}; }
  static Init xavier_normal(double gain = 1.0) { return {Kind::XavierNormal, gain, 0}; }

  /// A tensor of that type on the device, the same bits on every device. The weight of a layer is [out, in, window...]:
  /// fan_in = in * window, fan_out = out * window; a tensor of rank 1 has fan_in = fan_out = its extent. Throws
  /// InputError for an integer dtype where the values are no integers.
  Tensor make(const TensorType& type, Device device, std::uint64_t seed) const;

 private:
  enum class Kind : std::uint8_t {
    Constant,
    Uniform,
    Normal,
    KaimingUniform,
    KaimingNormal,
    XavierUniform,
    XavierNormal
  };
  Init(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}

  Kind kind_;
  double a_, b_;
};

namespace runtime {

/// Named tensors that belong together: what a module owns. Several names may share one tensor (tied weights); they keep
/// sharing it through every operation here. Operations on all tensors change all or, when they throw, none.
///
/// A handle: copies name the same set. Not to be changed from several threads at once.
class ParameterSet {
 public:
  /// One name. Its tensor is undefined until it gets a value.
  struct Parameter {
    std::string name;
    DType dtype = DType::F32;
    std::vector<std::optional<std::int64_t>> extents;  ///< those that the declaration leaves open are empty
    Tensor value;

    /// `f32[10, ?]`
    std::string declared() const;
    /// The declared type, when no extent is open.
    std::optional<TensorType> type() const;
  };

  ParameterSet();

  /// Adds a name. Throws InputError when it is there already.
  void add(Parameter parameter);
  /// Adds the names of another set with a prefix. Later changes of either set do not reach the other's names, but both
  /// share the tensors.
  void add_all(const std::string& prefix, const ParameterSet& other);

  const std::vector<Parameter>& parameters() const;
  /// Throws InputError, which names those there are, when there is none of that name.
  const Parameter& operator[](const std::string& name) const;
  /// Gives a name a tensor. Throws InputError when its type is not the declared one.
  void set(const std::string& name, Tensor value);

  /// Moves every tensor. Throws RuntimeError, which names the tensor that could not be moved.
  void to(Device device);
  /// Where all tensors are. Throws InputError, which lists them, when they are on several devices or have no value.
  Device device() const;

  /// Writes every tensor under its name into a `.safetensors` or `.npz` file. Throws InputError when one has no value.
  void save(const std::string& path) const;
  /// Reads every tensor. `names` gives the name in the file for those that are called otherwise there. Tensors stay on
  /// the device where they were (those without a value: `device`). Throws InputError, which lists everything that does
  /// not suit: missing names, extra ones, wrong types, tied names with different elements.
  void load(const std::string& path, const std::map<std::string, std::string>& names = {}, Device device = cpu());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace runtime
}  // namespace corrloom
