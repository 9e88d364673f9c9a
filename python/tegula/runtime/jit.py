"""The classes of kernels and what belongs to them, under the names of triton.runtime.jit."""
from .._calls import JitFunctionInfo, compute_cache_key, create_function_from_signature, get_full_name, serialize_specialization_data
from .._mock import MockTensor, TensorWrapper, reinterpret
from .._specialize import (KernelParam, annotation_text, canonicalize_dtype, canonicalize_ptr_dtype, specialize, type_canonicalisation_dict)
from .._function import ConstexprFunction, JITCallable, JITFunction, KernelInterface
from ..jit import constexpr_function, jit, must_use_result

TRITON_MODULE = "triton.language"


def mangle_type(arg, specialize_value=False):
    """The type code of an argument."""
    return specialize(arg, specialize_value=specialize_value)[0]


def native_specialize_impl(backend, arg, is_const, specialize_value, align):
    """(type code, key) of an argument. All backends agree here."""
    return specialize(arg, is_const, specialize_value, align)


specialize_impl = native_specialize_impl


def get_jit_fn_file_line(fn):
    """(file, line of the `def`)"""
    base = fn
    while not isinstance(base, JITCallable):
        base = base.fn
    at = next((i for i, text in enumerate(base.raw_src) if text.startswith("def ")), 0)
    return base.file_name, base.starting_line_number + at
