"""Which kernels PyTorch's static launcher may start from their cubins alone (tegula/_inductor/static.py). Needs neither PyTorch nor a GPU."""
import pytest
import tegula
import tegula.language as tl
from tegula._inductor.aoti import beyond_arguments, in_one_block
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


@tegula.jit
def softmax(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + at))
    tl.store(out + at, e / tl.sum(e, 0))


def test_clusters_that_the_compiler_chose_are_left_in_packages():
    kernel = kernel_of(softmax, {"x": "*fp32", "out": "*fp32"}, {"BLOCK": 65536}, num_warps=16)
    assert kernel.metadata.num_ctas == 4 and "clusters of 4 blocks" in why_not(kernel)
    alone = in_one_block(kernel)
    assert alone.metadata.num_ctas == 1 and beyond_arguments(alone) is None
    asked = scaled(num_ctas=2)
    assert in_one_block(asked) is asked


def test_cpu():
    assert why_not(scaled(target=GPUTarget("cpu", "", 1))) == "it runs on the CPU"


@pytest.mark.parametrize("debug", [True, False])
def test_kernels_that_may_fail_keep_their_message(debug):
    found = why_not(kernel_of(gather, {"x": "*fp32", "index": "*i32", "out": "*fp32", "n": "i32"}, {"BLOCK": 128}, debug=debug))
    assert found == ("a program of it that fails writes what went wrong" if debug else None)
