"""Enumerations in kernels: members of IntEnum and StrEnum are numbers and strings that have a name, classes can be read as global variables."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from test_bundle import good
from test_compile_time import KERNEL, flat, load

CLASSES = """
import enum
class Level(enum.IntEnum):
 LOW = 5
 HIGH = 7
 @property
 def bits(self): return 8 * self
class Kind(enum.Enum):
 A = "a"
 B = "b"
class Mode(int, enum.Enum):
 FAST = 3
class Act(str, enum.Enum):
 RELU = "relu"
class Flag(enum.IntFlag):
 P = 1
 Q = 2
class Format(enum.Enum):
 E4M3 = ("e4m3", 4)
 def __init__(self, label, exponent): self.exponent = exponent
TOP = tl.constexpr(Level.HIGH)
"""

EXPRESSIONS = """
Level.LOW.name, Level.LOW.value, Level.LOW + 1, Level(n - 1).name, Level['LOW'].name, [x.name for x in Level], max(Level).name
isinstance(Level.LOW, Level), isinstance(5, Level), isinstance(Level.LOW, int), isinstance(Level.LOW, enum.Enum), isinstance(Mode.FAST, Level), isinstance(Act.RELU, str)
Level.LOW == 5, Level.LOW is Level.LOW, Level.LOW is Level.HIGH, Level.LOW < Level.HIGH, Level.LOW in (5, 6), {Level.LOW: 1, 7: 2}[Level.HIGH], {5: 3}[Level.LOW]
f"{Level.LOW} {Level.LOW!s} {Level.LOW!r} {Level.LOW:03d} {str(Level.LOW)} {repr(Level.LOW)} %d" % Level.LOW
f"{Mode.FAST} {Mode.FAST!s} {Mode.FAST!r} {Act.RELU} {Act.RELU!s} {Act.RELU!r}", str(Act.RELU), '{}'.format(Mode.FAST)
Act.RELU.name, Act.RELU == 'relu', Act.RELU.upper(), Act('relu').name, Act.RELU + 'x', 're' in Act.RELU, {'relu': 1}[Act.RELU], {Act.RELU: 1}['relu']
(Flag.P | Flag.Q) == 3, Flag.P.name, Level.LOW.bits, Format.E4M3.exponent, int(Level.LOW), +Level.LOW, abs(Level.LOW), Kind('b').name, len(Kind), Level.LOW.bit_length()
hasattr(Level.LOW, 'name'), hasattr(+Level.LOW, 'name'), hasattr(int(Level.LOW), 'name'), hasattr(Level.LOW + 0, 'name'), getattr(Level.LOW, 'bits')
""".strip().splitlines()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_as_python(text, tmp_path):
    m = load(tmp_path, CLASSES + KERNEL.format("return " + text))
    m.k.warmup(6, repr(flat(m.f(6))), grid=(1,))


IN_KERNELS = """
@triton.constexpr_function
def named(x): return x.name
@triton.jit
def level(o, x: tl.constexpr, y: tl.constexpr):
 tl.store(o, x + 1)
 tl.store(o + 1, (1 if x.name == "LOW" else 2) + (10 if named(x) == "LOW" else 20) + (100 if x.value == 5 else 200))
 tl.store(o + 2, (1 if y == "relu" else 2) + (10 if y.name == "RELU" else 20))
 tl.store(o + 3, (1 if TOP.name == "HIGH" else 2) + TOP)
@triton.jit
def classes(o, x: tl.constexpr, y: tl.constexpr):
 tl.store(o, Level.HIGH + x)
 tl.store(o + 1, (1 if x == Level.LOW else 2) + (10 if y == Act.RELU else 20) + (100 if Kind.A.name == "A" else 200))
 tl.store(o + 2, len(Level) + Kind["B"].value.count("b") + Level(x).bits)
"""


@pytest.fixture(params=[False, True], ids=["compiled", "interpreted"])
def interpreted(request):
    if request.param:
        with tegula.interpret():
            yield True
    else:
        yield False


def run(f, *args, **options):
    o = np.zeros(4, np.int32)
    f[(1,)](o, *args, **options)
    return o.tolist()


def test_constants(interpreted, tmp_path):
    m = load(tmp_path, CLASSES + IN_KERNELS)
    assert run(m.level, m.Level.LOW, m.Act.RELU) == [6, 111, 11, 8]
    assert run(m.level, m.Level.LOW, m.Act.RELU) == [6, 111, 11, 8]


def test_a_member_and_its_number_make_two_kernels(tmp_path):
    m = load(tmp_path, CLASSES + """
@triton.jit
def k(o, x: tl.constexpr):
 tl.store(o, 1 if isinstance(x, Level) else 2)
 tl.store(o + 1, x.value)
 tl.store(o + 2, 1 if x.value == x else 2)
""")
    assert [run(m.k, x) for x in (m.Level.LOW, 5, m.Mode.FAST, 3, m.Level.LOW)] == [[1, 5, 1, 0], [2, 5, 1, 0], [2, 3, 1, 0], [2, 3, 1, 0], [1, 5, 1, 0]]


def test_classes_as_globals(interpreted, tmp_path):
    m = load(tmp_path, CLASSES + IN_KERNELS)
    assert run(m.classes, m.Level.LOW, m.Act.RELU) == [12, 111, 43, 0]


def test_classes_as_globals_are_an_extension(tmp_path):
    m = load(tmp_path, CLASSES + IN_KERNELS)
    kernel = m.classes.warmup(tegula.MockTensor(tl.int32), m.Level.LOW, m.Act.RELU, grid=(1,))
    assert ("enumInKernel", "an enumeration as a global variable (`Level"
            "`) is not in Triton's kernels; portable: pass the member as a tl.constexpr argument, or a global `M = tl.constexpr(Level.M)`") in [(r.kind, r.message) for r in kernel.remarks]
    with pytest.raises(tegula.CompilationError, match="Cannot access global variable `Level`"):
        m.classes.warmup(tegula.MockTensor(tl.int32), m.Level.LOW, m.Act.RELU, grid=(1,), strict=True)


def test_no_member(tmp_path):
    m = load(tmp_path, CLASSES + KERNEL.format("return Level(n)"))
    with pytest.raises(tegula.CompilationError, match="6 is not a valid Level"):
        m.k.warmup(6, "", grid=(1,))


def test_in_a_bundle(tmp_path):
    """What is recorded names members, too."""
    (tmp_path / "k.py").write_text("import tegula, tegula as triton, tegula.language as tl, numpy as np\n" + CLASSES + IN_KERNELS)
    program = "from k import *; from tegula import _core; o = np.zeros(4, np.int32); {}; level[(1,)](o, Level.LOW, Act.RELU); print(o, _core.compile_count())"
    assert good(tmp_path, "-c", program.format("0"), TEGULA_RECORD="rec.json") == "[  6 111  11   8] 1\n"
    good(tmp_path, "-c", "import tegula; tegula.aot('rec.json', 'k.tgb')")
    assert good(tmp_path, "-c", program.format("tegula.load_bundle('k.tgb'); tegula.no_jit()")) == "[  6 111  11   8] 0\n"
