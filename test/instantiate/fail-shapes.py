# instantiate: extents(x: *fp32, n: i32)
# strict: axes(x: *fp32, n: i32)
# instantiate: contents(x: *fp32, n: i32)
# instantiate: deprecated(x: *fp32)
import triton
import triton.language as tl


@triton.jit
def extents(x, n):
    v = tl.arange(0, 8)
    a = v + tl.arange(0, 4)
    b = v.broadcast_to([4, 8])
    c = v[None, :].broadcast_to([4, 16])
    d = tl.zeros([4, 3], tl.float32)
    e = tl.zeros([1048576, 2], tl.float32)
    f = tl.zeros((1,) * 25, tl.float32)
    g = v.reshape(2.0, 4)
    h = v.reshape(n, 4)
    i = v.reshape([4, 4])
    j = tl.arange(0, 1024)[:, None] + tl.arange(0, 2048)[None, :]


@triton.jit
def axes(x, n):
    v = tl.arange(0, 8)
    m = v.reshape([2, 4])
    a = v.expand_dims(3)
    b = m.expand_dims((0, -4))
    c = v[0]
    d = m[1:2]
    e = m.permute(0, 0)
    f = v.trans()
    g = tl.squeeze(m, 1)
    h = tl.squeeze(m, 2)
    i = tl.unsqueeze(m, 3)
    j = v[:, :, None]
    k = m.trans(0, 1, 2)
    l = tl.sum(v, axis=1)


@triton.jit
def contents(x, n):
    v = tl.arange(0, 8)
    m = v.reshape([2, 4])
    a = m.split()
    b = tl.cat(m, tl.zeros([2, 8], tl.int32), dim=0)
    c = tl.cat(n, n)
    d = tl.cat(m, v)
    o = tl.cat(tl.arange(0, 16), v)
    e = v.item()
    if v > 3:
        pass


@triton.jit
def deprecated(x):
    tl.store(x + tl.arange(0, 8), tl.arange(0, 8).reshape([2, 4]).view([8]))
