#include <cmath>
#include <limits>

#include "runtime/sim/exec/decoder.h"
#include "runtime/sim/exec/formats.h"
#include "runtime/sim/exec/half.h"
#include "runtime/sim/exec/lanes.h"

/// Single and double precision. Source: PTX ISA, "Floating Point Instructions".
/// Results that are NaN are 0x7fffffff in single precision; double precision keeps what IEEE 754 arithmetic gives.
namespace corrloom::sim::exec {
namespace {

using ptx::Type;

// Inst::m0: Rounding, m1: .ftz, m2: .sat, m3: an operation's own.

template <bool kFtz, bool kSat>
float finish(float value) {
  if constexpr (kFtz) value = flush(value);
  if constexpr (kSat) return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
  return canonical(value);
}
template <bool kFtz, bool kSat>
double finish(double value) {
  if constexpr (kSat) return value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  return value;
}
template <bool kFtz>
float start(float value) {
  return kFtz ? flush(value) : value;
}
template <bool kFtz>
double start(double value) {
  return value;
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
  template <class T>
  static T rounded(T a, T b, Rounding r) {
    return add_rounded(a, b, r);
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
  template <class T>
  static T rounded(T a, T b, Rounding r) {
    return add_rounded(a, -b, r);
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
  template <class T>
  static T rounded(T a, T b, Rounding r) {
    return mul_rounded(a, b, r);
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
  template <class T>
  static T rounded(T a, T b, Rounding r) {
    return div_rounded(a, b, r);
  }
};

template <class T, class Op, bool kFtz, bool kSat>
void arithmetic(Warp& warp, const Inst& inst, LaneMask mask) {
  if (Rounding(inst.m0) == Rounding::NearestEven) {
    binary<T, T, T>(warp, inst, mask,
                    [](T a, T b) { return finish<kFtz, kSat>(Op::template apply<T>(start<kFtz>(a), start<kFtz>(b))); });
    return;
  }
  const auto rounding = Rounding(inst.m0);
  binary<T, T, T>(warp, inst, mask, [rounding](T a, T b) {
    return finish<kFtz, kSat>(Op::template rounded<T>(start<kFtz>(a), start<kFtz>(b), rounding));
  });
}

template <class T, bool kFtz, bool kSat>
void fused(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto rounding = Rounding(inst.m0);
  ternary<T, T, T, T>(warp, inst, mask, [rounding](T a, T b, T c) {
    a = start<kFtz>(a), b = start<kFtz>(b), c = start<kFtz>(c);
    return finish<kFtz, kSat>(rounding == Rounding::NearestEven ? std::fma(a, b, c) : fma_rounded(a, b, c, rounding));
  });
}

#if defined(__x86_64__)
/// The same in hardware, where the machine has it: eight lanes at a time.
template <class T, bool kFtz, bool kSat>
__attribute__((target("avx2,fma"))) void fused_in_hardware(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const T* b = warp.at<T>(inst.b);
  const T* c = warp.at<T>(inst.c);
  T* d = warp.at<T>(inst.d);
  T result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    result[lane] = __builtin_fma(start<kFtz>(a[lane]), start<kFtz>(b[lane]), start<kFtz>(c[lane]));
  }
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = finish<kFtz, kSat>(result[lane]);
  if (mask == kAllLanes) {
    std::memcpy(d, result, sizeof(result));
  } else {
    blend(d, result, mask);
  }
}
template <bool kFtz, bool kSat>
__attribute__((target("avx2,fma"))) void fused_in_hardware_f32(Warp& warp, const Inst& inst, LaneMask mask) {
  const float* a = warp.at<float>(inst.a);
  const float* b = warp.at<float>(inst.b);
  const float* c = warp.at<float>(inst.c);
  float* d = warp.at<float>(inst.d);
  float result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    result[lane] = __builtin_fmaf(start<kFtz>(a[lane]), start<kFtz>(b[lane]), start<kFtz>(c[lane]));
  }
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = finish<kFtz, kSat>(result[lane]);
  if (mask == kAllLanes) {
    std::memcpy(d, result, sizeof(result));
  } else {
    blend(d, result, mask);
  }
}
bool has_fma() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

Class class_of(Type type) {
  return type == Type::F64 ? Class::Fp64 : type == Type::F32 ? Class::Fp32 : Class::Fp16;
}

[[noreturn]] void bad_type(Decode& c, Type type) {
  c.fail("illegal type ." + std::string(ptx::type_name(type)) + " for instruction '" + c.source.opcode + "'");
}

/// Reads .rn .rz .rm .rp; `fallback` when absent.
void take_rounding(Decode& c, int fallback) {
  const int found = c.mods.take_one({"rn", "rz", "rm", "rp"});
  c.inst.m0 = uint8_t(found < 0 ? fallback : found);
  if (found < 0 && fallback < 0) c.fail("missing rounding modifier");
}

template <class Op>
ExecFn arithmetic_for(Type type, bool ftz, bool sat) {
  if (type == Type::F64) return arithmetic<double, Op, false, false>;
  if (ftz) return sat ? arithmetic<float, Op, true, true> : arithmetic<float, Op, true, false>;
  return sat ? arithmetic<float, Op, false, true> : arithmetic<float, Op, false, false>;
}

ExecFn fused_for(Type type, bool ftz, bool sat, uint8_t rounding) {
#if defined(__x86_64__)
  if (rounding == 0 && has_fma()) {
    if (type == Type::F64) return fused_in_hardware<double, false, false>;
    if (ftz) return sat ? fused_in_hardware_f32<true, true> : fused_in_hardware_f32<true, false>;
    return sat ? fused_in_hardware_f32<false, true> : fused_in_hardware_f32<false, false>;
  }
#else
  (void)rounding;
#endif
  if (type == Type::F64) return fused<double, false, false>;
  if (ftz) return sat ? fused<float, true, true> : fused<float, true, false>;
  return sat ? fused<float, false, true> : fused<float, false, false>;
}

template <class Op>
void decode_arithmetic(Decode& c) {
  if (decode_half_arithmetic(c)) return;
  take_rounding(c, 0);
  const bool ftz = c.mods.take("ftz"), sat = c.mods.take("sat");
  const Type type = c.mods.type();
  if (type == Type::F64 && (ftz || sat)) c.fail(".ftz and .sat apply to .f32 only");
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  c.expect_operands(3);
  c.inst.klass = class_of(type);
  c.inst.flops = 1;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.fn = arithmetic_for<Op>(type, ftz, sat);
}

void decode_fma(Decode& c) {
  if (decode_half_fma(c)) return;
  take_rounding(c, -1);
  const bool ftz = c.mods.take("ftz"), sat = c.mods.take("sat");
  const Type type = c.mods.type();
  if (type == Type::F64 && (ftz || sat)) c.fail(".ftz and .sat apply to .f32 only");
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  c.expect_operands(4);
  c.inst.klass = class_of(type);
  c.inst.flops = 2;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.c = c.reads(3, type);
  c.inst.fn = fused_for(type, ftz, sat, c.inst.m0);
}

// -- division

/// div.approx: the quotient by way of the reciprocal, which is 0 for divisors of 2^126 and above.
void divide_approximately(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool ftz = inst.m1;
  binary<float, float, float>(warp, inst, mask, [ftz](float a, float b) {
    if (ftz) a = flush(a), b = flush(b);
    float result = float(double(a) / double(b));
    if (std::fabs(b) > 0x1p126f && std::isfinite(b)) {
      result = std::isinf(a) || a != a ? NAN : std::copysign(0.0f, std::signbit(a) != std::signbit(b) ? -1.0f : 1.0f);
    }
    return canonical(ftz ? flush(result) : result);
  });
}

/// div.full: two ulp, over the full range.
void divide_full(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool ftz = inst.m1;
  binary<float, float, float>(warp, inst, mask, [ftz](float a, float b) {
    if (ftz) a = flush(a), b = flush(b);
    const float result = a / b;
    return canonical(ftz ? flush(result) : result);
  });
}

void decode_div(Decode& c) {
  const int how = c.mods.take_one({"approx", "full"});
  if (how < 0) return decode_arithmetic<Div>(c);
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type();
  if (type != Type::F32) bad_type(c, type);
  c.expect_operands(3);
  c.inst.klass = Class::SpecialFunction;
  c.inst.flops = 1;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.fn = how == 0 ? divide_approximately : divide_full;
}

void decode_div_checked(Decode& c) {
  if (!c.mods.has("approx") && !c.mods.has("full") && !c.mods.has("rn") && !c.mods.has("rz") && !c.mods.has("rm") &&
      !c.mods.has("rp")) {
    c.fail("missing rounding modifier");
  }
  decode_div(c);
}

// -- minimum and maximum. m1: .ftz, m2: .NaN, m3: .xorsign.abs

template <class T, bool kMax>
T choose(T a, T b, bool propagate, bool xor_sign) {
  const bool negative = std::signbit(a) != std::signbit(b);
  if (xor_sign) a = std::fabs(a), b = std::fabs(b);
  T result;
  if (a != a || b != b) {
    const T nan = std::is_same_v<T, float> ? T(std::bit_cast<float>(kNanF32)) : std::numeric_limits<T>::quiet_NaN();
    result = propagate || (a != a && b != b) ? nan : (a != a ? b : a);
    if (result != result) return nan;
  } else if (a == b) {
    result = std::signbit(a) == kMax ? b : a;  // -0 is less than +0
  } else {
    result = (a > b) == kMax ? a : b;
  }
  return xor_sign ? std::copysign(result, negative ? T(-1) : T(1)) : result;
}

template <class T, bool kMax>
void min_max(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool ftz = inst.m1, propagate = inst.m2, xor_sign = inst.m3;
  binary<T, T, T>(warp, inst, mask, [=](T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
      if (ftz) a = flush(a), b = flush(b);
    }
    return choose<T, kMax>(a, b, propagate, xor_sign);
  });
}

template <bool kMax>
void min_max3(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool ftz = inst.m1, propagate = inst.m2, is_abs = inst.m3;
  ternary<float, float, float, float>(warp, inst, mask, [=](float a, float b, float c) {
    if (ftz) a = flush(a), b = flush(b), c = flush(c);
    if (is_abs) a = std::fabs(a), b = std::fabs(b), c = std::fabs(c);
    return choose<float, kMax>(choose<float, kMax>(a, b, propagate, false), c, propagate, false);
  });
}

template <bool kMax>
void decode_min_max(Decode& c) {
  if (decode_half_min_max(c, kMax)) return;
  c.inst.m1 = c.mods.take("ftz");
  c.inst.m2 = c.mods.take("NaN");
  const bool xor_sign = c.mods.take("xorsign");
  const bool is_abs = c.mods.take("abs");
  const Type type = c.mods.type();
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  if (type == Type::F64 && (c.inst.m1 || c.inst.m2 || is_abs)) c.fail(".ftz, .NaN and .xorsign.abs apply to .f32 only");
  const bool three = c.operand_count() == 4;
  if (three) c.require(88, 100);
  if (xor_sign != is_abs && !three) c.fail(".xorsign goes with .abs");
  if (c.inst.m2 || is_abs) c.require(70, 80);
  c.inst.m3 = is_abs;
  c.expect_operands(3, 4);
  c.inst.klass = class_of(type);
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  if (three) {
    if (type != Type::F32) bad_type(c, type);
    c.inst.c = c.reads(3, type);
    c.inst.fn = min_max3<kMax>;
  } else {
    c.inst.fn = type == Type::F64 ? min_max<double, kMax> : min_max<float, kMax>;
  }
}

// -- sign

template <class T, class Bits, bool kAbs>
void sign_operation(Warp& warp, const Inst& inst, LaneMask mask) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);
  const bool ftz = inst.m1;
  unary<Bits, Bits>(warp, inst, mask, [ftz](Bits a) {
    if constexpr (sizeof(T) == 4) {
      if (ftz) a = std::bit_cast<uint32_t>(flush(std::bit_cast<float>(a)));
    }
    return kAbs ? Bits(a & ~kSign) : Bits(a ^ kSign);
  });
}

