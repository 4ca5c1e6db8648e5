#pragma once

#include "runtime/sim/exec/decoder.h"

namespace corrloom::sim::exec {

/// Element types of matrix operands.
enum class Element : uint8_t { F16, BF16, TF32, F64, F32, S32, S8, U8, S4, U4, B1, E4M3, E5M2 };

/// The element type a modifier names, if any.
std::optional<Element> element_of(std::string_view name);
int element_bits(Element element);
bool is_integer_element(Element element);
/// The value of an element in the low bits of `bits`; exact.
double element_value(uint64_t bits, Element element);

/// A product of matrices on the side: a[m][k] * b[k][n] + c[m][n], row major, in double.
/// Sums of products are exact for integers and for halves up to double's 53 bits; the hardware's order is not
/// specified.
void multiply_accumulate(const double* a, const double* b, double* c, int m, int n, int k);

/// Carries out the products of wgmma that are in flight; an instruction that the decoder inserts.
void land_products(Warp& warp, const Inst& inst, LaneMask mask);

void register_mma(OpcodeTable& table);
void register_wgmma(OpcodeTable& table);
void register_wmma(OpcodeTable& table);

}  // namespace corrloom::sim::exec
