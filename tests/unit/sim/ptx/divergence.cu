// Control flow: lanes that part, meet, wait for each other, call each other's functions and leave early.
#include <cstdint>

__device__ __noinline__ int slow(int x, int n) {
  for (int i = 0; i < n; ++i) x = x * 1103515245 + 12345;
  return x;
}

extern "C" __global__ void nested_if(int* out) {
  const int t = threadIdx.x;
  int r = 0;
  if (t & 1) {
    if (t & 2) {
      if (t & 4) r = slow(t, 3);
      else r = slow(t, 5) ^ 1;
    } else {
      for (int i = 0; i < t; ++i) {
        if (i % 7 == 3) continue;
        if (i > 20) break;
        r += i * t;
      }
    }
    r ^= 0x55;
  } else if (t % 3 == 0) {
    r = -t;
  } else {
    do { r += t; } while (r < 100 && r != 42);
  }
  out[t] = r;
}

extern "C" __global__ void early_return(int* out, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  if (t % 5 == 0) { out[t] = -1; return; }
  int sum = 0;
  for (int i = 0;; ++i) {
    if (i == t % 11) { out[t] = sum; return; }
    sum += i * i;
    if (sum > 200) break;
  }
  out[t] = sum + 1000;
}

// The lanes of a subset vote in a loop until every one has its turn.
extern "C" __global__ void turns(int* out, int* order) {
  const unsigned lane = threadIdx.x;
  __shared__ int next;
  if (lane == 0) next = 0;
  __syncwarp();
  if (lane % 3 == 1) {
    unsigned todo = __activemask();
    bool mine = true;
    while (mine) {
      const unsigned active = __ballot_sync(__activemask(), mine);
      const int leader = 31 - __clz(active);
      if (lane == leader) { order[next++] = lane; mine = false; }
      todo &= ~(1u << leader);
    }
  }
  __syncwarp();
  out[lane] = lane == 0 ? next : 0;
}

// Warps specialised by role meet at named barriers.
extern "C" __global__ void roles(const int* in, int* out, int n) {
  __shared__ int slot[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    for (int i = 0; i < n; ++i) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      slot[lane] = in[i * 32 + lane];
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  } else {
    for (int i = 0; i < n; ++i) {
      asm volatile("bar.arrive 1, 64;" ::: "memory");
      asm volatile("bar.sync 2, 64;" ::: "memory");
      out[i * 32 + lane] = slot[31 - lane] + i;
    }
  }
}

extern "C" __global__ void barrier_counts(int* out, const int* in) {
  const int v = in[threadIdx.x];
  const int count = __syncthreads_count(v > 3);
  const int all = __syncthreads_and(v >= 0), any = __syncthreads_or(v == 7);
  out[threadIdx.x] = count * 4 + (all != 0) * 2 + (any != 0);
}

// A spin lock for each lane of a warp: needs independent progress.
extern "C" __global__ void lane_locks(int* lock, int* value) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *value = *value * 3 + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// Producer and consumer lanes of one warp exchange through volatile memory.
extern "C" __global__ void ping_pong(int* out, int rounds) {
  __shared__ volatile int ball;
  if (threadIdx.x == 0) ball = 0;
  __syncthreads();
  if (threadIdx.x < 2) {
    int seen = 0;
    for (int r = 0; r < rounds; ++r) {
      while (ball % 2 != (int)threadIdx.x) {}
      seen += ball;
      ball = ball + 1;
      __threadfence_block();
    }
    out[threadIdx.x] = seen;
  }
}

__device__ unsigned ackermann(unsigned m, unsigned n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursion(unsigned* out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3); }

__device__ void quicksort(int* a, int lo, int hi) {
  while (lo < hi) {
    const int pivot = a[(lo + hi) / 2];
    int i = lo, j = hi;
    while (i <= j) {
      while (a[i] < pivot) ++i;
      while (a[j] > pivot) --j;
      if (i <= j) { const int x = a[i]; a[i++] = a[j]; a[j--] = x; }
    }
    if (j - lo < hi - i) { quicksort(a, lo, j); lo = i; }
    else { quicksort(a, i, hi); hi = j; }
  }
}
extern "C" __global__ void sorts(int* data, int n) { quicksort(data + threadIdx.x * n, 0, n - 1); }

// Even and odd in mutual recursion through a table of pointers.
__device__ int is_odd(int n);
__device__ __noinline__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }
using Parity = int (*)(int);
__device__ Parity parity[2] = {is_even, is_odd};
extern "C" __global__ void mutual(int* out, int which) { out[threadIdx.x] = parity[(threadIdx.x + which) & 1](threadIdx.x); }