template <bool kAbs>
void decode_sign(Decode& c) {
  if (decode_half_sign(c, kAbs)) return;
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type();
  if (type == Type::F64 && c.inst.m1) c.fail(".ftz applies to .f32 only");
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  c.expect_operands(2);
  c.inst.klass = class_of(type);
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.fn = type == Type::F64 ? sign_operation<double, uint64_t, kAbs> : sign_operation<float, uint32_t, kAbs>;
}

template <class Bits>
void copysign(Warp& warp, const Inst& inst, LaneMask mask) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  binary<Bits, Bits, Bits>(warp, inst, mask, [](Bits a, Bits b) { return Bits((a & kSign) | (b & ~kSign)); });
}

void decode_copysign(Decode& c) {
  const Type type = c.mods.type();
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  c.expect_operands(3);
  c.inst.klass = class_of(type);
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
  c.inst.b = c.reads(2, type);
  c.inst.fn = type == Type::F64 ? copysign<uint64_t> : copysign<uint32_t>;
}

template <class T>
void testp(Warp& warp, const Inst& inst, LaneMask mask) {
  const T* a = warp.at<T>(inst.a);
  const int which = inst.m0;
  set_predicate(warp, inst.d, mask, lanes_where([&](int lane) {
                  const T x = a[lane];
                  switch (which) {
                    case 0:
                      return std::isfinite(x);
                    case 1:
                      return std::isinf(x);
                    case 2:
                      return !std::isnan(x);
                    case 3:
                      return std::isnan(x);
                    case 4:
                      return std::isnormal(x) || x == 0;  // zero counts as normal
                    default:
                      return std::fpclassify(x) == FP_SUBNORMAL;
                  }
                }));
}

