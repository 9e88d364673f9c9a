"""kernel[grid](...): binding of arguments, grids, options, the returned kernel (docs/language.md §4.2-4.4)."""
import json
import threading

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from kernels import add_kernel, fill_kernel, read_kernel


def arrays(n=100):
    g = np.random.default_rng(n)
    return g.standard_normal(n, dtype=np.float32), g.standard_normal(n, dtype=np.float32), np.zeros(n, np.float32)


@pytest.mark.parametrize("grid", [(2,), (2, 1), (2, 1, 1), [2], (np.int64(2),), lambda meta:
                                  (tegula.cdiv(meta["n"], meta["BLOCK"]),)], ids=str)
def test_grids(grid):
    x, y, out = arrays()
    add_kernel[grid](x, y, out, 100)
    assert np.array_equal(out, x + y)


@pytest.mark.parametrize("grid, error", [(5, TypeError), ((), ValueError), ((1, 1, 1, 2), ValueError),
                                         ((-1,), ValueError), ((2**31, 2**10), Exception), ((1.5,), TypeError),
                                         (("a",), TypeError)], ids=str)
def test_bad_grids(grid, error):
    x, y, out = arrays()
    with pytest.raises(error):
        add_kernel[grid](x, y, out, 100)
    assert not out.any()


@pytest.mark.parametrize("grid", [(0,), (3, 0), (0, 0, 0)])
def test_empty_grids_run_nothing(grid):
    x, y, out = arrays()
    add_kernel[grid](x, y, out, 100)
    assert not out.any()


def test_binding():
    x, y, out = arrays()
    for args, kw in (((x, y, out), {
            "n": 100
    }), ((x,), {
            "out": out,
            "y": y,
            "n": 100
    }), ((x, y, out, 100, 32), {}), ((x, y, out, 100), {
            "BLOCK": 128
    }), ((x, y, out, 100), {
            "num_warps": 8,
            "num_stages": 2
    })):
        out[:] = 0
        add_kernel[(4,)](*args, **kw)
        assert np.array_equal(out, x + y)


@pytest.mark.parametrize("args, kw, error, text", [((1,), {}, TypeError, "missing"),
                                                   ((1, 2, 3, 4, 5, 6), {}, TypeError, "takes"),
                                                   ((1, 2, 3, 4), {
                                                       "n": 5
                                                   }, TypeError, "multiple"),
                                                   ((1, 2, 3, 4), {
                                                       "no_such": 5
                                                   }, KeyError, "no_such")])
def test_binding_errors(args, kw, error, text):
    with pytest.raises(error, match=text):
        add_kernel[(1,)](*args, **kw)


def test_keyword_only_parameters():
    @tegula.jit
    def store(x, n, *, B: tl.constexpr):
        tl.store(x, n + B)
    x = np.zeros(1, np.float32)
    store[(1,)](x, 2, B=4)
    assert x[0] == 6
    with pytest.raises(TypeError, match="takes 2 positional arguments, 3 are given"):
        store[(1,)](x, 2, 4)


@pytest.mark.parametrize("where", ["do_not_specialize", "do_not_specialize_on_alignment"])
def test_constants_are_always_specialized(where):
    @tegula.jit(**{where: ["B"]})
    def store(x, B: tl.constexpr):
        tl.store(x, B)
    with pytest.raises(tegula.CompilationError, match=f"B marked as constexpr and listed in {where}$"):
        store[(1,)](np.zeros(1, np.float32), 4)


def test_options_of_other_compilers():
    x, y, out = arrays()
    add_kernel[(4,)](x, y, out, 100, ptx_options="-O3", clc=False, ir_override=None, backend_name="cuda", max_num_imprecise_acc_default=0)
    assert np.array_equal(out, x + y)
    for name, value in (("ir_override", "kernel.ttgir"), ("default_dot_input_precision", "ieee")):
        with pytest.raises(NotImplementedError, match=f"option {name}='{value}'"):
            add_kernel[(4,)](x, y, out, 100, **{name: value})
    add_kernel[(4,)](y, y, out, 100, arch="sm80")
    assert np.array_equal(out, y + y)
    for value in ("sm_80", "sm", 80):
        with pytest.raises(ValueError, match=f"arch is {value!r}; it must have the form sm80"):
            add_kernel[(4,)](x, y, out, 100, arch=value)


