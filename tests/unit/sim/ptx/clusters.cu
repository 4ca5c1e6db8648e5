// Thread block clusters, distributed shared memory, bulk and tensor copies, as nvcc compiles them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <utility>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
__device__ uint32_t s32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// A histogram whose bins are spread over the shared memory of a cluster.
extern "C" __global__ void histogram(const int* in, int n, int* bins, int bins_per_block) {
  extern __shared__ int mine[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  const int per_cluster = (n + gridDim.x / cluster.num_blocks() - 1) / (gridDim.x / cluster.num_blocks());
  const int first = blockIdx.x / cluster.num_blocks() * per_cluster;
  for (int i = cluster.thread_rank(); i < per_cluster && first + i < n; i += cluster.num_threads()) {
    const int bin = in[first + i];
    int* where = cluster.map_shared_rank(mine, bin / bins_per_block);
    atomicAdd(where + bin % bins_per_block, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x)
    atomicAdd(&bins[cluster.block_rank() * bins_per_block + i], mine[i]);
}
// Every block reads the next one's memory, in two and three dimensions of a cluster.
extern "C" __global__ void ring(int* out) {
  __shared__ int box[2][64];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
  int v = rank * 100 + threadIdx.x, phase = 0;
  for (unsigned i = 0; i < size; ++i, phase ^= 1) {
    int* next = cluster.map_shared_rank(&box[phase][0], (rank + 1) % size);
    next[threadIdx.x] = v + 1;
    cluster.barrier_arrive();
    cluster.barrier_wait();
    v = box[phase][threadIdx.x];
  }
  const dim3 at = cluster.block_index(), dim = cluster.dim_blocks();
  out[(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * 64 + threadIdx.x] =
      v + 10000 * (at.x + dim.x * (at.y + dim.y * at.z) == rank) + 100000 * (cluster.query_shared_rank(cluster.map_shared_rank(&box[0][0], 1)) == 1);
  cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_reduce(const float* in, float* out) {
  __shared__ float part[32];
  __shared__ float total;
  cg::cluster_group cluster = cg::this_cluster();
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const float sum = cg::reduce(warp, in[cluster.thread_rank() + blockIdx.x / 2 * cluster.num_threads()], cg::plus<float>());
  if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
  if (threadIdx.x == 0) total = 0;
  cluster.sync();
  if (warp.meta_group_rank() == 0) {
    const float v = cg::reduce(warp, threadIdx.x < warp.meta_group_size() ? part[threadIdx.x] : 0.0f, cg::plus<float>());
    if (threadIdx.x == 0) atomicAdd(cluster.map_shared_rank(&total, 0), v);
  }
  cluster.sync();
  if (cluster.thread_rank() == 0) out[blockIdx.x / 2] = total;
}
// A remote mbarrier: consumers of the cluster tell the producer block that they are done; data goes by st.async.
extern "C" __global__ void __cluster_dims__(4, 1, 1) remote_barriers(int* out) {
  __shared__ alignas(8) uint64_t full, done;
  __shared__ int box[32];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&done, cluster.num_blocks() * 32);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(box));
  }
  cluster.sync();
  const unsigned next = (rank + 1) % 4;
  ptx::st_async(cluster.map_shared_rank(&box[threadIdx.x], next), int(rank * 1000 + threadIdx.x), cluster.map_shared_rank(&full, next));
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  const int got = box[threadIdx.x];
  ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, cluster.map_shared_rank(&done, 0));
  if (rank == 0) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &done, 0)) {}
  cluster.sync();
  out[blockIdx.x * 32 + threadIdx.x] = got;
}

