"""Which kernels PyTorch's static launcher may start from their cubins alone (tegula/_inductor/static.py). Needs neither PyTorch nor a GPU."""
import pytest
import tegula
import tegula.language as tl
from tegula._inductor.static import why_not
from tegula.backends.compiler import GPUTarget
from tegula.compiler import ASTSource


@tegula.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


@tegula.jit
def gather(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index + i)
    tl.device_assert((at >= 0) & (at < n), "index out of bounds")
    tl.store(out + i, tl.load(x + at))


def kernel_of(fn, signature, constants, target=GPUTarget("cuda", 90, 32), **options):
    return tegula.compile(ASTSource(fn, signature, constants), target=target, options=options)


def scaled(factor="fp32", **options):
    return kernel_of(scale, {"x": "*fp32", "out": "*fp32", "n": "i32", "factor": factor}, {"BLOCK": 256}, **options)


def test_arguments_and_a_grid_are_enough():
    assert why_not(scaled()) is None


def test_scalars_of_two_bytes_are_passed_in_four():
    assert why_not(scaled("fp16")) == "it takes fp16"


def test_clusters():
    kernel = scaled(num_ctas=2)
    assert "clusters of 2 blocks" in why_not(kernel)
    assert kernel.metadata.cluster_dims == (2, 1, 1)  # what PyTorch 2.9 reads


def test_cpu():
    assert why_not(scaled(target=GPUTarget("cpu", "", 1))) == "it runs on the CPU"


@pytest.mark.parametrize("debug", [True, False])
def test_kernels_that_may_fail_keep_their_message(debug):
    found = why_not(kernel_of(gather, {"x": "*fp32", "index": "*i32", "out": "*fp32", "n": "i32"}, {"BLOCK": 128}, debug=debug))
    assert found == ("a program of it that fails writes what went wrong" if debug else None)