@pytest.mark.parametrize("value, code", [(5, "i32"), (2**31, "i64"), (-2**31 - 1, "i64"), (2**63, "u64"), (1.5, "fp32"),
                                         (True, "i1")])
def test_type_of_scalars(value, code):
    dtype = {"i32": np.int32, "i64": np.int64, "u64": np.uint64, "fp32": np.float32, "i1": np.bool_}[code]
    out = np.zeros(4, dtype)
    fill_kernel[(1,)](out, value, 4)
    assert (out == dtype(value)).all()


def test_integers_too_large():
    with pytest.raises(OverflowError):
        fill_kernel[(1,)](np.zeros(4, np.int64), 2**64, 4)


@pytest.mark.parametrize("value", [np.int32(7), np.int64(7), np.float32(7), np.float64(7)], ids=repr)
def test_numpy_scalars(value):
    out = np.zeros(4, np.float32)
    fill_kernel[(1,)](out, value, 4)
    assert (out == 7).all()


@pytest.mark.parametrize("value", ["text", object(), {}, [1, 2]], ids=lambda v: type(v).__name__)
def test_arguments_of_no_type(value):
    with pytest.raises((TypeError, tegula.CompilationError), match="argument|specialize|convert"):
        fill_kernel[(1,)](np.zeros(4, np.int64), value, 4)


@pytest.mark.parametrize("dtype", [
    np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2
], ids=lambda d: d.__name__)
def test_dtypes_of_arrays(dtype):
    out = np.zeros(4, dtype)
    fill_kernel[(1,)](out, True if dtype is np.bool_ else 2, 4)
    assert (out == np.ones(4).astype(dtype) * (1 if dtype is np.bool_ else dtype(2))).all()


@pytest.mark.parametrize("dtype", [np.complex64, "S4", "O", ">f4"])
def test_arrays_of_other_dtypes(dtype):
    with pytest.raises(TypeError, match="out"):
        fill_kernel[(1,)](np.zeros(4, dtype), 1, 4)


def test_read_only_arrays():
    x, out = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
    x.flags.writeable = False
    read_kernel[(1,)](x, out)
    assert out[0] == 1
    with pytest.raises((ValueError, TypeError), match="read-only|writ"):
        fill_kernel[(1,)](x, 3.0, 4)
    assert x.tolist() == [0, 1, 2, 3]


def test_arrays_that_are_not_contiguous():
    out = np.zeros((4, 4), np.float32)
    with pytest.raises((ValueError, TypeError), match="contiguous"):
        fill_kernel[(1,)](out[:, 0], 3.0, 4)
    fill_kernel[(1,)](out.T, 3.0, 16)
    assert (out == 3).all()


class Interface:
    """An object that only has __array_interface__."""

    def __init__(self, a):
        self.a = a
        self.__array_interface__ = a.__array_interface__


class DLPack:

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **kw):
        return self.a.__dlpack__(**kw)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


class Pointer:
    """What torch tensors look like."""
    dtype = "torch.float32"

    def __init__(self, a):
        self.a = a

    def data_ptr(self):
        return self.a.ctypes.data


@pytest.mark.parametrize("wrap", [Interface, DLPack, Pointer])
def test_other_array_objects(wrap):
    out = np.zeros(4, np.float32)
    fill_kernel[(1,)](wrap(out), 3.0, 4)
    assert (out == 3).all()


class Size(tuple):
    """What torch.Size looks like: a tuple without named fields."""


class NoMemory(Pointer):
    """A tensor that has elements and no memory."""
    nbytes = 16

    def __init__(self, device="cpu"):
        self.device = device

    def data_ptr(self):
        return 0


@tegula.jit
def second(out, shape):
    tl.store(out, shape[1] + 0.0)


def test_tuples_of_other_classes():
    out = np.zeros(1, np.float32)
    second[(1,)](out, Size((4, 7)))
    assert out[0] == 7
    with pytest.raises(ValueError, match="argument `shape`: tuples are nested more than 32 deep"):
        deep = ()
        for _ in range(100000):
            deep = (deep,)
        second[(1,)](out, deep)


