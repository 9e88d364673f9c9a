# instantiate: making(x: *fp32:16, z: *i32:16, n: i32)
# instantiate: access(x: *fp32:16, z: *i32:16, n: i32, wide: i64)
# instantiate: rows(x: *fp32:16, n: i32)
# instantiate: constant(y: *kfp32:16, n: i32)
import triton
import triton.language as tl


@triton.jit
def making(x, z, n):
    a = tl.make_tensor_descriptor(x, [], [], [])
    b = tl.make_tensor_descriptor(x, [n, n, n, n, n, n], [n, n, n, n, n, 1], [1, 1, 1, 1, 1, 16])
    c = tl.make_tensor_descriptor(x, [n], [1], [1, 16])
    d = tl.make_tensor_descriptor(x, [n], [2], [16])
    e = tl.make_tensor_descriptor(x, [n], [n], [16])
    f = tl.make_tensor_descriptor(x, [n], [1], [2])
    g = tl.make_tensor_descriptor(z, [n], [1], [16], padding_option="nan")
    h = tl.make_tensor_descriptor(x, [n], [1], [16], padding_option="one")
    i = tl.make_tensor_descriptor(x, n, [1], [16])
    j = tl.make_tensor_descriptor(n, [n], [1], [16])
    k = tl.make_tensor_descriptor(x, [0.5], [1], [16])


@triton.jit
def access(x, z, n, wide):
    d = tl.make_tensor_descriptor(x, [n], [1], [16])
    a = d.load([0, 0])
    b = d.load([wide])
    c = tl.load_tensor_descriptor(x, [0])
    d.store([0], tl.zeros([32], tl.float32))
    d.store([0], 1.0)
    d.atomic_xor([0], tl.zeros([16], tl.float32))
    d.atomic_add([0], tl.zeros([16], tl.int32))
    d.gather(tl.arange(0, 8), 0)
    e = d.load(0)


@triton.jit
def rows(x, n):
    narrow = tl.make_tensor_descriptor(x, [n, n], [n, 1], [1, 4])
    a = narrow.gather(tl.arange(0, 8), 0)
    row = tl.make_tensor_descriptor(x, [n, n], [n, 1], [1, 8])
    b = row.gather(tl.arange(0, 4), 0)
    c = row.gather(tl.arange(0, 8).to(tl.int64), 0)
    d = row.gather(n, 0)
    row.scatter(tl.zeros([8, 16], tl.float32), tl.arange(0, 8), 0)


@triton.jit
def constant(y, n):
    d = tl.make_tensor_descriptor(y, [n], [1], [16])
    d.store([0], tl.zeros([16], tl.float32))
