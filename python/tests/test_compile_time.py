"""Code that runs at compile time (constexpr_function) does what Python does: each row is evaluated by the compiler and by Python, with n = 8."""
import importlib.util
import types

import numpy as np
import pytest
import tegula
import tegula.language as tl

EXPRESSIONS = """
n.bit_length() + (-n).bit_length() + n.bit_count()
1 << (n - 1).bit_length()
(0.5).is_integer(), (3.0).is_integer()
math.prod((2, 3, n)), math.comb(6, 2), math.factorial(5), math.isqrt(17), math.lcm(4, 6), math.gcd(n, 12)
math.fmod(-7, 3), math.hypot(3, 4), math.copysign(1, -0.0), math.isclose(0.1 + 0.2, 0.3), math.atan2(1.0, 2.0), math.log(n, 2)
'abc'.upper() + 'ABC'.lower() + 'aBC'.capitalize()
'a,b,,c'.split(','), ' a  b '.split(), 'a b c'.split(None, 1), 'a-b-c'.split('-', 1), ''.split(','), 'abc'.partition('b'), 'abc'.partition('x')
'fp8_e4m3'.startswith('fp8'), 'x'.startswith(('a', 'x')), 'abc'.endswith('c'), 'abc'.endswith(('d', 'e'))
'x'.join(('a', 'b')), ''.join(chr(97 + i) for i in range(3)), ' a '.strip() + 'xxax'.lstrip('x') + 'axx'.rstrip('x'), ''.strip()
'abab'.replace('ab', 'z'), 'abab'.find('b'), 'abab'.rfind('b'), 'ab'.index('b'), 'abab'.count('ab'), 'aaa'.count('aa'), 'ab'.find('z')
'12'.isdigit(), 'e4'.isdigit(), 'ab'.isalpha(), 'a1'.isalnum(), ''.isdigit(), '-7'.zfill(4), 'abc'.removeprefix('a'), 'abc'.removesuffix('c')
f'{n:03d}|{n:>5}|{n:<5}|{n:^5}|{n:+}|{-n:x}|{n:#x}|{n:b}|{255:X}|{1234567:,}|{n:*^9}|{n:=+6d}'
f'{3.14159:.2f}|{0.5:%}|{1e10:g}|{12345.678:,.1f}|{2.0:5.1f}|{-0.0}|{1e20}|{0.1:.3}|{2.0:.3}|{1.5:e}'
f'{"ab":>5}|{"ab":.1}|{n!r:>4}|{n=}|{True}|{True:d}|{n=:3}'
'%d-%s-%r-%5.2f-%x-%%-%03d-%-4d|-%+d' % (n, 'a', 'b', 1.5, 255, 7, 3, 2), '%s' % n, '%5s' % 'ab'
'{}-{}-{0}'.replace('{0}', 'z').format(n, 'a'), '{1}{0}'.format('a', 'b'), '{:>4}|{x!r}'.format(n, x='q'), '{{}}'.format()
[1, 2, 3].index(2), (1, 2, 1).count(1), [*range(2), 5], (*range(3),), list(range(0, n, 3)), list('ab'), list(reversed((1, 2)))
{'a': 1, 'b': n}['b'], {'a': 1}.get('b'), {'a': 1}.get('b', 5), len({'a': 1}), 'a' in {'a': 1}, 1 in {'a': 1}, bool({})
list({'a': 1, 'b': 2}.items()), list({'a': 1}.keys()), sum({'a': 1, 'b': 2}.values()), {**{'a': 1}, 'b': 2} == {'b': 2, 'a': 1}
{i: i * i for i in range(n)}[3], {'a': 1, 'a': 2}['a'], dict(a=1)['a'], dict([('a', 2)])['a'], sorted({3, 1, 1}), {1, 2} == {2, 1}, len(set((1, 1, 2)))
{tl.float16: 'fp16', tl.float32: 'fp32'}[tl.float32], {tl.float8e5: 1}.get(tl.int8), {(1, 2): 3}[1, 2], {1: 'a'}[True]
sorted((3, 1, 2)), sorted(['b', 'a'], reverse=True), sorted([(1, 'b'), (1, 'a')]), sorted([3, -5, 1], key=lambda v: -v), sorted('ab' 'ba', key=lambda c: 0)
max([1, 5], key=lambda v: -v), min((n, 3)), max(n, 3.5), min('b', 'a'), max((), default=4), max((1, 2), (1, 3))
(lambda a, b=2: a * b)(n), (lambda *a: len(a))(1, 2), list(map(lambda x, y: x + y, (1, 2), (3, 4))), list(filter(None, (0, 1, 2)))
any(i > 5 for i in range(n)), all([True, n]), list(zip((1, 2), (3, 4))), list(enumerate('ab', 1)), [i + j for i in range(2) for j in range(i + 1)]
hex(n), bin(n), oct(n), ord('a'), chr(97), format(n, '>3'), repr('a'), str(1.5), round(2.5), round(2.675, 2), divmod(-7, 2), pow(2, 5)
type(n) is int, type('a') is str, type(1.5) is float, type(n) == str, isinstance('a', str), isinstance(n, (str, int)), isinstance({}, dict), isinstance(True, bool), isinstance((), tuple)
triton.cdiv(n, 3), triton.next_power_of_2(n + 1), triton.cdiv(-7, 2)
n if n > 3 else 0, 1 < n < 10, n not in (1, 2), 'abc'[::-1], 'abc'[-1]
""".strip().splitlines()

