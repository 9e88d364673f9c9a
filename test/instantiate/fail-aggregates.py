# instantiate: fields(x: *fp32, n: i32)
# instantiate: constructors(x: *fp32, n: i32)
# instantiate: operators(x: *fp32, n: i32)
# instantiate: loops(x: *fp32, n: i32)
# instantiate: managers(x: *fp32, n: i32)
# instantiate: leaves(x: *fp32, n: i32)
# check:
import triton
import triton.language as tl


@triton.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @triton.jit
    def total(self):
        return self.first + self.seond

    @triton.jit
    def leave(self):
        with self:
            return 1


@triton.aggregate
class Odd:
    size: int
    tag: tl.constexpr


@triton.aggregate
class Compiled:
    x: tl.tensor

    @triton.jit
    def __init__(self, x):
        self.x = x


@triton.aggregate
class Partial:
    x: tl.tensor
    y: tl.tensor

    def __init__(self, x):
        self.x = x


@triton.aggregate
class Strange:
    x: tl.tensor

    def __init__(self, x):
        self.x = x
        self.z = x


@triton.aggregate
class Early:
    x: tl.tensor
    y: tl.tensor

    def __init__(self, x):
        self.x = self.y
        self.y = x


@triton.aggregate
class Choosing:
    x: tl.tensor

    def __init__(self, x):
        if x > 3:
            self.x = x
        else:
            self.x = -x


class Plain:
    pass


@triton.aggregate
class Derived(Plain):
    x: tl.tensor


@triton.aggregate
class Own:
    inner: "Own"


@triton.jit
def fields(x, n):
    p = Pair(n, 1)
    p = Pair(n, second=n)
    p.first = n
    p.total()
    tl.aggregate_replace(p, third=n)
    tl.aggregate_replace(p, first="text")
    tl.aggregate_replace(n, first=n)
    Pair(n)
    p.third


@triton.jit
def constructors(x, n):
    Odd(3, tag=1)
    Own(n)
    Compiled(n)
    Partial(n)
    Strange(n)
    Early(n)
    Choosing(n)
    Derived(n)
    Choosing(n, 2)


@triton.jit
def operators(x, n):
    p = Pair(n, n)
    p + 1
    n - p
    p < p
    -p
    not p
    p and n
    n > 0 and p
    p[0]
    p()
    if p:
        pass


@triton.jit
def loops(x, n):
    p = Pair(n, n)
    for i in range(n):
        p = Pair(n, n + 1.0)
    q = Pair(n, n)
    if n > 3:
        q = (n, n)


@triton.jit
def managers(x, n):
    with n as m:
        tl.store(x + m, 1.0)
    with Pair(n, n):
        tl.store(x, 1.0)


@triton.jit
def leaves(x, n):
    with Pair(n, n) as p:
        if n > 1:
            return
    tl.store(x + p, 1.0)
