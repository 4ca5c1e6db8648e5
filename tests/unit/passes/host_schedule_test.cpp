#include "compiler/passes/host_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/passes/apply_staging.h"
#include "compiler/passes/choose_schedule.h"
#include "compiler/passes/flatten_indices.h"
#include "compiler/passes/lower_to_loops.h"
#include "ir/loop/function.h"
#include "ir/loop/text.h"
#include "tests/unit/ir/tensor/parsed.h"
#include "tests/unit/passes/host_test.h"

namespace corrloom::passes {
namespace {

using testing::flattened;
using testing::loops_of;
using testing::lowered;
using testing::parsed;
using testing::vector_loads;
using testing::VectorLoads;
using testing::wide_host;

constexpr const char* kCorrelation = R"(
graph @g(%x: f32[480, 270], %k: f32[3, 3]) -> (%y) {
  %y: f32[478, 268] = compute [i: 478, j: 268] reduce [q: 3, p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%x[add(i, p), add(j, q)], %k[p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)";

TEST(HostSchedule, WindowsWalkMemoryInOrder) {
  // A band of rows from end to end, then the next: nothing but the window would be used again further down.
  const std::vector<schedule::Loop> loops = loops_of(kCorrelation);
  ASSERT_GE(loops.size(), 2U);
  EXPECT_EQ(loops[0].axis, "i");
  EXPECT_EQ(loops[0].bind, schedule::Bind::Block);
  EXPECT_LT(loops[0].step, 478);
  EXPECT_EQ(loops[1].axis, "j");
  EXPECT_EQ(loops[1].bind, schedule::Bind::Block);
  EXPECT_GE(loops[1].step, 268);
}

TEST(HostSchedule, RowsOfAWindowShareLoads) {
  const std::vector<loop::Function> functions = lowered(kCorrelation);
  ASSERT_EQ(functions.size(), 1U);
  int products = 0;
  loop::for_each_block(functions[0].body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      const auto* apply = std::get_if<loop::Apply>(&instr.kind);
      products += apply != nullptr && apply->opcode == scalar::Opcode::Fma ? 1 : 0;
    }
  });
  const VectorLoads loads = vector_loads(functions[0]);
  EXPECT_LE(loads.all * 2, products) << loop::print(functions[0]);
  EXPECT_EQ(loads.gathered, 0);
}

TEST(HostSchedule, NeighboursTwoApartComeFromWholeVectors) {
  const std::vector<loop::Function> functions = flattened(R"(
graph @g(%x: f32[8, 64, 64]) -> (%y) {
  %y: f32[8, 32, 32] = compute [c: 8, i: 32, j: 32] reduce [q: 2, p: 2] ascending {
    acc %s: f32 = -inf:f32 step max(%s, %x[c, add(mul(2:i64, i), p), add(mul(2:i64, j), q)]) merge max(%s, %s.other)
    yield %s
  }
}
)");
  ASSERT_EQ(functions.size(), 1U);
  const VectorLoads loads = vector_loads(functions[0]);
  EXPECT_EQ(loads.gathered, 0) << loop::print(functions[0]);
  EXPECT_EQ(loads.masked, 0);
  // Two rows of two vectors for each vector of the result.
  EXPECT_EQ(loads.all % 4, 0);
}

TEST(HostSchedule, LanesNearEachOtherComeFromWholeVectors) {
  const auto loads_of = [](const std::string& extent, const std::string& body) {
    return vector_loads(flattened("graph @g(%x: f32[8, 64], %a: f32[64, 3], %b: f32[2, 64]) -> (%y) {\n  %y: f32[" +
                                  extent + "] = compute [j: " + extent + "] { yield " + body + " }\n}\n")
                            .at(0));
  };
  for (const auto& [extent, body] : std::vector<std::pair<std::string, std::string>>{
           {"64", "%x[3:i64, sub(63:i64, j)]"},               // backwards
           {"128", "%x[1:i64, floordiv(j, 2:i64)]"},          // each twice
           {"64", "%a[j, 1:i64]"},                            // a column of three
           {"128", "%b[mod(j, 2:i64), floordiv(j, 2:i64)]"},  // from two rows in turn
           {"128", "if(eq(mod(j, 2:i64), 0:i64), %x[0:i64, floordiv(j, 2:i64)], %x[5:i64, floordiv(j, 2:i64)])"},
           {"64", "%x[0:i64, sub(add(j, 1:i64), mul(2:i64, mod(j, 2:i64)))]"}}) {  // neighbours change places
    const VectorLoads loads = loads_of(extent, body);
    EXPECT_EQ(loads.gathered, 0) << body;
    EXPECT_GT(loads.all, 0) << body;
  }
  // Lanes that lie further apart than a few vectors are picked one by one, and so is what memory says.
  EXPECT_GT(loads_of("64", "%x[floordiv(j, 8:i64), mul(8:i64, mod(j, 8:i64))]").gathered, 0);
  EXPECT_GT(loads_of("64", "%x[0:i64, min(max(cast.i64(%x[1:i64, j]), 0:i64), 63:i64)]").gathered, 0);
}

TEST(HostSchedule, SoManyVectorsThatDividedAxesRepeat) {
  // Three elements, or seven, are no vectors: the lanes lie alike again after as many vectors.
  for (const auto& [extent, subscript] :
       std::vector<std::pair<std::string, std::string>>{{"6000", "floordiv(j, 3:i64)"},
                                                        {"5600", "floordiv(add(mul(j, 20:i64), 6:i64), 7:i64)"},
                                                        {"5600", "add(mul(2:i64, j), mod(j, 5:i64))"},
                                                        {"100", "floordiv(j, 20:i64)"}}) {
    const std::string text = "graph @g(%x: f32[16, 20000]) -> (%y) {\n  %y: f32[16, " + extent +
                             "] = compute [i: 16, j: " + extent + "] { yield %x[floordiv(i, 5:i64), " + subscript +
                             "] }\n}\n";
    const VectorLoads loads = vector_loads(flattened(text).at(0));
    EXPECT_EQ(loads.gathered, 0) << subscript;
    EXPECT_GT(loads.all, 0) << subscript;
  }
}

constexpr const char* kPadded = R"(
graph @g(%x: f32[8, 56, 64], %k: f32[8, 3, 3]) -> (%y) {
  %y: f32[8, 56, 64] = compute [c: 8, i: 56, j: 64] reduce [q: 3, p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(if(land(land(ge(sub(add(i, p), 1:i64), 0:i64), lt(sub(add(i, p), 1:i64), 56:i64)), land(ge(sub(add(j, q), 1:i64), 0:i64), lt(sub(add(j, q), 1:i64), 64:i64))), %x[c, sub(add(i, p), 1:i64), sub(add(j, q), 1:i64)], 0.0:f32), %k[c, p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)";

/// What the bodies of a function store, select and mask.
struct Bodies {
  int stores = 0, selects = 0;
  std::set<loop::ValueId> masks;
};

Bodies bodies_of(const loop::Function& function) {
  Bodies found;
  loop::for_each_block(function.body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      found.stores += std::holds_alternative<loop::Store>(instr.kind) ? 1 : 0;
      const auto* load = std::get_if<loop::Load>(&instr.kind);
      if (load != nullptr && load->mask) found.masks.insert(load->mask);
      const auto* apply = std::get_if<loop::Apply>(&instr.kind);
      found.selects += apply != nullptr && apply->opcode == scalar::Opcode::Select ? 1 : 0;
    }
  });
  return found;
}

TEST(HostSchedule, OnlyBordersAreMasked) {
  // One body for the middle and the borders, of rows that divide the image: what the first and the last element of a
  // window and the first and the last row of a tile ask is all that it asks.
  const std::vector<loop::Function> functions = lowered(kPadded);
  ASSERT_EQ(functions.size(), 1U);
  EXPECT_EQ(vector_loads(functions[0]).gathered, 0);
  const Bodies bodies = bodies_of(functions[0]);
  EXPECT_LE(bodies.stores, 14) << loop::print(functions[0]);
  EXPECT_LE(bodies.masks.size(), 8U) << loop::print(functions[0]);
  EXPECT_EQ(bodies.selects, 0);
}

TEST(HostSchedule, BordersTwoElementsWideShareABody) {
  // The window's elements lie two apart; the last columns are part of a vector.
  std::string dilated = kPadded;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"add(i, p), 1:i64", "add(i, mul(p, 2:i64)), 2:i64"},
        {"add(j, q), 1:i64", "add(j, mul(q, 2:i64)), 2:i64"},
        {"56, 64] ", "56, 56] "},
        {"56, 64],", "56, 56],"},
        {"56, 64])", "56, 56])"},
        {"j: 64", "j: 56"},
        {"64:i64", "56:i64"}}) {
    for (std::size_t at = dilated.find(from); at != std::string::npos; at = dilated.find(from, at + to.size()))
      dilated.replace(at, from.size(), to);
  }
  const std::vector<loop::Function> functions = lowered(dilated);
  ASSERT_EQ(functions.size(), 1U);
  const Bodies bodies = bodies_of(functions[0]);
  EXPECT_LE(bodies.stores, 2 * 14) << loop::print(functions[0]);
  EXPECT_EQ(bodies.selects, 0);
}

