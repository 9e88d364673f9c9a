import triton.language as tl


def helper(a):
    return tl.load(a + (1,


def other():
    x = 1 +
    return x