void decode_testp(Decode& c) {
  const int which = c.mods.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (which < 0) c.fail("missing property of testp");
  const Type type = c.mods.type();
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  c.expect_operands(2);
  c.inst.klass = class_of(type);
  c.inst.m0 = uint8_t(which);
  c.inst.d = c.writes_predicate(0);
  c.inst.a = c.reads(1, type);
  c.inst.fn = type == Type::F64 ? testp<double> : testp<float>;
}

// -- functions of one operand

struct Rcp {
  static double exact(double a) { return 1.0 / a; }
  template <class T>
  static T rounded(T a, Rounding r) {
    return div_rounded(T(1), a, r);
  }
};
struct Sqrt {
  static double exact(double a) { return std::sqrt(a); }
  template <class T>
  static T rounded(T a, Rounding r) {
    return sqrt_rounded(a, r);
  }
};
struct Rsqrt {
  static double exact(double a) { return 1.0 / std::sqrt(a); }
};
struct Sin {
  /// Denormals give zero with or without .ftz.
  static double exact(double a) { return std::fabs(a) < 0x1p-126 ? std::copysign(0.0, a) : std::sin(a); }
};
struct Cos {
  static double exact(double a) { return std::cos(a); }
};
struct Lg2 {
  static double exact(double a) { return std::log2(a); }
};
struct Ex2 {
  static double exact(double a) { return std::exp2(a); }
};
struct Tanh {
  static double exact(double a) { return std::tanh(a); }
};

