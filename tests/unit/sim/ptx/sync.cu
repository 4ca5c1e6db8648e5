// libcu++ synchronisation: barriers, pipelines, atomics, latches, semaphores, and copies that report to barriers.
#include <cooperative_groups.h>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
using BlockBarrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init

// Multi-stage pipeline of the whole block: copies of stage s + 2 run while stage s is used.
template <int Stages> __device__ void staged(const float* in, float* out, int tiles) {
  __shared__ __align__(16) float buffer[Stages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, Stages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int fetch = 0, use = 0; use < tiles; ++use) {
    for (; fetch < tiles && fetch < use + Stages; ++fetch) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, buffer[fetch % Stages], in + fetch * 128, cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += buffer[use % Stages][(threadIdx.x * 3 + use) % 128];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void pipeline2(const float* in, float* out, int tiles) { staged<2>(in, out, tiles); }
extern "C" __global__ void pipeline4(const float* in, float* out, int tiles) { staged<4>(in, out, tiles); }

// One warp produces, the others consume.
extern "C" __global__ void pipeline_roles(const int* in, int* out, int tiles) {
  __shared__ __align__(16) int buffer[3][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
  auto block = cg::this_thread_block();
  const auto role = block.thread_rank() < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    auto warp = cg::tiled_partition<32>(block);
    for (int i = 0; i < tiles; ++i) {
      pipe.producer_acquire();
      cuda::memcpy_async(warp, buffer[i % 3], in + i * 64, sizeof(int) * 64, pipe);
      pipe.producer_commit();
    }
  } else {
    int sum = 0;
    for (int i = 0; i < tiles; ++i) {
      pipe.consumer_wait();
      sum += buffer[i % 3][(block.thread_rank() + i) % 64] * (i + 1);
      pipe.consumer_release();
    }
    out[block.thread_rank() - 32] = sum;
  }
}

// The pipeline of one thread, with its primitives.
extern "C" __global__ void primitives(const int4* in, int* out, int n) {
  __shared__ int4 s[2][64];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&s[0][t], in + t, 16);
  __pipeline_commit();
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i + 1 < n) __pipeline_memcpy_async(&s[(i + 1) & 1][t], in + (i + 1) * 64 + t, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    const int4 v = s[i & 1][t];
    sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
  }
  __pipeline_memcpy_async(&s[0][t], in + t, 16, 12);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[t] = sum + s[0][t].x * 1000 + s[0][t].y;
}

extern "C" __global__ void split_barrier(int* out, const int* in) {
  __shared__ BlockBarrier bar;
  __shared__ int s[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < 5; ++i) {
    s[threadIdx.x] = in[threadIdx.x] + i;
    auto token = bar.arrive();
    sum += i;
    bar.wait(std::move(token));
    sum += s[(threadIdx.x + 1) % 128];
    bar.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}

// Threads leave the barrier one after the other.
extern "C" __global__ void dropping(int* out) {
  __shared__ BlockBarrier bar;
  __shared__ int count;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); count = 0; }
  __syncthreads();
  for (int i = 0; i < 64; ++i) {
    if (threadIdx.x / 2 == i) { bar.arrive_and_drop(); break; }
    atomicAdd(&count, 1);
    bar.arrive_and_wait();
  }
  if (threadIdx.x == 63) out[0] = count;
}

struct Add { __device__ void operator()() noexcept { ++*p; } int* p; };
extern "C" __global__ void completions(int* out, int rounds) {
  __shared__ BlockBarrier bar;
  __shared__ int phase;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); phase = 0; }
  __syncthreads();
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == i % blockDim.x) phase += i;
    bar.arrive_and_wait();
    if (phase != i * (i + 1) / 2) atomicAdd(out, 1000);
    bar.arrive_and_wait();
  }
  if (threadIdx.x == 0) atomicAdd(out, phase);
}

extern "C" __global__ void barrier_parity(int* out) {
  __shared__ BlockBarrier bar;
  __shared__ int v;
  if (threadIdx.x == 0) init(&bar, 1);
  __syncthreads();
  if (threadIdx.x == 0) { v = 41; (void)bar.arrive(); }
  bar.wait_parity(false);
  out[threadIdx.x] = v + 1;
}

// Copies that complete at a barrier.
extern "C" __global__ void barrier_copies(const int* in, int* out) {
  __shared__ __align__(16) int s[256];
  __shared__ BlockBarrier bar;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, s, in, cuda::aligned_size_t<16>(sizeof(s)), bar);
  bar.arrive_and_wait();
  out[threadIdx.x] = s[255 - threadIdx.x] + s[threadIdx.x];
}