TEST(HostSchedule, LongSumsAskForMemoryAhead) {
  const auto graph = [](const std::string& rows, const std::string& elements) {
    return "graph @g(%x: f32[" + rows + ", " + elements + "]) -> (%y) {\n  %y: f32[" + rows +
           "] = compute [i: " + rows + "] reduce [k: " + elements +
           "] lanes(16) {\n    acc %s: f32 = 0.0:f32 step add(%s, %x[i, k]) merge add(%s, %s.other)\n    yield %s\n  "
           "}\n}\n";
  };
  const auto prefetches = [](const std::string& text) {
    PassContext ctx = wide_host();
    return choose_schedule(parsed(text), ctx).stages.at(0).prefetches;
  };
  const std::vector<schedule::Prefetch> far = prefetches(graph("1", "100000000"));
  ASSERT_EQ(far.size(), 1U);
  EXPECT_EQ(far[0].axis, "k");
  EXPECT_TRUE(prefetches(graph("1", "100000")).empty());     // from a cache
  EXPECT_TRUE(prefetches(graph("64", "10000000")).empty());  // rows side by side
  // One for each vector, whatever order the vectors are added in.
  const std::vector<loop::Function> functions = flattened(graph("1", "100000000"));
  ASSERT_EQ(functions.size(), 1U);
  int loads = 0, asked = 0;
  loop::for_each_block(functions[0].body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      loads += std::holds_alternative<loop::Load>(instr.kind) ? 1 : 0;
      asked += std::holds_alternative<loop::Prefetch>(instr.kind) ? 1 : 0;
    }
  });
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(asked, loads) << loop::print(functions[0]);
}

TEST(HostSchedule, RowsOfRunningSumsGoOnSideBySide) {
  // Along memory each row waits for its own sum; vectors across the rows would gather and scatter all elements.
  const auto loops = [](const std::string& rows, const std::string& columns) {
    return loops_of("graph @g(%x: f32[" + rows + ", " + columns + "]) -> (%y) {\n  %y: f32[" + rows + ", " + columns +
                    "] = compute [i: " + rows + ", j: " + columns +
                    "] reduce [k: add(j, 1:i64)] ascending {\n    acc %s: f32 = 0.0:f32 step add(%s, %x[i, k]) merge "
                    "add(%s, %s.other)\n    yield %s\n  }\n}\n");
  };
  const auto rows_of = [](const std::vector<schedule::Loop>& all) {
    std::int64_t rows = 0;
    for (const schedule::Loop& loop : all) {
      EXPECT_NE(loop.bind, schedule::Bind::Vector);
      if (loop.axis == "i" && loop.bind != schedule::Bind::Unroll) rows = loop.step;
    }
    EXPECT_EQ(all.back().bind, schedule::Bind::Unroll);
    return rows;
  };
  EXPECT_EQ(rows_of(loops("1000", "10000")), 8);
  EXPECT_EQ(rows_of(loops("1000", "8192")), 4);  // rows that share sets of the cache
  EXPECT_EQ(rows_of(loops("3", "10000")), 3);
  const std::vector<schedule::Loop> of_short = loops("10000", "16");
  EXPECT_EQ(rows_of(of_short), 8);
  EXPECT_GT(of_short.front().step, 8);  // a block worth a task
}

