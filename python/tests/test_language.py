"""`tegula.language` as a host module: types, names, stubs."""
import copy
import importlib
import inspect
import pickle

import pytest
import tegula.language as tl


@pytest.mark.parametrize("name, bits", [("int1", 1), ("int8", 8), ("uint16", 16), ("int32", 32), ("uint64", 64),
                                        ("float16", 16), ("bfloat16", 16), ("float32", 32), ("float64", 64),
                                        ("float8e5", 8), ("float8e4nv", 8)])
def test_dtypes(name, bits):
    t = getattr(tl, name)
    assert t.primitive_bitwidth == bits and t == tl.dtype(name) and hash(t) == hash(tl.dtype(name))
    assert t != tl.void if hasattr(tl, "void") else True
    assert pickle.loads(pickle.dumps(t)) == t and copy.deepcopy(t) == t
    assert tl.pointer_type(t).element_ty == t


@pytest.mark.parametrize("spelling, name", [("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16"),
                                            ("i32", "int32"), ("u8", "uint8")])
def test_short_names(spelling, name):
    assert tl.dtype(spelling) == getattr(tl, name)


def test_unknown_dtype():
    with pytest.raises(TypeError, match="int7"):
        tl.dtype("int7")


def test_constexpr():
    c = tl.constexpr(5)
    assert c.value == 5 and c + 1 == 6 and int(c) == 5
    assert c.type == tl.constexpr(5).type != tl.constexpr(6).type and repr(c.type) == "constexpr_type[5]"
    for d in (copy.copy(c), copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        assert type(d) is tl.constexpr and d.value == 5
    assert tl.int32 == tl.constexpr(tl.int32) and tl.int32 != tl.constexpr(tl.int8) and tl.int32 != "int32" and not tl.int32 == 5
    assert not tl.int32 != tl.constexpr(tl.int32) and tl.pointer_type(tl.int8) == tl.constexpr(tl.pointer_type(tl.int8)) != tl.int8


def test_tuple():
    assert isinstance((1,), tl.tuple) and not isinstance([1], tl.tuple) and tl.tuple([1, 2]) == (1, 2) and tl.tuple() == ()


def test_names_of_the_library_that_programs_import():
    from tegula.language.core import CONSTEXPR_0, _unwrap_if_constexpr, constexpr_type, get_int_dtype, is_builtin
    assert CONSTEXPR_0.value == 0 and _unwrap_if_constexpr([CONSTEXPR_0, 1]) == [0, 1] and constexpr_type is tl.constexpr_type
    assert get_int_dtype(32, False) == tl.uint32 and get_int_dtype(1, True) == tl.int1 and is_builtin(tl.load) and not is_builtin(5)
    lists = tl.dtype.SINT_TYPES + tl.dtype.UINT_TYPES + tl.dtype.FP_TYPES + tl.dtype.OTHER_TYPES
    assert [tl.dtype(n).name for n in lists] == lists and set(tl.dtype.STANDARD_FP_TYPES) < set(tl.dtype.FP_TYPES)
    assert tl.int8.int_signedness is tl.dtype.SIGNEDNESS.SIGNED and tl.uint8.int_signedness is tl.dtype.SIGNEDNESS.UNSIGNED
    assert tl.float16.kind() is tl.dtype.KIND.FLOATING and tl.int1.kind() is tl.dtype.KIND.BOOLEAN and tl.int64.kind() is tl.dtype.KIND.INTEGRAL


NAMES = """
program_id num_programs arange full zeros zeros_like cast to_tensor expand_dims squeeze unsqueeze broadcast
broadcast_to reshape view ravel trans permute join split interleave cat item flip swizzle2d load store make_block_ptr
make_tensor_descriptor load_tensor_descriptor store_tensor_descriptor
advance atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg atomic_cas atomic_load
atomic_store atomic_poll map_elementwise inline_asm_elementwise dot add sub mul
minimum maximum clamp abs exp exp2 log log2 sin cos sqrt rsqrt erf floor ceil sqrt_rn div_rn fdiv fma umulhi where
expect_zero cdiv sigmoid softmax reduce sum max min argmax argmin xor_sum reduce_or associative_scan cumsum cumprod
sort topk bitonic_merge histogram gather multiple_of max_contiguous max_constancy assume debug_barrier device_print
device_assert static_print static_assert range static_range condition philox_impl philox randint randint4x rand rand4x
randn randn4x uint_to_uniform_float pair_uniform_to_normal
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert callable(getattr(tl, name))


@pytest.mark.parametrize("module, name", [("math", "exp"), ("random", "rand"), ("standard", "softmax"),
                                          ("core", "load"), ("extra.libdevice", "tanh")])
def test_submodules(module, name):
    assert callable(getattr(importlib.import_module(f"tegula.language.{module}"), name))


def test_stubs_name_every_function():
    from pathlib import Path
    stub = (Path(tl.__file__).parent / "__init__.pyi").read_text()
    missing = [n for n in NAMES if f"def {n}(" not in stub and f"{n}" not in stub]
    assert not missing


@pytest.mark.parametrize("name, parameters", [
    # Triton 3.9's, but for block pointers' boundary_check and padding_option.
    ("load", "pointer mask=None other=None boundary_check=() padding_option='' cache_modifier='' eviction_policy='' volatile=False"),
    ("dot", "input other acc=None input_precision=None allow_tf32=None max_num_imprecise_acc=None out_dtype=None"),
    ("sum", "input axis=None keep_dims=False dtype=None"),
    ("atomic_add", "pointer val mask=None sem=None scope=None"),
    ("make_tensor_descriptor", "base shape strides block_shape padding_option='zero'"),
    ("rand4x", "seed offsets n_rounds=10"),
    ("item", "input"),
    ("device_print", "prefix *args hex=False"),
])
def test_signatures(name, parameters):
    """Programs ask inspect.signature what a version of the language has."""
    found = [str(p) for p in inspect.signature(getattr(tl, name)).parameters.values()]
    assert found == parameters.split() + ["_semantic=None"]


def test_block_types_of_the_host():
    b = tl.block_type(tl.float16, [4, tl.constexpr(8)])
    assert b == tl.block_type(tl.float16, (4, 8)) != tl.block_type(tl.float16, (8, 4)) and pickle.loads(pickle.dumps(b)) == b and hash(b) == hash(tl.block_type(tl.float16, (4, 8)))
    assert (b.shape, b.numel, b.nbytes, b.scalar, b.mangle(), b.is_block()) == ((4, 8), 32, 64, tl.float16, "fp16S4_8S", True)
    assert isinstance(b, tl.block_type) and not isinstance(tl.float16, tl.block_type) and b.with_element_ty(tl.int8).element_ty == tl.int8
    with pytest.raises(TypeError, match="0d block_type is forbidden"):
        tl.block_type(tl.float16, [])


def test_names_of_types():
    assert [t.mangle() for t in (tl.int32, tl.uint8, tl.int1, tl.float16, tl.void, tl.pointer_type(tl.bfloat16))] == ["i32", "u8", "u1", "fp16", "V", "Pbf16"]
    assert (tl.float32.codegen_name(), tl.bfloat16.codegen_name(), tl.int8.codegen_name(), tl.float16.cache_key_part) == ("float32", "bfloat16", "int8", "fp16")
    assert tl.dtype.is_fp16(tl.float16) and not tl.float16.is_bf16() and tl.dtype.is_dtype("int8") and not tl.dtype.is_dtype("int7")
    assert tl.constexpr(3).logical_and(0).value == 0 and tl.constexpr(0).logical_or(tl.constexpr(5)).value == 5
