#include <cstdio>
extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y){int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) y[i]=a*x[i]+y[i];}
#define T 16
extern "C" __global__ void matmul(const float* A,const float* B,float* C,int n){
  __shared__ float a[T][T], b[T][T];
  int tx=threadIdx.x,ty=threadIdx.y,row=blockIdx.y*T+ty,col=blockIdx.x*T+tx; float s=0;
  for(int t=0;t<n/T;t++){ a[ty][tx]=A[row*n+t*T+tx]; b[ty][tx]=B[(t*T+ty)*n+col]; __syncthreads();
    for(int k=0;k<T;k++) s+=a[ty][k]*b[k][tx]; __syncthreads(); }
  C[row*n+col]=s; }
extern "C" __global__ void matmul_race(const float* A,const float* B,float* C,int n){
  __shared__ float a[T][T], b[T][T];
  int tx=threadIdx.x,ty=threadIdx.y,row=blockIdx.y*T+ty,col=blockIdx.x*T+tx; float s=0;
  for(int t=0;t<n/T;t++){ a[ty][tx]=A[row*n+t*T+tx]; b[ty][tx]=B[(t*T+ty)*n+col]; __syncthreads();
    for(int k=0;k<T;k++) s+=a[ty][k]*b[k][tx]; }
  C[row*n+col]=s; }
extern "C" __global__ void reduce(const float* x, float* out, int n){
  __shared__ float w[32]; float s=0; for(int i=threadIdx.x;i<n;i+=blockDim.x) s+=x[i];
  for(int o=16;o;o>>=1) s+=__shfl_down_sync(0xffffffff,s,o);
  if((threadIdx.x&31)==0) w[threadIdx.x>>5]=s; __syncthreads();
  if(threadIdx.x<32){ s=threadIdx.x<blockDim.x/32?w[threadIdx.x]:0; for(int o=16;o;o>>=1) s+=__shfl_xor_sync(0xffffffff,s,o); if(threadIdx.x==0) out[0]=s; } }
extern "C" __global__ void hist(const unsigned char* d,int n,unsigned* h){ __shared__ unsigned s[256]; for(int i=threadIdx.x;i<256;i+=blockDim.x)s[i]=0; __syncthreads();
  for(int i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x) atomicAdd(&s[d[i]],1u); __syncthreads(); for(int i=threadIdx.x;i<256;i+=blockDim.x) atomicAdd(&h[i],s[i]); }
__device__ __noinline__ int fib(int n){ return n<2?n:fib(n-1)+fib(n-2);} 
extern "C" __global__ void recur(int* o){ o[threadIdx.x]=fib(threadIdx.x%12);} 
extern "C" __global__ void hello(int v){ if(threadIdx.x==3) printf("hi %d %s %f %lld\n", v, "str", 2.5, 1LL<<40); }
extern "C" __global__ void spin(int* lock,int* count){ for(;;){ if(atomicCAS(lock,0,1)==0){ __threadfence(); *count+=1; __threadfence(); atomicExch(lock,0); break; } } }
extern "C" __global__ void collatz(int* o){ int n=blockIdx.x*blockDim.x+threadIdx.x+1; int c=0; unsigned m=n; while(m!=1){ m=(m&1)?3*m+1:m/2; c++; } o[n-1]=c; }
extern "C" __global__ void math(float* o,const float* x){ int i=threadIdx.x; o[i]=sinf(x[i])+expf(x[i])+logf(fabsf(x[i])+1)+powf(fabsf(x[i]),1.3f)+tanhf(x[i])+erff(x[i]); }
typedef int (*op)(int,int);
__device__ int add_(int a,int b){return a+b;} __device__ int mul_(int a,int b){return a*b;}
__device__ op table[2]={add_,mul_};
extern "C" __global__ void indirect(int* o){ int i=threadIdx.x; o[i]=table[i&1](i,3); }
extern "C" __global__ void sw(int* o,int k){ int i=threadIdx.x; int r; switch(i%9){case 0:r=5;break;case 1:r=i*3;break;case 2:r=i^7;break;case 3:r=i<<2;break;case 4:r=i-9;break;case 5:r=i*i;break;case 6:r=k;break;case 7:r=i/3;break;default:r=-1;} o[i]=r; }