@tegula.jit
def constant_tuple(out, t: tl.constexpr):
    tl.store(out, 1.0)


def test_deep_constants():
    out, deep = np.zeros(1, np.float32), ()
    for _ in range(5000):
        deep = (deep,)
    with pytest.raises(ValueError, match="nested more than 32 deep"):
        constant_tuple[(1,)](out, deep)


def test_tensors_without_memory():
    with pytest.raises(ValueError, match="argument `out`: the tensor is on device meta, which has no memory"):
        fill_kernel[(1,)](NoMemory("meta"), 3.0, 4)
    with pytest.raises(ValueError, match="argument `out`: the NoMemory has no memory"):
        fill_kernel[(1,)](NoMemory(), 3.0, 4)


class Empty(NoMemory):
    nbytes = 0


def test_empty_tensors():
    """May be passed; an access to one is an error that names it."""
    add_kernel[(1,)](Empty(), Empty(), Empty(), 0)
    for _ in range(2):
        with pytest.raises(tegula.DeviceError, match="out-of-bounds store through argument `out`"):
            fill_kernel[(1,)](Empty(), 3.0, 4)
    out = np.zeros(4, np.float32)
    fill_kernel[(1,)](out, 3.0, 4)
    assert (out == 3).all()


@pytest.mark.parametrize("launch, error, text", [
    (lambda out: fill_kernel[(1,)](out, 1.0, 4, device="cpu\0x"), ValueError, "NUL"),
    (lambda out: fill_kernel[(2**64,)](out, 1.0, 4), ValueError, "grid dimension 0 is 18446744073709551616; at most"),
    (lambda out: fill_kernel[(1, -2**70)](out, 1.0, 4), ValueError, r"grid dimension 1 is negative \(-1180591620717411303424\)"),
    (lambda out: fill_kernel[(1, 65536)](out, 1.0, 4, device="sim"), ValueError, "the grid is 1 x 65536 x 1; GPUs take at most 2147483647 x 65535 x 65535"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4, num_warps=2**64), ValueError, "num_warps is 18446744073709551616;"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4, **{"num_warps\0": 4}), KeyError, "num_warps"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4).asm["asm\0"], ValueError, "NUL"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4).compile_for("cpu\0"), ValueError, "NUL"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4, extern_libs={"mine": "mine.bc"}), NotImplementedError, "extern_libs: 'mine' cannot be linked"),
    (lambda out: fill_kernel[(1,)](out, 1.0, 4, extern_libs=3), TypeError, "extern_libs"),
], ids=range(10))
def test_numbers_and_names_are_taken_whole(launch, error, text):
    with pytest.raises(error, match=text):
        launch(np.zeros(4, np.float32))


def test_options_of_triton():
    out = np.zeros(4, np.float32)
    for libs in ({"libdevice": "/somewhere/libdevice.10.bc"}, (("libdevice", "x"),), {}, None):
        k = fill_kernel[(1,)](out, 3.0, 4, extern_libs=libs, assume_in_bounds=True)
    assert (out == 3).all() and k._init_handles() is None


def test_compiled_kernel():
    x, y, out = arrays()
    k = add_kernel[(2,)](x, y, out, 100)
    assert k is add_kernel[(2,)](x, y, out, 100)
    assert k.name.startswith("add_kernel")
    assert set(k.asm) >= {"llvm", "asm"} and "add" in k.asm["llvm"]
    assert isinstance(k.asm["obj"], bytes)
    assert k.asm["ttir"] == k.asm["tile"] and k.asm["llir"] == k.asm["llvm"] and "ttir" in k.asm and "ttir" not in list(k.asm) and "ttgir" not in k.asm
    with pytest.raises(KeyError):
        k.asm["no such stage"]
    with pytest.raises(KeyError, match="Unknown key: 'ttgir'; there is no stage `gpu`"):
        k.asm["ttgir"]
    assert k.timings["total"] >= 0
    out[:] = 0
    k[(2,)](x, y, out, 100, 64)
    assert np.array_equal(out, x + y)


