#pragma once

#include <mpfr.h>

#include "ir/scalar/expr.h"
#include "ir/scalar/value.h"

namespace corrloom::scalar::testing {

/// An MPFR number that frees itself.
class Real {
 public:
  explicit Real(mpfr_prec_t precision = 256) { mpfr_init2(number_, precision); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(number_); }

  mpfr_ptr get() { return number_; }
  mpfr_srcptr get() const { return number_; }

 private:
  mpfr_t number_;
};

/// The value rounded once, to nearest even, to a float dtype; MPFR does the rounding, not the code under test. NaN
/// gives the quiet NaN.
Value round_to(const Real& exact, DType dtype);

/// The exact value of any dtype.
void set(Real& number, const Value& value);

/// How far `computed` is from the exact value, in units of the last place of the exact value in that dtype (denormals:
/// of the least denormal). 0 when both are NaN or the same infinity; infinite when only one is NaN or infinite though
/// the exact value does not round so.
double ulps(const Value& computed, const Real& exact);

}  // namespace corrloom::scalar::testing
