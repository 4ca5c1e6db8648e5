#pragma once

#include <cstdint>

/// What this machine does at most, measured when it is asked: what a kernel reaches means something only beside it.
/// Each call takes a few milliseconds.
namespace corrloom::runtime {

/// What arithmetic is made of: f32 fmas; products of bf16 pairs that are summed in f32; products of four bytes that are
/// summed in i32; i32 products that are summed; operations on i32 without products; f32 divisions; roots of f32.
enum class Arithmetic : std::uint8_t { F32, Bf16Pairs, ByteQuads, I32Products, I32, Divisions, Roots };
/// Operations in a nanosecond, a product and its sum as two, of so many threads at once. A processor without
/// instructions for pairs or quads does what it does in f32 or i32.
double measure_flops_per_ns(Arithmetic kind, int threads);

/// What memory is asked for.
enum class Traffic : std::uint8_t { Read, Write, Copy };
/// Bytes in a nanosecond that so many threads read, write, or read and write, over and over within `bytes` of memory in
/// total (at most 256 MiB): that of the cache that holds as many, or of memory.
double measure_bytes_per_ns(Traffic traffic, std::int64_t bytes, int threads);

}  // namespace corrloom::runtime
