#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/lanes.h"

/// Branches, calls, barriers, and what steers threads. The engine executes them; this file checks and decodes.
/// Source: PTX ISA, "Control Flow Instructions" and "Parallel Synchronization: bar, barrier, barrier.cluster".
namespace corrloom::sim::exec {
namespace {

using ptx::OperandKind;
using ptx::Type;

void decode_bra(Decode& c) {
  c.mods.take("uni");
  c.expect_operands(1);
  if (c.operand(0).kind != OperandKind::Label) c.fail("the target of 'bra' must be a label");
  c.inst.klass = Class::Control;
  c.inst.flow = Flow::Branch;
  c.inst.target = c.operand(0).index;
}

void decode_brx(Decode& c) {
  if (!c.mods.take("idx")) c.fail("brx needs .idx");
  c.mods.take("uni");
  c.expect_operands(2);
  if (c.operand(1).kind != OperandKind::Label || c.operand(1).index < 0)
    c.fail("expected the label of a .branchtargets");
  const ptx::Label& table = c.decoder.function().labels[size_t(c.operand(1).index)];
  if (!table.is_table || table.targets.empty()) c.fail("'" + table.name + "' is not a .branchtargets");
  if (table.targets.size() > 65535) c.fail("too many branch targets");
  c.inst.klass = Class::Control;
  c.inst.flow = Flow::BranchIndexed;
  c.inst.a = c.reads(0, Type::U32);
  std::vector<int>& tables = c.decoder.program().branch_tables;
  c.inst.imm = int64_t(tables.size());
  c.inst.list_size = uint16_t(table.targets.size());
  for (const int target : table.targets) {
    if (target < 0) c.fail("unknown label in '" + table.name + "'");
    tables.push_back(target);
  }
}

/// What a call passes or receives: a .param variable, or a register.
Passed passed(Decode& c, const ptx::Operand& operand, bool result) {
  if (operand.kind == OperandKind::Variable && operand.is_local) {
    const ptx::Variable& variable = c.decoder.function().variables[size_t(operand.index)];
    const Decoder::Place place = c.decoder.place(operand, c.source.line);
    if (place.space != ptx::Space::Param || place.kernel_param) c.fail("'" + operand.name + "' cannot be passed");
    return {kNoSlot, uint32_t(place.value), uint32_t(variable.bytes)};
  }
  if (operand.kind == OperandKind::Register) {
    const Type type = c.decoder.function().registers[size_t(operand.index)].type;
    if (type == Type::Pred)
      return {
          result ? c.decoder.write_predicate(operand, c.source.line) : c.decoder.read_predicate(operand, c.source.line),
          0, 0};
    return {result ? c.decoder.write_operand(operand, type, false, c.source.line)
                   : c.decoder.read_operand(operand, type, false, c.source.line),
            0, uint32_t(ptx::type_bits(type)) / 8};
  }
  if (operand.kind == OperandKind::Sink && result) return {c.decoder.temporary(8), 0, 8};
  if (!result && operand.kind == OperandKind::Integer) return {c.decoder.constant_slot(operand.bits, 4), 0, 4};
  c.fail("'" + operand.name + "' cannot be passed to a function");
}

void decode_call(Decode& c) {
  c.mods.take("uni");
  c.inst.klass = Class::Control;
  c.expect_operands(1, 4);
  size_t next = 0;
  CallSite site;
  if (c.operand(next).kind == OperandKind::List) {
    for (const ptx::Operand& result : c.operand(next).elements) site.results.push_back(passed(c, result, true));
    ++next;
  }
  const ptx::Operand& callee = c.operand(next++);
  if (next < c.operand_count() && c.operand(next).kind == OperandKind::List) {
    for (const ptx::Operand& argument : c.operand(next).elements) site.arguments.push_back(passed(c, argument, false));
    ++next;
  }
  const bool has_prototype = next < c.operand_count() && c.operand(next).kind == OperandKind::Label;
  if (has_prototype) ++next;
  if (next != c.operand_count()) c.fail("malformed call");
  if (callee.kind == OperandKind::Function) {
    site.function = c.decoder.function_index(callee.name, c.source.line);
    const ptx::Function* function = c.decoder.module().find_function(callee.name);
    if (function->is_entry) c.fail("a kernel cannot be called");
    const auto check = [&](const std::vector<Passed>& given, const std::vector<int>& wanted, const char* what) {
      if (given.size() != wanted.size()) {
        c.fail("'" + callee.name + "' has " + std::to_string(wanted.size()) + " " + what + ", the call gives " +
               std::to_string(given.size()));
      }
      for (size_t i = 0; i < given.size(); ++i) {
        const ptx::Variable& formal = function->variables[size_t(wanted[i])];
        const uint32_t bytes = formal.type == Type::Pred ? 0 : uint32_t(formal.bytes);
        if (given[i].bytes != bytes && given[i].slot == kNoSlot) {
          c.fail(std::string(what) + " " + std::to_string(i + 1) + " of '" + callee.name + "' has " +
                 std::to_string(bytes) + " bytes, the call gives " + std::to_string(given[i].bytes));
        }
      }
    };
    check(site.arguments, function->params, "parameters");
    check(site.results, function->returns, "results");
    c.inst.flow = Flow::Call;
  } else if (callee.kind == OperandKind::Register) {
    if (!has_prototype) c.fail("an indirect call needs a prototype or a list of targets");
    c.inst.flow = Flow::CallIndirect;
    c.inst.a = c.reads(
        next - 1 - has_prototype - (c.operand(next - 1 - has_prototype).kind == OperandKind::List ? 1 : 0), Type::B64);
    c.decoder.mark_indirect();
  } else {
    c.fail("unknown function '" + callee.name + "'");
  }
  c.inst.target = int(c.decoder.program().calls.size());
  c.decoder.program().calls.push_back(std::move(site));
}

void plain(Decode& c, Flow flow) {
  c.mods.take("uni");
  c.expect_operands(0);
  c.inst.klass = Class::Control;
  c.inst.flow = flow;
}

void nothing(Warp&, const Inst&, LaneMask) {}

void sleep(Warp& warp, const Inst&, LaneMask) {
  warp.give_way = true;
}

/// nanosleep: others run meanwhile; no host time passes.
void decode_nanosleep(Decode& c) {
  c.require(63, 70);
  c.mods.type();
  c.expect_operands(1);
  c.inst.klass = Class::Control;
  c.inst.a = c.reads(0, Type::U32);
  c.inst.flow = Flow::Yield;
  c.inst.fn = sleep;
}

void decode_nothing(Decode& c) {
  c.inst.klass = Class::Control;
  c.inst.fn = nothing;
}

/// pmevent, brkpt: a profiler's and a debugger's business.
void decode_pmevent(Decode& c) {
  c.mods.take("mask");
  c.expect_operands(1);
  decode_nothing(c);
}

void decode_griddepcontrol(Decode& c) {
  c.require(78, 90);
  if (c.mods.take_one({"launch_dependents", "wait"}) < 0) c.fail("missing .launch_dependents or .wait");
  c.expect_operands(0);
  decode_nothing(c);
}

void decode_setmaxnreg(Decode& c) {
  c.require(80, 90, true);
  if (c.mods.take_one({"inc", "dec"}) < 0) c.fail("missing .inc or .dec");
  if (!c.mods.take("sync") || !c.mods.take("aligned")) c.fail("setmaxnreg needs .sync.aligned");
  c.mods.type();
  c.expect_operands(1);
  const uint64_t count = c.constant(0);
  if (count < 24 || count > 256 || count % 8 != 0) c.fail("the register count must be a multiple of 8 from 24 to 256");
  decode_nothing(c);
}

// -- barriers. m0: 0 sync, 1 arrive, 2 red.popc, 3 red.and, 4 red.or. a: barrier, b: threads or none, c: predicate

void decode_cluster_barrier(Decode& c) {
  c.require(78, 90);
  const int what = c.mods.take_one({"arrive", "wait"});
  if (what < 0) c.fail("missing .arrive or .wait");
  const int order = c.mods.take_one({"release", "relaxed", "acquire"});
  if ((what == 0 && order == 2) || (what == 1 && (order == 0 || order == 1)))
    c.fail("illegal ordering of a cluster barrier");
  c.inst.aligned = c.mods.take("aligned");
  c.expect_operands(0);
  c.inst.klass = Class::Barrier;
  c.inst.flow = Flow::ClusterBarrier;
  c.inst.m0 = uint8_t(what);
  c.decoder.program().uses_clusters = true;
}

void decode_warp_barrier(Decode& c) {
  if (!c.mods.take("sync")) c.fail("bar.warp needs .sync");
  c.require(60, 30);
  c.expect_operands(1);
  c.inst.klass = Class::Barrier;
  c.inst.flow = Flow::WarpBarrier;
  c.decoder.set_list(c.inst, {c.reads(0, Type::B32)});
}

void decode_barrier(Decode& c) {
  const bool short_form = c.source.opcode == "bar";
  if (short_form && c.mods.take("warp")) return decode_warp_barrier(c);
  if (!short_form && c.mods.take("cluster")) return decode_cluster_barrier(c);
  c.mods.take("cta");
  const int what = c.mods.take_one({"sync", "arrive", "red"});
  if (what < 0) c.fail("missing .sync, .arrive or .red");
  c.inst.aligned = c.mods.take("aligned") || short_form;
  c.inst.klass = Class::Barrier;
  c.inst.flow = Flow::BlockBarrier;
  c.inst.m0 = uint8_t(what);
  size_t next = 0;
  size_t last = c.operand_count();
  if (what == 2) {
    const int op = c.mods.take_one({"popc", "and", "or"});
    if (op < 0) c.fail("missing .popc, .and or .or");
    const Type type = c.mods.type();
    if ((op == 0) != (type == Type::U32) || (op != 0 && type != Type::Pred))
      c.fail("illegal type of a barrier reduction");
    c.expect_operands(3, 4);
    c.inst.m0 = uint8_t(2 + op);
    c.inst.d = op == 0 ? c.writes(0, Type::U32) : c.writes_predicate(0);
    next = 1;
    c.inst.c = c.reads_predicate(--last);
  } else {
    c.expect_operands(what == 1 ? 2 : 1, 2);
  }
  if (c.operand(next).kind == OperandKind::Integer && c.operand(next).bits > 15) c.fail("barriers are 0 to 15");
  if (next + 1 < last && c.operand(next + 1).kind == OperandKind::Integer &&
      (c.operand(next + 1).bits == 0 || c.operand(next + 1).bits % kLanes != 0)) {
    c.fail("the number of threads of a barrier is a positive multiple of 32");
  }
  c.inst.a = c.reads(next, Type::U32);
  if (next + 1 < last) c.inst.b = c.reads(next + 1, Type::U32);
}

}  // namespace

void register_control(OpcodeTable& table) {
  table["bra"] = decode_bra;
  table["brx"] = decode_brx;
  table["call"] = decode_call;
  table["ret"] = [](Decode& c) { plain(c, c.decoder.function().is_entry ? Flow::Exit : Flow::Return); };
  table["exit"] = [](Decode& c) { plain(c, Flow::Exit); };
  table["trap"] = [](Decode& c) { plain(c, Flow::Trap); };
  table["brkpt"] = [](Decode& c) {
    c.expect_operands(0);
    decode_nothing(c);
  };
  table["nanosleep"] = decode_nanosleep;
  table["pmevent"] = decode_pmevent;
  table["griddepcontrol"] = decode_griddepcontrol;
  table["setmaxnreg"] = decode_setmaxnreg;
  table["bar"] = decode_barrier;
  table["barrier"] = decode_barrier;
}

}  // namespace corrloom::sim::exec
