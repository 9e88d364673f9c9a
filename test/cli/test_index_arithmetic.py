"""Kernels that compute where their elements are: quotients of 64 bits, tables and gathers at addresses of which nothing is known, images by channels; rows that tiles are
computed with; fused multiply-adds of 16 bits."""
import re

import pytest

SOURCE = '''import triton
import triton.language as tl


@triton.jit
def roll(x, out, n, size, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    row, column = at // size, at % size
    value = tl.load(x + row * size + (column - shift + size) % size, mask=at < n)
    tl.store(out + at, value, mask=at < n)


@triton.jit
def quotients(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) // tl.load(y + at))


@triton.jit
def search(x, table, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.full((BLOCK,), 255, tl.int32)
    for _ in range(8):
        middle = (low + high) // 2
        above = v > tl.load(table + middle)
        low, high = tl.where(above, middle, low), tl.where(above, high, middle)
    tl.store(out + at, low.to(tl.uint8))


@triton.jit
def gather(x, index, out, n, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at // size * size + tl.load(index + at, mask=at < n, other=0), mask=at < n), mask=at < n)


@triton.jit
def nearest(x, out, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + (at * scale).to(tl.int32)))


@triton.jit
def scatter(x, index, out, BLOCK: tl.constexpr, ADD: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if ADD:
        tl.atomic_add(out + tl.load(index + at), tl.load(x + at))
    else:
        tl.store(out + tl.load(index + at), tl.load(x + at))


@triton.jit
def channels(x, out, width, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + (r // width * 1024 + r % width)[:, None] + c[None, :] * stride)
    tl.store(out + r[:, None] * COLUMNS + c[None, :], v)


@triton.jit
def times_vector(a, b, c, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, k = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for at in range(0, n, COLUMNS):
        x = tl.load(a + r * n + at + k, mask=at + k < n, other=0.0).to(tl.float32)
        acc += x * tl.load(b + at + k, mask=at + k < n, other=0.0).to(tl.float32)
    tl.store(c + r, tl.sum(acc, 1)[:, None])


@triton.jit
def scaled(x, cos, out, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    k = tl.arange(0, COLUMNS)
    c = tl.load(cos + tl.program_id(0) * COLUMNS + k)
    if tl.program_id(1) < n:
        at = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None] * COLUMNS + k[None, :]
        tl.store(out + at, tl.load(x + at) * c[None, :])


@triton.jit
def rotate(x, cos, sin, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c, s = tl.load(x + at), tl.load(x + BLOCK + at), tl.load(cos + at), tl.load(sin + at)
    tl.store(out + at, tl.fma(a, c, -(b * s)))
    tl.store(out + BLOCK + at, tl.fma(b, c, tl.abs(a * s)))
'''


@pytest.fixture
def compiled(tegula, tmp_path):
    (tmp_path / "k.py").write_text(SOURCE)

    def run(kernel, signature, stage, warps=4, **constants):
        p = tegula("compile", f"{tmp_path}/k.py::{kernel}", "--sig", signature, "-t", "sm_90a", "--emit", stage, "--num-warps", str(warps),
                   *(x for k, v in constants.items() for x in ("-c", f"{k}={v}")))
        assert p.returncode == 0, p.stderr
        return p.stdout
    return run


def test_quotients_of_64_bits_have_a_short_way(compiled):
    """Where the numbers fit, 32 bits are divided, all elements of a thread behind one branch; where not, one element after the other in a loop, by a reciprocal that is not computed otherwise."""
    ptx = compiled("roll", "x:*bf16:16, out:*bf16:16, n:i32:16, size:i32:16, shift:i32", "ptx", BLOCK=512)
    assert len(re.findall(r"(?:div|rem)\.u32", ptx)) == 8 and ptx.count("nounroll") == 2 and "div.s64" not in ptx
    way = ptx.index(re.search(r"(?:div|rem)\.u32", ptx)[0])
    assert "rcp.approx" not in ptx[:ptx.index("bra")] and way
    ptx = compiled("quotients", "x:*i64:16, y:*i64:16, out:*i64:16", "ptx", BLOCK=512)
    assert ptx.count("div.u32") == 4 and ptx.count("rcp.approx") == 1


