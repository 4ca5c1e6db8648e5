#define KERNEL __attribute__((noinline))
typedef __attribute__((address_space(1))) float gf;
typedef __attribute__((address_space(3))) float sf;
static sf tile[16][17];
int tidx(void){return __nvvm_read_ptx_sreg_tid_x();}
KERNEL void transpose(float* restrict out,const float* restrict in,int n){
  int tx=__nvvm_read_ptx_sreg_tid_x(),ty=__nvvm_read_ptx_sreg_tid_y(),bx=__nvvm_read_ptx_sreg_ctaid_x(),by=__nvvm_read_ptx_sreg_ctaid_y();
  int x=bx*16+tx,y=by*16+ty; if(x<n&&y<n) tile[ty][tx]=in[y*n+x]; __nvvm_bar_sync(0); x=by*16+tx;y=bx*16+ty; if(x<n&&y<n) out[y*n+x]=tile[tx][ty]; }
KERNEL void mathops(float* o,const float* a,const double* d,int n){ int i=__nvvm_read_ptx_sreg_tid_x(); float x=a[i]; o[i*8]=__builtin_floorf(x)+__nvvm_sqrt_rn_f(__builtin_fabsf(x)); o[i*8+1]=__nvvm_fma_rn_f(x,x,1.0f); o[i*8+2]=(float)(d[i]/3.0); o[i*8+3]=(int)x; o[i*8+4]=__builtin_fmaxf(x,0); o[i*8+5]=x>0?x:-x; o[i*8+6]=(float)(unsigned char)(i*37); o[i*8+7]=__builtin_copysignf(2.0f,x); }
KERNEL void longdiv(long* o,const long* a,int n){ int i=__nvvm_read_ptx_sreg_tid_x(); o[i]=a[i]/a[i+1]+a[i]%7; }
KERNEL void loops(int* o,const int* a,int n){ int i=__nvvm_read_ptx_sreg_tid_x(); int s=0; for(int j=0;j<n;j++){ if(a[j]&1) continue; if(a[j]>100) break; s+=a[j]*i; for(int k=0;k<(i&3);k++) s^=k+j; } o[i]=s; }
KERNEL void half_(__fp16* o,const __fp16* a){ int i=__nvvm_read_ptx_sreg_tid_x(); o[i]=a[i]*a[i]+1; }
KERNEL void atom(int* c,float* f){ __nvvm_atom_add_gen_i(c,1); __nvvm_atom_add_gen_f(f,1.0f); }
struct P{int a; float b[5]; long c;};
KERNEL void byval(struct P p,float* o){ int i=__nvvm_read_ptx_sreg_tid_x(); o[i]=p.b[i%5]+p.a+p.c; }