template <cuda::thread_scope Scope> __device__ void atomics(int* counter, unsigned long long* wide, int* out) {
  cuda::atomic_ref<int, Scope> c(*counter);
  cuda::atomic_ref<unsigned long long, Scope> w(*wide);
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  out[t] = c.fetch_add(1, cuda::memory_order_relaxed) >= 0;
  w.fetch_max(t * 3ull, cuda::memory_order_acq_rel);
  int old = c.load(cuda::memory_order_acquire);
  while (!c.compare_exchange_weak(old, old + 2, cuda::memory_order_release, cuda::memory_order_relaxed)) {}
  c.fetch_sub(1, cuda::memory_order_seq_cst);
  w.fetch_xor(0, cuda::memory_order_seq_cst);
}
extern "C" __global__ void atomics_block(int* c, unsigned long long* w, int* out) { atomics<cuda::thread_scope_block>(c, w, out); }
extern "C" __global__ void atomics_device(int* c, unsigned long long* w, int* out) { atomics<cuda::thread_scope_device>(c, w, out); }
extern "C" __global__ void atomics_system(int* c, unsigned long long* w, int* out) { atomics<cuda::thread_scope_system>(c, w, out); }

struct alignas(8) Pair { int sum; int count; };
extern "C" __global__ void atomic_types(float* f, double* d, Pair* p, unsigned char* bytes, unsigned short* halves, bool* flag) {
  const int t = threadIdx.x;
  cuda::atomic_ref<float>(*f).fetch_add(0.5f);
  cuda::atomic_ref<double>(*d).fetch_sub(0.25);
  cuda::atomic_ref<float>(f[1]).fetch_max(float(t * 37 % 64));
  cuda::atomic_ref<Pair> pair(*p);
  Pair old = pair.load(), next;
  do { next = {old.sum + t, old.count + 1}; } while (!pair.compare_exchange_strong(old, next));
  cuda::atomic_ref<unsigned char>(bytes[t % 3]).fetch_add(1);
  cuda::atomic_ref<unsigned short>(halves[t % 2]).fetch_or(1u << (t % 16));
  cuda::atomic_ref<bool> b(*flag);
  if (t == 40) { b.store(true); b.notify_all(); }
  b.wait(false);
}

// Message passing between blocks by release and acquire alone.
extern "C" __global__ void messages(int* data, int* flag, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x * 5;
    __syncthreads();
    if (threadIdx.x == 0) f.store(1, cuda::memory_order_release);
  } else {
    if (threadIdx.x == 0) while (f.load(cuda::memory_order_acquire) == 0) {}
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x ^ 1];
  }
}
extern "C" __global__ void fences(int* data, volatile int* flag, int* out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x + 7;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    while (*flag == 0) __nanosleep(20);
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    out[threadIdx.x] = data[31 - threadIdx.x];
  }
}

extern "C" __global__ void latches(int* out) {
  using Latch = cuda::latch<cuda::thread_scope_block>;
  __shared__ alignas(Latch) char place[sizeof(Latch)];
  __shared__ int s[64];
  Latch& latch = *reinterpret_cast<Latch*>(place);
  if (threadIdx.x == 0) new (&latch) Latch(32);
  __syncthreads();
  if (threadIdx.x < 32) { s[threadIdx.x] = threadIdx.x * 2; latch.count_down(); }
  else { latch.wait(); out[threadIdx.x - 32] = s[63 - threadIdx.x]; }
}
extern "C" __global__ void semaphores(int* inside, int* most, cuda::counting_semaphore<cuda::thread_scope_device, 3>* sem) {
  if (threadIdx.x == 0) {
    sem->acquire();
    atomicMax(most, atomicAdd(inside, 1) + 1);
    for (int i = 0; i < 20; ++i) __nanosleep(10);
    atomicSub(inside, 1);
    sem->release();
  }
}

// A ticket lock that protects plain data, taken by every thread of several blocks.
struct Lock { int next, serving; };
extern "C" __global__ void ticket_lock(Lock* lock, int* value) {
  cuda::atomic_ref<int, cuda::thread_scope_device> next(lock->next), serving(lock->serving);
  const int mine = next.fetch_add(1, cuda::memory_order_relaxed);
  bool done = false;
  while (!done) {
    if (serving.load(cuda::memory_order_acquire) == mine) {
      *value = *value * 5 + mine;
      serving.fetch_add(1, cuda::memory_order_release);
      done = true;
    }
  }
}