STATEMENTS = {
    "dict": "d = {}\n d['a'] = n\n d.setdefault('b', 3)\n d.update(c=1)\n d.update({'d': 4})\n d['a'] += 1\n x = d.pop('b')\n del d['d']\n return sorted(d.items()), x, d.pop('zz', 9)",
    "list": "l = []\n for i in range(n): l.append(i)\n l.extend([1, 2]); l.insert(0, 9); x = l.pop(); l.remove(9); l.reverse(); l.sort(key=lambda v: -v); l[0] = 100; l[-1] -= 1; del l[1]\n y = l.pop(0)\n m = l.copy()\n m.append(5)\n return l, m, x, y",
    "set": "s = set()\n s.add(n); s.add(n); s.update((1, 2)); s.discard(5); s.discard(1)\n return sorted(s)",
    "inner": "k = 2\n def g(a, b=3): return a * b + k\n k = 5\n return g(n), g(n, 1)",  # k is read when g is called
    "recursive": "def f(k): return 1 if k <= 1 else k * f(k - 1)\n return f(5)",
    "in a function": "def f(x):\n  y = x + 1\n  def g(z): return y + z\n  return g(n)\n return f(1)",
    "unpack": "a, *b = range(n)\n *c, d = (1, 2)\n e, *f = 'x'\n x = y = 3\n (p, q), r = (1, 2), 3\n return a, b, c, d, e, f, x, y, p, q, r",
    "text": "out = ''\n for i, c in enumerate('abc'): out += c * i\n return out",
    "walrus": "return m if (m := n + 1) > 3 else 0",
    "nested": "return [[i + j for j in range(2)] for i in range(3)][2][1]",
    "for else": "for i in range(n):\n  if i == 100: break\n else:\n  return 7\n return 0",
    "match": "out = []\n for v in (1, -2, True, None, 'a', 'relu', 2.5, (), (1,), (1, 2), (3, 9, 8, 7), n, range, [1, [2, 3]]):\n  match v:\n"
             "   case True: out.append('true')\n   case None | 'a': out.append('none or a')\n   case 1 | -2 as k: out.append(k)\n"
             "   case str() as s if len(s) > 2: out.append(s.upper())\n   case []: out.append('empty')\n   case (1, x): out.append(x)\n"
             "   case [3, *rest, last]: out.append((rest, last))\n   case (x,): out.append((x, 0))\n"
             "   case float(): out.append('float')\n   case _: out.append('other')\n return out",
    "match by attribute": "m = triton.cdiv(n, 8)\n match n:\n  case math.pi: return 1\n  case m if m > 100: return m\n return m",
    "match in a function": "x = 3\n def g(v):\n  match v:\n   case (a, x): return a + x\n   case 4: return x\n  return x\n return g((1, 2))",
    "match and loops": "for i in range(n):\n  match i:\n   case 2: continue\n   case 5: break\n   case 7: return 0\n else: return 1\n return i",
    "try": "out = []\n for v in (1, 'a', 0, -1, None):\n  try:\n   if v == -1: raise ValueError('negative')\n   out.append(8 // v if v == 0 else {1: 'one'}[v])\n   out.append('found')\n"
           "  except KeyError: out.append('key')\n  except (ZeroDivisionError, IndexError) as e: out.append('zero')\n  except ValueError: out.append('value')\n  else: out.append('else')\n  finally: out.append(v)\n return out",
    "try in functions": "def g(x):\n  if x > 2: raise RuntimeError(f'{x} is too large')\n  return x\n def h(x):\n  try: return g(x)\n  except RuntimeError: return -1\n  finally: pass\n return h(1), h(3), [h(i) for i in range(5)]",
    "try and loops": "for i in range(n):\n  try:\n   if i == 1: continue\n   if i == 4: break\n   n.nothing\n  except AttributeError:\n   if i == 3: return i\n return 'no'",
    "nested try": "try:\n  try: [][1]\n  except ValueError: return 1\n  return 2\n except Exception: return 3",
    "generator": "def g(k):\n  i = 0\n  while i < k:\n   x = yield i\n   if i == 5: return\n   i += 1\n  yield -1\n def h(k):\n  yield from g(k)\n  yield 4\n def e():\n  return\n  yield\n"
                 " return list(g(n)), sum(g(3)), [i * 2 for i in h(2)], list(e()), next(g(3)), next((i for i in range(n) if i > 2), 9), next(e(), 7), next(iter([4, 5])), dict(enumerate(g(2)))[1]",
    "docstring": "'''Says what it does.'''\n if n < 0: raise ValueError(f'Invalid: {n}')\n return n",
}


