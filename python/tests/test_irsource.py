"""triton.compile of tile IR: a stage's text, and one that was written by hand."""
import pickle

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.backends.compiler import GPUTarget
from tegula.compiler import IRSource

TEXT = """// y = x + 1 for 16 numbers
kernel @plus(%x: ptr<f32>, %y: ptr<f32> {divisibility = 16}, %n: i32, %flags: ptr<i8> {signed = 0}) {
  %i = range {start = 0} : tensor<16xi32>
  %limit = splat %n : tensor<16xi32>
  %in = cmpi %i, %limit {pred = slt}
  %px = splat %x : tensor<16xptr<f32>>
  %from = addptr %px, %i : tensor<16xptr<f32>>
  %v = load %from, %in : tensor<16xf32>
  %one = const {value = 1.0} : tensor<16xf32>
  %w = fadd %v, %one
  %py = splat %y : tensor<16xptr<f32>>
  %to = addptr %py, %i : tensor<16xptr<f32>>
  store %to, %w, %in
}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "plus.tile"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("target", [GPUTarget("cpu", "", 0), GPUTarget("sim", 90, 32)], ids=lambda t: t.backend)
def test_by_hand(path, target):
    kernel = tegula.compile(str(path), target=target, options={"num_warps": 2})
    assert kernel.name == "plus" and kernel.metadata.num_warps == 2 and kernel.src.signature == {0: "*fp32", 1: "*fp32", 2: "i32", 3: "*u8"}
    assert kernel.metadata.signature == "x:*fp32, y:*fp32:16, n:i32, flags:*u8"
    x, y, flags = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.zeros(1, np.uint8)
    for k in (kernel, pickle.loads(pickle.dumps(kernel))):
        y[:] = 0
        k[(1, 1, 1)](x, y, 10, flags)
        assert list(y) == [*range(1, 11)] + [0] * 6
    with pytest.raises(ValueError, match="argument `x` is `\\*i32`"):
        kernel[(1, 1, 1)](x.view(np.int32), y, 10, flags)
    assert kernel.asm["source"] == TEXT and "kernel @plus" in kernel.asm["tile"] and kernel.asm["llvm"]
    with pytest.raises(NotImplementedError, match="`plus` was compiled from tile IR, which has no stage `tree`"):
        kernel.asm["tree"]
    assert "ptx" in kernel.compile_for("sm_80").asm


@tegula.jit
def softmax(x, out, columns, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + tl.program_id(0) * columns + i, e / tl.sum(e, 0), mask=i < columns)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_what_a_stage_shows(tmp_path, device):
    x = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)
    out, again = np.zeros_like(x), np.zeros_like(x)
    kernel = softmax[(4, )](x, out, 100, 128, device=device)
    path = tmp_path / "softmax.tile"
    path.write_text(kernel.asm["tile"])
    tegula.compile(IRSource(path), target=kernel.metadata.target)[(4, 1, 1)](x, again, 100)
    assert (out == again).all() and out.any()


def test_for_a_gpu(path):
    kernel = tegula.compile(path, target=GPUTarget("cuda", 90, 32))
    assert ".entry plus" in kernel.asm["ptx"] and kernel.hash != tegula.compile(path, target=GPUTarget("cuda", 80, 32)).hash


def test_mistakes(tmp_path, path):
    for name, text, error, message in [("a.ptx", "", NotImplementedError, "found `.ptx`"), ("a.ttir", "", NotImplementedError, "found `.ttir`"),
                                       ("a.tile", "func @f() {\n}\n", ValueError, "has no kernel"),
                                       ("a.tile", "layout A = lane: 1 -> dim0 2\nkernel @k() {\n  %a = const {value = 1} : tensor<2xi32, A>\n}\n", ValueError, "is IR of the GPU level"),
                                       ("a.tile", "kernel @k(%c: i1) {\n  if %c {\n    %s = shared_alloc {slots = 1} : shared<2xi32>\n  }\n}\n", ValueError, "is IR of the GPU level"),
                                       ("a.tile", "kernel @k() {\n  shared_barrier\n}\n", ValueError, "is IR of the GPU level"),
                                       ("a.tile", TEXT.replace("fadd %v", "fadd %u"), tegula.CompilationError, r"a.tile:10:\d+: error")]:
        wrong = tmp_path / name
        wrong.write_text(text)
        with pytest.raises(error, match=message):
            tegula.compile(str(wrong))
    with pytest.raises(FileNotFoundError):
        tegula.compile(str(tmp_path / "nothing.tile"))
