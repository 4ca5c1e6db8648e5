#include "compiler/passes/lower_to_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <random>

#include "compiler/passes/apply_staging.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/compose_views.h"
#include "compiler/passes/expand_functions.h"
#include "compiler/passes/flatten_indices.h"
#include "compiler/passes/lower_padding.h"
#include "compiler/passes/materialise_outputs.h"
#include "compiler/passes/name_uniquely.h"
#include "compiler/passes/readers.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/set_orders.h"
#include "ir/loop/interpret.h"
#include "ir/loop/text.h"
#include "ir/loop/verify.h"
#include "ir/schedule/staging.h"
#include "ir/tensor/interpret.h"
#include "ir/tensor/text.h"
#include "ir/tensor/verify.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/ir/tensor/random_graph.h"

namespace corrloom::passes {
namespace {

using tensor::Array;
using tensor::TensorId;

kernel::Target small_host() {
  kernel::Target target;
  target.name = "host";
  target.vector_bytes = 16;  // four lanes of f32: small extents fill several vectors and leave rests
  target.vector_registers = 16;
  return target;
}

bool is_nan(const scalar::Value& value) {
  return is_float(value.dtype) && value.as_f64() != value.as_f64();
}

void expect_same(const Array& want, const Array& got, const std::string& what) {
  ASSERT_EQ(want.bits.size(), got.bits.size()) << what;
  for (std::size_t k = 0; k < want.bits.size(); ++k) {
    const scalar::Value a = want.at(static_cast<std::int64_t>(k)), b = got.at(static_cast<std::int64_t>(k));
    ASSERT_TRUE(a == b || (is_nan(a) && is_nan(b)))
        << what << " element " << k << ": want " << to_text(a) << ", got " << to_text(b);
  }
}

/// Runs lowered kernels one after the other; every value of the graph has an array.
std::vector<Array> run(const tensor::Graph& graph, const std::vector<LoweredKernel>& kernels,
                       const std::vector<loop::Function>& functions, const std::vector<Array>& inputs,
                       const std::vector<scalar::Value>& symbols) {
  std::map<TensorId, Array> storage;
  for (std::size_t k = 0; k < inputs.size(); ++k) storage[graph.inputs[k]] = inputs[k];
  for (std::size_t k = 0; k < graph.ops.size(); ++k) {
    const TensorId id{static_cast<std::int32_t>(k)};
    const tensor::Op& op = graph.op(id);
    Array array;
    array.dtype = op.dtype;
    for (const scalar::Expr& extent : op.extents) array.extents.push_back(*scalar::as_i64(extent));
    array.bits.assign(static_cast<std::size_t>(array.count()), 0);
    if (const auto* literal = std::get_if<tensor::Literal>(&op.kind)) {
      for (std::size_t e = 0; e < literal->values.size(); ++e) array.bits[e] = literal->values[e].bits;
    }
    storage.emplace(id, std::move(array));
  }
  const auto shaped = [&](TensorId id) {
    Array array = storage.at(storage_root(graph, id));
    array.extents.clear();
    for (const scalar::Expr& extent : graph.op(id).extents) array.extents.push_back(*scalar::as_i64(extent));
    return array;
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::vector<Array> buffers;
    for (TensorId id : kernels[k].buffers) buffers.push_back(shaped(id));
    loop::interpret(functions[k], buffers, symbols);
    storage.at(kernels[k].compute).bits = buffers.back().bits;
  }
  std::vector<Array> out;
  for (const tensor::Output& output : graph.outputs) out.push_back(shaped(output.value));
  return out;
}

tensor::Graph prepare(tensor::Graph graph, PassContext& ctx) {
  for (auto* pass : {lower_padding, compose_views, materialise_outputs, remove_dead_ops, set_orders})
    graph = pass(std::move(graph), ctx);
  return graph;
}

/// A legal schedule drawn at random: any loops that `schedule::check` accepts.
class RandomSchedule {
 public:
  RandomSchedule(const tensor::Graph& graph, std::uint64_t seed) : graph_(graph), random_(seed) {}

