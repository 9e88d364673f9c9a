# instantiate: making(x: *fp32, n: i32)
# instantiate: access(x: *fp32, y: *kfp32, z: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def making(x, n):
    a = tl.make_block_ptr(n, (n,), (1,), (0,), (16,), (0,))
    b = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (16, 16), (0,))
    c = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (1,))
    d = tl.make_block_ptr(x, (0.5,), (1,), (0,), (16,), (0,))
    e = tl.make_block_ptr(x, (n,), (1,), (0,), (0,), (0,))
    f = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (n,))


@triton.jit
def access(x, y, z, n):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    a = tl.load(p, mask=n > 0)
    b = tl.load(p, other=0.0)
    c = tl.load(p, boundary_check=(1,))
    d = tl.load(p, boundary_check=(0, 0))
    e = tl.load(p, boundary_check=(0,), padding_option="one")
    tl.store(p, 0.0, mask=n > 0)
    f = tl.advance(p, (1, 2))
    g = tl.advance(x, (1,))
    q = tl.make_block_ptr(y, (n,), (1,), (0,), (16,), (0,))
    tl.store(q, 0.0)
    r = tl.make_block_ptr(z, (n,), (1,), (0,), (16,), (0,))
    h = tl.load(r, boundary_check=(0,), padding_option="nan")