def test_warmup_does_not_launch():
    x, y, out = arrays()
    k = add_kernel.warmup(x, y, out, 100, grid=(2,))
    assert not out.any()
    assert k is add_kernel[(2,)](x, y, out, 100)


@tegula.jit
def cast_to(x, out, T: tl.constexpr):
    tl.store(out, tl.load(x).to(T))


def test_dtypes_are_tensors_in_warmups_except_for_constexprs():
    for arguments, named in (((tl.float32, tl.int32, tl.int16), {}), ((tl.float32, tl.int32), {"T": tl.int16}), ((), {"x": tl.float32, "out": tl.int32, "T": tl.int16})):
        assert cast_to.warmup(*arguments, **named, grid=(1,), device="cpu").metadata.signature == "x:*fp32:16, out:*i32:16, T:i16"


def test_specialization():
    x, y, out = arrays(64)
    launch = lambda n: add_kernel[(1,)](x, y, out, n)
    assert launch(64) is launch(32)  # both multiples of 16
    assert launch(64) is not launch(33)
    assert launch(33) is launch(35)
    assert launch(1) is not launch(33)  # 1 is a constant
    z = np.zeros(66, np.float32)
    assert add_kernel[(1,)](x, y, z[1:65], 64) is not launch(64)  # not aligned to 16 bytes


def test_debug_option_and_numbers_of_threads():
    x, y, out = arrays(5000)
    for threads in (1, 2, 4):
        out[:] = 0
        add_kernel[(tegula.cdiv(5000, 64),)](x, y, out, 5000, num_threads=threads)
        assert np.array_equal(out, x + y)


def test_many_threads_launch_at_once():
    errors = []

    def work(k):
        try:
            for i in range(20):
                n = 100 + 16 * k + i
                x, y, out = arrays(n)
                add_kernel[(tegula.cdiv(n, 32),)](x, y, out, n, BLOCK=32)
                assert np.array_equal(out, x + y)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_checked_mode_names_the_access():
    x, y, out = arrays(100)
    with pytest.raises(tegula.DeviceError, match="out"):
        fill_kernel[(1,)](out, 1.0, 128, check=True)
    try:
        fill_kernel[(1,)](out, 1.0, 128, check=True)
    except tegula.DeviceError as e:
        assert e.fault["argument"] == "out" and e.fault["file"].endswith("kernels.py") and e.fault["index"] >= 100


def test_calling_a_kernel_from_the_host():
    with pytest.raises(RuntimeError, match="Cannot call"):
        add_kernel(1, 2, 3, 4)


def test_functions_of_the_language_on_the_host():
    assert tegula.cdiv(7, 3) == 3 and tegula.next_power_of_2(33) == 64 and tegula.next_power_of_2(1) == 1
    with pytest.raises(RuntimeError, match="in a kernel"):
        tl.zeros((1,), tl.float32)
    with pytest.raises(AttributeError, match="no_such"):
        tl.no_such
    with pytest.raises(AttributeError, match="no_such"):
        tegula.no_such


def named(specialization):
    c, s = specialization
    assert s["x"] == "*fp32" and s["BLOCK"] == "constexpr" and c["BLOCK"] == 8
    return f"module.add_{s['n']}_{c['MODE']}_{c['BLOCK']}"


@tegula.jit(noinline=True)
def by_name(v):
    return v + 1


@tegula.jit(repr=named)
def with_repr(x, n, BLOCK: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + (by_name(n) - n), mask=i < n)


@tegula.jit(repr=lambda s: "by_name")
def like_its_helper(x, n):
    tl.store(x, by_name(n))


@tegula.jit(repr=lambda s: "has blanks")
def badly_named(x):
    tl.store(x, 1)


@tegula.jit(repr=lambda s: s.constants["missing"])
def raises(x):
    tl.store(x, 1)