  schedule::Schedule run() {
    schedule::Schedule out;
    out.graph = graph_.name;
    out.target = "host";
    for (const tensor::Op& op : graph_.ops) {
      if (const auto* compute = std::get_if<tensor::Compute>(&op.kind)) out.stages.push_back(stage(op.name, *compute));
    }
    for (std::size_t k = out.stages.size(); k-- > 0;) {
      if (chance(70)) place_inside(out, k);
    }
    copy_inside(out);
    return out;
  }

 private:
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool chance(int percent) { return below(100) < percent; }

  static bool bounds_reduction(const tensor::Compute& compute, tensor::AxisId axis) {
    return compute.reduction &&
           std::any_of(compute.reduction->axes.begin(), compute.reduction->axes.end(),
                       [&](const tensor::Axis& reduced) {
                         return uses_axis(reduced.extent, [&](tensor::AxisId used) { return used == axis; });
                       });
  }

  schedule::Stage stage(const std::string& name, const tensor::Compute& compute) {
    using schedule::Bind;
    const bool lanes = compute.reduction && compute.reduction->order.kind == tensor::Order::Kind::Lanes;
    schedule::Stage stage;
    stage.compute = name;
    std::vector<schedule::Loop> blocks, serial, tile, vector;
    const bool may_turn = lanes && lanes_divide(*compute.reduction) && chance(70);
    const std::int64_t vector_axis =
        lanes && !may_turn ? -1 : below(static_cast<std::int64_t>(compute.axes.size()) + 1) - 1;
    for (std::size_t k = 0; k < compute.axes.size(); ++k) {
      const tensor::Axis& axis = compute.axes[k];
      if (scalar::is_constant_i64(axis.extent, 1) && chance(80)) continue;
      const bool free = !bounds_reduction(compute, axis.id);
      std::int64_t step = 1;
      if (free && static_cast<std::int64_t>(k) == vector_axis) {
        vector.push_back({axis.name, 1, Bind::Vector});
        step = std::int64_t{2} << below(3);
        if (chance(60)) {
          tile.push_back({axis.name, step, Bind::Unroll});
          step *= 1 + below(3) + 1;
        }
      } else if (free && chance(50)) {
        tile.push_back({axis.name, 1, Bind::Unroll});
        step = 2 + below(5);
      }
      for (int depth = 0; depth < 2 && chance(40); ++depth) {
        serial.insert(serial.begin(), {axis.name, step, Bind::Serial});
        step *= 2 + below(3);
      }
      blocks.push_back({axis.name, step, Bind::Block});
    }
    std::shuffle(blocks.begin(), blocks.end(), random_);
    std::shuffle(tile.begin(), tile.end(), random_);
    stage.streaming = chance(30);
    const bool turns = lanes && !vector.empty();
    const std::int64_t sweep = compute.reduction && !turns ? sweep_step(*compute.reduction) : 0;
    if (sweep > 0 && !serial.empty()) {
      const auto place = serial.begin() + below(static_cast<std::int64_t>(serial.size()));
      serial.insert(place, {compute.reduction->axes.front().name, sweep, Bind::Serial});
      ++swept;
    }
    stage.loops = blocks;
    stage.loops.insert(stage.loops.end(), serial.begin(), serial.end());
    if (turns) {
      add_turns(*compute.reduction, stage);
    } else if (compute.reduction) {
      for (std::size_t k = 0; k < compute.reduction->axes.size(); ++k) {
        const tensor::Axis& axis = compute.reduction->axes[k];
        const bool known = scalar::as_i64(axis.extent).has_value();
        const bool last = k + 1 == compute.reduction->axes.size();
        const bool is_swept = k == 0 && sweep > 0 && !serial.empty();
        if (is_swept && sweep == 1) continue;
        if (known && !lanes && !is_swept && chance(30)) stage.loops.push_back({axis.name, 2 + below(3), Bind::Serial});
        stage.loops.push_back({axis.name, 1,
                               lanes && last         ? Bind::Vector
                               : known && chance(30) ? Bind::Unroll
                                                     : Bind::Serial});
      }
    }
    stage.loops.insert(stage.loops.end(), tile.begin(), tile.end());
    stage.loops.insert(stage.loops.end(), vector.begin(), vector.end());
    add_copies(compute, name, stage);
    add_prefetches(compute, name, stage);
    return stage;
  }

