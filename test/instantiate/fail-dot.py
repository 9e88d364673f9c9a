# instantiate: operands(x: *fp32, n: i32)
# instantiate: options(x: *fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def operands(x, n):
    a = tl.zeros([16, 32], tl.float16)
    b = tl.zeros([32, 8], tl.float16)
    c = tl.dot(a, n)
    d = tl.dot(a, tl.zeros([32], tl.float16))
    e = tl.dot(a, b.to(tl.float32))
    f = tl.dot(a.to(tl.uint8), b.to(tl.uint8))
    g = tl.dot(a, a)
    h = tl.dot(tl.zeros([2, 16, 16], tl.float16), tl.zeros([4, 16, 16], tl.float16))
    i = tl.dot(a, x)


@triton.jit
def options(x, n):
    a = tl.zeros([16, 32], tl.float16)
    b = tl.zeros([32, 8], tl.float16)
    f = tl.zeros([16, 16], tl.float32)
    e = tl.zeros([16, 16], tl.float8e5)
    c = tl.dot(f, f, input_precision="best")
    d = tl.dot(f, f, input_precision="ieee", allow_tf32=True)
    g = tl.dot(a, b, out_dtype=tl.bfloat16)
    h = tl.dot(a, b, f)
    i = tl.dot(a, b, n)
    j = tl.dot(e, e, max_num_imprecise_acc=32)
    k = tl.dot(a, b, max_num_imprecise_acc=n)