struct Shape {
  float w, h;
  __device__ Shape(float a, float b) : w(a), h(b) {}
  __device__ virtual float area() const { return w * h; }
  __device__ virtual int corners() const { return 4; }
  __device__ virtual ~Shape() {}
};
struct Ellipse : Shape {
  using Shape::Shape;
  __device__ float area() const override { return w * h * 0.75f; }
  __device__ int corners() const override { return 0; }
};
struct Triangle : Shape {
  using Shape::Shape;
  __device__ float area() const override { return Shape::area() / 2; }
  __device__ int corners() const override { return 3; }
};
extern "C" __global__ void shapes(float* out) {
  const int t = threadIdx.x;
  Shape* s = t % 3 == 0 ? new Shape(t, 2) : t % 3 == 1 ? new Ellipse(t, 2) : (Shape*)new Triangle(t, 2);
  out[t] = s->area() + 1000 * s->corners();
  delete s;
}

extern "C" __global__ void dense_switch(int* out, const int* in) {
  int r = in[threadIdx.x];
  for (int i = 0; i < 6; ++i) {
    switch (r & 15) {
      case 0: r += 7; break;
      case 1: r = r * 5 + 1; break;
      case 2: r ^= 0x33; break;
      case 3: r -= 9;
      case 4: r = ~r; break;
      case 5: r = (r << 3) | 2; break;
      case 6: r = r / 3; break;
      case 7: if (r > 100) { i = 6; break; } r += 50; break;
      case 8: r = __brev(r) >> 8; break;
      case 9: r = __popc(r); break;
      case 10: r = r * r; break;
      case 11: r = -r; break;
      case 12: continue;
      case 13: r %= 1000; break;
      case 14: r |= 64; break;
      default: r = 1 - r; break;
    }
    r ^= i;
  }
  out[threadIdx.x] = r;
}

extern "C" __global__ void local_arrays(int* out, const int* index) {
  int a[64];
  struct { short s; char c[3]; double d; } rec[5];
  for (int i = 0; i < 64; ++i) a[i] = i * threadIdx.x;
  for (int i = 0; i < 5; ++i) { rec[i].s = i - 2; rec[i].c[i % 3] = i; rec[i].d = 0.5 * i; }
  int s = 0;
  for (int i = 0; i < 8; ++i) {
    const int k = index[(threadIdx.x + i) % 32];
    s += a[k & 63];
    a[(k * 7) & 63] = s;
    s += rec[k % 5].s + rec[k % 5].c[(k % 5) % 3] + (int)(rec[k % 5].d * 2);
  }
  out[threadIdx.x] = s;
}

// Lanes fall out of a loop one by one; those that remain shuffle among themselves.
extern "C" __global__ void shrinking(int* out) {
  const int lane = threadIdx.x;
  int v = lane;
  for (int n = 32; n > 0; n /= 2) {
    if (lane >= n) break;
    const unsigned mask = n == 32 ? ~0u : (1u << n) - 1;
    v += __shfl_sync(mask, v, (lane + 1) % n);
  }
  out[lane] = v;
}

// bar.sync in a loop whose trip count the whole block shares, with divergent work in between.
extern "C" __global__ void game_of_life(unsigned char* cells, int steps) {
  __shared__ unsigned char s[2][18][18];
  const int x = threadIdx.x + 1, y = threadIdx.y + 1, t = threadIdx.y * 16 + threadIdx.x;
  for (int i = t; i < 18 * 18; i += 256) s[0][i / 18][i % 18] = s[1][i / 18][i % 18] = 0;
  __syncthreads();
  s[0][y][x] = cells[t];
  __syncthreads();
  int b = 0;
  for (int i = 0; i < steps; ++i, b ^= 1) {
    int n = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        if (dx || dy) n += s[b][y + dy][x + dx];
    if (s[b][y][x]) s[b ^ 1][y][x] = n == 2 || n == 3;
    else s[b ^ 1][y][x] = n == 3;
    __syncthreads();
  }
  cells[t] = s[b][y][x];
}

__device__ int first_sum(int n, const int* v) { int s = 0; while (n--) s += *v++; return s; }
template <int N> __device__ int unrolled(const int* v) { if constexpr (N == 0) return 0; else return v[N - 1] * N + unrolled<N - 1>(v); }
extern "C" __global__ void templates(int* out, const int* in) {
  int v[8];
  for (int i = 0; i < 8; ++i) v[i] = in[(threadIdx.x * 3 + i) % 32];
  out[threadIdx.x] = unrolled<8>(v) + first_sum(threadIdx.x % 9, v);
}
extern "C" __global__ void goto_machine(int* out, const int* in) {
  int x = in[threadIdx.x], steps = 0;
start:
  if (++steps > 40) goto end;
  if (x % 2 == 0) goto even;
  x = 3 * x + 1;
  if (x % 5 == 0) goto fives;
  goto start;
even:
  x /= 2;
  if (x == 1) goto end;
  if (x % 7 == 0) goto odd;
  goto start;
fives:
  x += 2;
odd:
  x -= 1;
  if (x > 3) goto even;
end:
  out[threadIdx.x] = x * 64 + steps;
}