  static bool lanes_divide(const tensor::Reduction& reduction) {
    const std::optional<std::int64_t> extent = scalar::as_i64(reduction.axes.back().extent);
    return reduction.axes.size() == 1 && extent && *extent % reduction.order.lanes == 0;
  }

  /// Loops over the lanes of the order: some together, the others one after the other.
  void add_turns(const tensor::Reduction& reduction, schedule::Stage& stage) {
    const std::string& axis = reduction.axes.front().name;
    std::int64_t apart = reduction.order.lanes;
    for (int halvings = static_cast<int>(below(6)); halvings > 0 && apart > 1; --halvings) apart /= 2;
    if (apart < reduction.order.lanes) stage.loops.push_back({axis, apart, schedule::Bind::Unroll});
    if (apart > 1) stage.loops.push_back({axis, 1, schedule::Bind::Serial});
    ++turned;
  }

  /// Elements of the first reduction axis that a sweep over results adds, or 0.
  std::int64_t sweep_step(const tensor::Reduction& reduction) {
    if (reduction.axes.empty() || !scalar::as_i64(reduction.axes.front().extent) || !chance(60)) return 0;
    if (reduction.order.kind != tensor::Order::Kind::Lanes) return 1 + below(4);
    return reduction.axes.size() == 1 ? reduction.order.lanes * (1 + below(2)) : 0;
  }

  /// Moves a stage into a later one where that is legal.
  void place_inside(schedule::Schedule& schedule, std::size_t producer) {
    for (std::size_t k = producer + 1; k < schedule.stages.size(); ++k) {
      const schedule::Stage& consumer = schedule.stages[k];
      for (std::size_t loop = 0; loop < consumer.loops.size(); ++loop) {
        schedule::Schedule changed = schedule;
        schedule::Stage& stage = changed.stages[producer];
        stage.placement = {schedule::Placement::Kind::At, consumer.compute, static_cast<int>(loop)};
        stage.staging.clear();
        stage.streaming = false;
        for (schedule::Loop& inner : stage.loops) {
          if (inner.bind == schedule::Bind::Block) inner.bind = schedule::Bind::Serial;
        }
        Diagnostics faults;
        if (!chance(60) || !schedule::check(changed, graph_, faults)) continue;
        schedule = std::move(changed);
        ++placed_inside;
        return;
      }
    }
  }

  /// Lets copies be made in the loops where that is legal.
  void copy_inside(schedule::Schedule& schedule) {
    for (std::size_t k = 0; k < schedule.stages.size(); ++k) {
      for (std::size_t copy = 0; copy < schedule.stages[k].staging.size(); ++copy) {
        for (std::size_t loop = schedule.stages[k].loops.size(); loop-- > 0;) {
          schedule::Schedule changed = schedule;
          changed.stages[k].staging[copy].loop = static_cast<int>(loop);
          Diagnostics faults;
          if (!chance(60) || !schedule::check(changed, graph_, faults)) continue;
          schedule = std::move(changed);
          ++copied_inside;
          break;
        }
      }
    }
  }

  void add_prefetches(const tensor::Compute& compute, const std::string& name, schedule::Stage& stage) {
    const auto op =
        std::find_if(graph_.ops.begin(), graph_.ops.end(), [&](const tensor::Op& o) { return o.name == name; });
    if (compute.axes.empty() || !chance(40)) return;
    const std::string& axis =
        compute.axes[static_cast<std::size_t>(below(static_cast<std::int64_t>(compute.axes.size())))].name;
    const bool copies = !stage.staging.empty();
    if (chance(40)) stage.prefetches.push_back({name, axis, 1 + below(40)});
    for_each_use(*op, [&](TensorId source, const scalar::Read* read) {
      if (read != nullptr && !copies) stage.prefetches.push_back({graph_.op(source).name, axis, 1 + below(40)});
    });
  }

