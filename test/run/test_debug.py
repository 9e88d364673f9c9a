"""§3.8 hints, printing, assertions."""
import os

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, run

pytestmark = pytest.mark.section("3.8 debug")


@tegula.jit
def k_hints(out, n):
    i = tl.arange(0, 8)
    j = tl.multiple_of(i * 8, [8])
    k = tl.max_contiguous(i, [8])
    m = tl.max_constancy(i // 4, [4])
    tl.multiple_of(n, 2)
    tl.assume(n >= 0)
    tl.debug_barrier()
    tl.store(out + i, j + k + m + n)


def test_hints_change_nothing(dev):
    assert run(dev, k_hints, 6) == [i * 8 + i + i // 4 + 6 for i in range(8)]


@tegula.jit
def e_hint(out, n):
    tl.store(out + tl.multiple_of(n, n), 1)


def test_hint_wants_a_constant(dev):
    with pytest.raises(CompileError):
        run(dev, e_hint, 6)


@tegula.jit
def k_static_print(out, N: tl.constexpr):
    tl.static_print("N is", N, tl.float32)
    tl.static_print(f"twice: {N * 2}")
    x = tl.zeros([N], tl.int32)
    tl.static_print(x.shape[0], x.dtype, sep="/")
    tl.store(out, 1)


def test_static_print(dev, capfd):
    if os.environ.get("TEGULA_NO_JIT") == "1":
        pytest.skip("nothing is compiled, so nothing is printed")
    run(dev, k_static_print, 16)
    printed = capfd.readouterr().out
    assert "N is 16" in printed and "twice: 32" in printed and "16/" in printed and "int32" in printed


@tegula.jit
def k_print(out, x, N: tl.constexpr, HEX: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_print("value", v, hex=HEX)
    tl.store(out, 1)


@pytest.mark.parametrize("t, values, text", [
    (np.int32, [1, -2, 3, 4], ["1", "-2", "3", "4"]),
    (np.uint8, [1, 255, 3, 4], ["1", "255", "3", "4"]),
    (np.float32, [1, -2.5, 0.125, np.inf], ["1.000000", "-2.500000", "0.125000", "inf"]),
    (np.float16, [1, -2.5, 0.125, 4], ["1.000000", "-2.500000", "0.125000", "4.000000"]),
    (np.bool_, [1, 0, 1, 1], ["1", "0", "1", "1"]),
])
def test_device_print(dev, capfd, t, values, text):
    run(dev, k_print, np.array(values).astype(t), 4, False)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"pid (0, 0, 0) idx ({i}) value: {v}" for i, v in enumerate(text)]


@pytest.mark.parametrize("t, values, text", [
    (np.int32, [1, -1, 255, 0], ["0x00000001", "0xffffffff", "0x000000ff", "0x00000000"]),
    (np.uint8, [1, 255, 0, 16], ["0x01", "0xff", "0x00", "0x10"]),
    (np.int64, [1, -1, 0, 0], ["0x0000000000000001", "0xffffffffffffffff", "0x" + "0" * 16, "0x" + "0" * 16]),
])
def test_device_print_hex(dev, capfd, t, values, text):
    run(dev, k_print, np.array(values).astype(t), 4, True)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"pid (0, 0, 0) idx ({i}) value: {v}" for i, v in enumerate(text)]


@tegula.jit
def k_print_forms(out):
    print("scalar:", tl.program_id(0) + 5)
    tl.device_print("text only")
    r, c = tl.arange(0, 2)[:, None], tl.arange(0, 16)[None, :]
    tl.device_print("two", r * 16 + c, tl.program_id(1))
    print("", tl.program_id(2))
    tl.store(out, 1)


def test_device_print_forms(dev, capfd):
    run(dev, k_print_forms)
    lines = capfd.readouterr().out.splitlines()
    assert "pid (0, 0, 0) idx () scalar: 5" in lines
    assert "pid (0, 0, 0) text only" in lines
    assert "pid (0, 0, 0) idx (1,  3) two: (operand 0) 19" in lines
    assert "pid (0, 0, 0) idx () two: (operand 1) 0" in lines
    assert "pid (0, 0, 0) idx (): 0" in lines
    assert len(lines) == 2 + 32 + 1 + 1


@tegula.jit
def e_print_prefix(out):
    tl.device_print("préfixe", tl.program_id(0))


@tegula.jit
def e_print_value(out):
    tl.device_print(tl.program_id(0))


@pytest.mark.parametrize("kernel, text", [(e_print_prefix, "ascii"), (e_print_value, ".")],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_device_print_errors(dev, kernel, text):
    with pytest.raises(CompileError, match=text):
        run(dev, kernel)


@tegula.jit
def k_assert(out, x, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_assert(v < 100, "too large")
    assert tl.max(v, 0) != 50, "fifty"
    tl.device_assert(v > 0, "masked", mask=v != 0)
    tl.store(out, 1)


@pytest.mark.parametrize("largest, message", [(7, None), (100, "too large"), (50, "fifty")])
def test_device_assert(dev, largest, message):
    x = np.array([0, 5, largest, 2], np.int32)
    if message is None:
        assert run(dev, k_assert, x, 4, debug=True)[0] == 1
    else:
        with pytest.raises(tegula.DeviceError, match=message):
            run(dev, k_assert, x, 4, debug=True)
        if dev.name.startswith("cuda"):
            return  # the trap took the context along
    # Without debug nothing is checked.
    assert run(dev, k_assert, x, 4)[0] == 1


@tegula.jit
def k_overflow(out, a, b, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    y = tl.load(b + i)
    if OP == "add":
        r = x + y
    elif OP == "sub":
        r = x - y
    elif OP == "mul":
        r = x * y
    elif OP == "minus":
        r = -x
    else:
        r = tl.add(x, y, sanitize_overflow=False)
    tl.store(out + i, r)


INTEGERS = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32]
EXACT = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "minus": lambda x, y: -x}


def edge_pairs(t, op):
    """Pairs whose exact result is at, just inside and just outside the ends of the type."""
    info = np.iinfo(t)
    low, high = int(info.min), int(info.max)
    numbers = [low, low + 1, low // 2, -2, -1, 0, 1, 2, 3, high // 2, high // 2 + 1, high - 1, high]
    pairs = [(x, y) for x in numbers for y in numbers if low <= x <= high and low <= y <= high]
    fits = [(x, y) for x, y in pairs if low <= EXACT[op](x, y) <= high]
    return fits, [p for p in pairs if p not in fits]


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("t", INTEGERS, ids=lambda t: t.__name__)
def test_overflow(dev, op, t):
    fits, fails = edge_pairs(t, op)
    n = 256
    x, y = (np.array((v * n)[:n], t) for v in zip(*fits))
    out = np.zeros(n, t)
    dev(k_overflow, (1,), out, x, y, op, n, debug=True)
    assert out.tolist() == [EXACT[op](int(a), int(b)) for a, b in zip(x, y)]
    # A sample of those outside, each alone among elements that are right.
    for k, (a, b) in enumerate(fails[::max(1, len(fails) // 4)]):
        u, v = x.copy(), y.copy()
        u[k * 37 % n], v[k * 37 % n] = a, b
        name = "sub" if op == "minus" else op
        with pytest.raises(tegula.DeviceError, match=f"int{8 * out.itemsize} overflow detected for operation {name}"):
            dev(k_overflow, (1,), out, u, v, op, n, debug=True)
        if dev.name.startswith("cuda"):
            return  # the trap took the context along
        # Without debug, and where the option or the function says so, numbers wrap.
        for how in ({}, {"debug": True, "sanitize_overflow": False}, {"sanitize_overflow": True}):
            dev(k_overflow, (1,), out, u, v, op, n, **how)
            assert out[k * 37 % n] == np.array(EXACT[op](a, b) & ((1 << 8 * out.itemsize) - 1), np.uint64).astype(t)
        if op == "add":
            dev(k_overflow, (1,), out, u, v, "function", n, debug=True)


@tegula.jit
def k_overflow_scalars(out, x, n, LOOPS: tl.constexpr):
    # Compile-time numbers are Python's, pointers and 64 bits are not checked, a branch that is not taken is not either.
    big: tl.constexpr = 2**31 * 4 - 2**33 + 5
    total = tl.load(x)
    for i in range(LOOPS):
        total = total + i
    if n > 100:
        total = total * 1000000
    wide = total.to(tl.int64) * 4294967296
    tl.store(out + 1 - 1, total + big)
    tl.store(out + (wide >> 32) - total + 1, (wide >> 32).to(tl.int32))
    tl.store(out + 2, tl.sum(tl.full([4], total, tl.int32) % 7) + tl.rand(n, 0).to(tl.int32) + tl.cdiv(total, 4))


def test_overflow_is_where_the_number_is(dev):
    x = np.array([2**31 - 100], np.int32)

    def launch(n, loops):
        return run(dev, k_overflow_scalars, x, n, loops, dtype=np.int32, debug=True)

    # 0 + 1 + ... + 8 = 36; the sum of ten is 45, and 5 is added.
    t = 2**31 - 100 + 36
    assert launch(7, 9)[:3] == [t + 5, t, 4 * (t % 7) + -(-t // 4)]
    if not dev.name.startswith("cuda"):
        for n, loops, name in [(7, 15, "add"), (101, 9, "mul")]:
            with pytest.raises(tegula.DeviceError, match=f"int32 overflow detected for operation {name}"):
                launch(n, loops)


@tegula.jit
def k_overflow_masked(out, x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, v + v, mask=i < n)


@pytest.mark.parametrize("n", [3, 4])
def test_overflow_under_a_mask(dev, n):
    # What the mask keeps out is 0 and fits.
    x = np.array([1, 2, 3, 2**31 - 1], np.int32)
    if n == 3:
        assert run(dev, k_overflow_masked, x, n, 4, debug=True)[:4] == [2, 4, 6, 0]
    else:
        with pytest.raises(tegula.DeviceError, match="int32 overflow detected for operation add"):
            run(dev, k_overflow_masked, x, n, 4, debug=True)


@tegula.jit
def k_own_arithmetic(out, x, N: tl.constexpr):
    # The language's own code wraps where it means to: none of it may be taken for a mistake of the program.
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.sort(v) ^ tl.flip(v))
    tl.store(out + N + i, tl.randint(v, i).to(tl.int32, bitcast=True) ^ tl.randint(7, v).to(tl.int32, bitcast=True))
    tl.store(out + 2 * N + i, tl.extra.libdevice.sad(v, 0 * v - 1, v.to(tl.uint32, bitcast=True)).to(tl.int32, bitcast=True))
    tl.store(out + 3 * N + i, tl.extra.libdevice.mulhi(v, v) ^ tl.extra.libdevice.brev(v) ^ tl.extra.libdevice.rhadd(v, v))
    tl.store(out + 4 * N + i, tl.cumsum(v, 0) ^ tl.sum(v, 0) ^ tl.max(v, 0) ^ tl.argmin(v, 0))


def test_overflow_is_none_of_the_library(dev):
    x = np.array([2**31 - 1, -2**31, -1, 0, 1, 2**31 - 1, -2**31, 12345], np.int32)
    plain = run(dev, k_own_arithmetic, x, 8, n=40)
    assert run(dev, k_own_arithmetic, x, 8, n=40, debug=True) == plain


def test_overflow_check_in_ptx(dev):
    # A fault stops the program by a trap; its text is the host's, by number.
    x = np.zeros(8, np.int32)
    for how, checks in [({"debug": True}, True), ({}, False), ({"debug": True, "sanitize_overflow": False}, False)]:
        k = k_overflow.warmup(x, x, x, "mul", 8, device="cpu", **how).compile_for("sm_90a")
        assert ("trap;" in k.asm["ptx"]) == checks, how


@tegula.jit
def k_target(out):
    if tl.target_info.is_cuda():
        tl.store(out, 1)
    else:
        tl.store(out, 2)
    tl.static_assert(not tl.target_info.is_hip())


def test_target_info(dev):
    assert run(dev, k_target)[0] == (2 if dev.name in ("cpu", "interpreter") else 1)


@tegula.jit
def messages(x, out, BLOCK: tl.constexpr, PRINT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    if PRINT:
        tl.device_print("v", v)
    tl.device_print("at", at)
    tl.device_print("program", tl.program_id(0))
    tl.device_assert(v < 9, "too large")
    tl.store(out + at, v)


@pytest.mark.parametrize("ctas", [2, 4])
def test_messages_of_clusters(dev, ctas, capfd):
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    for show in True, False:
        dev(messages, (1,), x, out, 8, show, num_ctas=ctas, debug=True)
        lines = sorted(capfd.readouterr().out.splitlines())
        assert lines == sorted([f"pid (0, 0, 0) idx ({i}) {name}: {i}" for i in range(8) for name in (["v"] if show else []) + ["at"]] +
                               ["pid (0, 0, 0) idx () program: 0"])
        assert_same(out, x)
    with pytest.raises(Exception, match="too large"):
        dev(messages, (1,), x + 4, out, 8, False, num_ctas=ctas, debug=True)


@tegula.jit
def wait_for_ever(lock, out):
    tl.store(out + tl.program_id(0), 1)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@pytest.mark.section("5 control flow")
def test_a_lock_that_nobody_releases_is_an_error_on_the_simulator():
    lock, out = np.ones(1, np.int32), np.zeros(2, np.int32)
    with pytest.raises(tegula.DeviceError) as e:
        wait_for_ever[(2,)](lock, out, device="sim", hang_s=0.2)
    line = wait_for_ever.fn.__code__.co_firstlineno + 3
    assert f"test_debug.py:{line}:" in str(e.value)
    assert "`wait_for_ever` made no progress for 0.2 s; program (" in str(e.value) and "on sim" in str(e.value)
