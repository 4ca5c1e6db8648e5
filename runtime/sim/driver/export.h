#pragma once

#include "runtime/sim/driver/cuda_types.h"

/// From the types of a list to parameters with names: CU_PARAMETERS(int, void*) is `int p1, void* p2`,
/// CU_ARGUMENTS(int, void*) is `p1, p2`. Up to 16.
#define CU_COUNT(...) CU_COUNT_(__VA_ARGS__ __VA_OPT__(, ) 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define CU_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define CU_JOIN(a, b) CU_JOIN_(a, b)
#define CU_JOIN_(a, b) a##b
#define CU_PARAMETERS(...) CU_JOIN(CU_PARAMETERS_, CU_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define CU_ARGUMENTS(...) CU_JOIN(CU_ARGUMENTS_, CU_COUNT(__VA_ARGS__))

#define CU_PARAMETERS_0()
#define CU_PARAMETERS_1(a) a p1
#define CU_PARAMETERS_2(a, b) a p1, b p2
#define CU_PARAMETERS_3(a, b, c) CU_PARAMETERS_2(a, b), c p3
#define CU_PARAMETERS_4(a, b, c, d) CU_PARAMETERS_3(a, b, c), d p4
#define CU_PARAMETERS_5(a, b, c, d, e) CU_PARAMETERS_4(a, b, c, d), e p5
#define CU_PARAMETERS_6(a, b, c, d, e, f) CU_PARAMETERS_5(a, b, c, d, e), f p6
#define CU_PARAMETERS_7(a, b, c, d, e, f, g) CU_PARAMETERS_6(a, b, c, d, e, f), g p7
#define CU_PARAMETERS_8(a, b, c, d, e, f, g, h) CU_PARAMETERS_7(a, b, c, d, e, f, g), h p8
#define CU_PARAMETERS_9(a, b, c, d, e, f, g, h, i) CU_PARAMETERS_8(a, b, c, d, e, f, g, h), i p9
#define CU_PARAMETERS_10(a, b, c, d, e, f, g, h, i, j) CU_PARAMETERS_9(a, b, c, d, e, f, g, h, i), j p10
#define CU_PARAMETERS_11(a, b, c, d, e, f, g, h, i, j, k) CU_PARAMETERS_10(a, b, c, d, e, f, g, h, i, j), k p11
#define CU_PARAMETERS_12(a, b, c, d, e, f, g, h, i, j, k, l) CU_PARAMETERS_11(a, b, c, d, e, f, g, h, i, j, k), l p12
#define CU_PARAMETERS_15(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) \
  CU_PARAMETERS_12(a, b, c, d, e, f, g, h, i, j, k, l), m p13, n p14, o p15

#define CU_ARGUMENTS_0
#define CU_ARGUMENTS_1 p1
#define CU_ARGUMENTS_2 p1, p2
#define CU_ARGUMENTS_3 CU_ARGUMENTS_2, p3
#define CU_ARGUMENTS_4 CU_ARGUMENTS_3, p4
#define CU_ARGUMENTS_5 CU_ARGUMENTS_4, p5
#define CU_ARGUMENTS_6 CU_ARGUMENTS_5, p6
#define CU_ARGUMENTS_7 CU_ARGUMENTS_6, p7
#define CU_ARGUMENTS_8 CU_ARGUMENTS_7, p8
#define CU_ARGUMENTS_9 CU_ARGUMENTS_8, p9
#define CU_ARGUMENTS_10 CU_ARGUMENTS_9, p10
#define CU_ARGUMENTS_11 CU_ARGUMENTS_10, p11
#define CU_ARGUMENTS_12 CU_ARGUMENTS_11, p12
#define CU_ARGUMENTS_15 CU_ARGUMENTS_12, p13, p14, p15

namespace corrloom::sim::driver {

// The implementations, one for each row of entry_points.def, in the files *_api.cpp.
#define GLOBAL(base, suffix, version, implementation, ...) CUresult implementation(__VA_ARGS__);
#define CALL(base, suffix, version, implementation, ...) CUresult implementation(__VA_ARGS__);
#define STREAM_CALL(base, suffix, version, implementation, ...) CUresult implementation(__VA_ARGS__);
#define COPY_CALL(base, suffix, version, implementation, ...) CUresult implementation(__VA_ARGS__);
#define ALIAS(symbol, target)
#include "runtime/sim/driver/entry_points.def"
#undef GLOBAL
#undef CALL
#undef STREAM_CALL
#undef COPY_CALL
#undef ALIAS

}  // namespace corrloom::sim::driver
