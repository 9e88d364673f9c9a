# instantiate: pointers(x: *fp32, y: *kfp32, n: i32)
# instantiate: masks(x: *fp32, n: i32)
# instantiate: options(x: *fp32, n: i32)
# instantiate: as_of_tensors(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def pointers(x, y, n):
    a = tl.load(n)
    tl.store(y, 0.0)
    tl.store(x + tl.arange(0, 1), tl.zeros([8], tl.float32))
    tl.store(x, tl.zeros([8], tl.float32))
    tl.store(x + tl.arange(0, 8), tl.zeros([4], tl.float32))
    tl.store(x, (1, 2))


@triton.jit
def masks(x, n):
    p = x + tl.arange(0, 8)
    a = tl.load(p, other=0.0)
    b = tl.load(p, mask=tl.arange(0, 8))
    c = tl.load(x, mask=tl.arange(0, 8) < n)
    d = tl.load(x, mask=n > 0, other=tl.zeros([8], tl.float32))
    tl.store(x, 0.0, mask=tl.arange(0, 8) < n)
    tl.store(p, 0.0, mask=tl.arange(0, 4) < n)
    tl.store(x + tl.arange(0, 1), 0.0, mask=tl.arange(0, 4) < n)


@triton.jit
def options(x, n):
    p = x + tl.arange(0, 8)
    a = tl.load(p, boundary_check=(0,))
    b = tl.load(p, padding_option="zero")
    tl.store(p, 0.0, boundary_check=(0,))
    c = tl.load(p, cache_modifier=".xx")
    d = tl.load(p, eviction_policy="never")
    e = tl.load(p, volatile=n)
    tl.store(p, 0.0, cache_modifier=1)


@triton.jit
def as_of_tensors(x, n):
    a = x.stride(0)
    b = x.data_ptr()
    c = n.size