TEST(HostSchedule, ShortLastAxesAreStoredBetweenEachOther) {
  // The channels of an image move to its end: whole vectors are loaded and stored.
  const std::vector<loop::Function> functions = flattened(R"(
graph @g(%x: f32[3, 640]) -> (%y) {
  %y: f32[640, 3] = compute [i: 640, c: 3] { yield %x[c, i] }
}
)");
  ASSERT_EQ(functions.size(), 1U);
  const VectorLoads loads = vector_loads(functions[0]);
  EXPECT_GT(loads.all, 0);
  EXPECT_EQ(loads.gathered, 0) << loop::print(functions[0]);
  int stores = 0;
  std::map<loop::ValueId, std::int64_t> strides;
  loop::for_each_block(functions[0].body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) {
      if (const auto* ramp = std::get_if<loop::Ramp>(&instr.kind)) strides[instr.results[0]] = ramp->stride;
      const auto* store = std::get_if<loop::Store>(&instr.kind);
      if (store == nullptr) continue;
      ++stores;
      EXPECT_EQ(strides[store->index.back()], 1) << loop::print(functions[0]);
      EXPECT_FALSE(store->mask);
    }
  });
  EXPECT_EQ(stores % 3, 0);
}

TEST(HostSchedule, ChannelsOfAPixelComeFromTheSameLoads) {
  // And back: each vector is loaded once for all channels.
  const std::vector<loop::Function> functions = flattened(R"(
graph @g(%x: f32[640, 3]) -> (%y) {
  %y: f32[3, 640] = compute [c: 3, i: 640] { yield %x[i, c] }
}
)");
  ASSERT_EQ(functions.size(), 1U);
  int stores = 0;
  loop::for_each_block(functions[0].body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) stores += std::holds_alternative<loop::Store>(instr.kind) ? 1 : 0;
  });
  const VectorLoads loads = vector_loads(functions[0]);
  EXPECT_EQ(loads.gathered, 0);
  EXPECT_EQ(loads.all, stores) << loop::print(functions[0]);
}

TEST(HostSchedule, OperandsSideBySideAreReadWhereTheyStand) {
  // A row belongs to one of the two; within a row only the vector at the seam has parts of both.
  const auto functions_of = [](const std::string& condition, const std::string& x, const std::string& y) {
    return lowered(
        "graph @g(%x: f32[64, 256], %y: f32[64, 256]) -> (%z) {\n  %z: f32[64, 256] = compute [i: 64, j: 256]"
        " { yield if(lt(" +
        condition + ", 31:i64), %x[" + x + "], %y[" + y + "]) }\n}\n");
  };
  const std::vector<loop::Function> rows = functions_of("i", "i, j", "sub(i, 31:i64), j");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(vector_loads(rows[0]).masked, 0) << loop::print(rows[0]);
  const std::vector<loop::Function> columns = functions_of("j", "i, j", "i, sub(j, 31:i64)");
  ASSERT_EQ(columns.size(), 1U);
  const VectorLoads loads = vector_loads(columns[0]);
  EXPECT_GT(loads.masked, 0);
  EXPECT_GE(loads.all, 2 * loads.masked) << loop::print(columns[0]);
}

TEST(HostSchedule, StencilsShareRows) {
  // A tile of rows loads each row of the input once.
  const std::vector<loop::Function> functions = lowered(R"(
graph @g(%x: f32[130, 512]) -> (%y) {
  %y: f32[128, 512] = compute [i: 128, j: 512] {
    yield add(add(%x[i, j], %x[add(i, 1:i64), j]), %x[add(i, 2:i64), j])
  }
}
)");
  ASSERT_EQ(functions.size(), 1U);
  int stores = 0;
  loop::for_each_block(functions[0].body, [&](const loop::Block& block) {
    for (const loop::Instr& instr : block.instrs) stores += std::holds_alternative<loop::Store>(instr.kind) ? 1 : 0;
  });
  const VectorLoads loads = vector_loads(functions[0]);
  EXPECT_LE(loads.all * 2, stores * 3) << loop::print(functions[0]);
}

TEST(HostSchedule, LongPanelsOfFewRowsAreSweptInPieces) {
  const auto product = [](const std::string& m, const std::string& k, const std::string& n) {
    return loops_of(
        "graph @g(%a: f32[" + m + ", " + k + "], %b: f32[" + k + ", " + n + "]) -> (%y) {\n  %y: f32[" + m + ", " + n +
        "] = compute [i: " + m + ", j: " + n + "] reduce [k: " + k +
        "] ascending {\n    acc %s: f32 = 0.0:f32 step fma(%a[i, k], %b[k, j], %s) merge add(%s, %s.other)\n"
        "    yield %s\n  }\n}\n");
  };
  const auto is_swept = [](const std::vector<schedule::Loop>& loops) {
    return std::any_of(loops.begin(), loops.end(),
                       [](const schedule::Loop& loop) { return loop.axis == "k" && loop.step > 1; });
  };
  EXPECT_TRUE(is_swept(product("128", "3072", "768")));
  EXPECT_TRUE(is_swept(product("64", "4096", "64")));
  EXPECT_FALSE(is_swept(product("512", "1024", "1024")));  // packing pays
  EXPECT_FALSE(is_swept(product("128", "512", "512")));    // one piece
  EXPECT_FALSE(is_swept(product("64", "768", "1024")));    // a panel stays near as it is
}

