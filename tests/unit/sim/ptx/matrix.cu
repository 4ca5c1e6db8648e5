#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <stdint.h>
using namespace nvcuda;
// C[16x8] = A[16x16] * B[16x8], A row major, B column major (n rows of k)
extern "C" __global__ void mma_f16(const __half* A, const __half* B, float* C){
  int lane=threadIdx.x, g=lane>>2, t=lane&3; const uint32_t* a=(const uint32_t*)A; const uint32_t* b=(const uint32_t*)B;
  uint32_t a0=a[g*8+t], a1=a[(g+8)*8+t], a2=a[g*8+t+4], a3=a[(g+8)*8+t+4], b0=b[g*8+t], b1=b[g*8+t+4]; float c[4]={1,2,3,4};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};":"+f"(c[0]),"+f"(c[1]),"+f"(c[2]),"+f"(c[3]):"r"(a0),"r"(a1),"r"(a2),"r"(a3),"r"(b0),"r"(b1));
  C[g*8+2*t]=c[0]; C[g*8+2*t+1]=c[1]; C[(g+8)*8+2*t]=c[2]; C[(g+8)*8+2*t+1]=c[3]; }
extern "C" __global__ void mma_tf32(const float* A, const float* B, float* C){ // A 16x8, B 8(n)x8(k)
  int lane=threadIdx.x, g=lane>>2, t=lane&3; uint32_t a[4],b[2]; float c[4]={0,0,0,0};
  const uint32_t*x=(const uint32_t*)A,*y=(const uint32_t*)B;
  a[0]=x[g*8+t];a[1]=x[(g+8)*8+t];a[2]=x[g*8+t+4];a[3]=x[(g+8)*8+t+4]; b[0]=y[g*8+t]; b[1]=y[g*8+t+4];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};":"+f"(c[0]),"+f"(c[1]),"+f"(c[2]),"+f"(c[3]):"r"(a[0]),"r"(a[1]),"r"(a[2]),"r"(a[3]),"r"(b[0]),"r"(b[1]));
  C[g*8+2*t]=c[0]; C[g*8+2*t+1]=c[1]; C[(g+8)*8+2*t]=c[2]; C[(g+8)*8+2*t+1]=c[3]; }
extern "C" __global__ void mma_s8(const int8_t* A, const uint8_t* B, int* C){ // 16x32, 8x32
  int lane=threadIdx.x, g=lane>>2, t=lane&3; const uint32_t*x=(const uint32_t*)A,*y=(const uint32_t*)B; int c[4]={5,6,7,8};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};":"+r"(c[0]),"+r"(c[1]),"+r"(c[2]),"+r"(c[3]):"r"(x[g*8+t]),"r"(x[(g+8)*8+t]),"r"(x[g*8+t+4]),"r"(x[(g+8)*8+t+4]),"r"(y[g*8+t]),"r"(y[g*8+t+4]));
  C[g*8+2*t]=c[0]; C[g*8+2*t+1]=c[1]; C[(g+8)*8+2*t]=c[2]; C[(g+8)*8+2*t+1]=c[3]; }
extern "C" __global__ void mma_f64(const double* A, const double* B, double* C){ // 8x4, 8x4
  int lane=threadIdx.x, g=lane>>2, t=lane&3; double c0=0,c1=0;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};":"+d"(c0),"+d"(c1):"d"(A[g*4+t]),"d"(B[g*4+t]));
  C[g*8+2*t]=c0; C[g*8+2*t+1]=c1; }
// cp.async double-buffered, ldmatrix, mma: C[64x64] = A[64xK] B[Kx64], bf16, one block of 128 threads
extern "C" __global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int K, int skip_wait){
  __shared__ __align__(16) __nv_bfloat16 sa[2][64][24], sb[2][16][72];
  int tid=threadIdx.x, warp=tid>>5, lane=tid&31; float c[8][4]={};
  auto load=[&](int buf,int k0){ { int r=tid>>1, h=(tid&1)*8; __pipeline_memcpy_async(&sa[buf][r][h], A+r*K+k0+h, 16);} { int r=tid>>3, h=(tid&7)*8; __pipeline_memcpy_async(&sb[buf][r][h], B+(k0+r)*64+h, 16);} __pipeline_commit(); };
  load(0,0); int n=K/16;
  for(int i=0;i<n;i++){ if(i+1<n) load((i+1)&1,(i+1)*16); else __pipeline_commit(); if(!skip_wait) __pipeline_wait_prior(1); __syncthreads();
    int buf=i&1; uint32_t a[4]; uint32_t addr=(uint32_t)__cvta_generic_to_shared(&sa[buf][warp*16+(lane&15)][(lane>>4)*8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];":"=r"(a[0]),"=r"(a[1]),"=r"(a[2]),"=r"(a[3]):"r"(addr));
    for(int j=0;j<8;j++){ uint32_t b0,b1; uint32_t ba=(uint32_t)__cvta_generic_to_shared(&sb[buf][lane&15][j*8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1},[%2];":"=r"(b0),"=r"(b1):"r"(ba));
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};":"+f"(c[j][0]),"+f"(c[j][1]),"+f"(c[j][2]),"+f"(c[j][3]):"r"(a[0]),"r"(a[1]),"r"(a[2]),"r"(a[3]),"r"(b0),"r"(b1)); }
    __syncthreads(); }
  int g=lane>>2,t=lane&3; for(int j=0;j<8;j++){ float* p=C+(warp*16+g)*64+j*8+2*t; p[0]=c[j][0];p[1]=c[j][1];p[8*64]=c[j][2];p[8*64+1]=c[j][3]; } }
extern "C" __global__ void wmma_f16(const __half* A, const __half* B, float* C){ // 16x16x16, all row major
  wmma::fragment<wmma::matrix_a,16,16,16,__half,wmma::row_major> a; wmma::fragment<wmma::matrix_b,16,16,16,__half,wmma::col_major> b; wmma::fragment<wmma::accumulator,16,16,16,float> c;
  wmma::fill_fragment(c,1.0f); wmma::load_matrix_sync(a,A,16); wmma::load_matrix_sync(b,B,16); wmma::mma_sync(c,a,b,c); for(int i=0;i<c.num_elements;i++) c.x[i]*=2.0f; wmma::store_matrix_sync(C,c,16,wmma::mem_row_major); }
extern "C" __global__ void wmma_s8(const signed char* A, const signed char* B, int* C){
  wmma::fragment<wmma::matrix_a,32,8,16,signed char,wmma::row_major> a; wmma::fragment<wmma::matrix_b,32,8,16,signed char,wmma::row_major> b; wmma::fragment<wmma::accumulator,32,8,16,int> c;
  wmma::fill_fragment(c,0); wmma::load_matrix_sync(a,A,16); wmma::load_matrix_sync(b,B,8); wmma::mma_sync(c,a,b,c); wmma::store_matrix_sync(C,c,8,wmma::mem_row_major); }