@tegula.jit(repr=lambda s: 5)
def no_text(x):
    tl.store(x, 1)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_repr_names_kernels(device):
    x = np.zeros(8, np.float32)
    k = with_repr[(1,)](x, 5, BLOCK=8, MODE="a", device=device)
    assert x.tolist() == [1] * 5 + [0] * 3
    assert k.name == "add_i32_a_8" and json.loads(k.metadata_json())["symbol"] == "add_i32_a_8"
    assert "@add_i32_a_8" in k.asm["llvm"] and "@with_repr" not in k.asm["llvm"]
    assert ".entry add_i32_a_8" in k.compile_for("sm_90a").asm["ptx"]
    # An argument of 1 is a constant; other constants make other names.
    assert with_repr.warmup(x, 1, BLOCK=8, MODE="b", device=device).name == "add_constexpr_b_8"
    assert like_its_helper[(1,)](x, 6, device=device).name == "by_name" and x[0] == 7
    assert with_repr.repr is named and by_name.repr(None) == "by_name"


@pytest.mark.parametrize("kernel, error, text", [(badly_named, ValueError, "`badly_named`: `has blanks` is an invalid kernel identifier"),
                                                 (raises, KeyError, "missing"), (no_text, TypeError, "its name as str, found int")],
                         ids=["blanks", "raises", "int"])
def test_names_that_are_none(kernel, error, text):
    x = np.zeros(1, np.float32)
    for _ in range(2):
        with pytest.raises(error, match=text):
            kernel[(1,)](x)
    assert x[0] == 0


@tegula.jit
def _warps_kernel(out, x, ASKS: tl.constexpr):
    tl.store(out, tl.load(x) + (tl.extra.cuda.num_warps() if ASKS else 1))


@pytest.mark.parametrize("asks", [False, True])
def test_options_of_gpus_share_their_code_on_cpus(asks):
    """The same tile IR is the same machine code, which is made once; what the kernels say of themselves is what was asked for."""
    kernels = [_warps_kernel.warmup(tl.float32, tl.float32, asks, grid=(1, ), device="cpu", **options)
               for options in (dict(num_warps=2), dict(num_warps=8, num_stages=1, maxnreg=64), dict(num_warps=8, debug=True))]
    assert [k.metadata.num_warps for k in kernels] == [2, 8, 8] and len({k.hash for k in kernels}) == 3
    assert [k.timings["codegen"] == 0 for k in kernels] == [False, not asks, False]
    for k, warps in zip(kernels, (2, 8, 8)):
        out = np.zeros(1, np.float32)
        k[(1, 1, 1)](out, np.ones(1, np.float32), asks)
        assert out[0] == 1 + (warps if asks else 1)


@tegula.jit
def plus_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def test_a_kernel_by_signature_takes_no_shifted_arguments():
    """It was compiled for memory of their own. In place, and side by side, it is right."""
    from tegula.compiler import ASTSource
    kernel = tegula.compile(ASTSource(plus_one, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64}))
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(ValueError, match="argument `out` shares elements with `x` at other places"):
        kernel[(1,)](x[:32], x[1:33], 32)
    with pytest.raises(ValueError, match="argument `out` shares elements with `x` at other places"):
        kernel[(1,)](x.reshape(8, 8)[2:], x[:32], 32)
    assert (x == np.arange(64)).all()
    kernel[(1,)](x, x, 64)
    kernel[(1,)](x[:32], x[32:], 32)
    assert (x == np.tile(np.arange(32), 2) + np.repeat([1, 2], 32)).all()


def test_a_kernel_with_a_large_frame_on_the_simulator():
    """Code that is not optimized keeps each of so many values in a place of its own."""
    @tegula.jit
    def unrolled(out, N: tl.constexpr):
        i = tl.arange(0, N)
        x = i.to(tl.float32)
        for j in tl.static_range(400):
            x = x * (i + j) + tl.sin(x) * (j + 0.5) - tl.exp(x * (j + 0.25))
        tl.store(out + i, x != x)

    out = np.full(256, 7, np.int8)
    unrolled[(1,)](out, 256, num_warps=1, device="sim")
    assert out.max() <= 1


def test_more_registers_than_a_thread_has_limit_nothing():
    ptx = [plus_one.warmup(tl.float32, tl.float32, 3, 8, grid=(1, ), device="cpu", maxnreg=n).compile_for("sm_90a").asm["ptx"] for n in (64, 255, 256, 400)]
    assert [".maxnreg" in text for text in ptx] == [True, True, False, False]
