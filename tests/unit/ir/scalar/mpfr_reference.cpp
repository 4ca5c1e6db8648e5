#include "mpfr_reference.h"

#include <algorithm>
#include <limits>

namespace corrloom::scalar::testing {
namespace {

struct Format {
  int precision;
  int least_exponent;  ///< of the least denormal
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {11, -24};
    case DType::BF16:
      return {8, -133};
    case DType::F32:
      return {24, -149};
    default:
      return {53, -1074};
  }
}

/// The exponent of the last place of a nonzero number in a format.
long last_place(const Real& number, Format format) {
  return std::max<long>(mpfr_get_exp(number.get()) - format.precision, format.least_exponent);
}

}  // namespace

Value round_to(const Real& exact, DType dtype) {
  if (mpfr_nan_p(exact.get()) || mpfr_inf_p(exact.get()) || mpfr_zero_p(exact.get())) {
    return Value::floating(dtype, mpfr_get_d(exact.get(), MPFR_RNDN));
  }
  // A multiple of the last place: as a whole number it is rounded by MPFR and then exact in a double.
  const long place = last_place(exact, format_of(dtype));
  Real scaled(mpfr_get_prec(exact.get()));
  mpfr_mul_2si(scaled.get(), exact.get(), -place, MPFR_RNDN);
  mpfr_rint_roundeven(scaled.get(), scaled.get(), MPFR_RNDN);
  mpfr_mul_2si(scaled.get(), scaled.get(), place, MPFR_RNDN);
  const double highest = dtype == DType::F16    ? 65504.0
                         : dtype == DType::BF16 ? 0x1.fep127
                         : dtype == DType::F32  ? 0x1.fffffep127
                                                : std::numeric_limits<double>::max();
  const bool is_beyond = mpfr_cmpabs_ui(scaled.get(), 0) != 0 &&
                         mpfr_cmp_d(scaled.get(), highest) * mpfr_cmp_d(scaled.get(), -highest) > 0;
  if (is_beyond) return Value::floating(dtype, mpfr_sgn(exact.get()) * std::numeric_limits<double>::infinity());
  const double rounded = mpfr_get_d(scaled.get(), MPFR_RNDN);
  return Value::floating(dtype, mpfr_zero_p(scaled.get()) && mpfr_signbit(exact.get()) ? -0.0 : rounded);
}

void set(Real& number, const Value& value) {
  if (value.dtype == DType::U64) {
    mpfr_set_ui(number.get(), value.bits, MPFR_RNDN);
  } else if (is_float(value.dtype)) {
    mpfr_set_d(number.get(), value.as_f64(), MPFR_RNDN);
  } else {
    mpfr_set_si(number.get(), value.as_i64(), MPFR_RNDN);
  }
}

double ulps(const Value& computed, const Real& exact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Value nearest = round_to(exact, computed.dtype);
  const double result = computed.as_f64();
  const bool is_special = result - result != 0 || nearest.as_f64() - nearest.as_f64() != 0;
  if (result != result && mpfr_nan_p(exact.get())) return 0;
  if (is_special) return nearest.bits == computed.bits ? 0 : kInfinity;
  if (mpfr_zero_p(exact.get())) return result == 0 ? 0 : kInfinity;
  Real error(mpfr_get_prec(exact.get()));
  mpfr_sub_d(error.get(), exact.get(), result, MPFR_RNDN);
  mpfr_mul_2si(error.get(), error.get(), -last_place(exact, format_of(computed.dtype)), MPFR_RNDN);
  const double distance = mpfr_get_d(error.get(), MPFR_RNDN);
  return distance < 0 ? -distance : distance;
}

}  // namespace corrloom::scalar::testing
