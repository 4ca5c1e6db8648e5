// wgmma in many shapes and types. A is 64 x k, B is n x k (or k x n where transposed), both copied to shared memory in the
// canonical layout of a swizzle; C is 64 x n, in the order of the accumulator registers.
#include <cstdint>

__device__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
// Descriptor: start address, leading and stride byte offsets, swizzle (0 none, 1 128, 2 64, 3 32 bytes).
__device__ uint64_t descriptor(const void* p, int leading, int stride, int swizzle) {
  return (shared_address(p) & 0x3FFFF) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)swizzle << 62;
}
// Where a swizzle puts a byte: bits 4-6 are xored with bits 7-9, as far as the span reaches.
__device__ int swizzled(int at, int swizzle) { return at ^ (at >> 3 & (swizzle == 1 ? 0x70 : swizzle == 2 ? 0x30 : swizzle == 3 ? 0x10 : 0)); }
__device__ int span_of(int swizzle) { return swizzle == 1 ? 128 : swizzle == 2 ? 64 : swizzle == 3 ? 32 : 16; }
// K-major: groups of eight rows of `row_bytes` (the span, or all of k without a swizzle in units of 8 x 16 bytes).
__device__ void place_k_major(char* to, const char* from, int rows, int k_bytes, int swizzle) {
  for (int i = threadIdx.x; i < rows * k_bytes; i += blockDim.x) {
    const int r = i / k_bytes, b = i % k_bytes;
    const int at = swizzle == 0 ? r / 8 * (8 * k_bytes) + b / 16 * 128 + r % 8 * 16 + b % 16
                                : swizzled(r / 8 * 8 * span_of(swizzle) + r % 8 * span_of(swizzle) + b, swizzle);
    to[at] = from[i];
  }
}
// MN-major, for 16-bit elements: `from` is k x mn; one span along mn, eight deep in k, is a unit.
__device__ void place_mn_major(char* to, const char* from, int k, int mn_bytes, int swizzle) {
  const int span = span_of(swizzle);
  for (int i = threadIdx.x; i < k * mn_bytes; i += blockDim.x) {
    const int d = i / mn_bytes, b = i % mn_bytes;
    const int unit = (b / span) * (k / 8) + d / 8;
    to[swizzled(unit * 8 * span + d % 8 * span + b % span, swizzle)] = from[i];
  }
}
__device__ void begin() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads(); asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end() { asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

__device__ void product_f16_n8(float (&d)[4], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0;\n wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_f16_n8(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 8, 128, 1);
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_f16_n8(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = d[i];
}

__device__ void product_f16_n64(float (&d)[32], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_f16_n64(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 64, 128, 1);
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_f16_n64(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}

__device__ void product_f16_n256(float (&d)[128], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0;\n wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_f16_n256(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 64;
  place_k_major(sa, a, 64, 64, 2);
  place_k_major(sb, b, 256, 64, 2);
  float d[128];
  for (int i = 0; i < 128; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 2; ++k) product_f16_n256(d, descriptor(sa + 32 * k, 16, 512, 2), descriptor(sb + 32 * k, 16, 512, 2), accumulate || k);
  end();
  for (int i = 0; i < 128; ++i) c[threadIdx.x * 128 + i] = d[i];
}

__device__ void product_bf16_n128(float (&d)[64], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0;\n wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, -1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_bf16_n128(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 128, 128, 1);
  float d[64];
  for (int i = 0; i < 64; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_bf16_n128(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 64; ++i) c[threadIdx.x * 64 + i] = d[i];
}

__device__ void product_f16_f16_n64(uint32_t (&d)[16], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0;\n wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;}"
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_f16_f16_n64(const char* a, const char* b, uint32_t* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 32;
  place_k_major(sa, a, 64, 32, 3);
  place_k_major(sb, b, 64, 32, 3);
  uint32_t d[16];
  for (int i = 0; i < 16; ++i) d[i] = 0x3C003C00u;
  begin();
  for (int k = 0; k < 1; ++k) product_f16_f16_n64(d, descriptor(sa + 32 * k, 16, 256, 3), descriptor(sb + 32 * k, 16, 256, 3), accumulate || k);
  end();
  for (int i = 0; i < 16; ++i) c[threadIdx.x * 16 + i] = d[i];
}

__device__ void product_tf32_n32(float (&d)[16], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0;\n wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_tf32_n32(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 32, 128, 1);
  float d[16];
  for (int i = 0; i < 16; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_tf32_n32(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 16; ++i) c[threadIdx.x * 16 + i] = d[i];
}

__device__ void product_e4m3_n64(float (&d)[32], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_e4m3_n64(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 64, 128, 1);
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_e4m3_n64(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}

__device__ void product_e5m2_e4m3_n16(float (&d)[8], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %10, 0;\n wgmma.mma_async.sync.aligned.m64n16k32.f32.e5m2.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, -1, 1;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_e5m2_e4m3_n16(const char* a, const char* b, float* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 64;
  place_k_major(sa, a, 64, 64, 2);
  place_k_major(sb, b, 16, 64, 2);
  float d[8];
  for (int i = 0; i < 8; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 2; ++k) product_e5m2_e4m3_n16(d, descriptor(sa + 32 * k, 16, 512, 2), descriptor(sb + 32 * k, 16, 512, 2), accumulate || k);
  end();
  for (int i = 0; i < 8; ++i) c[threadIdx.x * 8 + i] = d[i];
}

__device__ void product_e4m3_f16_n32(uint32_t (&d)[8], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %10, 0;\n wgmma.mma_async.sync.aligned.m64n32k32.f16.e4m3.e5m2 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1;}"
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_e4m3_f16_n32(const char* a, const char* b, uint32_t* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 32;
  place_k_major(sa, a, 64, 32, 0);
  place_k_major(sb, b, 32, 32, 0);
  uint32_t d[8];
  for (int i = 0; i < 8; ++i) d[i] = 0x3C003C00u;
  begin();
  for (int k = 0; k < 1; ++k) product_e4m3_f16_n32(d, descriptor(sa + 32 * k, 128, 256, 0), descriptor(sb + 32 * k, 128, 256, 0), accumulate || k);
  end();
  for (int i = 0; i < 8; ++i) c[threadIdx.x * 8 + i] = d[i];
}

__device__ void product_s8_n32(int (&d)[16], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0;\n wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p;}"
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_s8_n32(const char* a, const char* b, int* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 128;
  place_k_major(sa, a, 64, 128, 1);
  place_k_major(sb, b, 32, 128, 1);
  int d[16];
  for (int i = 0; i < 16; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 4; ++k) product_s8_n32(d, descriptor(sa + 32 * k, 16, 1024, 1), descriptor(sb + 32 * k, 16, 1024, 1), accumulate || k);
  end();
  for (int i = 0; i < 16; ++i) c[threadIdx.x * 16 + i] = d[i];
}

__device__ void product_u8_s8_n128(int (&d)[64], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0;\n wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p;}"
    : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_u8_s8_n128(const char* a, const char* b, int* c, int accumulate) {
  extern __shared__ __align__(1024) char s[];
  char *sa = s, *sb = s + 64 * 32;
  place_k_major(sa, a, 64, 32, 0);
  place_k_major(sb, b, 128, 32, 0);
  int d[64];
  for (int i = 0; i < 64; ++i) d[i] = 1;
  begin();
  for (int k = 0; k < 1; ++k) product_u8_s8_n128(d, descriptor(sa + 32 * k, 128, 256, 0), descriptor(sb + 32 * k, 128, 256, 0), accumulate || k);
  end();
  for (int i = 0; i < 64; ++i) c[threadIdx.x * 64 + i] = d[i];
}

__device__ void product_transposed(float (&d)[32], uint64_t a, uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 1, 1;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "l"(b), "r"(scale));
}
extern "C" __global__ void wgmma_transposed_16(const char* a, const char* b, float* c) {
  extern __shared__ __align__(1024) char s[];
  place_mn_major(s, a, 16, 128, 0);
  place_mn_major(s + 2048, b, 16, 128, 0);
  float d[32] = {};
  begin();
  product_transposed(d, descriptor(s, 128, 256, 0), descriptor(s + 2048, 128, 256, 0), 0);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}
extern "C" __global__ void wgmma_transposed_128(const char* a, const char* b, float* c) {
  extern __shared__ __align__(1024) char s[];
  place_mn_major(s, a, 16, 128, 1);
  place_mn_major(s + 2048, b, 16, 128, 1);
  float d[32] = {};
  begin();
  product_transposed(d, descriptor(s, 2048, 1024, 1), descriptor(s + 2048, 2048, 1024, 1), 0);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}
extern "C" __global__ void wgmma_transposed_64(const char* a, const char* b, float* c) {
  extern __shared__ __align__(1024) char s[];
  place_mn_major(s, a, 16, 128, 2);
  place_mn_major(s + 2048, b, 16, 128, 2);
  float d[32] = {};
  begin();
  product_transposed(d, descriptor(s, 1024, 512, 2), descriptor(s + 2048, 1024, 512, 2), 0);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}
extern "C" __global__ void wgmma_transposed_32(const char* a, const char* b, float* c) {
  extern __shared__ __align__(1024) char s[];
  place_mn_major(s, a, 16, 128, 3);
  place_mn_major(s + 2048, b, 16, 128, 3);
  float d[32] = {};
  begin();
  product_transposed(d, descriptor(s, 512, 256, 3), descriptor(s + 2048, 512, 256, 3), 0);
  end();
  for (int i = 0; i < 32; ++i) c[threadIdx.x * 32 + i] = d[i];
}

__device__ void product_registers(float (&d)[8], const uint32_t (&a)[4], uint64_t b, int scale) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %13, 0;\n wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale));
}
// A in registers, two warpgroups, and accumulators that are looked at before the wait in the text of the program.
extern "C" __global__ void wgmma_registers(const uint32_t* a, const char* b, float* c) {
  extern __shared__ __align__(1024) char s[];
  place_k_major(s, b, 16, 32, 3);
  const int w = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, group = threadIdx.x / 128;
  const uint32_t* mine = a + group * 64 * 8 + (16 * w + g) * 8 + t;
  const uint32_t fragment[4] = {mine[0], mine[8 * 8], mine[4], mine[8 * 8 + 4]};
  float d[8];
  for (int i = 0; i < 8; ++i) d[i] = group;
  begin();
  product_registers(d, fragment, descriptor(s, 16, 256, 3), 1);
  product_registers(d, fragment, descriptor(s, 16, 256, 3), 1);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  float copy[8];
  for (int i = 0; i < 8; ++i) copy[i] = d[i];
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 8; ++i) c[threadIdx.x * 8 + i] = copy[i];
}
