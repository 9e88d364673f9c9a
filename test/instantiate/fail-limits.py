# instantiate: iterations(x: *fp32)
# instantiate: large(x: *fp32)
# instantiate: deep(x: *fp32)
# instantiate: output(x: *fp32)
# instantiate: steps(x: *fp32)
# instantiate: operations(x: *fp32)
import triton
import triton.language as tl


@triton.jit
def iterations(x):
    for i in tl.static_range(10**9):
        tl.store(x + i, 1.0)


@triton.jit
def large(x):
    t = (1.0, 2.0)
    for i in tl.static_range(64):
        t = (t, t)


@triton.jit
def deep(x):
    t = (1.0,)
    for i in tl.static_range(1000):
        t = (t,)


@triton.jit
def output(x):
    text: tl.constexpr = "a" * 1000000
    tl.static_print(text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text)


@triton.constexpr_function
def forever():
    while True:
        pass


@triton.jit
def steps(x):
    tl.static_assert(forever())


@triton.jit
def operations(x):
    for i in tl.static_range(100000):
        tl.store(x + i, 1.0)
