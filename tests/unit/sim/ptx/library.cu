#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <stdio.h>
#include <assert.h>
namespace cg=cooperative_groups;
extern "C" {
__global__ void simd(unsigned* o,const unsigned* a){ int i=threadIdx.x; unsigned x=a[i],y=a[i+1]; o[i*12]=__vadd4(x,y); o[i*12+1]=__vabsdiffu4(x,y); o[i*12+2]=__vmaxs2(x,y); o[i*12+3]=__vcmpgtu4(x,y); o[i*12+4]=__vsadu4(x,y); o[i*12+5]=__byte_perm(x,y,0x5140); o[i*12+6]=__funnelshift_l(x,y,i); o[i*12+7]=__dp4a(x,y,7u); o[i*12+8]=__usad(x,y,3u); o[i*12+9]=__umulhi(x,y); o[i*12+10]=__brev(x)^__popc(y)^__clz(x)^__ffs(y); o[i*12+11]=__vhaddu2(x,y); }
__global__ void dmath(double* o,const double* a){ int i=threadIdx.x; double x=a[i]; o[i]=sin(x)+cos(x)*exp(x)+log(fabs(x)+1)+pow(fabs(x),1.5)+atan2(x,2.0)+erf(x)+tgamma(fabs(x)+1)+cbrt(x)+fmod(x,0.3)+sqrt(fabs(x))+rsqrt(fabs(x)+1)+tanh(x)+hypot(x,3.0)+remainder(x,0.7); }
__global__ void fmath(float* o,const float* a){ int i=threadIdx.x; float x=a[i]; o[i]=__sinf(x)+__expf(x)+__logf(fabsf(x)+1)+__fdividef(x,3)+__frsqrt_rn(fabsf(x)+1)+__fadd_rz(x,1)+__fmul_ru(x,x)+__fmaf_rd(x,x,1)+__fdiv_rn(x,3)+__fsqrt_ru(fabsf(x))+sinf(x*10000)+atan2f(x,2)+cbrtf(x)+lgammaf(fabsf(x)+1)+j0f(x)+ldexpf(x,3)+rintf(x)+nearbyintf(x)+truncf(x)+roundf(x)+fmodf(x,.3f)+__saturatef(x)+exp10f(x)+norm3df(x,1,2); }
__global__ void halfs(__half2* o,const __half2* a,__nv_bfloat162* b){ int i=threadIdx.x; __half2 x=a[i]; o[i]=__hfma2(x,x,__hadd2(x,h2exp(x))); o[i]=__hmax2(o[i],__hmin2(x,__float2half2_rn(1.f))); o[i]=h2sqrt(__habs2(o[i])); b[i]=__hfma2(b[i],b[i],__hmul2(b[i],b[i])); b[i]=__hsub2(b[i],h2rcp(b[i])); if(__hgt(__low2half(x),__high2half(x))) o[i]=__h2div(x,o[i]); o[i]=__hadd2(o[i],h2tanh(x)); o[i]=__hadd2_sat(o[i],x); if(__hbgt2(x,o[i])) o[i]=h2log(x);} 
__global__ void hatom(__half* h,__half2* h2,__nv_bfloat16* b,double* d,unsigned long long* u,float* f){ atomicAdd(h,__float2half(1)); atomicAdd(h2,__float2half2_rn(1)); atomicAdd(b,__float2bfloat16(1)); atomicAdd(d,1.0); atomicAdd(u,1ull); atomicMax(u,5ull); atomicCAS(u,1ull,2ull); atomicExch(f,2.f); atomicAdd_system((int*)f,1); atomicAdd_block((int*)f,1); atomicInc((unsigned*)f,5); atomicDec((unsigned*)f,5); atomicMin((long long*)u,3ll); atomicAnd((unsigned*)f,7u); atomicOr(u,1ull);atomicXor((int*)f,1); atomicSub((int*)f,1); }
__global__ void cgk(int* o,const int* a){ auto b=cg::this_thread_block(); auto w=cg::tiled_partition<32>(b); auto t=cg::tiled_partition<8>(w); int v=a[b.thread_rank()]; int s=cg::reduce(w,v,cg::plus<int>()); int m=cg::reduce(t,v,cg::greater<int>()); auto act=cg::coalesced_threads(); int r=act.shfl(v,0); if(v&1){ auto c=cg::coalesced_threads(); r+=c.size()+c.thread_rank(); r+=cg::reduce(c,v,cg::plus<int>()); } auto lab=cg::labeled_partition(w,v&3); r+=lab.size(); auto bin=cg::binary_partition(w,v&1); r+=bin.size(); o[b.thread_rank()]=s+m*3+r+t.shfl_xor(v,1)+t.any(v==3)+t.ballot(v&1)+w.match_any(v&7); b.sync(); }
__global__ void barr(int* o,const int* a){ __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int s[256]; if(threadIdx.x==0) init(&bar,blockDim.x); __syncthreads(); cuda::memcpy_async(&s[threadIdx.x],a+threadIdx.x,cuda::aligned_size_t<4>(4),bar); bar.arrive_and_wait(); o[threadIdx.x]=s[threadIdx.x^1]; }
__global__ void pipe(int* o,const int* a,int n){ __shared__ __align__(16) int s[2][256]; auto b=cg::this_thread_block(); __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block,2> st; auto p=cuda::make_pipeline(b,&st); int acc=0; for(int i=0,f=0;i<n;i++){ for(;f<n&&f<i+2;f++){ p.producer_acquire(); cuda::memcpy_async(b,s[f&1],a+f*256,cuda::aligned_size_t<16>(1024),p); p.producer_commit(); } p.consumer_wait(); acc+=s[i&1][threadIdx.x^3]; p.consumer_release(); } o[threadIdx.x]=acc; }
__global__ void cuat(int* c,int* o){ cuda::atomic_ref<int,cuda::thread_scope_device> r(*c); o[threadIdx.x]=r.fetch_add(1,cuda::memory_order_acq_rel); r.fetch_max(5); int e=3; r.compare_exchange_strong(e,4); r.store(7,cuda::memory_order_release); o[threadIdx.x]+=r.load(cuda::memory_order_acquire); }
__global__ void fp8(__nv_fp8_e4m3* o,__nv_fp8x2_e5m2* p,const float* a,float* q){ int i=threadIdx.x; o[i]=__nv_fp8_e4m3(a[i]); p[i]=__nv_fp8x2_e5m2(make_float2(a[i],a[i+1])); q[i]=float(o[i]); float2 z=float2(p[i]); q[i]+=z.x+z.y; }
__global__ void asrt(int* a){ assert(a[threadIdx.x]==1); if(threadIdx.x==0) printf("%d %5.2f %s %c %p\n",a[0],1.5,"x",'y',(void*)0); }
__global__ void heap(int** o){ int* p=(int*)malloc(16); p[0]=threadIdx.x; o[threadIdx.x]=p; free(p);} 
__global__ void votes(int* o){ int l=threadIdx.x; unsigned m=__activemask(); o[l]=__ballot_sync(m,l&1)+__any_sync(m,l==3)+__all_sync(m,l<40)+__match_any_sync(m,l&3); int pr; o[l]+=__match_all_sync(m,5,&pr)+pr; o[l]+=__reduce_add_sync(m,l)+__reduce_max_sync(m,(unsigned)l)+__reduce_xor_sync(m,(unsigned)l); o[l]+=__shfl_up_sync(m,l,2,16)+__shfl_sync(m,(long long)l,3); __nanosleep(20); o[l]+=__syncthreads_count(l&1)+__syncthreads_and(l)+__syncthreads_or(l==1); o[l]+=(int)(clock64()>0); __threadfence_system(); __threadfence_block(); }
__global__ void i128(unsigned __int128* o,const unsigned __int128* a){ int i=threadIdx.x; o[i]=a[i]*a[i+1]+a[i]/3; }
__global__ void vecs(float4* o,const float4* a,double2* d,short4* s,uchar4* u){ int i=threadIdx.x; float4 v=__ldg(a+i); float4 w=__ldcs(a+i+1); __stcg(o+i,make_float4(v.x+w.y,v.y,v.z,w.w)); d[i].x+=d[i].y; s[i].x=s[i].y+s[i].w; u[i].x=u[i].z; __stwt(&o[i].x,1.f); }
__global__ void __launch_bounds__(256,2) big(float* o,const float* a,int n){ float acc[32]; for(int i=0;i<32;i++) acc[i]=a[i]; for(int k=0;k<n;k++){ for(int i=0;i<32;i++) acc[i]=acc[i]*a[k]+acc[(i*7+k)%32]; } for(int i=0;i<32;i++) o[threadIdx.x*32+i]=acc[i]; }
__device__ int gcount; __constant__ float coef[16]={1,2,3}; __device__ float garr[8]={1,2,3,4}; __managed__ int man;
__global__ void globals(float* o){ o[threadIdx.x]=coef[threadIdx.x&15]*garr[threadIdx.x&7]; atomicAdd(&gcount,1); man=threadIdx.x; }
}
struct Base{ __device__ virtual int f(int x){return x;} }; struct D1:Base{ int k; __device__ D1(int k):k(k){} __device__ int f(int x) override {return x*k;} };
extern "C" __global__ void virt(int* o){ Base b; D1 d(3); Base* p=(threadIdx.x&1)?(Base*)&d:&b; o[threadIdx.x]=p->f(threadIdx.x); }
template<class T> __device__ T rec(T n,int d){ return d==0?n:rec(n*2,d-1)+rec(n,d-1);} extern "C" __global__ void recf(float* o){ o[threadIdx.x]=rec(1.0f,threadIdx.x%6);} 
extern "C" __global__ void lam(int* o){ auto f=[=](int x){return x*x;}; int q[17]; for(int i=0;i<17;i++) q[i]=f(i+threadIdx.x); o[threadIdx.x]=q[(threadIdx.x*5)%17]; }
