// Intrinsics of integers, packed integers, half precision and conversions. Each kernel writes the intrinsic's result and
// the same value computed by plain arithmetic; the test compares the two columns.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__device__ int t() { return blockIdx.x * blockDim.x + threadIdx.x; }
struct Pair { unsigned got, want; };
template <int N> struct Rows {
  Pair* out;
  int n = 0;
  __device__ void operator()(unsigned got, unsigned want) { out[t() * N + n++] = {got, want}; }
  __device__ void wide(unsigned long long got, unsigned long long want) {
    (*this)(unsigned(got), unsigned(want));
    (*this)(unsigned(got >> 32), unsigned(want >> 32));
  }
};

__device__ unsigned la_byte(unsigned a, unsigned b, int i) { return (((unsigned long long)b << 32 | a) >> (8 * i)) & 255; }
template <class T> __device__ unsigned dot4(unsigned a, unsigned b) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += T(a >> (8 * i)) * T(b >> (8 * i));
  return sum;
}
__device__ long long divide(long long n, long long d) {
  unsigned long long a = n < 0 ? 0 - (unsigned long long)n : n, b = d < 0 ? -d : d, q = 0, r = 0;
  for (int i = 63; i >= 0; --i) {
    r = r << 1 | (a >> i & 1);
    if (r >= b) { r -= b; q |= 1ull << i; }
  }
  return (n < 0) != (d < 0) ? 0 - q : q;
}
__device__ unsigned nth(unsigned mask, unsigned n) {
  for (int i = 0; i < 32; ++i) if ((mask >> i & 1) && --n == 0) return i;
  return ~0u;
}

extern "C" __global__ void integers(Pair* out, const unsigned* in) {
  Rows<32> row{out + 0};
  const unsigned a = in[t()], b = in[t() + 1], c = in[t() + 2];
  const int sa = a, sb = b;
  const unsigned long long la = (unsigned long long)a << 32 | b, lb = (unsigned long long)c << 32 | a;
  row(__mulhi(sa, sb), ((long long)sa * sb) >> 32);
  row(__umulhi(a, b), ((unsigned long long)a * b) >> 32);
  row(__mul24(sa, sb), ((sa << 8) >> 8) * (long long)((sb << 8) >> 8));
  row(__umul24(a, b), (a & 0xFFFFFF) * (unsigned long long)(b & 0xFFFFFF));
  row(__sad(sa, sb, c), (unsigned)((long long)sa > sb ? (long long)sa - sb : (long long)sb - sa) + c);
  row(__usad(a, b, c), (a > b ? a - b : b - a) + c);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
  row(__brev(a), r);
  int lead = 0;
  while (lead < 32 && !(a >> (31 - lead) & 1)) ++lead;
  row(__clz(a), lead);
  int ones = 0;
  for (int i = 0; i < 64; ++i) ones += la >> i & 1;
  row(__popcll(la), ones);
  int first = 0;
  for (int i = 31; i >= 0; --i) if (a >> i & 1) first = i + 1;
  row(__ffs(a), first);
  int lead64 = 0;
  while (lead64 < 64 && !(la >> (63 - lead64) & 1)) ++lead64;
  row(__clzll(la), lead64);
  row(__byte_perm(a, b, 0x5142), (la_byte(a, b, 2)) | la_byte(a, b, 4) << 8 | la_byte(a, b, 1) << 16 | la_byte(a, b, 5) << 24);
  row(__funnelshift_l(a, b, c), ((unsigned long long)b << 32 | a) << (c & 31) >> 32);
  row(__funnelshift_rc(a, b, c & 63), ((unsigned long long)b << 32 | a) >> ((c & 63) > 32 ? 32 : c & 63));
  row(__hadd(sa, sb), ((long long)sa + sb) >> 1);
  row(__uhadd(a, b), ((unsigned long long)a + b) >> 1);
  row(__rhadd(sa, sb), ((long long)sa + sb + 1) >> 1);
  row.wide(__umul64hi(la, lb), ((unsigned __int128)la * lb) >> 64);
  row.wide(__mul64hi((long long)la, (long long)lb), ((__int128)(long long)la * (long long)lb) >> 64);
  row.wide(__brevll(la), (unsigned long long)__brev(b) << 32 | __brev(a));
  row(__dp4a((int)a, (int)b, (int)c), dot4<int8_t>(a, b) + c);
  row(__dp4a(a, b, c), dot4<uint8_t>(a, b) + c);
  row(__dp2a_lo((int)a, (int)b, (int)c), (short)a * (int8_t)b + (short)(a >> 16) * (int8_t)(b >> 8) + c);
  row(__dp2a_hi(a, b, c), (a & 0xFFFF) * (b >> 16 & 255) + (a >> 16) * (b >> 24) + c);
  row.wide(sb ? (long long)la / sb : 0, sb ? divide((long long)la, sb) : 0);
  row.wide(a ? lb % a : 0, a ? lb - lb / a * a : 0);
  row(__fns(a, 0, (int)(c % 5) + 1), nth(a, c % 5 + 1));
}

