# RUN: check %s
# RUN: compile %s::make --sig "x:*f32:16, n:i32" --emit tile
# RUN: compile %s::use --sig "d:tensordesc<f16[16, 32]>, n:i64" --emit tile
# RUN: compile %s::carry --sig "x:*f32:16, n:i32" --emit tile
# RUN: compile %s::use --sig "d:tensordesc<f16[16, 3]>, n:i64" --emit tile
import triton
import triton.language as tl


@triton.jit
def make(x, n):
    tl.make_tensor_descriptor(x, [n, n], [n, n], [16, 16])
    tl.make_tensor_descriptor(x, [n, n], [n, 1], [16, 2])
    tl.make_tensor_descriptor(n, [n], [1], [16])
    d = tl.make_tensor_descriptor(x, [n], [1], [12])
    d.load([0])


@triton.jit
def use(d, n):
    d.load([n, 0])
    d.load([0])
    d.store([0, 0], 1.0)
    d.atomic_xor([0, 0], d.load([0, 0]))
    d.gather(tl.arange(0, 8), 0)
    tl.load(d)
    d.prefetch


@triton.jit
def carry(x, n):
    d = tl.make_tensor_descriptor(x, [n], [1], [16])
    for i in range(n):
        d = tl.make_tensor_descriptor(x, [n], [1], [32])
