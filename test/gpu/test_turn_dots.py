"""Tiles that are computed transposed, as dots then read them from registers (gpu/layouts/TurnDots.h): spellings of attention with scores of keys by queries, beside numpy on the simulator and as GPU IR."""
import re

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.tools.tensor_descriptor import TensorDescriptor


@tegula.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, bias_ptr, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, FORM: tl.constexpr):
    """What FORM changes: whose transpose is taken, and where."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    if FORM == "loaded":
        qt = tl.load(q_ptr + m[None, :] * D + d[:, None])
    else:
        qt = tl.trans(q)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    columns: tl.constexpr = FORM == "all" or FORM == "loaded" or FORM == "twice"
    acc = tl.zeros([D, BM] if columns else [BM, D], tl.float32)
    k_ptrs = k_ptr + tl.arange(0, BN)[:, None] * D + d[None, :]
    start = 0
    while start < N:
        n = start + tl.arange(0, BN)
        s = tl.dot(tl.load(k_ptrs, mask=(n < N)[:, None], other=0.0), qt) * scale
        if FORM == "scores":
            st = tl.trans(s)
            st = tl.where((n < N)[None, :] & (m[:, None] >= n[None, :]), st, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(st, 1))
            p = tl.exp(st - m_new[:, None])
            l_new = tl.sum(p, 1)
        else:
            if FORM == "loaded":
                s += tl.load(bias_ptr + n[:, None] + m[None, :] * N, mask=(n < N)[:, None], other=0.0)
            else:
                s = tl.where((n < N)[:, None] & (m[None, :] >= n[:, None]), s, float("-inf"))
            s = tl.where((n < N)[:, None], s, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(s, 0))
            p = tl.exp(s - m_new[None, :])
            l_new = tl.sum(p, 0)
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + l_new
        p = p.to(v_ptr.dtype.element_ty)
        if FORM == "loaded":
            vt = tl.load(v_ptr + d[:, None] + n[None, :] * D, mask=(n < N)[None, :], other=0.0)
            acc = tl.dot(vt, p, acc * alpha[None, :])
        else:
            v = tl.load(v_ptr + d[None, :] + n[:, None] * D, mask=(n < N)[:, None], other=0.0)
            if FORM == "all":
                acc = tl.dot(tl.trans(v), p, acc * alpha[None, :])
            elif FORM == "twice":
                acc = acc * alpha[None, :] + tl.trans(tl.dot(tl.trans(p), v))
            elif FORM == "tiles":
                acc = tl.dot(tl.trans(p), v, acc * alpha[:, None])
            else:
                acc = tl.dot(p, v, acc * alpha[:, None])
        m_i = m_new
        k_ptrs += BN * D
        start += BN
    tl.store(lse_ptr + m, m_i + tl.log(l_i))
    if columns:
        tl.store(o_ptr + m[None, :] * D + d[:, None], (acc / l_i[None, :]).to(o_ptr.dtype.element_ty))
    else:
        tl.store(o_ptr + m[:, None] * D + d[None, :], (acc / l_i[:, None]).to(o_ptr.dtype.element_ty))


FORMS = ["all", "loaded", "twice", "tiles", "scores"]


def described(dtype, n, bm, bn, d, form, seed=0):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((n, d)).astype(dtype) for _ in range(3))
    bias = rng.standard_normal((n, n)).astype(np.float32)
    out, lse = np.zeros((n, d), dtype), np.zeros(n, np.float32)
    return (q, k, v, out, lse, bias, d**-0.5, n), {"BM": bm, "BN": bn, "D": d, "FORM": form}


def expected(args, form):
    q, k, v, _, _, bias, scale, n = args
    s = q.astype(np.float64) @ k.astype(np.float64).T * scale
    s = s + bias if form == "loaded" else np.where(np.arange(n)[:, None] >= np.arange(n)[None, :], s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v.astype(np.float64), np.log(p.sum(1)) + s.max(1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype, n, bm, bn, d, warps", [(np.float16, 128, 64, 64, 64, 4), (ml_dtypes.bfloat16, 256, 128, 32, 64, 8), (np.float16, 128, 64, 64, 32, 8), (ml_dtypes.bfloat16, 64, 16, 64, 64, 4)])
def test_results(form, dtype, n, bm, bn, d, warps):
    args, constants = described(dtype, n, bm, bn, d, form)
    attention[(n // bm,)](*args, **constants, num_warps=warps, device="sim")
    out, lse = expected(args, form)
    np.testing.assert_allclose(args[3].astype(np.float64), out, atol=0.03 if dtype is ml_dtypes.bfloat16 else 0.006)
    np.testing.assert_allclose(args[4], lse, atol=2e-3)


def gpu_ir(kernel, args, constants, **options):
    return kernel.warmup(*args, **constants, grid=(1,), device="sim", **options).compile_for("sm_90a").asm["gpu"]


def of_dots(gpu):
    """The operations that make the first operands of dots."""
    made = dict(re.findall(r"(%[\w.]+) = (\w+) ", gpu))
    return [made.get(a) for a in re.findall(r" = dot (%[\w.]+), ", gpu)]


def moved(gpu, elem):
    """What goes to shared memory, or to other threads, in the loop: names of tiles of an element."""
    loop = gpu[gpu.index(" = for "):]
    return re.findall(rf"(%[\w.]+) = (?:convert|to_shared) [^\n]*<\d+x\d+x{elem}, ", loop[: loop.index("\n  }")])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bm, bn, warps", [(64, 64, 4), (128, 64, 8), (128, 128, 8)])
def test_probabilities_stay_in_registers(form, bm, bn, warps):
    args, constants = described(np.float16, 256, bm, bn, 64, form)
    gpu = gpu_ir(attention, args, constants, num_warps=warps)
    assert any(name == "fptrunc" for name in of_dots(gpu)) and not moved(gpu, "f16")


# Sixty-four rows are what an instruction has: fewer queries stay columns.
def test_few_queries_stay_columns():
    args, constants = described(np.float16, 64, 16, 64, 64, "all")
    assert "tensor<64x16xf32" in gpu_ir(attention, args, constants, num_warps=4)


@tegula.jit
def gradients(q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    at = n[:, None] * D + d[None, :]
    k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    dk, dv = tl.zeros([BN, D], tl.float32), tl.zeros([BN, D], tl.float32)
    for start in range(0, N, BM):
        m = start + tl.arange(0, BM)
        of = m[:, None] * D + d[None, :]
        q, do = tl.load(q_ptr + of), tl.load(do_ptr + of)
        p = tl.exp(tl.dot(q, tl.trans(k)) * scale - tl.load(lse_ptr + m)[:, None])
        dv += tl.dot(tl.trans(p.to(do.dtype)), do)
        ds = (p * (tl.dot(do, tl.trans(v)) - tl.load(delta_ptr + m)[:, None]) * scale).to(q.dtype)
        dk += tl.dot(tl.trans(ds), q)
        tl.atomic_add(dq_ptr + of, tl.dot(ds, k), sem="relaxed")
    tl.store(dk_ptr + at, dk)
    tl.store(dv_ptr + at, dv)


def gradient_arguments(n, bm, bn, d):
    rng = np.random.default_rng(1)
    q, k, v, do = (rng.standard_normal((n, d)).astype(np.float16) for _ in range(4))
    dq, dk, dv = (np.zeros((n, d), np.float32) for _ in range(3))
    wide = [x.astype(np.float64) for x in (q, k, v, do)]
    s = wide[0] @ wide[1].T * d**-0.5
    p = np.exp(s - s.max(1, keepdims=True))
    lse = np.log(p.sum(1)) + s.max(1)
    p /= p.sum(1, keepdims=True)
    dp = wide[3] @ wide[2].T
    delta = (p * dp).sum(1)
    ds = p * (dp - delta[:, None]) * d**-0.5
    args = (q, k, v, do, dq, dk, dv, lse.astype(np.float32), delta.astype(np.float32), d**-0.5, n)
    return args, {"BM": bm, "BN": bn, "D": d}, (ds @ wide[1], ds.T @ wide[0], p.T @ wide[3])


# Two of three dots read the transpose of what two others make: these stay in registers, and the third one's operand goes through shared memory.
@pytest.mark.parametrize("bm, bn, warps", [(32, 64, 4), (64, 64, 4), (64, 128, 8)])
def test_gradients_in_one_loop(bm, bn, warps):
    args, constants, want = gradient_arguments(128, bm, bn, 64)
    gradients[(128 // bn,)](*args, **constants, num_warps=warps, device="sim")
    for got, value in zip(args[4:7], want):
        np.testing.assert_allclose(got, value, atol=0.02)
    gpu = gpu_ir(gradients, args, constants, num_warps=warps)
    assert of_dots(gpu).count("fptrunc") == 2


@tegula.jit
def by_descriptors(q, k, v, o, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """No softmax: sums of products of three, by descriptors; the result of a dot read by two others, one of which is not turned with it."""
    m = tl.program_id(0) * BM
    qt = q.load([m, 0]).T
    acc = tl.zeros([D, BM], tl.float32)
    other = tl.zeros([BM, D], tl.float32)
    for n in range(0, N, BN):
        s = tl.dot(k.load([n, 0]), qt).to(tl.float16)
        rows = v.load([n, 0])
        acc = tl.dot(rows.T, s, acc)
        other = tl.dot(s.T, rows, other)
    o.store([m, 0], (acc.T + other).to(tl.float16))


def test_two_users_of_a_dot():
    rng = np.random.default_rng(2)
    q, k, v = (rng.integers(-2, 3, (128, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros((128, 64), np.float16)
    of = lambda x: TensorDescriptor(x, [128, 64], [64, 1], [64, 64])
    args, constants = (of(q), of(k), of(v), of(out), 128), {"BM": 64, "BN": 64, "D": 64}
    by_descriptors[(2,)](*args, **constants, device="sim")
    want = 2 * (q.astype(np.float64) @ k.astype(np.float64).T @ v.astype(np.float64))
    np.testing.assert_array_equal(out.astype(np.float64), want.astype(np.float16).astype(np.float64))
    assert "to_shared %s" not in gpu_ir(by_descriptors, args, constants)