// Packed integers against lanes taken apart.
template <class F> __device__ unsigned each4(unsigned a, unsigned b, F f) {
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (f(a >> (8 * i) & 255, b >> (8 * i) & 255) & 255u) << (8 * i);
  return r;
}
template <class F> __device__ unsigned each2(unsigned a, unsigned b, F f) {
  return (f(a & 0xFFFF, b & 0xFFFF) & 0xFFFF) | (f(a >> 16, b >> 16) & 0xFFFF) << 16;
}
__device__ unsigned la_diff(unsigned a, unsigned b, int shift) {
  const unsigned x = a >> shift & 255, y = b >> shift & 255;
  return x > y ? x - y : y - x;
}
__device__ int s8(unsigned v) { return (int8_t)v; }
__device__ int s16(unsigned v) { return (int16_t)v; }
__device__ int clampi(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
extern "C" __global__ void packed(Pair* out, const unsigned* in) {
  Rows<40> row{out};
  const unsigned a = in[t()], b = in[t() + 1], c = in[t() + 2];
  row(__vadd4(a, b), each4(a, b, [](unsigned x, unsigned y) { return x + y; }));
  row(__vaddss4(a, b), each4(a, b, [](unsigned x, unsigned y) { return clampi(s8(x) + s8(y), -128, 127); }));
  row(__vaddus4(a, b), each4(a, b, [](unsigned x, unsigned y) { return clampi(x + y, 0, 255); }));
  row(__vsub4(a, b), each4(a, b, [](unsigned x, unsigned y) { return x - y; }));
  row(__vsubss4(a, b), each4(a, b, [](unsigned x, unsigned y) { return clampi(s8(x) - s8(y), -128, 127); }));
  row(__vavgs4(a, b), each4(a, b, [](unsigned x, unsigned y) { const int s = s8(x) + s8(y); return (s + (s >= 0)) >> 1; }));
  row(__vavgu4(a, b), each4(a, b, [](unsigned x, unsigned y) { return (x + y + 1) / 2; }));
  row(__vhaddu4(a, b), each4(a, b, [](unsigned x, unsigned y) { return (x + y) / 2; }));
  row(__vabs4(a), each4(a, 0, [](unsigned x, unsigned) { return s8(x) < 0 ? -s8(x) : s8(x); }));
  row(__vabsss4(a), each4(a, 0, [](unsigned x, unsigned) { return clampi(s8(x) < 0 ? -s8(x) : s8(x), 0, 127); }));
  row(__vabsdiffs4(a, b), each4(a, b, [](unsigned x, unsigned y) { return s8(x) > s8(y) ? s8(x) - s8(y) : s8(y) - s8(x); }));
  row(__vabsdiffu4(a, b), each4(a, b, [](unsigned x, unsigned y) { return x > y ? x - y : y - x; }));
  row(__vmaxs4(a, b), each4(a, b, [](unsigned x, unsigned y) { return s8(x) > s8(y) ? x : y; }));
  row(__vminu4(a, b), each4(a, b, [](unsigned x, unsigned y) { return x < y ? x : y; }));
  row(__vcmpgts4(a, b), each4(a, b, [](unsigned x, unsigned y) { return s8(x) > s8(y) ? 255u : 0u; }));
  row(__vcmpleu4(a, b), each4(a, b, [](unsigned x, unsigned y) { return x <= y ? 255u : 0u; }));
  row(__vseteq4(a, b & a), each4(a, b & a, [](unsigned x, unsigned y) { return unsigned(x == y); }));
  row(__vsadu4(a, b), (la_diff(a, b, 0) + la_diff(a, b, 8) + la_diff(a, b, 16) + la_diff(a, b, 24)));
  row(__vneg4(a), each4(a, 0, [](unsigned x, unsigned) { return 0 - x; }));
  row(__vadd2(a, b), each2(a, b, [](unsigned x, unsigned y) { return x + y; }));
  row(__vaddss2(a, b), each2(a, b, [](unsigned x, unsigned y) { return clampi(s16(x) + s16(y), -32768, 32767); }));
  row(__vsubus2(a, b), each2(a, b, [](unsigned x, unsigned y) { return clampi(int(x) - int(y), 0, 65535); }));
  row(__vmaxu2(a, b), each2(a, b, [](unsigned x, unsigned y) { return x > y ? x : y; }));
  row(__vmins2(a, b), each2(a, b, [](unsigned x, unsigned y) { return s16(x) < s16(y) ? x : y; }));
  row(__vcmpne2(a, b), each2(a, b, [](unsigned x, unsigned y) { return x != y ? 0xFFFFu : 0u; }));
  row(__vsetlts2(a, b), each2(a, b, [](unsigned x, unsigned y) { return unsigned(s16(x) < s16(y)); }));
  row(__vabsdiffs2(a, b), each2(a, b, [](unsigned x, unsigned y) { return s16(x) > s16(y) ? s16(x) - s16(y) : s16(y) - s16(x); }));
  row(__vimax3_s32(a, b, c), max(max((int)a, (int)b), (int)c));
  row(__vimin3_u32(a, b, c), min(min(a, b), c));
  row(__viaddmax_s32(a, b, c), max((int)(a + b), (int)c));
  row(__viaddmin_u16x2(a, b, c), each2(each2(a, b, [](unsigned x, unsigned y) { return x + y; }), c, [](unsigned x, unsigned y) { return x < y ? x : y; }));
  row(__vimax_s32_relu(a, b), max(max((int)a, (int)b), 0));
  row(__vimax_s16x2_relu(a, b), each2(a, b, [](unsigned x, unsigned y) { return max(max(s16(x), s16(y)), 0); }));
  bool high, low;
  row(__vibmax_s16x2(a, b, &high, &low), each2(a, b, [](unsigned x, unsigned y) { return s16(x) > s16(y) ? x : y; }));
  row(high * 2 + low, (s16(a >> 16) >= s16(b >> 16)) * 2 + (s16(a) >= s16(b)));
}

// Half precision: operations on halves must equal the same operation in float, rounded once.
template <class H> struct Half;
template <> struct Half<__half> {
  static __device__ __half from(float v) { return __float2half_rn(v); }
  static __device__ float to(__half v) { return __half2float(v); }
  static __device__ unsigned bits(__half v) { return __half_as_ushort(v); }
  static __device__ int to_int(__half v) { return __half2int_rn(v); }
};
template <> struct Half<__nv_bfloat16> {
  static __device__ __nv_bfloat16 from(float v) { return __float2bfloat16_rn(v); }
  static __device__ float to(__nv_bfloat16 v) { return __bfloat162float(v); }
  static __device__ unsigned bits(__nv_bfloat16 v) { return __bfloat16_as_ushort(v); }
  static __device__ int to_int(__nv_bfloat16 v) { return __bfloat162int_rn(v); }
};
template <class H, class H2> __device__ void half_rows(Pair* out, const unsigned* in) {
  using T = Half<H>;
  Rows<40> row{out};
  // Numbers of moderate size: all exponents between 2^-7 and 2^8.
  const auto moderate = [](unsigned v) { return T::from(ldexpf(float(int(v << 8) >> 20) / 4096 + 1.0f / 3, int(v >> 28) - 7)); };
  const H a = moderate(in[t()]), b = moderate(in[t() + 1]), c = moderate(in[t() + 2]);
  const float fa = T::to(a), fb = T::to(b), fc = T::to(c);
  const auto same = [&](H got, float want) { row(T::bits(got), T::bits(T::from(want))); };
  const auto pair = [&](H2 got, float low, float high) { same(got.x, low); same(got.y, high); };
  same(a + b, fa + fb);
  same(a - b, fa - fb);
  same(a * b, fa * fb);
  same(__hadd_sat(a, b), __saturatef(fa + fb));
  same(__hmul_sat(a, b), __saturatef(fa * fb));
  same(__hneg(a), -fa);
  same(__habs(a), fabsf(fa));
  same(__hmax(a, b), fmaxf(fa, fb));
  same(__hmin(a, b), fminf(fa, fb));
  same(hfloor(a), floorf(fa));
  same(hceil(a), ceilf(fa));
  same(htrunc(a), truncf(fa));
  same(hrint(a), rintf(fa));
  row(__heq(a, b) + 2 * __hlt(a, b) + 4 * __hge(a, b) + 8 * __hltu(a, b) + 16 * __hisnan(a),
      (fa == fb) + 2 * (fa < fb) + 4 * (fa >= fb) + 8 * (fa < fb));
  const H2 x{a, b}, y{b, c};
  pair(__hadd2(x, y), fa + fb, fb + fc);
  pair(__hmul2(x, y), fa * fb, fb * fc);
  pair(__hmax2(x, y), fmaxf(fa, fb), fmaxf(fb, fc));
  pair(__habs2(x), fabsf(fa), fabsf(fb));
  pair(__hgt2(x, y), fa > fb, fb > fc);
  row(__hble2(x, y) + 2 * __hbne2(x, y), (fa <= fb && fb <= fc) + 2 * (fa != fb && fb != fc));
  row(__hlt2_mask(x, y), (fa < fb ? 0xFFFFu : 0) | (fb < fc ? 0xFFFF0000u : 0));
  // An fma is exact before it rounds: in double, whose 53 bits hold these products and sums.
  const double exact = (double)fa * fb + fc;
  const float nearest = (float)exact;
  const bool tie = (__float_as_uint(nearest) & 0x1FFF) == 0x1000 || (__float_as_uint(nearest) & 0xFFFF) == 0x8000;
  if (tie && nearest != exact) row(0, 0);
  else same(__hfma(a, b, c), nearest);
  same(__hfma_relu(a, b, c), T::to(__hfma(a, b, c)) > 0 ? T::to(__hfma(a, b, c)) : 0);
  row(T::to_int(a), (int)rintf(fa));
}
extern "C" __global__ void halves(Pair* out, const unsigned* in) { half_rows<__half, __half2>(out, in); }
extern "C" __global__ void brains(Pair* out, const unsigned* in) { half_rows<__nv_bfloat16, __nv_bfloat162>(out, in); }

// The value of an 8-bit float, by its definition.
__device__ float value_of(unsigned code, bool e5m2) {
  const int mantissa_bits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
  const int exponent = code >> mantissa_bits & (e5m2 ? 31 : 15), mantissa = code & ((1 << mantissa_bits) - 1);
  const float sign = code & 128 ? -1.0f : 1.0f;
  if (e5m2 && exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (!e5m2 && (code & 127) == 127) return NAN;
  const float fraction = float(mantissa) / (1 << mantissa_bits);
  return sign * (exponent ? ldexpf(1 + fraction, exponent - bias) : ldexpf(fraction, 1 - bias));
}
// The nearest code, ties to even, beyond the largest the largest.
__device__ unsigned code_of(float v, bool e5m2) {
  unsigned best = 0;
  const unsigned last = e5m2 ? 0x7B : 0x7E;
  for (unsigned code = 0; code <= last; ++code) {
    const float d = fabsf(fabsf(v) - value_of(code, e5m2)), known = fabsf(fabsf(v) - value_of(best, e5m2));
    if (d < known || (d == known && code % 2 == 0)) best = code;
  }
  return best | (v < 0 || (v == 0 && signbit(v)) ? 128 : 0);
}
extern "C" __global__ void eights(Pair* out, const unsigned* in) {
  Rows<40> row{out};
  const unsigned u = in[t()];
  const float a = ldexpf(float(int(u)) / 2147483648.0f, int(u & 31) - 18), b = ldexpf(float(int(in[t() + 1])) / 2147483648.0f, 3);
  row(__nv_fp8_e4m3(a).__x, code_of(a, false));
  row(__nv_fp8_e5m2(a).__x, code_of(a, true));
  row(__nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3), code_of(a, false) | code_of(b, false) << 8);
  row(__nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E5M2), code_of(a, true) | code_of(b, true) << 8);
  row(__nv_cvt_halfraw_to_fp8(__float2half(b), __NV_SATFINITE, __NV_E4M3), code_of(__half2float(__float2half(b)), false));
  row(__nv_cvt_bfloat16raw_to_fp8(__float2bfloat16(b), __NV_SATFINITE, __NV_E5M2), code_of(__bfloat162float(__float2bfloat16(b)), true));
  row(__nv_cvt_double_to_fp8(b, __NV_SATFINITE, __NV_E4M3), code_of(b, false));
  const unsigned code = u >> 24, other = u >> 16 & 255;
  __nv_fp8_e4m3 x; x.__x = code;
  __nv_fp8x2_e5m2 y; y.__x = code | other << 8;
  const auto bits = [](float v) { return isnan(v) ? 0x7FFFFFFFu : __float_as_uint(v); };
  row(bits(float(x)), bits(value_of(code, false)));
  row(bits(float2(y).x), bits(value_of(code, true)));
  row(bits(float2(y).y), bits(value_of(other, true)));
  __nv_fp8x4_e4m3 four(make_float4(a, b, -a, 2 * b));
  row(four.__x, code_of(a, false) | code_of(b, false) << 8 | code_of(-a, false) << 16 | code_of(2 * b, false) << 24);
  row((unsigned char)(__nv_fp8_e4m3(b)), (unsigned char)clampi((int)value_of(code_of(b, false), false), 0, 255));
}

