#include <cuda.h>
#include <stdint.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
namespace cg = cooperative_groups;
__device__ uint32_t s32(const void* p){ return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void mbar_init(uint64_t* b,int n){ asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"::"r"(s32(b)),"r"(n)); }
__device__ void mbar_expect(uint64_t* b,int bytes){ asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"::"r"(s32(b)),"r"(bytes):"memory"); }
__device__ void mbar_arrive(uint64_t* b){ asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"::"r"(s32(b)):"memory"); }
__device__ void mbar_wait(uint64_t* b,int parity){ asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"::"r"(s32(b)),"r"(parity):"memory"); }
__device__ void tma_2d(void* dst,const CUtensorMap* m,int x,int y,uint64_t* b){ asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"::"r"(s32(dst)),"l"(m),"r"(x),"r"(y),"r"(s32(b)):"memory"); }
// copies a 64x32 f32 tile (swizzled or not) to out as it lies in shared memory
extern "C" __global__ void tma_load(const __grid_constant__ CUtensorMap map, float* out,int x,int y,int n){
  extern __shared__ __align__(1024) float tile[]; __shared__ uint64_t bar;
  if(threadIdx.x==0){ mbar_init(&bar,1); asm volatile("fence.mbarrier_init.release.cluster;":::"memory"); } __syncthreads();
  if(threadIdx.x==0){ mbar_expect(&bar,n*4); tma_2d(tile,&map,x,y,&bar); }
  mbar_wait(&bar,0);
  for(int i=threadIdx.x;i<n;i+=blockDim.x) out[i]=tile[i]; }
extern "C" __global__ void tma_store(const __grid_constant__ CUtensorMap map,int x,int y,int n){
  extern __shared__ __align__(1024) float tile[]; for(int i=threadIdx.x;i<n;i+=blockDim.x) tile[i]=i+1; asm volatile("fence.proxy.async.shared::cta;":::"memory"); __syncthreads();
  if(threadIdx.x==0){ asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"::"l"(&map),"r"(x),"r"(y),"r"(s32(tile)):"memory"); asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group 0;":::"memory"); } }
// a ring of stages between one producer warp and one consumer warp, plain bulk copies
extern "C" __global__ void pipeline(const float* in,float* out,int tiles){
  __shared__ __align__(128) float buf[3][128]; __shared__ uint64_t full[3], empty[3];
  if(threadIdx.x==0){ for(int i=0;i<3;i++){ mbar_init(&full[i],1); mbar_init(&empty[i],32);} } __syncthreads();
  if(threadIdx.x<32){ if(threadIdx.x==0) for(int t=0;t<tiles;t++){ int s=t%3; if(t>=3) mbar_wait(&empty[s],((t/3)-1)&1); mbar_expect(&full[s],512);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"::"r"(s32(buf[s])),"l"(in+t*128),"r"(512),"r"(s32(&full[s])):"memory"); } }
  else { float acc=0; for(int t=0;t<tiles;t++){ int s=t%3; mbar_wait(&full[s],(t/3)&1); for(int i=0;i<4;i++) acc+=buf[s][(threadIdx.x-32)*4+i]; mbar_arrive(&empty[s]); } out[threadIdx.x-32]=acc; } }
// distributed shared memory: each block of a cluster of 4 sums what the others hold
extern "C" __global__ void __cluster_dims__(4,1,1) dsmem(int* out){
  __shared__ int v[32]; cg::cluster_group c=cg::this_cluster(); v[threadIdx.x]=(int)c.block_rank()*100+threadIdx.x; c.sync();
  int s=0; for(unsigned r=0;r<c.num_blocks();r++){ int* p=c.map_shared_rank(v,r); s+=p[threadIdx.x]; } c.sync(); out[blockIdx.x*32+threadIdx.x]=s; }
// wgmma m64n32k16 bf16: A 64x16 K-major, B 32x16 K-major, both with the 32-byte swizzle's layout or none
extern "C" __global__ void wgmma_bf16(const __nv_bfloat16* A,const __nv_bfloat16* B,float* C){
  __shared__ __align__(1024) __nv_bfloat16 sa[64*16], sb[32*16];
  for(int i=threadIdx.x;i<64*16;i+=128){ int r=i/16,k=i%16; sa[(r/8)*128+(k/8)*64+(r%8)*8+k%8]=A[i]; }
  for(int i=threadIdx.x;i<32*16;i+=128){ int r=i/16,k=i%16; sb[(r/8)*128+(k/8)*64+(r%8)*8+k%8]=B[i]; }
  asm volatile("fence.proxy.async.shared::cta;":::"memory"); __syncthreads();
  auto desc=[](const void* p){ uint64_t a=s32(p); return ((a&0x3FFFF)>>4)|((uint64_t)(128>>4)<<16)|((uint64_t)(256>>4)<<32); };
  float d[16]; for(int i=0;i<16;i++) d[i]=0.5f; uint64_t da=desc(sa), db=desc(sb);
  asm volatile("wgmma.fence.sync.aligned;":::"memory");
  asm volatile("{.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, 0;}\n"
   :"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]),"+f"(d[4]),"+f"(d[5]),"+f"(d[6]),"+f"(d[7]),"+f"(d[8]),"+f"(d[9]),"+f"(d[10]),"+f"(d[11]),"+f"(d[12]),"+f"(d[13]),"+f"(d[14]),"+f"(d[15]):"l"(da),"l"(db),"r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;":::"memory"); asm volatile("wgmma.wait_group.sync.aligned 0;":::"memory");
  int w=threadIdx.x/32,g=threadIdx.x%32/4,t=threadIdx.x%4; for(int i=0;i<16;i++) C[(16*w+g+8*(i/2%2))*32+8*(i/4)+2*t+i%2]=d[i]; }
extern "C" __global__ void grid_sync(int* data,int* out,int n){ cg::grid_group g=cg::this_grid(); int i=blockIdx.x*blockDim.x+threadIdx.x; data[i]=i; g.sync(); out[i]=data[(i+33)%n]; }
