import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
@triton.jit
def vadd(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0,B); m = i < n
    tl.store(o+i, tl.load(x+i,m)+tl.load(y+i,m), m)
@triton.jit
def softmax(o, x, n, B: tl.constexpr):
    r = tl.program_id(0); c = tl.arange(0,B); m = c < n
    v = tl.load(x+r*n+c, m, other=-float('inf')); v = v - tl.max(v,0); e = tl.exp(v); tl.store(o+r*n+c, e/tl.sum(e,0), m)
@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0)*BM + tl.arange(0,BM); rn = tl.program_id(1)*BN + tl.arange(0,BN); rk = tl.arange(0,BK)
    pa = a + rm[:,None]*K + rk[None,:]; pb = b + rk[:,None]*N + rn[None,:]; acc = tl.zeros((BM,BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc); pa += BK; pb += BK*N
    tl.store(c + rm[:,None]*N + rn[None,:], acc)
for arch in (80, 90):
    t = GPUTarget("cuda", arch, 32)
    for fn, sig, cst, opt in ((vadd, {"x":"*fp32","y":"*fp32","o":"*fp32","n":"i32","B":"constexpr"}, {"B":256}, {"num_warps":4}),
                         (softmax, {"o":"*fp32","x":"*fp32","n":"i32","B":"constexpr"}, {"B":1024}, {"num_warps":4}),
                         (matmul, {"a":"*fp16","b":"*fp16","c":"*fp32","M":"i32","N":"i32","K":"i32","BM":"constexpr","BN":"constexpr","BK":"constexpr"}, {"BM":64,"BN":64,"BK":32}, {"num_warps":4,"num_stages":3})):
        attrs = {}
        for i,(k,v) in enumerate(sig.items()):
            if v.startswith("*") : attrs[(i,)] = [["tt.divisibility",16]]
            if v == "i32" and fn is matmul: attrs[(i,)] = [["tt.divisibility",16]]
        src = ASTSource(fn=fn, signature=sig, constexprs={(list(sig).index(k),):v for k,v in cst.items()}, attrs=attrs)
        k = triton.compile(src, target=t, options=opt)
        open(f"tri_{fn.__name__}_{arch}.ptx","w").write(k.asm["ptx"]); print(fn.__name__, arch, len(k.asm["ptx"]), k.metadata.shared, k.metadata.num_warps, [l for l in k.asm["ptx"].splitlines() if ".version" in l])
