"""Launch handles: kernel.bind(...) and what their calls refuse."""
import threading
import weakref

import numpy as np
import pytest
import tegula
import tegula.language as tl

FACTOR = tl.constexpr(2)


@tegula.jit
def scale(x, y, n, B: tl.constexpr, s=1.0):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * s, mask=o < n)


@tegula.jit
def doubled(x, y):
    tl.store(y, tl.load(x) * FACTOR)


def lambda_free(x, y):
    tl.store(y, tl.load(x) * 2)


def arrays(n=64, dtype=np.float32):
    return np.arange(n).astype(dtype), np.zeros(n, dtype)


@pytest.mark.parametrize("device", ("cpu", "sim"))
def test_launches(device):
    x, y = arrays()
    handle = scale.bind(x, y, 64, B=16, s=3.0, grid=(4,), device=device)
    assert handle.kernel.info()["target"].startswith(device)
    for n in (64, 48, 32):
        x, y = arrays()
        assert handle(x, y, n) is None
        assert (y[:n] == x[:n] * 3).all() and (y[n:] == 0).all()


def test_grid_by_function():
    x, y = arrays()
    handle = scale.bind(x, y, 64, B=16, grid=lambda args: (tegula.cdiv(args["n"], args["B"]),))
    handle(x, y, 32)
    assert (y[:32] == x[:32]).all() and (y[32:] == 0).all()


def test_constants_by_position():
    x, y = arrays()
    handle = scale.bind(x, y, 64, 64, grid=(1,))
    handle(x, y, 64, 64)
    assert (x == y).all()
    with pytest.raises(ValueError, match=r"scale\(\): constant `B` is 32; the handle was bound with 64"):
        handle(x, y, 64, 32)


@pytest.mark.parametrize("change, message", (
    (dict(x=np.zeros(64)), "`x` is of type fp64; the handle was bound with fp32"),
    (dict(x=np.zeros(65, np.float32)[1:]), "`x` is an address that is not divisible by 16"),
    (dict(x=3), "`x` is an int; the handle was bound with a tensor"),
    (dict(n=63), "`n` is a number that is not divisible by 16"),
    (dict(n=2**32), "`n` does not fit 32 bits"),
    (dict(n=64.0), "`n` is a float; the handle was bound with an int"),
    (dict(n=None), "`n` is None"),
))
def test_refused(change, message):
    x, y = arrays()
    handle = scale.bind(x, y, 64, B=64, grid=(1,))
    args = {"x": x, "y": y, "n": 64, **change}
    with pytest.raises(ValueError, match=message):
        handle(*args.values())
    assert (y == 0).all()


def test_one_is_a_class_of_its_own():
    x, y = arrays()
    with pytest.raises(ValueError, match="`n` is not 1"):
        scale.bind(x, y, 1, B=64, grid=(1,))(x, y, 7)
    with pytest.raises(ValueError, match="`n` is 1, which would be a constant"):
        scale.bind(x, y, 7, B=64, grid=(1,))(x, y, 1)


def test_annotated_bool():
    @tegula.jit
    def put(y, on: tl.int1):
        tl.store(y, tl.where(on, 5.0, 3.0))

    y = np.zeros(1, np.float32)
    handle = put.bind(y, 0, grid=(1,))
    for on, expected in ((1, 5), (0, 3)):
        handle(y, on)
        assert y[0] == expected


@pytest.mark.parametrize("device", ("cpu", "sim"))
def test_tuples(device):
    @tegula.jit
    def sum_of(y, pair):
        tl.store(y, pair[0] + pair[1])

    y = np.zeros(1, np.float32)
    handle = sum_of.bind(y, (1.5, 2), grid=(1,), device=device)
    handle(y, (2.5, 4))
    assert y[0] == 6.5
    for pair, was in (((2.5, 16), "i32"), ((2.5,), "fp32, i32"), ((2, 2), "fp32")):
        with pytest.raises(ValueError, match=f"argument `pair` is .* and was .*{was}.* when the launch was bound"):
            handle(y, pair)
    assert y[0] == 6.5


