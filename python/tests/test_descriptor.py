"""Host tensor descriptors: what the class refuses, how it is made of tensors, that it is plain and mutable, the alias for triton."""
import copy
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor


class Fake:
    """A tensor of a tracing compiler: no memory."""
    dtype = np.dtype(np.float32)
    shape = (8, 8)

    def data_ptr(self):
        raise RuntimeError("no storage")

    def element_size(self):
        return 4

    def stride(self):
        return (8, 1)


X = np.zeros((32, 32), np.float32)
WRONG = [
    (dict(strides=[32]), AssertionError, "rank mismatch"),
    (dict(block_shape=[8]), AssertionError, "rank mismatch"),
    (dict(shape=[], strides=[], block_shape=[]), AssertionError, "rank"),
    (dict(shape=[1] * 6, strides=[4] * 5 + [1], block_shape=[1] * 5 + [4]), AssertionError, "more than 5"),
    (dict(base=X.reshape(-1)[1:]), AssertionError, "16-byte aligned"),
    (dict(strides=[31, 1]), AssertionError, "strides must be 16-byte aligned"),
    (dict(shape=[0, 32]), AssertionError, "shape must be positive"),
    (dict(strides=[32, 2]), AssertionError, "contiguous"),
    (dict(padding="one"), AssertionError, "padding"),
    (dict(base=X.view(np.int32), padding="nan"), AssertionError, "floating-point"),
    (dict(base=X.view(np.int32), round_f32_to_tf32=True), AssertionError, "float32"),
    (dict(block_shape=[12, 16]), ValueError, "power of 2"),
]


@pytest.mark.parametrize("change, error, text", WRONG, ids=[t for *_, t in WRONG])
def test_refused(change, error, text):
    args = dict(base=X, shape=[32, 32], strides=[32, 1], block_shape=[8, 16]) | change
    with pytest.raises(error, match=text):
        TensorDescriptor(**args)


def test_from_tensor():
    d = TensorDescriptor.from_tensor(X[:, :20], [8, 16], padding="nan", round_f32_to_tf32=True)
    assert (d.shape, d.strides, d.block_shape, d.padding, d.round_f32_to_tf32) == ([32, 20], [32, 1], [8, 16], "nan", True)
    assert d.base.base is X
    assert TensorDescriptor.from_tensor(Fake(), [8, 8]).strides == [8, 1]
    TensorDescriptor.from_tensor(np.zeros((4, 16), ml_dtypes.bfloat16), [4, 16], "nan")
    d.block_shape = [1, 1]
    assert copy.copy(d) == d


@tegula.jit
def rows(d, out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.sum(d.load([0, 0]), 1))


def test_launches_read_the_fields():
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    out = np.zeros(32, np.float32)
    d = TensorDescriptor(x, [32, 32], [32, 1], [1, 1])
    with pytest.raises(ValueError, match="`d`.*16 bytes"):
        rows[(1,)](d, out, 1)
    for block in ([4, 4], [32, 8]):
        d.block_shape = block
        kernel = rows[(1,)](d, out, block[0])
        np.testing.assert_array_equal(out[:block[0]], x[:block[0], :block[1]].sum(1))
        assert f"d:tensordesc<fp32[{block[0]}, {block[1]}]>" in kernel.metadata.signature
    d.shape = [32, 4]
    assert rows[(1,)](d, out, 32) is kernel or out[0] == x[0, :4].sum()
    assert out[0] == x[0, :4].sum()
    d.strides = [30, 1]
    with pytest.raises(ValueError, match="strides must be 16-byte aligned"):
        rows[(1,)](d, out, 32)
    d.strides = [32]
    with pytest.raises(ValueError, match="dimensions"):
        rows[(1,)](d, out, 32)


@tegula.jit
def fill(d, B: tl.constexpr):
    d.store([0, 0], tl.full([B, B], 1.0, tl.float32))


def test_read_only_memory_is_not_written():
    x = np.zeros((8, 8), np.float32)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fill[(1,)](TensorDescriptor.from_tensor(x, [8, 8]), 8)


def test_not_for_constexpr_parameters():
    @tegula.jit
    def kernel(d: tl.constexpr):
        pass
    with pytest.raises(TypeError, match="TensorDescriptor"):
        kernel[(1,)](TensorDescriptor.from_tensor(X, [8, 8]))


SCRIPT = '''
import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def kernel(a, n, B: tl.constexpr):

    a.store([0], tl.arange(0, B))


triton.set_allocator(lambda size, alignment, stream: None)
x = np.zeros(16, np.int32)
kernel[(1,)](TensorDescriptor.from_tensor(x, [16]), 16, 16)
import tegula.tools.tensor_descriptor as t
print(x.sum(), TensorDescriptor is t.TensorDescriptor)
'''


def test_alias(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "tegula", path], text=True, capture_output=True, timeout=120)
    assert done.stdout == "120 True\n", done.stderr