/// The ISA bounds the error of approximations; the nearest value is within every bound.
template <class F>
void approximate(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool ftz = inst.m1;
  unary<float, float>(warp, inst, mask, [ftz](float a) {
    if (ftz) a = flush(a);
    const auto result = float(F::exact(a));
    return canonical(ftz ? flush(result) : result);
  });
}

template <class T, class F>
void rounded_function(Warp& warp, const Inst& inst, LaneMask mask) {
  const auto rounding = Rounding(inst.m0);
  const bool ftz = inst.m1;
  unary<T, T>(warp, inst, mask, [=](T a) {
    if constexpr (std::is_same_v<T, float>) {
      if (ftz) a = flush(a);
      const float result = F::rounded(a, rounding);
      return canonical(ftz ? flush(result) : result);
    } else {
      return F::rounded(a, rounding);
    }
  });
}

/// The double-precision approximations. With .ftz the upper word of the result, the lower one zero, denormals flushed.
template <class F>
void approximate_double(Warp& warp, const Inst& inst, LaneMask mask) {
  const bool coarse = inst.m1;
  unary<double, double>(warp, inst, mask, [coarse](double a) {
    if (!coarse) return F::exact(a);
    if (std::fpclassify(a) == FP_SUBNORMAL) a = std::copysign(0.0, a);
    double result = F::exact(a);
    if (std::fpclassify(result) == FP_SUBNORMAL) result = std::copysign(0.0, result);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(result) & 0xFFFFFFFF00000000);
  });
}

