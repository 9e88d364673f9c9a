# instantiate: carried(x: *fp16, m: i32, n: i32, s: i32)
# instantiate: accesses(x: *fp32, y: *i32, n: i32)
import triton
import triton.language as tl


@triton.jit
def row(x, i, n, s):
    return tl.make_tensor_descriptor(x + i * s, [n], [1], [32])


@triton.jit
def carried(x, m, n, s):
    d = row(x, 0, n, s)
    acc = tl.zeros([32], tl.float16)
    for i in range(1, m):
        acc += d.load([-4])
        d = row(x, i, n, s)
    d.store([0], acc)


@triton.jit
def accesses(x, y, n):
    a = tl.make_tensor_descriptor(x, [n, n], [n, 1], [1, 8], padding_option="nan")
    b = tl.make_tensor_descriptor(y, shape=(n, 8), strides=(8, 1), block_shape=(2, 8))
    v = a.load((0, n))
    tl.static_assert(a.dtype == tl.float32 and a.block_shape == (1, 8) and isinstance(a.type, tl.tensor_descriptor_type))
    tl.static_assert(a.type.block_type == a.block_type and a.type.block_type.element_ty == tl.float32 and a.type.block_type.shape == a.block_shape)
    b.atomic_xor([n, 0], tl.zeros([2, 8], tl.int32))
    a.scatter(a.gather(tl.arange(0, 8), 4), tl.arange(0, 8), 4)
    tl.store_tensor_descriptor(a, [0, 0], v + tl.load_tensor_descriptor(a, [b.shape[1], 0]))
