# instantiate: casts(x: *fp32, f: fp32, n: i32)
import triton
import triton.language as tl


@triton.jit
def casts(x, f, n):
    a = f.to(tl.float16, bitcast=True)
    b = f.to(tl.float64, fp_downcast_rounding="rtz")
    c = n.to(tl.int8, fp_downcast_rounding="rtz")
    d = f.to(tl.float16, fp_downcast_rounding="up")
    e = x.to(tl.int32)
    g = f.to(tl.pointer_type(tl.float32))
    h = tl.cast(n, tl.void)
    i = tl.cast(n, 16)
    j = tl.cast("text", tl.int32)
    k = tl.full([4], 3e40, tl.int32)
    l = tl.full([4], 256, tl.uint8)
    m = tl.full([4], "text", tl.int32)
