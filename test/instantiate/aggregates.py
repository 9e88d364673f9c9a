# instantiate: constructed(x: *fp32, n: i32)
# instantiate: carried(x: *fp32, n: i32)
# instantiate: managed(x: *i32, n: i32)
# instantiate: instances(x: *i32, n: i32)
# check:
import triton
import triton.language as tl
from triton.language.core import _aggregate as value_class

WIDTH = tl.constexpr(16)


@triton.aggregate
class Point:
    x: tl.tensor
    y: "tl.tensor"
    tag: tl.constexpr = None
    ORIGIN = tl.constexpr(7)

    @triton.jit
    def moved(self, by):
        return Point(self.x + by, self.y - by, self.tag)

    @triton.jit
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    @triton.constexpr_function
    def name(self):
        return "none" if self.tag is None else self.tag


@value_class
class Segment(Point):
    end: Point

    @triton.constexpr_function
    def __init__(self, x, y, length, _semantic=None):
        Point.__init__(self, x, y, tag="segment")
        self.end = Point(self.x, y)
        self.end = self.end


Alias = Segment
BOTH = (Point, Alias)


@triton.jit
def constructed(x, n):
    s = Alias(n, n + 1, 5)
    tl.static_print(s.name(), s.end.name(), s.ORIGIN, isinstance(s, Point), isinstance(s.end, Segment), hasattr(s, "moved"))
    p = (s.end + s).moved(3)
    tl.store(x + p.x, p.y)
    f: tl.constexpr = p.tag is None
    tl.static_assert(f)


@triton.jit
def carried(x, n):
    p = Point(n, n)
    for i in range(n):
        p = p.moved(i)
    if n > 3:
        q = p.moved(1)
    else:
        q = p
    tl.store(x + q.x, q.y)


@triton.aggregate
class Scope:
    place: tl.tensor

    @triton.jit
    def __enter__(self):
        tl.atomic_add(self.place, 1)
        return self

    @triton.jit
    def __exit__(self, kind, value, traceback):
        tl.atomic_add(self.place, -1)


@triton.jit
def managed(x, n):
    with Scope(x), Scope(x + 1) as s:
        tl.store(s.place, n)


@triton.aggregate
class Options:
    size: tl.constexpr
    rest: tl.tuple = (1, "two")


OPTIONS = tl.constexpr(Options(WIDTH))


@triton.jit
def instances(x, n):
    o: tl.constexpr = tl.aggregate_replace(OPTIONS, rest=(3, 4))
    tl.static_print(o, OPTIONS)
    lanes = tl.arange(0, o.size)
    tl.store(x + lanes, lanes + o.rest[1])