TEST(HostSchedule, EachBlockPacksThePanelThatItWorksOn) {
  const auto product = [](const std::string& m, const std::string& k, const std::string& n) {
    PassContext ctx = wide_host();
    ctx.target.l3_bytes = 32 << 20;
    const tensor::Graph graph =
        parsed("graph @g(%a: f32[" + m + ", " + k + "], %b: f32[" + k + ", " + n + "]) -> (%y) {\n  %y: f32[" + m +
               ", " + n + "] = compute [i: " + m + ", j: " + n + "] reduce [k: " + k +
               "] ascending {\n    acc %s: f32 = 0.0:f32 step fma(%a[i, k], %b[k, j], %s) merge add(%s, %s.other)\n"
               "    yield %s\n  }\n}\n");
    return choose_schedule(graph, ctx).stages.at(0);
  };
  const auto packed_at = [](const schedule::Stage& stage) {
    return stage.staging.empty() ? -2 : stage.staging.at(0).loop;
  };
  const auto is_cut = [](const schedule::Stage& stage) {
    return std::any_of(stage.loops.begin(), stage.loops.end(),
                       [](const schedule::Loop& loop) { return loop.axis == "k" && loop.step > 1; });
  };
  EXPECT_EQ(packed_at(product("1536", "1536", "1536")), 0);
  EXPECT_EQ(packed_at(product("1024", "1024", "1024")), 0);
  EXPECT_EQ(packed_at(product("1000", "1000", "1000")), 0);
  EXPECT_EQ(packed_at(product("512", "512", "512")), -1);     // packed at once in less time
  EXPECT_EQ(packed_at(product("256", "256", "256")), -2);     // it stays near as it is
  EXPECT_EQ(packed_at(product("4096", "1024", "2048")), -1);  // rows leave the caches before the next panel
  EXPECT_EQ(packed_at(product("1024", "1024", "256")), -1);   // few panels
  EXPECT_TRUE(is_cut(product("4096", "4096", "4096")));       // a panel of the whole reduction does not stay near
  EXPECT_FALSE(is_cut(product("4096", "1024", "4096")));
}

TEST(HostSchedule, LongReductionsByLanesAreCutWhereTheirColumnsStayNear) {
  const auto product = [](const std::string& m, const std::string& k) {
    return loops_of("graph @g(%a: f32[" + m + ", " + k + "], %b: f32[768, " + k + "]) -> (%y) {\n  %y: f32[" + m +
                    ", 768] = compute [i: " + m + ", j: 768] reduce [k: " + k +
                    "] lanes(16) {\n    acc %s: f32 = 0.0:f32 step fma(%a[i, k], %b[j, k], %s) merge add(%s, "
                    "%s.other)\n    yield %s\n  }\n}\n");
  };
  const auto piece = [](const std::vector<schedule::Loop>& loops) {
    std::int64_t step = 0;
    for (const schedule::Loop& loop : loops) step = loop.axis == "k" ? std::max(step, loop.step) : step;
    return step;
  };
  EXPECT_EQ(piece(product("400", "3072")), 624);  // five pieces of whole vectors
  EXPECT_EQ(piece(product("512", "3072")), 1);    // enough rows for turns of lanes, over copies of both
  EXPECT_EQ(piece(product("512", "512")), 1);     // they stay near as they are
  EXPECT_EQ(piece(product("2", "3072")), 1);      // nothing meets them again
  EXPECT_GT(piece(product("4", "3072")), 1);      // few rows that stay near while all columns pass
  EXPECT_EQ(product("512", "3072").back().axis, "j");
  EXPECT_EQ(product("400", "3072").back().axis, "i");
}

TEST(HostSchedule, ShortRowsFillBlocksEvenly) {
  // A block has as many short rows as leave none over: a last block of fewer would need tests around every row.
  const auto rows_of = [](const std::string& rows, const std::string& columns) {
    const std::vector<schedule::Loop> loops =
        loops_of("graph @g(%x: f32[" + rows + ", " + columns + "]) -> (%y) {\n  %y: f32[" + rows + ", " + columns +
                 "] = compute [i: " + rows + ", j: " + columns + "] { yield mul(%x[i, j], 2.0:f32) }\n}\n");
    EXPECT_EQ(loops.at(0).axis, "i");
    return loops.at(0).step;
  };
  EXPECT_EQ(rows_of("6", "1000"), 3);     // four would leave two over
  EXPECT_EQ(rows_of("6", "250"), 6);      // all of them
  EXPECT_EQ(rows_of("1021", "1000"), 4);  // a prime
}

TEST(HostSchedule, ALoadThatRowsShareMakesNoStencil) {
  // exp(x[n, d] - m[n]) runs along memory: columns share m, but nothing else.
  const std::vector<schedule::Loop> loops = loops_of(R"(
graph @g(%x: f32[128, 50257], %m: f32[128]) -> (%y) {
  %y: f32[128, 50257] = compute [n: 128, d: 50257] {
    yield sub(%x[n, d], %m[n])
  }
}
)");
  ASSERT_FALSE(loops.empty());
  EXPECT_EQ(loops.back().axis, "d");
  EXPECT_EQ(loops.back().bind, schedule::Bind::Vector);
}