__device__ unsigned half_down(unsigned v) {
  const __half near = __float2half_rn((float)v);
  return __half_as_ushort(near) - (__half2float(near) > (float)v);
}
// A sum or product that is exact in double, rounded down (-1) or up (1).
__device__ float directed(double exact, int direction) {
  const float near = (float)exact;
  if (direction < 0 && near > exact) return nextafterf(near, -INFINITY);
  if (direction > 0 && near < exact) return nextafterf(near, INFINITY);
  return near;
}
__device__ float toward_zero(float divisor) {
  const float near = 1.0f / divisor;
  return (double)near * divisor > 1.0 ? nextafterf(near, 0.0f) : near;
}

// Conversions with directed rounding, and between halves and integers.
extern "C" __global__ void conversions(Pair* out, const unsigned* in) {
  Rows<48> row{out};
  const unsigned u = in[t()], v = in[t() + 1];
  const float f = ldexpf(float(int(u)) / 2147483648.0f, int(v & 63) - 16);
  const double d = ldexp(double(int(u)) + v / 4294967296.0, int(v & 31) - 20);
  const double whole = trunc(d), frac = d - whole;
  row(__double2int_rz(d), (int)whole);
  row(__double2int_rd(d), (int)(frac < 0 ? whole - 1 : whole));
  row(__double2int_ru(d), (int)(frac > 0 ? whole + 1 : whole));
  row.wide(__double2ll_rn(d), (long long)(d < 0 ? -floor(-d + 0.5) : floor(d + 0.5)));
  row(__float2uint_rz(f), f <= 0 ? 0u : f >= 4294967296.0f ? ~0u : (unsigned)(unsigned long long)f);
  row(__float2int_rn(f), f >= 2147483648.0f ? 0x7FFFFFFF : f < -2147483648.0f ? 0x80000000 : (int)rint((double)f));
  const float near = (float)d, down = near > d ? nextafterf(near, -INFINITY) : near, up = near < d ? nextafterf(near, INFINITY) : near;
  row(__float_as_uint(__double2float_rd(d)), __float_as_uint(down));
  row(__float_as_uint(__double2float_ru(d)), __float_as_uint(up));
  row(__float_as_uint(__double2float_rz(d)), __float_as_uint(d < 0 ? up : down));
  row(__float_as_uint(__int2float_rd(u)), __float_as_uint((double)(float)(int)u > (double)(int)u ? nextafterf((float)(int)u, -INFINITY) : (float)(int)u));
  row(__float_as_uint(__uint2float_ru(u)), __float_as_uint((double)(float)u < (double)u ? nextafterf((float)u, INFINITY) : (float)u));
  row(__half_as_ushort(__int2half_rn((short)u)), __half_as_ushort(__float2half_rn((float)(short)u)));
  row(__half_as_ushort(__uint2half_rz(u & 0xFFFF)), half_down(u & 0xFFFF));
  row(__half2ushort_rz(__float2half(float(u & 2047))), u & 2047);
  row(__half2int_rd(__float2half(-float(u & 1023) / 4)), (int)floorf(-float(u & 1023) / 4));
  row(__bfloat16_as_ushort(__float2bfloat16_rd(f)), f >= 0 || !(__float_as_uint(f) & 0xFFFF) ? __float_as_uint(f) >> 16 : (__float_as_uint(f) >> 16) + 1);
  row(__bfloat16_as_ushort(__float2bfloat16_ru(f)), f <= 0 || !(__float_as_uint(f) & 0xFFFF) ? __float_as_uint(f) >> 16 : (__float_as_uint(f) >> 16) + 1);
  row(__float_as_uint(__fadd_rd(f, 1.0f)), __float_as_uint(directed((double)f + 1.0, -1)));
  row(__float_as_uint(__fmul_ru(f, 1.5f)), __float_as_uint(directed((double)f * 1.5, 1)));
  row(__float_as_uint(__fdiv_rz(1.0f, 3.0f + (u & 15))), __float_as_uint(toward_zero(3.0f + (u & 15))));
  row(__float_as_uint(__fsqrt_rn(float(u & 4095) * float(u & 4095))), __float_as_uint(float(u & 4095)));
  row(__float_as_uint(__frcp_ru(4.0f)), __float_as_uint(0.25f));
  row.wide(__double_as_longlong(__dadd_ru(d, 1e-300)), d == 0 ? __double_as_longlong(1e-300) : __double_as_longlong(d) + (d > 0 ? 1 : -1));
  row.wide(__double_as_longlong(__dmul_rz(d, 2.0)), __double_as_longlong(d * 2.0));
  row.wide(__double_as_longlong(__dsqrt_rn(double(u & 65535) * double(u & 65535))), __double_as_longlong(double(u & 65535)));
  row(__float_as_uint(__saturatef(f)), __float_as_uint(f > 1 ? 1.0f : f > 0 ? f : 0.0f));
  row(__float_as_uint(copysignf(f, -1.0f)), __float_as_uint(f) | 0x80000000u);
  row(isfinite(f) + 2 * isnan(NAN * f) + 4 * (signbit(f) != 0) + 8 * isinf(1e38f * 1e38f), 1 + 2 + 4 * (__float_as_uint(f) >> 31) + 8);
}