  void add_copies(const tensor::Compute&, const std::string& name, schedule::Stage& stage) {
    using Dim = schedule::Staging::Dim;
    const auto op =
        std::find_if(graph_.ops.begin(), graph_.ops.end(), [&](const tensor::Op& o) { return o.name == name; });
    for (const schedule::StagedExpr& staged : schedule::staged_exprs(graph_, *op)) {
      double elements = 1;
      for (const schedule::Part& part : staged.parts) elements *= static_cast<double>(part.count());
      if (elements > 4000 || !chance(60)) continue;
      schedule::Staging staging;
      staging.tensor = graph_.op(staged.tensor).name;
      for (const schedule::Part& part : staged.parts) {
        const std::string index = schedule::to_text(part, graph_);
        if (chance(40)) {
          const std::int64_t block = 1 + below(9);
          staging.layout.push_back({index, Dim::Kind::Outer, block});
          staging.layout.push_back({index, Dim::Kind::Inner, block});
        } else {
          staging.layout.push_back({index});
        }
      }
      if (chance(70)) std::shuffle(staging.layout.begin(), staging.layout.end(), random_);
      stage.staging.push_back(std::move(staging));
    }
  }

  const tensor::Graph& graph_;
  std::mt19937_64 random_;

 public:
  int placed_inside = 0, swept = 0, copied_inside = 0, turned = 0;
};

/// A graph of any ops.
testing::RandomCase any_case(std::uint64_t seed) {
  testing::RandomGraphOptions options;
  options.max_extent = seed % 3 == 0 ? 21 : 5;
  options.ops = seed % 3 == 0 ? 2 : 6;
  return testing::random_case(seed, options);
}

/// A row of stencils, each with one or two reads of the one before, beside it and with padding of any kind.
testing::RandomCase padded_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  };
  const auto text_of = [](std::int64_t number) { return std::to_string(number); };
  const char* pads[] = {" pad edge", " pad wrap", " pad reflect", " pad 0.5:f32"};
  const std::string width = text_of(1 + below(seed % 2 == 0 ? 40 : 9));
  std::int64_t height = 1 + below(12);
  const auto shape = [&] { return "f32[" + text_of(height) + ", " + width + "]"; };
  Array x{DType::F32, {height, std::stoll(width)}, {}};
  for (std::int64_t k = 0; k < x.count(); ++k) x.bits.push_back(scalar::Value::f32(static_cast<float>(below(64))).bits);
  const auto subscript = [&](const char* axis) {
    return "add(" + std::string(axis) + ", " + text_of(below(9) - 4) + ":i64)";
  };
  std::string text = "graph @g(%P0: " + shape() + ") -> (%P3) {\n";
  for (int stage = 1; stage <= 3; ++stage) {
    if (below(2) == 0) height = 1 + below(12);
    const auto read = [&] {
      return "%P" + text_of(stage - 1) + "[" + subscript("i") + ", " + (below(2) == 0 ? subscript("j") : "j") + "]" +
             pads[below(4)];
    };
    const std::string first = read();
    text += "  %P" + text_of(stage) + ": " + shape() + " = compute [i: " + text_of(height) + ", j: " + width +
            "] {\n    yield " + (below(3) == 0 ? "neg(" + first + ")" : "sub(" + first + ", " + read() + ")") +
            "\n  }\n";
  }
  return {testing::parsed(text + "}\n"), {std::move(x)}, {}};
}

using Scheduler = std::function<schedule::Schedule(const tensor::Graph&, PassContext&)>;

