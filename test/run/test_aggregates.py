"""§1.10: aggregates; §1.2: `with`; the operators of 3.9."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, run

aggregates = pytest.mark.section("1.10 aggregates")
statements = pytest.mark.section("1.2 statements")
core = tl.core


@tegula.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @tegula.jit
    def total(self):
        return self.first + self.second

    @tegula.jit
    def swapped(self):
        return Pair(self.second, self.first)

    def get_second(self, _semantic=None):
        return self.second

    @tegula.jit
    def plus(self, by, times: tl.constexpr = 1):
        return Pair(first=self.first + by * times, second=self.get_second() + by * times)

    @staticmethod
    @tegula.jit
    def of(x):
        return Pair(x, x * 2)

    @property
    @tegula.jit
    def product(self):
        return self.first * self.second


@tegula.jit
def helper(p, q):
    return q.plus(p.first), p.swapped()


@tegula.jit
def k_methods(out, a, b):
    p = Pair(a, second=b + 0)
    tl.store(out, p.total())
    tl.store(out + 1, p.swapped().first)
    tl.store(out + 2, p.plus(10, times=3).second)
    tl.store(out + 3, Pair.of(a).total())
    tl.store(out + 4, p.product)
    q, r = helper(p, Pair.of(b))
    tl.store(out + 5, q.first * 100 + q.second)
    tl.store(out + 6, r.first - r.second)
    tl.store(out + 7, isinstance(p, Pair) and hasattr(p, "first") and not hasattr(p, "third"))


@aggregates
def test_methods(dev):
    assert run(dev, k_methods, 3, 5) == [8, 5, 35, 9, 15, 813, 2, 1]


@tegula.jit
def k_loop(out, n):
    p = Pair(n, n * 0)
    for i in range(n):
        p = p.plus(i) if i is None else p.swapped()
        p = p.plus(i)
    while p.first < 100:
        p = Pair(p.first * 2, p.second + 1)
    tl.store(out, p.first)
    tl.store(out + 1, p.second)
    if n > 4:
        p = p.swapped()
    else:
        p = Pair(p.first, p.first)
    both = (p, (1, p.plus(1)))
    tl.store(out + 2, both[0].first)
    tl.store(out + 3, both[1][1].second)


def loop_reference(n):
    p = [n, 0]
    for i in range(n):
        p = [p[1] + i, p[0] + i]
    while p[0] < 100:
        p = [p[0] * 2, p[1] + 1]
    q = [p[1], p[0]] if n > 4 else [p[0], p[0]]
    return [*p, q[0], q[1] + 1]


@aggregates
@pytest.mark.parametrize("n", [2, 3, 5])
def test_control_flow(dev, n):
    assert run(dev, k_loop, n)[:4] == loop_reference(n)


# Constructors, constants, nesting ----------------------------------------------------------------------------------------


@core._aggregate
class Tile:
    offsets: tl.tensor
    mask: tl.tensor
    SIZE: tl.constexpr
    KIND: tl.constexpr

    def __init__(self, n, SIZE, KIND="add", _semantic=None):
        self.SIZE = tl.constexpr(SIZE)
        lanes = tl.arange(0, SIZE, _semantic=_semantic)
        self.offsets = lanes
        self.mask = lanes < n
        if KIND is None:
            self.KIND = "none"
        else:
            self.KIND = KIND

    @tegula.constexpr_function
    def half(self):
        return self.SIZE // 2

    @tegula.jit
    def load(self, x):
        return tl.load(x + self.offsets, self.mask, other=0)


@tegula.aggregate
class Accumulator:
    tile: Tile
    sums: tl.tensor
    extra: tl.tuple
    scale: tl.constexpr = 2

    @tegula.jit
    def add(self, x):
        return tl.aggregate_replace(self, sums=self.sums + x * self.scale)


@tegula.jit
def k_nested(x, out, n, SIZE: tl.constexpr):
    t = Tile(n, SIZE)
    a = Accumulator(t, tl.zeros([SIZE], tl.int32), (n, "tag"))
    for i in range(3):
        a = a.add(a.tile.load(x))
    tl.static_assert(a.tile.half() == SIZE // 2 and a.tile.KIND == "add" and a.extra[1] == "tag")
    b: tl.constexpr = Tile(n, SIZE, KIND=None).KIND
    tl.static_assert(b == "none")
    tl.store(out + t.offsets, a.sums + a.extra[0], t.mask)


@aggregates
@pytest.mark.parametrize("n", [3, 8])
def test_nested(dev, n):
    x = np.arange(8, dtype=np.int32)
    out = np.full(8, -1, np.int32)
    dev(k_nested, (1,), x, out, n, SIZE=8)
    assert (out == np.where(np.arange(8) < n, x * 6 + n, -1)).all()


# Inheritance -------------------------------------------------------------------------------------------------------------


@tegula.aggregate
class Shape:
    width: tl.tensor

    @tegula.jit
    def area(self):
        return self.width * 0

    @tegula.jit
    def doubled(self):
        return self.area() * 2


@tegula.aggregate
class Square(Shape):
    @tegula.jit
    def area(self):
        return self.width * self.width


@tegula.aggregate
class Box(Square):
    height: tl.tensor
    unit: tl.constexpr = 1

    def __init__(self, width, height):
        super().__init__(width)
        self.height = height

    @tegula.jit
    def area(self):
        return Square.area(self) + self.width * self.height * self.unit


@tegula.aggregate
class Flat(Box):
    def __init__(self, width):
        Box.__init__(self, width, width)


@tegula.jit
def area_of(s):
    return s.doubled() + (100 if isinstance(s, Square) else 0)


@tegula.jit
def k_inheritance(out, a, b):
    tl.store(out, area_of(Shape(a)))
    tl.store(out + 1, area_of(Square(a)))
    tl.store(out + 2, area_of(Box(a, b)))
    tl.store(out + 3, area_of(Flat(b)))


@aggregates
def test_inheritance(dev):
    assert run(dev, k_inheritance, 3, 4)[:4] == [0, 118, 142, 164]


# Operators ---------------------------------------------------------------------------------------------------------------


@tegula.aggregate
class Dual:
    x: tl.tensor
    d: tl.tensor

    @tegula.jit
    def __add__(self, other):
        if not isinstance(other, Dual):
            return Dual(self.x + other, self.d)
        else:
            return Dual(self.x + other.x, self.d + other.d)

    @tegula.jit
    def __radd__(self, other):
        return Dual(other + self.x, self.d)

    @tegula.jit
    def __mul__(self, other):
        if isinstance(other, Dual):
            return Dual(self.x * other.x, self.x * other.d + self.d * other.x)
        else:
            return NotImplemented

    @tegula.jit
    def __rmul__(self, other):
        return Dual(other * self.x, other * self.d)

    @tegula.jit
    def __neg__(self):
        return Dual(-self.x, -self.d)

    @tegula.jit
    def __lt__(self, other):
        return self.x < other

    @tegula.jit
    def __gt__(self, other):
        return self.x > other

    @tegula.jit
    def __getitem__(self, i):
        return self.d if i == 1 else self.x

    @tegula.jit
    def __call__(self, y):
        return self.x + self.d * y

    @tegula.jit
    def logical_and(self, other):
        return (self.x != 0) & other


@tegula.aggregate
class Odd(Dual):
    @tegula.jit
    def __radd__(self, other):
        return Odd(self.x * 1000, self.d)


@tegula.jit
def k_operators(out, x):
    a = Dual(x + 0, x * 0 + 1)
    f = 3 * a * a + a + 7
    tl.store(out, f[0])
    tl.store(out + 1, f[1])
    f += -a
    tl.store(out + 2, f.x)
    tl.store(out + 3, (a < 6).to(tl.int32) + 2 * (4 < a).to(tl.int32))
    tl.store(out + 4, (x * a).d)
    tl.store(out + 5, a(10))
    tl.store(out + 6, (a + Odd(x + 0, x)).x)
    tl.store(out + 7, (a and x > 3).to(tl.int32))


@aggregates
def test_operators(dev):
    assert run(dev, k_operators, 5) == [87, 31, 82, 3, 5, 15, 5000, 1]


# `with` ------------------------------------------------------------------------------------------------------------------


@tegula.aggregate
class Record:
    out: tl.tensor
    code: tl.constexpr

    @tegula.jit
    def __enter__(self):
        tl.store(self.out, tl.load(self.out) * 10 + self.code)
        return self.out + 1

    @tegula.jit
    def __exit__(self, kind, value, traceback):
        tl.store(self.out, tl.load(self.out) * 10 + self.code + 1)


@tegula.jit
def k_with(out, n):
    tl.store(out, 0)
    x = n
    with Record(out, 1) as p, Record(out, 3):
        tl.store(p, n + 5)
        if n > 2:
            x = x * 2
        with Record(out, 5):
            x += 1
    tl.store(out + 2, x)


@statements
@pytest.mark.parametrize("n", [2, 3])
def test_with(dev, n):
    assert run(dev, k_with, n)[:3] == [135642, n + 5, (n * 2 if n > 2 else n) + 1]


# Compile-time instances ---------------------------------------------------------------------------------------------------


@tegula.aggregate
class Config:
    block: tl.constexpr
    fn: tl.constexpr
    parts: tl.tuple = (1, 2)

    @tegula.constexpr_function
    def doubled(self):
        return self.block * 2


@tegula.jit
def cube(x):
    return x * x * x


CONFIG = tl.constexpr(Config(4, cube))


@tegula.jit
def k_config(out, x, cfg: tl.constexpr, CLS: tl.constexpr):
    lanes = tl.arange(0, cfg.doubled())
    tl.store(out + lanes, cfg.fn(lanes) + CONFIG.block + cfg.parts[1] + CLS(x, x).total())


@aggregates
def test_constexpr_instances(dev):
    cfg = tegula.language.aggregate_replace(CONFIG.value, parts=(1, 5))
    assert run(dev, k_config, 3, cfg, Pair) == [i ** 3 + 4 + 5 + 6 for i in range(8)]
    assert run(dev, k_config, 3, Config(2, cube), Pair)[:4] == [i ** 3 + 4 + 2 + 6 for i in range(4)]


def make_class(width):
    width = tl.constexpr(width)

    @tegula.aggregate
    class Counter:
        n: tl.tensor

        @tegula.jit
        def next(self):
            return Counter(self.n + width)

    @tegula.jit
    def kernel(out, n):
        c = Counter(n)
        for _ in range(4):
            c = c.next()
        tl.store(out, c.n)

    return kernel


@aggregates
def test_classes_of_a_factory(dev):
    one, ten = make_class(1), make_class(10)
    assert run(dev, one, 5)[0] == 9
    assert run(dev, ten, 5)[0] == 45
    assert run(dev, one, 6)[0] == 10


@tegula.jit
def k_blocks(x, out, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    p = Pair(tl.load(x + lanes), tl.load(x + SIZE + lanes).to(tl.float32))
    for i in range(4):
        p = Pair(p.first + p.second.to(tl.int32), p.second * 0.5)
    tl.store(out + lanes, tl.where(p.first > 10, p.first, p.second.to(tl.int32)))


@aggregates
def test_blocks_in_fields(dev):
    x = np.arange(64, dtype=np.int32) - 8
    out = np.zeros(32, np.int32)
    dev(k_blocks, (1,), x, out, SIZE=32)
    a, b = x[:32].copy(), x[32:].astype(np.float32)
    for _ in range(4):
        a, b = a + b.astype(np.int32), b * np.float32(0.5)
    assert (out == np.where(a > 10, a, b.astype(np.int32))).all()


@tegula.jit
def k_wrong_type(out, n):
    tl.store(out, Pair(n, 2).first)


@aggregates
def test_field_types_are_checked(dev):
    with pytest.raises(CompileError, match=r"Expected .*tensor.* for attribute 'second', got .*int"):
        run(dev, k_wrong_type, 3)
