#pragma once

#include <bit>
#include <cstring>

#include "runtime/sim/exec/engine.h"

/// Loops over the lanes of a warp. A full mask runs as one loop over 32 values that compilers turn into vectors; a
/// partial one computes all lanes and keeps those of the mask, which is safe because the operations have no side
/// effects.
namespace corrloom::sim::exec {

/// Calls `f(lane)` for each lane of the mask, lowest first.
template <class F>
inline void for_lanes(LaneMask mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

/// Copies the lanes of the mask.
template <class T>
inline void blend(T* to, const T* from, LaneMask mask) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) to[lane] = from[lane];
  }
}

template <class D, class A, class F>
inline void unary(Warp& warp, const Inst& inst, LaneMask mask, F f) {
  const A* a = warp.at<A>(inst.a);
  D* d = warp.at<D>(inst.d);
  D result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = f(a[lane]);
  if (mask == kAllLanes) {
    std::memcpy(d, result, sizeof(result));
  } else {
    blend(d, result, mask);
  }
}

template <class D, class A, class B, class F>
inline void binary(Warp& warp, const Inst& inst, LaneMask mask, F f) {
  const A* a = warp.at<A>(inst.a);
  const B* b = warp.at<B>(inst.b);
  D* d = warp.at<D>(inst.d);
  D result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = f(a[lane], b[lane]);
  if (mask == kAllLanes) {
    std::memcpy(d, result, sizeof(result));
  } else {
    blend(d, result, mask);
  }
}

template <class D, class A, class B, class C, class F>
inline void ternary(Warp& warp, const Inst& inst, LaneMask mask, F f) {
  const A* a = warp.at<A>(inst.a);
  const B* b = warp.at<B>(inst.b);
  const C* c = warp.at<C>(inst.c);
  D* d = warp.at<D>(inst.d);
  D result[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) result[lane] = f(a[lane], b[lane], c[lane]);
  if (mask == kAllLanes) {
    std::memcpy(d, result, sizeof(result));
  } else {
    blend(d, result, mask);
  }
}

/// Sets a predicate for the lanes of the mask.
inline void set_predicate(Warp& warp, Slot slot, LaneMask mask, LaneMask values) {
  LaneMask& predicate = warp.predicate(slot);
  predicate = (predicate & ~mask) | (values & mask);
}

/// One bit per lane for which `f(lane)` holds.
template <class F>
inline LaneMask lanes_where(F&& f) {
  uint8_t flags[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) flags[lane] = f(lane) ? 1 : 0;
  LaneMask mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) mask |= LaneMask(flags[lane]) << lane;
  return mask;
}

}  // namespace corrloom::sim::exec
