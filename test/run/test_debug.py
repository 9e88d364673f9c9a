"""§3.8 hints, printing, assertions."""
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
    tl.store(out, 1)


def test_device_print_forms(dev, capfd):
    run(dev, k_print_forms)
    lines = capfd.readouterr().out.splitlines()
    assert "pid (0, 0, 0) idx () scalar: 5" in lines
    assert "pid (0, 0, 0) text only" in lines
    assert "pid (0, 0, 0) idx (1,  3) two: (operand 0) 19" in lines
    assert "pid (0, 0, 0) idx () two: (operand 1) 0" in lines
    assert len(lines) == 2 + 32 + 1


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
def k_overflow(out, a, b, OP: tl.constexpr):
    if OP == "+":
        r = a + b
    elif OP == "-":
        r = a - b
    elif OP == "*":
        r = a * b
    else:
        r = tl.add(a, b, sanitize_overflow=False)
    tl.store(out, r)


@pytest.mark.parametrize("op, a, b, fails", [("+", 2**31 - 1, 5, True), ("-", -2**31, 3, True),
                                             ("*", 2**16, 2**16, True), ("+", 2**31 - 6, 5, False),
                                             ("add", 2**31 - 1, 5, False), ("*", 3, 5, False)])
def test_overflow(dev, op, a, b, fails):
    if fails:
        with pytest.raises(tegula.DeviceError, match="overflow"):
            run(dev, k_overflow, a, b, op, debug=True, sanitize_overflow=True)
    else:
        run(dev, k_overflow, a, b, op, debug=True, sanitize_overflow=True)


@tegula.jit
def k_target(out):
    if tl.target_info.is_cuda():
        tl.store(out, 1)
    else:
        tl.store(out, 2)
    tl.static_assert(not tl.target_info.is_hip())


def test_target_info(dev):
    assert run(dev, k_target)[0] == (2 if dev.name == "cpu" else 1)


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