void expect_loops_mean_the_graph(testing::RandomCase random, std::uint64_t seed, const kernel::Target& target,
                                 const Scheduler& scheduler) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " target " + target.name);
  PassContext ctx;
  ctx.target = target;
  tensor::Graph graph = prepare(random.graph, ctx);
  const std::vector<Array> want = tensor::interpret(graph, random.inputs, random.symbols);
  graph = name_uniquely(expand_functions(std::move(graph), ctx), ctx);
  const schedule::Schedule schedule = scheduler(graph, ctx);
  Diagnostics faults;
  ASSERT_TRUE(schedule::check(schedule, graph, faults))
      << faults.render() << schedule::print(schedule) << tensor::print(graph);
  Scheduled staged = apply_staging(graph, schedule, ctx);
  graph = std::move(staged.graph);
  for (const tensor::Violation& violation : tensor::verify(graph))
    FAIL() << violation.rule << " " << violation.op << " " << violation.message << "\n" << tensor::print(graph);
  ASSERT_TRUE(schedule::check(staged.schedule, graph, faults)) << faults.render() << schedule::print(staged.schedule);
  const std::vector<LoweredKernel> kernels = lower_to_loops(graph, staged.schedule, ctx);
  std::vector<loop::Function> mapped, flat;
  for (const LoweredKernel& kernel : kernels) {
    mapped.push_back(kernel.function);
    flat.push_back(flatten_indices(kernel.function, ctx));
    for (const loop::Function* function : {&mapped.back(), &flat.back()}) {
      for (const loop::Violation& violation : loop::verify(*function)) {
        FAIL() << violation.rule << " " << violation.where << " " << violation.message << "\n"
               << loop::print(*function);
      }
      const auto text = std::make_shared<const SourceFile>("printed", loop::print(*function));
      Diagnostics diagnostics;
      const std::optional<loop::Function> parsed = loop::parse(text, diagnostics);
      ASSERT_TRUE(parsed) << diagnostics.render() << text->text();
      ASSERT_EQ(loop::print(*parsed), text->text());
    }
  }
  for (const auto* functions : {&mapped, &flat}) {
    const std::vector<Array> got = run(graph, kernels, *functions, random.inputs, random.symbols);
    for (std::size_t k = 0; k < want.size(); ++k) {
      expect_same(want[k], got[k], graph.outputs[k].name);
      if (::testing::Test::HasFatalFailure()) {
        std::cerr << tensor::print(graph) << schedule::print(schedule) << loop::print((*functions)[0]);
        return;
      }
    }
  }
}

Scheduler any_schedule(std::uint64_t seed) {
  return [seed](const tensor::Graph& graph, PassContext&) { return RandomSchedule(graph, seed).run(); };
}

Scheduler given_schedule(const char* schedule) {
  return [schedule](const tensor::Graph&, PassContext&) {
    Diagnostics diagnostics;
    const std::optional<schedule::Schedule> parsed =
        schedule::parse(std::make_shared<const SourceFile>("test", schedule), diagnostics);
    EXPECT_TRUE(parsed) << diagnostics.render();
    return parsed.value_or(schedule::Schedule{});
  };
}