@pytest.mark.parametrize("kernel, signature, constants", [
    ("search", "x:*fp32:16, table:*fp32:16, out:*u8:16", dict(BLOCK=256)),
    ("search", "x:*bf16:16, table:*fp32:16, out:*u8:16", dict(BLOCK=2048)),
    ("nearest", "x:*bf16:16, out:*bf16:16, scale:fp32", dict(BLOCK=2048)),
    ("scatter", "x:*fp32:16, index:*i32:16, out:*fp32:16", dict(BLOCK=512, ADD=False)),
    ("gather", "x:*fp32:16, index:*i32:16, out:*fp32:16, n:i32:16, size:i32:16", dict(BLOCK=512)),
    ("gather", "x:*bf16:16, index:*i64:16, out:*bf16:16, n:i32:16, size:i32:16", dict(BLOCK=512)),
], ids=str)
def test_scattered_accesses_are_where_their_addresses_are(compiled, kernel, signature, constants):
    """Nothing can be coalesced, so no tile of pointers crosses shared memory."""
    gpu = compiled(kernel, signature, "gpu", **constants)
    assert not re.search(r" convert .*xptr<", gpu) and not re.search(r"tensor<\S*ptr<\S*> *= *convert", gpu)
    moved = len(re.findall(r"= convert", gpu))
    # Neighbours of a store that is narrower than what it is made of: the values, once.
    assert moved <= (kernel == "gather" and "bf16" in signature), gpu


@pytest.mark.parametrize("stride", ["i32:16", "i32", "i64:16"])
def test_lanes_are_where_neighbours_share_sectors(compiled, stride):
    """Positions are consecutive but where a row of the image ends; channels are 32 bytes apart at least, or nothing is known of them."""
    gpu = compiled("channels", f"x:*bf16:16, out:*bf16:16, width:i32, stride:{stride}", "gpu", ROWS=64, COLUMNS=32)
    layout = re.search(r"= load .*: tensor<64x32xbf16, (L\d+)>", gpu)[1]
    lanes = re.search(rf"layout {layout} = .*lane: (\S+)", gpu)[1]
    assert lanes == "(1,0)", gpu


@pytest.mark.parametrize("rows, columns, warps", [(8, 128, 8), (4, 64, 2), (16, 128, 8)])
def test_vectors_are_loaded_where_they_are_multiplied(compiled, rows, columns, warps):
    """By the threads that need them: nothing crosses shared memory in the loop, where it would take two barriers."""
    gpu = compiled("times_vector", "a:*bf16:16, b:*bf16:16, c:*fp32:16, n:i32:16", "gpu", warps=warps, ROWS=rows, COLUMNS=columns)
    loop = gpu[gpu.index(" for "):gpu.index("yield")]
    assert "convert" not in loop and loop.count(" load ") == 2 == len(re.findall(r" load .*vec = ", loop)), gpu


def test_rows_of_a_branch_are_loaded_where_they_are_used(compiled):
    gpu = compiled("scaled", "x:*bf16:16, cos:*bf16:16, out:*bf16:16, n:i32", "gpu", ROWS=16, COLUMNS=64)
    assert "convert" not in gpu and gpu.count("{vec = 8}") == 3, gpu


@pytest.mark.parametrize("t", ["bf16", "fp16"])
def test_fused_multiply_adds_of_16_bits_come_in_pairs(compiled, t):
    ptx = compiled("rotate", f"x:*{t}:16, cos:*{t}:16, sin:*{t}:16, out:*{t}:16", "ptx", BLOCK=1024)
    assert ptx.count(f"fma.rn.{t.replace('fp', 'f')}x2") == 4 * 4 and "f64" not in ptx and "xor.b16" not in ptx
    # One element a thread: an instruction too.
    ptx = compiled("rotate", f"x:*{t}:16, cos:*{t}:16, sin:*{t}:16, out:*{t}:16", "ptx", BLOCK=128)
    assert ptx.count(f"fma.rn.{t.replace('fp', 'f')}") >= 2 and "f64" not in ptx