// Bulk copies in one dimension, both ways, with the library's barrier.
extern "C" __global__ void bulk_roundtrip(const int* in, int* out, int n) {
  extern __shared__ __align__(1024) int s[];
  __shared__ Barrier bar;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
  __syncthreads();
  Barrier::arrival_token token;
  const int* from = in + blockIdx.x * n;
  if (threadIdx.x == 0) {
    cuda::memcpy_async(s, from, cuda::aligned_size_t<16>(n * sizeof(int)), bar);
    token = bar.arrive();
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = s[i] * 3 + 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + blockIdx.x * n, s, n * sizeof(int));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
extern "C" __global__ void bulk_reduce(int* sum, int* least, double* d) {
  __shared__ __align__(128) int s[64];
  __shared__ __align__(128) double v[32];
  s[threadIdx.x] = threadIdx.x + blockIdx.x;
  if (threadIdx.x < 32) v[threadIdx.x] = 0.5 * threadIdx.x;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sum, s, sizeof(s));
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_min, least, s, sizeof(s));
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, d, v, sizeof(v));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
// One block of the cluster fetches for all.
extern "C" __global__ void __cluster_dims__(4, 1, 1) multicast(const int* in, int* out) {
  __shared__ __align__(128) int s[128];
  __shared__ alignas(8) uint64_t bar;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    if (cluster.block_rank() != 2) ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(s));
  }
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, in, sizeof(s), &bar, uint16_t(0b1011));
  int v = -1;
  if (cluster.block_rank() != 2) {
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    v = s[threadIdx.x];
  }
  out[blockIdx.x * 128 + threadIdx.x] = v;
  cluster.sync();
}

// Tensor copies of every rank: a box goes to shared memory, from there to `out` as it lies, and back to another tensor.
template <int Rank> __device__ void tensor(const CUtensorMap& from, const CUtensorMap& to, int* out, int n, int x, int y, int z) {
  extern __shared__ __align__(1024) int s[];
  __shared__ Barrier bar;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
  __syncthreads();
  Barrier::arrival_token token;
  const int at[5] = {x, y, z, 1, 1};
  int32_t coordinates[Rank];
  for (int i = 0; i < Rank; ++i) coordinates[i] = at[i];
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s, &from, coordinates, cuda::device::barrier_native_handle(bar));
    token = cuda::device::barrier_arrive_tx(bar, 1, n * sizeof(int));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < n; i += blockDim.x) { out[i] = s[i]; s[i] += 1000; }
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, coordinates, s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
#define TENSOR(R) extern "C" __global__ void tensor##R(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int* out, int n, int x, int y, int z) { tensor<R>(from, to, out, n, x, y, z); }
TENSOR(1) TENSOR(2) TENSOR(3) TENSOR(4) TENSOR(5)

// A reduction into a tensor, from every block, over its edge.
extern "C" __global__ void tensor_reduce(const __grid_constant__ CUtensorMap to, int op) {
  __shared__ __align__(128) float s[8][16];
  for (int i = threadIdx.x; i < 128; i += blockDim.x) s[i / 16][i % 16] = i % 16 + i / 16 * 2 + blockIdx.x;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int32_t at[2] = {8, 4};
    if (op == 0) ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &to, at, s);
    else ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_max, &to, at, s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
extern "C" __global__ void im2col(const __grid_constant__ CUtensorMap from, int* out, int n, int c, int w, int h, int b, int ow, int oh) {
  extern __shared__ __align__(1024) int s[];
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) { ptx::mbarrier_init(&bar, 1); ptx::fence_proxy_async(ptx::space_shared); }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, n * 4);
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(s32(s)), "l"(&from), "r"(c), "r"(w), "r"(h), "r"(b), "r"(s32(&bar)), "h"((short)ow), "h"((short)oh) : "memory");
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[i];
}
// A ring of stages between a warp that fetches and two that compute, over a tensor.
extern "C" __global__ void tensor_pipeline(const __grid_constant__ CUtensorMap from, float* out, int tiles) {
  constexpr int kStages = 3;
  __shared__ __align__(128) float s[kStages][16][32];
  __shared__ alignas(8) uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) { ptx::mbarrier_init(&full[i], 1); ptx::mbarrier_init(&empty[i], 64); }
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  if (threadIdx.x >= 64) {
    if (threadIdx.x == 64)
      for (int i = 0; i < tiles; ++i) {
        if (i >= kStages) while (!ptx::mbarrier_try_wait_parity(&empty[i % kStages], (i / kStages - 1) & 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[i % kStages], sizeof(s[0]));
        const int32_t at[2] = {i * 32, 0};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s[i % kStages], &from, at, &full[i % kStages]);
      }
  } else {
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
      while (!ptx::mbarrier_try_wait_parity(&full[i % kStages], i / kStages & 1)) {}
      for (int r = 0; r < 8; ++r) sum += s[i % kStages][threadIdx.x / 32 * 8 + r][threadIdx.x % 32];
      ptx::mbarrier_arrive(&empty[i % kStages]);
    }
    out[threadIdx.x] = sum;
  }
}