void one_operand(Decode& c, Type type, Class klass) {
  c.expect_operands(2);
  c.inst.klass = klass;
  c.inst.flops = 1;
  c.inst.d = c.writes(0, type);
  c.inst.a = c.reads(1, type);
}

/// rcp and sqrt: .approx or a rounding mode.
template <class F>
void decode_rounded_function(Decode& c) {
  const bool approx = c.mods.take("approx");
  if (!approx) take_rounding(c, -1);
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type();
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  if (type == Type::F64 && approx && !(c.inst.m1 && std::is_same_v<F, Rcp>)) bad_type(c, type);
  if (type == Type::F64 && !approx && c.inst.m1) c.fail(".ftz applies to .f32 only");
  one_operand(c, type, type == Type::F64 ? Class::Fp64 : approx ? Class::SpecialFunction : Class::Fp32);
  if (type == Type::F64) {
    c.inst.fn = approx ? approximate_double<F> : rounded_function<double, F>;
  } else {
    c.inst.fn = approx ? approximate<F> : rounded_function<float, F>;
  }
}

void decode_rsqrt(Decode& c) {
  if (!c.mods.take("approx")) c.fail("missing .approx");
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type();
  if (type != Type::F32 && type != Type::F64) bad_type(c, type);
  one_operand(c, type, Class::SpecialFunction);
  c.inst.fn = type == Type::F64 ? approximate_double<Rsqrt> : approximate<Rsqrt>;
}

template <class F>
void decode_approximation(Decode& c) {
  if (!c.mods.take("approx")) c.fail("missing .approx");
  if (decode_half_approximation(c)) return;
  c.inst.m1 = c.mods.take("ftz");
  const Type type = c.mods.type();
  if (type != Type::F32) bad_type(c, type);
  one_operand(c, type, Class::SpecialFunction);
  c.inst.fn = approximate<F>;
}

}  // namespace

void register_float(OpcodeTable& table) {
  table["add"] = decode_arithmetic<Add>;
  table["sub"] = decode_arithmetic<Sub>;
  table["mul"] = decode_arithmetic<Mul>;
  table["fma"] = decode_fma;
  table["mad"] = decode_fma;
  table["div"] = decode_div_checked;
  table["min"] = decode_min_max<false>;
  table["max"] = decode_min_max<true>;
  table["abs"] = decode_sign<true>;
  table["neg"] = decode_sign<false>;
  table["copysign"] = decode_copysign;
  table["testp"] = decode_testp;
  table["rcp"] = decode_rounded_function<Rcp>;
  table["sqrt"] = decode_rounded_function<Sqrt>;
  table["rsqrt"] = decode_rsqrt;
  table["sin"] = decode_approximation<Sin>;
  table["cos"] = decode_approximation<Cos>;
  table["lg2"] = decode_approximation<Lg2>;
  table["ex2"] = decode_approximation<Ex2>;
  table["tanh"] = decode_approximation<Tanh>;
}

}  // namespace corrloom::sim::exec