@pytest.mark.parametrize("device", ("cpu", "sim"))
def test_descriptors(device):
    from tegula.tools.tensor_descriptor import TensorDescriptor

    @tegula.jit
    def copy(a, b):
        b.store([0, 0], a.load([0, 0]) * 2)

    x, y, z = np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    blocks = lambda t, n=16: TensorDescriptor.from_tensor(t, [n, 16])
    handle = copy.bind(blocks(x), blocks(y), grid=(1,), device=device)
    handle(blocks(x), blocks(z))
    assert (z == 2 * x).all() and (y == 0).all()
    with pytest.raises(ValueError, match="argument `a` is .*, and was .* when the launch was bound"):
        handle(blocks(x, 8), blocks(y))


def test_samples_are_not_kept():
    x, y = arrays()
    gone = weakref.ref(x)
    handle = scale.bind(x, y, 64, B=64, grid=(1,))
    del x
    assert gone() is None
    handle(np.ones(64, np.float32), y, 64)
    assert (y == 1).all()


def test_overlaps():
    x, y = arrays()
    handle = scale.bind(x, y, 64, B=64, grid=(1,))
    with pytest.raises(ValueError, match="arguments `x` and `y` share memory"):
        handle(x, x, 64)
    scale.bind(x, x, 64, B=64, s=2.0, grid=(1,))(x, x, 64)
    assert (x == 2 * np.arange(64)).all()


def test_other_calls():
    x, y = arrays()
    handle = scale.bind(x, y, 64, B=64, grid=(1,))
    with pytest.raises(TypeError, match="takes 3 positional arguments"):
        handle(x, y)
    with pytest.raises(TypeError, match="none by name"):
        handle(x, y, n=64)
    with pytest.raises(TypeError, match="missing argument 'n'"):
        scale.bind(x, y, B=64, grid=(1,))


def test_wrappers_refuse():
    x, y = arrays()
    tuned = tegula.autotune([tegula.Config({"B": 64})], key=["n"])(scale)
    for wrapped in (tuned, tegula.heuristics({"B": lambda args: 64})(scale)):
        with pytest.raises(TypeError, match="bind the kernel below it"):
            wrapped.bind(x, y, 64, grid=(1,))


def test_changed_global():
    global FACTOR
    x, y = arrays(1)
    x[0] = 5
    handle = doubled.bind(x, y, grid=(1,))
    handle(x, y)
    assert y[0] == 10
    before, FACTOR = FACTOR, tl.constexpr(3)
    try:
        with pytest.raises(RuntimeError):
            handle(x, y)
    finally:
        FACTOR = before
    assert y[0] == 10


def test_hooks_see_it():
    x, y = arrays()
    handle, seen = scale.bind(x, y, 64, B=64, grid=(1,)), []
    hook = lambda metadata: seen.append(metadata.get()["name"])
    tegula.knobs.runtime.launch_enter_hook.add(hook)
    try:
        handle(x, y, 64)
    finally:
        tegula.knobs.runtime.launch_enter_hook.remove(hook)
    assert seen == ["scale"] and (x == y).all()


def test_interpreter():
    x, y = arrays()
    with tegula.interpret():
        scale.bind(x, y, 64, B=64, grid=(1,))(x, y, 64)
    assert (x == y).all()


def test_threads():
    x, _ = arrays()
    handle, outs = scale.bind(x, np.zeros(64, np.float32), 64, B=64, grid=(1,)), [np.zeros(64, np.float32) for _ in range(4)]
    threads = [threading.Thread(target=lambda y=y: [handle(x, y, 64) for _ in range(200)]) for y in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((y == x).all() for y in outs)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    handle = scale.bind(x, y, 64, B=64, grid=(1,))
    handle(x, y, 64)
    assert torch.equal(x, y)
    with pytest.raises(ValueError, match="`x` is of type fp64"):
        handle(x.double(), y, 64)


def test_preloaded(monkeypatch):
    """A kernel that was compiled elsewhere is what the handle launches: nothing is compiled for it."""
    texts = []
    monkeypatch.setattr(tegula.knobs.runtime, "jit_cache_hook", lambda **kw: texts.append(kw["compile"]["specialization_data"]))
    make = lambda: tegula.jit(lambda_free)
    x, y = arrays()
    make()[(1,)](x, y)
    monkeypatch.setattr(tegula.knobs.runtime, "jit_cache_hook", None)
    fresh = make()
    kernel = fresh.preload(texts[0])
    handle = fresh.bind(x, y, grid=(1,))
    assert handle.kernel is kernel
    handle(x + 3, y)
    assert y[0] == 6