def load(tmp_path, text):
    path = tmp_path / "compile_time.py"
    path.write_text("import math\nimport tegula\nimport tegula as triton\nimport tegula.language as tl\n" + text)
    spec = importlib.util.spec_from_file_location("compile_time", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flat(v):
    """Lists are tuples in kernels."""
    return tuple(flat(i) for i in v) if isinstance(v, (list, tuple)) else v


KERNEL = """
@triton.constexpr_function
def f(n):
 {}

@triton.constexpr_function
def g(n):
 return repr(tuples(f(n)))

@triton.constexpr_function
def tuples(v):
 return tuple(tuples(i) for i in v) if isinstance(v, (list, tuple)) else v

@triton.jit
def k(N: tl.constexpr, WANT: tl.constexpr):
 tl.static_assert(g(N) == WANT, f"the compiler has {{g(N)}}, Python {{WANT}}")
"""


@pytest.mark.parametrize("body", [*EXPRESSIONS, *STATEMENTS.values()], ids=[*EXPRESSIONS, *STATEMENTS])
def test_as_python(body, tmp_path):
    m = load(tmp_path, KERNEL.format(body if body in STATEMENTS.values() else "return " + body))
    m.k.warmup(8, repr(flat(m.f(8))), grid=(1,))


def test_methods_in_kernels(tmp_path):
    """A constexpr hands attributes on to what it holds: `ACT.startswith(...)` prunes a branch."""
    import numpy as np
    m = load(tmp_path, """
@triton.jit
def k(o, ACT: tl.constexpr, N: tl.constexpr):
 if ACT.startswith("gelu") and "tanh".upper() == "TANH":
  tl.store(o, ACT.split("_")[1].count("t"))
 else:
  tl.store(o, N.bit_length())
""")
    o = np.zeros(1, np.int32)
    m.k[(1,)](o, "gelu_tanh_t", 1)
    assert o[0] == 1
    m.k[(1,)](o, "silu", 1000)
    assert o[0] == 10


GLOBALS = """
import collections.abc, dataclasses, enum, types
TABLE = {"fp16": 16, "fp32": 32}
NESTED = {"a": {"x": [1, 2, 3]}, "b": (4, 5)}
NAMES = {"x", "y"}
DT = {tl.float16: tl.float32, tl.int8: tl.int32}
class Level(enum.IntEnum):
 ONE = 1
 TWO = 2
class Kind(enum.Enum):
 A = "a"
 B = "b"
class Shape: pass
class Square(Shape):
 def __init__(self): self.side = 3
SQUARE = Square()
class Config:
 K = 7
 D = {"q": 9}
@dataclasses.dataclass(frozen=True)
class Point:
 a: int = 3
 b: str = "z"
POINT = Point()
def helper(x): return x + TABLE["fp16"]
"""

GLOBAL_EXPRESSIONS = """
TABLE['fp16'] + len(TABLE), TABLE.get('zz', 3), 'fp16' in TABLE, sorted(TABLE), [k for k, v in TABLE.items() if v > 16]
NESTED['a']['x'][1], NESTED['b'], 'x' in NAMES, len(NAMES), DT[tl.float16] == tl.float32
Level.TWO + 1, int(Level.ONE), Level.TWO == 2, Kind.A == Kind.A, Kind.A is Kind.B, Config.K, Config.D['q']
isinstance(Kind.A, Kind), isinstance(Kind.A, enum.Enum), isinstance(Kind.A, (int, Config)), isinstance(n, Kind), isinstance(n, (Kind, int)), isinstance(n, types.FunctionType)
isinstance(POINT, Point), isinstance(POINT, Config), isinstance(SQUARE, Shape), isinstance(SQUARE, (Point, Square)), isinstance(POINT, int)
[k.value for k in Kind], [k.name for k in Kind], [int(v) + n for v in Level], len(list(Kind)), Kind.B in list(Kind), int(max(Level))
POINT.a, POINT.b, hasattr(POINT, 'a'), hasattr(POINT, 'c'), getattr(POINT, 'c', 4), helper(n)
""".strip().splitlines()


@pytest.mark.parametrize("body", GLOBAL_EXPRESSIONS)
def test_variables_of_the_module(body, tmp_path):
    m = load(tmp_path, GLOBALS + KERNEL.format("return " + body))
    m.k.warmup(8, repr(flat(m.f(8))), grid=(1,))


def test_a_changed_table_is_noticed(tmp_path):
    import numpy as np
    m = load(tmp_path, """
TABLE = {"a": 1}
@triton.constexpr_function
def f(): return TABLE["a"]
@triton.jit
def k(o): tl.store(o, f())
""")
    o = np.zeros(1, np.int32)
    m.k[(1,)](o)
    assert o[0] == 1
    m.TABLE["a"] = 2
    with pytest.raises(RuntimeError, match="Global variable TABLE has changed"):
        m.k[(1,)](o)


def test_functions_in_a_table_that_they_read(tmp_path):
    import numpy as np
    m = load(tmp_path, """
def twice(n): return 2 * n
def power(n, depth=2): return n if depth == 0 else STEPS["twice"](STEPS["power"](n, depth - 1))
STEPS = {"twice": twice, "power": power}
@triton.constexpr_function
def f(n): return STEPS["power"](n)
@triton.jit
def k(o, N: tl.constexpr): tl.store(o, f(N))
""")
    o = np.zeros(1, np.int32)
    m.k[(1,)](o, 5)
    assert o[0] == 20


@pytest.mark.parametrize("body, message", [("Kind.A.colour", "`Kind.A` object has no attribute `colour`"),
                                           ("isinstance(n, collections.abc.Hashable)", "argument `classinfo` must be a class"),
                                           ("isinstance(Kind.A, enum)", "argument `classinfo` must be a class")])
def test_what_is_not_known_of_objects(body, message, tmp_path):
    m = load(tmp_path, GLOBALS + KERNEL.format("return " + body))
    with pytest.raises(tegula.CompilationError) as e:
        m.k.warmup(8, "", grid=(1,))
    assert message in str(e.value)


OBJECTS = """
import dataclasses, enum
class Kind(enum.Enum):
    A = "a"
    B = 2
class Text(str, enum.Enum):
    X = "x"
@dataclasses.dataclass(frozen=True)
class Config:
    block: int = 4
    act: str = "relu"
    kind: Kind = Kind.B
    sizes: tuple = (3, 5)
class Plain:
    def __init__(self, n): self.n, self._hidden, self.f = n, 1, lambda: 0
KIND = tl.constexpr(Kind.A)
TABLE = tl.constexpr({"relu": 1, 2: "two"})
CONFIG = tl.constexpr(Config(block=9))
@triton.constexpr_function
def is_kind(c):
    match c:
        case Kind(): return True
    return False
@triton.constexpr_function
def is_config(c): return isinstance(c, Config)
@triton.constexpr_function
def of(c): return (c.kind.value + c.block, c.kind.name, c.sizes[1])
@triton.jit
def k(o, cfg: tl.constexpr, kind: tl.constexpr, text: tl.constexpr, plain: tl.constexpr, table: tl.constexpr):
    tl.store(o, cfg.block + cfg.sizes[1])
    tl.store(o + 1, cfg.kind.value + (10 if cfg.act == "relu" else 20))
    tl.store(o + 2, of(cfg)[0] + of(cfg)[2])
    tl.store(o + 3, (1 if kind == KIND else 0) + (2 if kind.name == "A" else 0) + (4 if kind.value == KIND else 0) + (8 if kind.value.value == "a" else 0))
    tl.store(o + 4, (1 if text == "x" else 0) + (2 if KIND.name in ("A", "C") else 0))
    tl.store(o + 5, plain.n)
    tl.store(o + 7, (1 if is_kind(kind) else 0) + (2 if is_kind(cfg) else 0) + (4 if is_config(cfg) else 0) + (8 if is_config(plain) else 0))
    tl.store(o + 6, TABLE["relu"] + (TABLE[2] == "two") * 2 + table["k"][1] + CONFIG.block)
"""


def test_objects_as_constants(tmp_path):
    """Members of enumerations, dataclasses, plain objects and dicts: what kernels read of them, and that others make another kernel."""
    import numpy as np
    m = load(tmp_path, OBJECTS)
    o = np.zeros(8, np.int32)
    m.k[(1,)](o, m.Config(), m.Kind.A, m.Text.X, m.Plain(6), {"k": (1, 2)})
    assert o.tolist() == [9, 12, 11, 15, 3, 6, 14, 5]
    m.k[(1,)](o, m.Config(block=8, act="gelu", kind=m.Kind.B, sizes=(0, 7)), m.Kind.B, m.Text.X, m.Plain(7), {"k": (1, 20)})
    assert o.tolist() == [15, 22, 17, 0, 3, 7, 32, 5]


def test_what_objects_do_not_have(tmp_path):
    import numpy as np
    m = load(tmp_path, OBJECTS + "@triton.jit\ndef bad(o, plain: tl.constexpr): tl.store(o, plain.f)\n")
    with pytest.raises(tegula.CompilationError, match="`Plain object` object has no attribute `f`"):
        m.bad[(1,)](np.zeros(1, np.int32), m.Plain(1))


FORMS = """
@triton.jit
def k(o, ptrs, n, ACT: tl.constexpr):
    a = b = n + 1
    if ACT in ("relu", "gelu") and "x" not in ACT and ACT not in {TABLE}:
        a += 1
    tl.store(o, a + b)
    s = 0
    for i, (p, w) in enumerate(zip(ptrs, (2, 3))):
        s += tl.load(p) * w + i
    tl.store(o + 1, s)
    for c in ACT:
        if c == "l":
            break
        s += 1
    else:
        s += 100
    tl.store(o + 2, s)
    for v in (n, 4, 7):
        if v > 5:
            continue
        s += v
    tl.store(o + 3, s)
    tl.store(o + 4, sum([n, 2, a]) + abs(0 - n) + sorted((3, 1))[0])
    for k in ({TABLE}):
        tl.store(o + 5, len(k))
    tl.store(o + 6, [tl.load(p) for p in ptrs if True][1] + (1 if any((False, ACT == "relu")) else 0))
""".replace("{TABLE}", '("tanh", "sigmoid")')


@pytest.mark.parametrize("interpreted", [False, True])
def test_forms_of_python_in_kernels(interpreted, tmp_path):
    import numpy as np
    m = load(tmp_path, FORMS)
    o = np.zeros(7, np.int32)
    for n in (3, 9):
        with tegula.interpret(interpreted):
            m.k[(1,)](o, (np.array([5], np.int32), np.array([7], np.int32)), n, "relu")
        s = 5 * 2 + 7 * 3 + 1
        after = s + 2 + 4 + (n if n <= 5 else 0)
        assert o.tolist() == [2 * n + 3, s, s + 2, after, n + 2 + n + 2 + n + 1, 7, 8]


@pytest.mark.parametrize("line, message", [("tl.store(o, 1 if ACT in ('a',) else 0)", "unsupported AST node type: In"), ("for p in (1, 2): pass", "Only `range`"),
                                           ("a = b = n", "Simultaneous multiple assignment"), ("tl.store(o, sum((n, n)))", "sum is not defined")])
def test_forms_of_python_are_refused_when_strict(line, message, tmp_path):
    m = load(tmp_path, f"@triton.jit\ndef k(o, n, ACT: tl.constexpr):\n    {line}\n")
    with pytest.raises(tegula.CompilationError) as e:
        m.k.warmup(tl.int32, 3, "a", grid=(1,), strict=True)
    assert message in str(e.value).replace("`sum`", "sum")


def test_membership_is_of_compile_time(tmp_path):
    m = load(tmp_path, "@triton.jit\ndef k(o, n): tl.store(o, 1 if n in (2, 3) else 0)\n")
    with pytest.raises(tegula.CompilationError, match="`in` takes compile-time values, found int32; compare with each element"):
        m.k.warmup(tl.int32, 5, grid=(1,))


def test_print_is_of_compile_time(tmp_path, capfd):
    import numpy as np
    m = load(tmp_path, """
@triton.constexpr_function
def f(n):
 print("building", n, sep="-", end="!\\n")
 return n
@triton.jit
def k(o, N: tl.constexpr): tl.store(o, f(N))
""")
    m.k[(2,)](np.zeros(1, np.int32), 7)
    assert capfd.readouterr().out == "building-7!\n"


@pytest.mark.parametrize("body, message", [
    ("{'a': 1}[n]", "8 is no key of {'a': 1}"),
    ("[b := [], c := b, b.append(1)]", "`b` is changed here, but something else refers to the same list"),
    ("'a'.index('b')", "substring not found"),
    ("f'{n:q}'", "Invalid format specifier 'q' for int"),
    ("f'{1.5:d}'", "Invalid format specifier 'd' for float"),
    ("'%d' % ()", "not enough arguments for format string '%d'"),
    ("sorted((1, 'a'))", "sorted() does not accept"),
    ("(lambda: 1)(2)", "takes 0 positional arguments"),
    ("'{} {}'.format(1)", "no value for `{}`"),
])
def test_mistakes(body, message, tmp_path):
    m = load(tmp_path, KERNEL.format("return " + body))
    with pytest.raises(tegula.CompilationError) as e:
        m.k.warmup(8, "", grid=(1,))
    assert message in str(e.value)


@pytest.mark.parametrize("pattern", ["{'a': 1}", "int(real=1)", "[{}, 1]", "1 + 2j"])
def test_patterns_that_are_not_there(pattern, tmp_path):
    m = load(tmp_path, KERNEL.format(f"match [n, 1] if 'a' not in {pattern!r} else n:\n  case {pattern}: pass\n return 1"))
    with pytest.raises(tegula.CompilationError, match="this pattern of Match; use `if` and `elif`"):
        m.k.warmup(8, "", grid=(1,))


def test_what_no_handler_takes(tmp_path):
    m = load(tmp_path, KERNEL.format("try: raise ValueError('no good')\n except (KeyError, IndexError): return 1\n finally: n"))
    with pytest.raises(tegula.CompilationError, match="exception raised at compile time: ValueError"):
        m.k.warmup(8, "", grid=(1,))


@pytest.mark.parametrize("t", ["float16", "float32", "float64"])
def test_limits_of_floats(t):
    out = np.zeros(6)
    limits_of_floats[(1,)](out, getattr(np, t))
    i = np.finfo(t)
    assert out.tolist() == [i.bits, i.eps, i.max, i.min, i.tiny, i.resolution]


@pytest.mark.parametrize("t", ["int8", "uint8", "int32", "uint64"])
def test_limits_of_integers(t):
    out = np.zeros(3)
    limits_of_integers[(1,)](out, getattr(np, t))
    i = np.iinfo(t)
    assert out.tolist() == [i.bits, float(i.max), float(i.min)]


def test_types_of_pytorch(monkeypatch):
    """PyTorch's dtypes and its finfo in kernels. A stand-in has what the binding looks at."""
    class Dtype:
        def __init__(self, name): self.name = name
        def __repr__(self): return "torch." + self.name
    Dtype.__name__, Dtype.__module__ = "dtype", "torch"
    finfo = type("finfo", (), {"__module__": "torch"})
    half, single, fp8 = Dtype("float16"), Dtype("float32"), Dtype("float8_e4m3fn")
    module = types.ModuleType("torch")
    module.float16, module.float32, module.float8_e4m3fn, module.finfo = half, single, fp8, finfo
    monkeypatch.setitem(globals(), "torch", module)
    monkeypatch.setitem(globals(), "HALF", tl.constexpr(half))
    out = np.zeros(4)
    types_of_pytorch[(1,)](out, half)
    assert out.tolist() == [65504, 1, 448, 1]
    types_of_pytorch[(1,)](out, single)
    assert out.tolist() == [float(np.finfo("float32").max), 2, 448, 0]
    with pytest.raises(tegula.CompilationError, match=r"numpy.finfo\(\) does not accept int"):
        limits_of_floats[(1,)](out, 3)


@tegula.jit
def limits_of_floats(out, T: tl.constexpr):
    i: tl.constexpr = np.finfo(T)
    tl.store(out, i.bits)
    tl.store(out + 1, i.eps)
    tl.store(out + 2, tl.full([], i.max, tl.float64))
    tl.store(out + 3, tl.full([], i.min, tl.float64))
    tl.store(out + 4, tl.full([], i.tiny, tl.float64))
    tl.store(out + 5, tl.full([], i.resolution, tl.float64))


@tegula.jit
def limits_of_integers(out, T: tl.constexpr):
    tl.store(out, np.iinfo(T).bits)
    tl.store(out + 1, np.iinfo(T).max)
    tl.store(out + 2, np.iinfo(T).min)


@tegula.jit
def types_of_pytorch(out, T: tl.constexpr):
    tl.store(out, torch.finfo(T).max)
    tl.store(out + 1, 1 if T == torch.float16 else 2)
    tl.store(out + 2, torch.finfo(torch.float8_e4m3fn).max)
    tl.store(out + 3, T == HALF)