TEST(LowerToLoops, LoopsMeanWhatTheGraphMeans) {
  // CORRLOOM_SEED=S repeats one case, CORRLOOM_RUNS=N with it runs N from there on.
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 150;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    for (const kernel::Target& target : {small_host(), *kernel::ptx_target("sm_80")}) {
      expect_loops_mean_the_graph(any_case(seed), seed, target, [](const tensor::Graph& graph, PassContext& ctx) {
        return choose_schedule(graph, ctx);
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LowerToLoops, NoScheduleChangesABit) {
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 150;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    expect_loops_mean_the_graph(any_case(seed), seed, small_host(), any_schedule(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(LowerToLoops, LanesThatTakeTurnsChangeNoBit) {
  // Sums, and two accumulators of which the order matters; extents that leave rests of tiles and vectors.
  for (const char* step : {"add(%s, mul(%X[n, k], %W[o, k])) merge add(%s, %s.other)",
                           "max(%s, sub(%X[n, k], %W[o, k])) merge max(%s, %s.other)"}) {
    int turned = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      testing::RandomCase linear{testing::parsed(R"(graph @g(%X: f32[7, 48], %W: f32[21, 48]) -> (%Y) {
  %Y: f32[7, 21] = compute [n: 7, o: 21] reduce [k: 48] lanes(16) {
    acc %s: f32 = 0.0:f32 step )" + std::string(step) +
                                                 R"(
    yield mul(%s, 0.5:f32)
  }
}
)"),
                                 {{DType::F32, {7, 48}, {}}, {DType::F32, {21, 48}, {}}},
                                 {}};
      std::mt19937_64 random(seed);
      for (Array& input : linear.inputs) {
        for (std::int64_t k = 0; k < input.extents[0] * input.extents[1]; ++k)
          input.bits.push_back(scalar::Value::f32(static_cast<float>(random() % 2001) / 7 - 140).bits);
      }
      expect_loops_mean_the_graph(std::move(linear), seed, small_host(), [&](const tensor::Graph& graph, PassContext&) {
        RandomSchedule any(graph, seed);
        schedule::Schedule schedule = any.run();
        turned += any.turned;
        return schedule;
      });
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(turned, 10);
  }
}

TEST(LowerToLoops, ExtremesByLanesKeepNanAndTheSignsOfZeros) {
  const std::vector<double> numbers = {-0.0,
                                       0.0,
                                       1.5,
                                       -2.0,
                                       std::numeric_limits<double>::infinity(),
                                       -std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::quiet_NaN()};
  for (const std::string dtype : {"f32", "f64"}) {
    for (const std::string extreme : {"max", "min"}) {
      for (std::uint64_t seed = 0; seed < 60; ++seed) {
        // One row has several accumulators; a few have one each. Some seeds draw from zeros alone, or leave NaN out.
        const std::int64_t rows = 1 + static_cast<std::int64_t>(seed % 3), elements = seed % 2 == 0 ? 150 : 48;
        const std::string n = std::to_string(rows), k = std::to_string(elements);
        const std::string limit = extreme == "max" ? "-inf:" : "inf:";
        testing::RandomCase rest{
            testing::parsed("graph @g(%X: " + dtype + "[" + n + ", " + k + "]) -> (%Y) {\n  %Y: " + dtype + "[" + n +
                            "] = compute [n: " + n + "] reduce [k: " + k + "] lanes(16) {\n    acc %s: " + dtype +
                            " = " + limit + dtype + " step " + extreme + "(%s, %X[n, k]) merge " + extreme +
                            "(%s, %s.other)\n    yield %s\n  }\n}\n"),
            {{dtype == "f32" ? DType::F32 : DType::F64, {rows, elements}, {}}},
            {}};
        std::mt19937_64 random(seed);
        const std::size_t first = seed % 4 == 1 ? 0 : seed % 5 == 0 ? 1 : 0;
        const std::size_t choices = seed % 4 == 1 ? 2 : seed % 4 == 2 ? 6 - first : 7 - first;
        for (std::int64_t e = 0; e < rows * elements; ++e) {
          const double value = random() % 8 == 0 ? numbers[first + random() % choices] : extreme == "max" ? -3 : 3;
          rest.inputs[0].bits.push_back(dtype == "f32" ? scalar::Value::f32(static_cast<float>(value)).bits
                                                       : scalar::Value::f64(value).bits);
        }
        expect_loops_mean_the_graph(std::move(rest), seed, small_host(), any_schedule(seed));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(LowerToLoops, PaddingInsidePipelinesChangesNoBit) {
  const char *given = std::getenv("CORRLOOM_SEED"), *runs = std::getenv("CORRLOOM_RUNS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : given != nullptr ? 1 : 400;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    expect_loops_mean_the_graph(padded_case(seed), seed, small_host(), any_schedule(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(LowerToLoops, SumsInSeveralVectorsGoOnFromWhatOuterLoopsHold) {
  // Integers add up in several vectors at once in the inner loop; the outer one brings a sum to go on from.
  const auto graph = testing::parsed(R"(graph @g(%X: i32[2, 9, 300]) -> (%Y) {
  %Y: i32[2] = compute [c: 2] reduce [i: 4, j: 288] ascending {
    acc %s: i32 = 0:i32 step add(%s, %X[c, mul(i, 2:i64), j]) merge add(%s, %s.other)
    yield %s
  }
}
)");
  Array x{DType::I32, {2, 9, 300}, {}};
  for (int k = 0; k < 2 * 9 * 300; ++k) x.bits.push_back(static_cast<std::uint64_t>(k));
  const auto chosen = [](const tensor::Graph& g, PassContext& ctx) { return choose_schedule(g, ctx); };
  expect_loops_mean_the_graph({graph, {x}, {}}, 0, small_host(), chosen);
  for (std::uint64_t seed = 0; seed < 20 && !HasFatalFailure(); ++seed)
    expect_loops_mean_the_graph({graph, {x}, {}}, seed, small_host(), any_schedule(seed));
}

TEST(LowerToLoops, DivisionsOfLanesBecomeProducts) {
  // Dividends up to the ends of what a product has room for, and beyond; next to multiples of the divisor most of all.
  const std::int64_t most = std::int64_t{1} << 30;
  for (const std::int64_t divisor : {3, 7, 640, 641, 65535, 1000003, 715827883}) {
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{1921}, divisor - 1, divisor + 1}) {
      if (step < 1 || step * 200 >= most) continue;
      const std::int64_t last = most - 1 - step * 199;
      for (const std::int64_t first : {std::int64_t{0}, divisor - 100, last, last + 1}) {
        if (first < 0) continue;
        const std::string place = "add(mul(i, " + std::to_string(step) + ":i64), " + std::to_string(first) + ":i64)";
        const auto graph = testing::parsed(R"(graph @g() -> (%Y, %Z) {
  %Y: i64[200] = compute [i: 200] {
    yield floordiv()" + place + ", " + std::to_string(divisor) +
                                           R"(:i64)
  }
  %Z: i64[200] = compute [i: 200] {
    yield mod()" + place + ", " + std::to_string(divisor) +
                                           R"(:i64)
  }
}
)");
        expect_loops_mean_the_graph({graph, {}, {}}, 0, small_host(),
                                    [](const tensor::Graph& g, PassContext& ctx) { return choose_schedule(g, ctx); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(LowerToLoops, AlignedPiecesMeetTheBorderAnywhere) {
  // Rows of 37 elements begin anywhere in a line: the second tile of a row may begin at 1, 2 or 3 and needs padding,
  // too.
  testing::RandomCase stencil{testing::parsed(R"(graph @g(%X: f32[5, 37]) -> (%Y) {
  %Y: f32[5, 37] = compute [i: 5, j: 37] {
    yield sub(%X[i, add(j, -4:i64)] pad 0.5:f32, %X[i, add(j, 4:i64)] pad 0.5:f32)
  }
}
)"),
                              {{DType::F32, {5, 37}, {}}},
                              {}};
  for (int k = 0; k < 5 * 37; ++k) stencil.inputs[0].bits.push_back(scalar::Value::f32(static_cast<float>(k)).bits);
  expect_loops_mean_the_graph(std::move(stencil), 0, small_host(), given_schedule(R"(schedule @g target host {
  %Y root streaming {
    i by 1 block
    j by 64 block
    j by 8
    j by 4 unroll
    j by 1 vector
  }
}
)"));
}

TEST(LowerToLoops, VectorsOfOneElementAreNoRamps) {
  // All of the last axis, and vectors along one element of the axis before it: there is nothing to stand between.
  testing::RandomCase chain{testing::parsed(R"(graph @g(%X: f32[5, 2]) -> (%Y) {
  %T: f32[5, 2] = compute [i: 5, j: 2] {
    yield neg(%X[i, j])
  }
  %Y: f32[5, 2] = compute [i: 5, j: 2] {
    yield sub(%T[i, j], %T[i, sub(1:i64, j)])
  }
}
)"),
                            {{DType::F32, {5, 2}, {}}},
                            {}};
  for (int k = 0; k < 10; ++k) chain.inputs[0].bits.push_back(scalar::Value::f32(static_cast<float>(k * k)).bits);
  expect_loops_mean_the_graph(std::move(chain), 0, small_host(), given_schedule(R"(schedule @g target host {
  %T at %Y 0 {
    i by 4
    j by 1 unroll
    i by 1 vector
  }
  %Y root {
    i by 1 block
    j by 1
  }
}
)"));
}

TEST(LowerToLoops, SweepsInSingleStepsReachUnrolledWindows) {
  testing::RandomCase window{testing::parsed(R"(graph @g(%P: f32[6, 7], %Q: f32[3, 4]) -> (%Y) {
  %Y: f32[4, 4] = compute [i: 4, j: 4] reduce [q: 4, p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%P[add(i, p), add(j, q)], %Q[p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)"),
                             {{DType::F32, {6, 7}, {}}, {DType::F32, {3, 4}, {}}},
                             {}};
  for (tensor::Array& input : window.inputs) {
    for (int k = 0; k < input.extents[0] * input.extents[1]; ++k)
      input.bits.push_back(scalar::Value::f32(static_cast<float>(k * k)).bits);
  }
  expect_loops_mean_the_graph(std::move(window), 0, small_host(), given_schedule(R"(schedule @g target host {
  %Y root {
    i by 4 block
    j by 4 block
    q by 1
    i by 2
    p by 1 unroll
    i by 1 unroll
    j by 1 vector
  }
}
)"));
}

}  // namespace
}  // namespace corrloom::passes
