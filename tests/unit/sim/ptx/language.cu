// What else C++ for devices offers: printf, assertions, heap, memory functions, constants, big parameters, clocks.
#include <cassert>
#include <cstdio>
#include <cstdint>
#include <cuda_runtime.h>

extern "C" __global__ void formats(const char* text, double d) {
  if (threadIdx.x != 0) return;
  printf("plain %% done\n");
  printf("%d %i %u %x %X %o|\n", -5, 42, 4000000000u, 255, 255, 8);
  printf("%5d|%-5d|%05d|%+d|% d|%#x|%#o|\n", 42, 42, 42, 42, 42, 255, 8);
  printf("%hd %hhd %ld %lld %llu %lx %zu\n", (short)-3, (signed char)-4, -5l, -6ll, 18446744073709551615ull, 255l, (size_t)7);
  printf("%f %.2f %10.3f %-10.1f| %e %.3E %g %G %a\n", d, d, d, d, d, d, d, 1e-10, 1.0);
  printf("%s|%10s|%-10s|%.2s|%c%c\n", text, "right", "left", "cut", 'o', 'k');
  printf("%*d|%.*f|%-*d|\n", 6, 42, 3, d, 4, 7);
  printf("%f %f %d\n", 1.5f, -0.0f, 'A');
  printf("%d %s %d %f %lld %c\n", 1, "two", 3, 4.0, 5ll, '6');
  const int n = printf("12345");
  printf(" %d\n", n);
}
extern "C" __global__ void from_all(int* out) {
  const int n = printf("t%d\n", threadIdx.x);
  out[threadIdx.x] = n;
}
extern "C" __global__ void asserts(const int* in, int* out) {
  assert(in[threadIdx.x] >= 0 && "negative");
  out[threadIdx.x] = in[threadIdx.x];
}
extern "C" __global__ void traps(const int* in, int* out) {
  if (in[threadIdx.x] < 0) __trap();
  out[threadIdx.x] = 1;
}

struct Node { int value; Node* next; };
extern "C" __global__ void lists(int* out, int n) {
  Node* head = nullptr;
  for (int i = 0; i < n + (int)threadIdx.x % 4; ++i) head = new Node{i * (int)threadIdx.x, head};
  int sum = 0;
  while (head) { sum += head->value; Node* next = head->next; delete head; head = next; }
  char* bytes = (char*)malloc(threadIdx.x + 1);
  memset(bytes, 3, threadIdx.x + 1);
  for (int i = 0; i <= threadIdx.x; ++i) sum += bytes[i];
  free(bytes);
  out[threadIdx.x] = sum;
}
struct Big { int a[5]; short b; char c[7]; double d[3]; };
extern "C" __global__ void copies(Big* out, const Big* in, char* bytes, const char* from, int n) {
  Big local = in[threadIdx.x];
  local.a[threadIdx.x % 5] += 1;
  local.c[threadIdx.x % 7] = 'x';
  Big other;
  memcpy(&other, &local, sizeof(Big));
  other.d[1] *= 2;
  out[threadIdx.x] = other;
  if (threadIdx.x == 0) { memcpy(bytes, from + 1, n); memset(bytes + n, 0x5A, 3); }
}

__constant__ int table[64] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ struct { float scale; int shift; const char* name; } config = {2.5f, 3, "constant"};
__device__ int counters[4] = {10, 20, 30, 40};
__device__ const float pi_digits[] = {3.f, .1f, .04f};
__device__ int* pointer_to_counter = &counters[2];
__managed__ int managed_value = 5;
extern "C" __global__ void constants(float* out, int k) {
  const int t = threadIdx.x;
  const int* p = t & 1 ? table : counters;
  out[t] = config.scale * table[t % 64] + (1 << config.shift) + config.name[t % 8] + counters[(t + k) % 4] + p[t % 4] +
           pi_digits[t % 3] + *pointer_to_counter + managed_value;
}
struct Params { int n; float v[1000]; uint8_t tail[3]; };
extern "C" __global__ void big_params(const __grid_constant__ Params p, float* out, int stride) {
  const float* v = p.v;
  out[threadIdx.x] = v[(threadIdx.x * stride) % p.n] + p.tail[threadIdx.x % 3];
}
extern "C" __global__ void param_copy(Params p, float* out) {
  p.v[threadIdx.x % 7] += 1;
  float s = 0;
  for (int i = 0; i < 7; ++i) s += p.v[i];
  out[threadIdx.x] = s;
}
extern "C" __global__ void clocks(long long* out) {
  const long long a = clock64();
  const unsigned b = clock();
  unsigned long long g0, g1;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g0));
  __nanosleep(1000);
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g1));
  out[threadIdx.x] = (clock64() > a) + 2 * ((int)(clock() - b) > 0) + 4 * (g1 >= g0);
}
extern "C" __global__ void identity(unsigned* out) {
  unsigned smid, nsmid, lane, ctaid_z;
  asm("mov.u32 %0, %%smid;" : "=r"(smid));
  asm("mov.u32 %0, %%nsmid;" : "=r"(nsmid));
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%ctaid.z;" : "=r"(ctaid_z));
  const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = (smid < nsmid) + 2 * (lane == t % 32) + 4 * (ctaid_z == blockIdx.z) + 8 * t;
}
extern "C" __global__ void spaces(int* out, int* g) {
  __shared__ int s;
  int l = 0;
  int* p[3] = {g, &s, &l};
  unsigned r = 0;
  for (int i = 0; i < 3; ++i) {
    int* q = p[(i + threadIdx.x) % 3];
    r = r * 16 + (__isGlobal(q) ? 1 : 0) + (__isShared(q) ? 2 : 0) + (__isLocal(q) ? 4 : 0) + (__isConstant(q) ? 8 : 0);
  }
  out[threadIdx.x] = r;
}
// alloca, and arrays whose size is known only when the kernel runs.
extern "C" __global__ void stack_allocation(int* out, int n) {
  const int size = n + threadIdx.x % 8;
  int* a = (int*)alloca(size * sizeof(int));
  for (int i = 0; i < size; ++i) a[i] = i * i;
  int s = 0;
  for (int i = size - 1; i >= 0; i -= 2) s += a[i];
  out[threadIdx.x] = s;
}
extern "C" __global__ void unions(unsigned* out, const float* in) {
  union { float f; unsigned u; unsigned char c[4]; } x;
  x.f = in[threadIdx.x];
  x.c[threadIdx.x % 4] ^= 0x40;
  struct { unsigned a : 5, b : 11, c : 16; } bits;
  bits.a = threadIdx.x; bits.b = x.u >> 7; bits.c = x.u;
  out[threadIdx.x] = x.u ^ (bits.a + (bits.b << 3) + (bits.c << 9));
}