TEST(HostSchedule, ImagesStayNearWhilePanelsStream) {
  const std::vector<schedule::Loop> loops = loops_of(R"(
graph @conv(%X: f32[32, 256, 16, 16], %K: f32[256, 256, 3, 3]) -> (%Y) {
  %Y: f32[32, 256, 14, 14] = compute [n: 32, o: 256, i: 14, j: 14] reduce [c: 256, p: 3, q: 3] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%X[n, c, add(i, p), add(j, q)] check proven, %K[o, c, p, q] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)");
  ASSERT_GE(loops.size(), 3U);
  EXPECT_EQ(loops[0].axis, "n");
  EXPECT_EQ(loops[1].axis, "o");
  EXPECT_EQ(loops[2].axis, "i");
}

/// A convolution of so many padded images, `channels` each, with as many filters of 3x3.
schedule::Stage padded_convolution(const std::string& images, const std::string& channels, const std::string& size) {
  PassContext ctx = wide_host();
  const auto inside = [&](const std::string& at) {
    return "land(ge(" + at + ", 0:i64), lt(" + at + ", " + size + ":i64))";
  };
  const std::string row = "sub(add(i, p), 1:i64)", column = "sub(add(j, q), 1:i64)";
  const std::string shape = channels + ", " + size + ", " + size;
  const tensor::Graph graph =
      parsed("graph @conv(%X: f32[" + images + ", " + shape + "], %K: f32[" + channels + ", " + channels +
             ", 3, 3]) -> (%Y) {\n  %Y: f32[" + images + ", " + shape + "] = compute [n: " + images +
             ", o: " + channels + ", i: " + size + ", j: " + size + "] reduce [c: " + channels +
             ", p: 3, q: 3] ascending {\n    acc %s: f32 = 0.0:f32 step fma(if(land(" + inside(row) + ", " +
             inside(column) + "), %X[n, c, " + row + ", " + column +
             "], 0.0:f32), %K[o, c, p, q], %s) merge add(%s, %s.other)\n    yield %s\n  }\n}\n");
  return choose_schedule(graph, ctx).stages.at(0);
}

/// The loop at which the stage copies %X, or -1.
int copied_at(const schedule::Stage& stage) {
  for (const schedule::Staging& staging : stage.staging) {
    if (staging.tensor == "X") return staging.loop;
  }
  return -1;
}

TEST(HostSchedule, CopiesOfManyImagesAreMadeImageByImage) {
  const schedule::Stage stage = padded_convolution("32", "256", "14");
  ASSERT_EQ(copied_at(stage), 0);
  EXPECT_EQ(stage.loops[0], (schedule::Loop{"n", 1, schedule::Bind::Block}));
  EXPECT_EQ(stage.loops[1].bind, schedule::Bind::Serial);
  EXPECT_EQ(copied_at(padded_convolution("1", "256", "14")), -1);  // stays near
  EXPECT_EQ(copied_at(padded_convolution("4", "256", "14")), -1);  // blocks would be few
}

TEST(HostSchedule, CopiesOfLargeImagesAreMadeInBands) {
  const schedule::Stage stage = padded_convolution("32", "64", "56");
  ASSERT_EQ(copied_at(stage), 1);
  EXPECT_EQ(stage.loops[1].axis, "i");
  EXPECT_EQ(stage.loops[1].bind, schedule::Bind::Block);
  EXPECT_GT(stage.loops[1].step, 3);   // what bands share is copied twice
  EXPECT_LT(stage.loops[1].step, 56);  // more than a block may keep
  // Lines of 25 MiB of results come from memory.
  ASSERT_EQ(stage.prefetches.size(), 1U);
  EXPECT_EQ(stage.prefetches[0].tensor, "Y");
  EXPECT_EQ(stage.prefetches[0].axis, "j");
}

TEST(HostSchedule, RowsOfAWindowShareFewSets) {
  // Rows a page apart all lie in one set of the first-level cache.
  const auto rows = [](const std::string& width) {
    const std::vector<schedule::Loop> loops =
        loops_of("graph @corr2d(%x: f32[480, " + width + R"(], %k: f32[3, 3]) -> (%y) {
  %y: f32[478, 1000] = compute [i: 478, j: 1000] reduce [q: 3, p: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(%x[add(i, p), add(j, q)] check proven, %k[p, q] check proven, %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
    std::int64_t smallest = 478;
    for (const schedule::Loop& loop : loops) {
      if (loop.axis == "i" && loop.step > 1) smallest = std::min(smallest, loop.step);
    }
    return smallest;
  };
  EXPECT_GT(rows("1080"), 6);
  EXPECT_LE(rows("1024"), 6);
}

TEST(HostSchedule, WindowsWhoseRowsShareSetsAreCopiedInParts) {
  // Many taps that would wait for each load are worth a copy with rows of another length; few are not.
  const auto copied = [](const std::string& width, const std::string& taps) {
    PassContext ctx = wide_host();
    const tensor::Graph graph =
        parsed("graph @corr2d(%X: f32[1024, " + width + "], %k: f32[" + taps + ", " + taps + R"(]) -> (%y) {
  %y: f32[1000, 1000] = compute [i: 1000, j: 1000] reduce [q: )" +
               taps + ", p: " + taps + R"(] ascending {
    acc %s: f32 = 0.0:f32 step fma(%X[add(i, p), add(j, q)] check proven, %k[p, q] check proven, %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
    return copied_at(choose_schedule(graph, ctx).stages.at(0));
  };
  EXPECT_EQ(copied("1024", "11"), 1);
  EXPECT_EQ(copied("1032", "11"), -1);
  EXPECT_EQ(copied("1024", "3"), -1);
}

TEST(HostSchedule, StridedWindowsOfWideImagesAreCopiedInPhases) {
  // Each tap then reads neighbours, and rows are stored as they lie.
  const std::string graph = R"(
graph @stem(%X: f32[3, 224, 224], %K: f32[32, 3, 3, 3]) -> (%Y) {
  %Y: f32[32, 112, 112] = compute [o: 32, i: 112, j: 112] reduce [c: 3, p: 3, q: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(if(land(lt(add(mul(2:i64, i), p), 224:i64), lt(add(mul(2:i64, j), q), 224:i64)), %X[c, add(mul(2:i64, i), p), add(mul(2:i64, j), q)], 0.0:f32), %K[o, c, p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)";
  EXPECT_EQ(loops_of(graph).back(), (schedule::Loop{"j", 1, schedule::Bind::Vector}));
  for (const loop::Function& function : flattened(graph)) {
    const VectorLoads loads = vector_loads(function);
    EXPECT_GT(loads.all, 0);
    EXPECT_EQ(loads.gathered, 0) << loop::print(function);
  }
}

TEST(HostSchedule, WindowsOfSeveralResultsAreCopiedOnce) {
  // Eight results of a group have one operand: blocks of one result each would all copy it.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @groups(%X: f32[256, 14, 14], %K: f32[32, 8, 8, 3, 3]) -> (%Y) {
  %Y: f32[32, 8, 14, 14] = compute [g: 32, o: 8, i: 14, j: 14] reduce [c: 8, p: 3, q: 3] ascending {
    acc %s: f32 = 0.0:f32 step fma(if(land(land(ge(sub(add(i, p), 1:i64), 0:i64), lt(sub(add(i, p), 1:i64), 14:i64)), land(ge(sub(add(j, q), 1:i64), 0:i64), lt(sub(add(j, q), 1:i64), 14:i64))), %X[add(mul(g, 8:i64), c), sub(add(i, p), 1:i64), sub(add(j, q), 1:i64)], 0.0:f32), %K[g, o, c, p, q], %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
  const schedule::Stage stage = choose_schedule(graph, ctx).stages.at(0);
  ASSERT_EQ(stage.staging.size(), 1U);
  EXPECT_EQ(stage.staging.front().loop, -1);
}

TEST(HostSchedule, RowsOfATileLieCloseTogether) {
  // Twelve images are more than the second-level cache holds beside a panel; seven pixels of one are not.
  const std::vector<schedule::Loop> loops = loops_of(R"(
graph @conv(%X: f32[16, 512, 9, 9], %K: f32[512, 512, 3, 3]) -> (%Y) {
  %Y: f32[16, 512, 7, 7] = compute [n: 16, o: 512, i: 7, j: 7] reduce [c: 512, p: 3, q: 3] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%X[n, c, add(i, p), add(j, q)] check proven, %K[o, c, p, q] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)");
  for (const schedule::Loop& loop : loops) {
    const bool is_row = loop.bind == schedule::Bind::Unroll && loop.axis != "o";
    EXPECT_TRUE(!is_row || loop.axis == "j") << loop.axis;
  }
}

/// Sums over windows of five by five, two apart, of images that have two elements of border; `in` columns make `out`.
std::string strided_windows(const std::string& channels, const std::string& in, const std::string& out) {
  const auto tap = [](const std::string& axis, const std::string& tap) {
    return "sub(add(mul(" + axis + ", 2:i64), " + tap + "), 2:i64)";
  };
  const auto inside = [&](const std::string& at) {
    return "land(ge(" + at + ", 0:i64), lt(" + at + ", " + in + ":i64))";
  };
  const std::string row = tap("i", "p"), column = tap("j", "q"), result = channels + ", " + out + ", " + out;
  return "graph @g(%x: f32[" + channels + ", " + in + ", " + in + "], %k: f32[" + channels + ", 5, 5]) -> (%y) {\n" +
         "  %y: f32[" + result + "] = compute [c: " + channels + ", i: " + out + ", j: " + out +
         "] reduce [q: 5, p: 5] ascending {\n    acc %s: f32 = 0.0:f32 step fma(if(land(" + inside(row) + ", " +
         inside(column) + "), %x[c, " + row + ", " + column +
         "] check proven, 0.0:f32), %k[c, p, q] check proven, %s) merge add(%s, %s.other)\n    yield %s\n  }\n}\n";
}

TEST(HostSchedule, StridedWindowsAreUnrolledAndStayInRegisters) {
  const std::string graph = strided_windows("8", "56", "28");
  const std::vector<loop::Function> functions = flattened(graph);
  ASSERT_EQ(functions.size(), 1U);
  EXPECT_EQ(vector_loads(functions[0]).gathered, 0);
  // Rows of two vectors each: 2 (r - 1) + 5 of them, and the sums.
  std::int64_t rows = 0;
  for (const schedule::Loop& loop : loops_of(graph)) {
    if (loop.axis == "i" && loop.step > 1) rows = loop.step;
  }
  EXPECT_GE(rows, 2);
  EXPECT_LE(rows, 4);
}

TEST(HostSchedule, StridedWindowsOfNarrowImagesComeFromOneVectorARow) {
  // All columns that a row of seven asks for lie in one vector: more rows fit, and no copy has channels as its lanes.
  std::int64_t rows = 0;
  for (const schedule::Loop& loop : loops_of(strided_windows("672", "14", "7"))) {
    if (loop.axis == "i" && loop.bind == schedule::Bind::Serial) rows = loop.step;
    if (loop.bind == schedule::Bind::Vector) EXPECT_EQ(loop.axis, "j");
  }
  EXPECT_GT(rows, 4);
}

TEST(HostSchedule, FewRowsOfAPanelAreReadInPlace) {
  const auto copies = [](const std::string& columns) {
    PassContext ctx = wide_host();
    const tensor::Graph graph = parsed("graph @product(%A: f32[1024, 64], %B: f32[64, " + columns + R"(]) -> (%Y) {
  %Y: f32[1024, )" + columns + R"(] = compute [i: 1024, j: )" +
                                       columns + R"(] reduce [k: 64] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%A[i, k] check proven, %B[k, j] check proven, %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)");
    return choose_schedule(graph, ctx).stages.at(0).staging.size();
  };
  EXPECT_EQ(copies("4160"), 0U);
  EXPECT_EQ(copies("4096"), 1U);  // rows share the sets of the first-level cache
}

TEST(HostSchedule, WhatWouldBeGatheredIsCopiedAlthoughItIsReadOnce) {
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @product(%x: f32[1280], %A: f32[1000, 1280]) -> (%y) {
  %y: f32[1000] = compute [i: 1000] reduce [k: 1280] ascending {
    acc %sum: f32 = 0.0:f32 step fma(%x[k], %A[i, k], %sum) merge add(%sum, %sum.other)
    yield %sum
  }
}
)");
  const schedule::Schedule chosen = choose_schedule(graph, ctx);
  ASSERT_EQ(chosen.stages.at(0).staging.size(), 1U);
  EXPECT_EQ(chosen.stages.at(0).staging[0].tensor, "A");
}

TEST(HostSchedule, ResultsWithoutElementsHaveNoBlocks) {
  // The axis that the reduction runs along is in no block.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[4, 3]) -> (%y) {
  %y: f32[0, 3] = compute [i: 0, j: 3] reduce [r: add(i, 1:i64)] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %x[add(r, 4:i64), j]) merge add(%s, %s.other)
    yield %s
  }
}
)");
  const std::vector<LoweredKernel> kernels = lower_to_loops(graph, choose_schedule(graph, ctx), ctx);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_TRUE(scalar::is_constant_i64(kernels[0].blocks, 0)) << loop::print(kernels[0].function);
}

TEST(HostFusion, PanelsThatDoNotStayNearServeManyRows) {
  // All columns are one block, so that the halved rows are computed once; then each panel of %b, 4 MiB in all, should
  // not be walked again for every few rows.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%a: f32[1024, 1024], %b: f32[1024, 1024]) -> (%y) {
  %h: f32[1024, 1024] = compute [n: 1024, k: 1024] {
    yield mul(%a[n, k], 0.5:f32)
  }
  %y: f32[1024, 1024] = compute [i: 1024, j: 1024] reduce [k: 1024] ascending {
    acc %s: f32 = 0.0:f32 step fma(%h[i, k], %b[k, j], %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  ASSERT_EQ(schedule.stages.at(0).placement.kind, schedule::Placement::Kind::At);
  const std::vector<schedule::Loop>& loops = schedule.stages.at(1).loops;
  std::int64_t rows = 0;
  std::size_t panels = 0, tiles = 0;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    if (loops[k].axis == "i" && loops[k].bind == schedule::Bind::Block) rows = loops[k].step;
    if (loops[k].axis == "j" && loops[k].bind == schedule::Bind::Serial) panels = k;
    if (loops[k].axis == "i" && loops[k].bind == schedule::Bind::Serial) tiles = k;
  }
  EXPECT_GE(rows, 24);
  EXPECT_LT(panels, tiles);
}

/// Rows and columns of products over so many elements, by lanes.
schedule::Stage stage_of_product(std::int64_t elements, std::int64_t rows = 512) {
  const std::string k = std::to_string(elements), n = std::to_string(rows);
  PassContext ctx = wide_host();
  ctx.target.l1_bytes = 48 << 10;
  const tensor::Graph graph = parsed("graph @g(%x: f32[" + n + ", " + k + "], %w: f32[768, " + k + R"(]) -> (%y) {
  %y: f32[)" + n +
                                     ", 768] = compute [i: " + n + ", j: 768] reduce [k: " + k + R"(] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(%x[i, k], %w[j, k], %s) merge add(%s, %s.other)
    yield %s
  }
}
)");
  return choose_schedule(graph, ctx).stages.at(0);
}

bool lanes_take_turns(const schedule::Stage& stage) {
  return std::any_of(stage.loops.begin(), stage.loops.end(), [](const schedule::Loop& loop) {
    return loop.axis == "j" && loop.bind == schedule::Bind::Vector;
  });
}

TEST(HostSchedule, LanesOfShortReductionsTakeTurns) {
  // A tree of shuffles costs more than a few steps. Panels of many do not stay in the nearest cache.
  EXPECT_TRUE(lanes_take_turns(stage_of_product(64)));
  EXPECT_FALSE(lanes_take_turns(stage_of_product(768)));
  // Few rows are not worth a copy, and the order needs whole vectors.
  EXPECT_FALSE(lanes_take_turns(stage_of_product(64, 12)));
  EXPECT_FALSE(lanes_take_turns(stage_of_product(60)));
}

TEST(HostFusion, PanelsOfAWholeOperandServeManyRows) {
  // Scores of a block of queries: the packed keys are walked once for each block.
  PassContext ctx = wide_host();
  ctx.target.l1_bytes = 48 << 10;
  const tensor::Graph graph = parsed(R"(
graph @g(%q: f32[512, 64], %k: f32[512, 64], %v: f32[512, 64]) -> (%y) {
  %s: f32[512, 512] = compute [n: 512, m: 512] reduce [d: 64] lanes(16) {
    acc %t: f32 = 0.0:f32 step fma(%q[n, d], %k[m, d], %t) merge add(%t, %t.other)
    yield %t
  }
  %y: f32[512, 64] = compute [i: 512, j: 64] reduce [e: 512] ascending {
    acc %u: f32 = 0.0:f32 step fma(%s[i, e], %v[e, j], %u) merge add(%u, %u.other)
    yield %u
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  ASSERT_EQ(schedule.stages.at(0).placement.kind, schedule::Placement::Kind::At);
  EXPECT_EQ(schedule.stages.at(0).staging.size(), 1u);
  std::int64_t rows = 0;
  for (const schedule::Loop& loop : schedule.stages.at(1).loops) {
    if (loop.axis == "i" && loop.bind == schedule::Bind::Block) rows = loop.step;
  }
  EXPECT_GE(rows, 12);
}

TEST(HostFusion, WhatFollowsAReductionByLanesIsDoneInItsBlocks) {
  PassContext ctx = wide_host();
  ctx.target.l1_bytes = 48 << 10;
  ctx.target.l2_bytes = 1 << 20;
  const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[512, 768], %w: f32[3072, 768]) -> (%y) {
  %y.sum: f32[512, 3072] = compute [n: 512, o: 3072] reduce [k: 768] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(%x[n, k], %w[o, k], %s) merge add(%s, %s.other)
    yield %s
  }
  %y: f32[512, 3072] = compute [i: 512, j: 3072] {
    yield mul(%y.sum[i, j], %y.sum[i, j])
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  EXPECT_EQ(schedule.stages.at(0).placement.kind, schedule::Placement::Kind::At);
  EXPECT_EQ(schedule.stages.at(1).loops.back(), (schedule::Loop{"j", 1, schedule::Bind::Vector}));
}

TEST(HostFusion, NothingIsComputedTwiceForARaggedBlock) {
  // Ten columns are more than one block of eight: the hidden layer must not be computed for each of them.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[64, 784], %w: f32[256, 784], %v: f32[10, 256]) -> (%y) {
  %h: f32[64, 256] = compute [n: 64, j: 256] reduce [i: 784] lanes(16) {
    acc %s: f32 = 0.0:f32 step fma(%x[n, i], %w[j, i], %s) merge add(%s, %s.other)
    yield max(%s, 0.0:f32)
  }
  %y: f32[64, 10] = compute [m: 64, o: 10] reduce [k: 256] lanes(16) {
    acc %t: f32 = 0.0:f32 step fma(%h[m, k], %v[o, k], %t) merge add(%t, %t.other)
    yield %t
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  const schedule::Stage& reader = schedule.stages.at(1);
  std::int64_t columns = 0;
  for (const schedule::Loop& loop : reader.loops) {
    if (loop.axis == "o" && loop.bind == schedule::Bind::Block) columns = loop.step;
  }
  EXPECT_TRUE(schedule.stages.at(0).placement.kind == schedule::Placement::Kind::Root || columns >= 10);
}

TEST(HostFusion, LinesAreCutSoThatIntermediateRowsStayNear) {
  const std::string text = R"(
graph @g(%x: f32[1080, 1922]) -> (%y) {
  %h: f32[1080, 1920] = compute [n: 1080, m: 1920] reduce [q: 3] ascending {
    acc %s: f32 = 0.0:f32 step add(%s, %x[n, add(m, q)]) merge add(%s, %s.other)
    yield %s
  }
  %y: f32[1078, 1920] = compute [i: 1078, j: 1920] reduce [p: 3] ascending {
    acc %t: f32 = 0.0:f32 step add(%t, %h[add(i, p), j]) merge add(%t, %t.other)
    yield %t
  }
}
)";
  PassContext ctx = wide_host();
  const schedule::Schedule schedule = choose_schedule(parsed(text), ctx);
  ASSERT_EQ(schedule.stages.at(0).placement.kind, schedule::Placement::Kind::At);
  std::map<std::string, std::int64_t> blocks;
  for (const schedule::Loop& loop : schedule.stages.at(1).loops) {
    if (loop.bind == schedule::Bind::Block) blocks[loop.axis] = loop.step;
  }
  EXPECT_LE((blocks["i"] + 2) * blocks["j"] * 4, ctx.target.l1_bytes / 2);
  EXPECT_GE(blocks["j"], 192);
}

TEST(HostFusion, RowsOfIntermediateTilesBeginWithALineAndSpreadOverSets) {
  const std::vector<loop::Function> functions = lowered(R"(
graph @g(%x: f32[1080, 2052]) -> (%y) {
  %h: f32[1080, 2050] = compute [n: 1080, m: 2050] {
    yield sqrt(fma(%x[n, m], %x[n, add(m, 1:i64)], sqrt(%x[n, add(m, 2:i64)])))
  }
  %y: f32[1078, 2048] = compute [i: 1078, j: 2048] {
    yield add(%h[i, j], sqrt(mul(%h[add(i, 1:i64), add(j, 1:i64)], %h[add(i, 2:i64), add(j, 2:i64)])))
  }
}
)");
  bool found = false;
  for (const loop::Buffer& buffer : functions.back().buffers) {
    if (buffer.space != loop::Space::Local) continue;
    found = true;
    const std::int64_t row = *scalar::as_i64(buffer.extents.back()) * 4;
    EXPECT_TRUE(row < 1024 || row % 128 == 64) << row;
  }
  EXPECT_TRUE(found);
}

TEST(HostSchedule, ShortRowsMergeTheirLanesTogether) {
  const auto rows = [](const std::string& length) {
    const std::vector<schedule::Loop> loops = loops_of("graph @g(%x: f32[4096, " + length + R"(]) -> (%y) {
  %y: f32[4096] = compute [i: 4096] reduce [k: )" + length +
                                                       R"(] lanes(16) {
    acc %s: f32 = 0.0:f32 step add(%s, %x[i, k]) merge add(%s, %s.other)
    yield %s
  }
}
)");
    std::int64_t tile = 0;
    for (const schedule::Loop& loop : loops) {
      if (loop.axis == "i" && loop.bind == schedule::Bind::Serial) tile = loop.step;
    }
    return tile;
  };
  EXPECT_EQ(rows("10"), 16);
  EXPECT_EQ(rows("1000"), 4);
}

TEST(HostFusion, RowsAreSummedSideBySide) {
  // Rows of a block each: a sum by lanes of one of them alone would wait for itself.
  PassContext ctx = wide_host();
  const tensor::Graph graph = parsed(R"(
graph @g(%x: f32[256, 5000]) -> (%y) {
  %m: f32[256] = compute [n: 256] reduce [k: 5000] lanes(16) {
    acc %s: f32 = 0.0:f32 step add(%s, %x[n, k]) merge add(%s, %s.other)
    yield %s
  }
  %y: f32[256, 5000] = compute [i: 256, j: 5000] {
    yield sub(%x[i, j], %m[i])
  }
}
)");
  const schedule::Schedule schedule = choose_schedule(graph, ctx);
  const schedule::Stage& sums = schedule.stages.at(0);
  ASSERT_EQ(sums.placement.kind, schedule::Placement::Kind::At);
  EXPECT_EQ(schedule.stages.at(1).loops.at(0).step, 4);
  EXPECT_TRUE(std::any_of(sums.loops.begin(), sums.loops.end(),
                          [](const schedule::Loop& loop) { return loop.bind == schedule::Bind::Unroll; }));
}

}  // namespace
}  // namespace corrloom::passes
