"""Programs of PyTorch on a GPU: run by test_torch.py, and by hand with `python -m tegula torch_script.py [part of a name ...]`. Ends with `N passed, N failed`."""
import os
import sys
import tempfile
import traceback
import warnings

import torch
import triton
import triton.language as tl
from triton import testing
from triton.runtime import driver

passed = failed = 0


def case(f):
    global passed, failed
    if sys.argv[1:] and not any(part in f.__name__ for part in sys.argv[1:]):
        return
    try:
        f()
        torch.cuda.synchronize()
        passed += 1
        print("ok  ", f.__name__)
    except BaseException as e:
        failed += 1
        print("FAIL", f.__name__, type(e).__name__, str(e)[:300])
        traceback.print_exc(limit=-3)
        if "CUDA error" in str(e):
            sys.exit("nothing works after that")


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def accumulate(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(out + i, mask=m) + tl.load(x + i, mask=m), mask=m)


@triton.jit
def matmul(a, b, c, L: tl.constexpr, B: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, B)
    k = tl.arange(0, K)
    acc = tl.zeros((B, B), tl.float32)
    for s in range(0, L, K):
        acc = tl.dot(tl.load(a + i[:, None] * L + s + k[None, :]), tl.load(b + (s + k[:, None]) * B + i[None, :]), acc)
    tl.store(c + i[:, None] * B + i[None, :], acc)


@triton.jit
def fill(out, value, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), value)


N = 1 << 18


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def data():
    return torch.randn(N, device="cuda"), torch.randn(N, device="cuda"), torch.empty(N, device="cuda")


def configs(*blocks):
    return [triton.Config({"BLOCK": b}) for b in blocks]


@case
def drivers():
    a = driver.active
    assert a.get_current_target().backend == "cuda" and a.get_device_interface() is torch.cuda and a.get_active_torch_device() == torch.device("cuda", 0)
    with torch.cuda.stream(torch.cuda.Stream()):
        assert a.get_current_stream(0) == torch.cuda.current_stream().cuda_stream != 0
    p = torch.cuda.get_device_properties(0)
    assert a.utils.get_device_properties(0)["multiprocessor_count"] == p.multi_processor_count and a.get_device_capability() == (p.major, p.minor)
    a.clear_cache(a.get_empty_cache_for_benchmark())
    assert testing.get_dram_gbps() > 100 and testing.get_max_tensorcore_tflops(torch.float16) > testing.get_max_simd_tflops(torch.float32) > 1


@case
def autotune():
    x, y, out = data()
    for options in ({}, {"use_cuda_graph": True}):
        k = triton.autotune(configs(128, 1024), key=["n"], **options)(add_kernel)
        out.zero_()
        k[grid](x, y, out, N)
        testing.assert_close(out, x + y, atol=1e-6)
        assert len(k.configs_timings) == 2 and k.best_config in k.configs


@case
def autotune_leaves_tensors_alone():
    x, _, out = data()
    for how, start in (("restore_value", 2), ("reset_to_zero", 0)):
        k = triton.autotune(configs(128, 256), key=["n"], **{how: ["out"]})(accumulate)
        out.fill_(2)
        k[grid](x, out, N)
        torch.testing.assert_close(out, x + start)


@case
def autotune_in_cuda_graphs():
    """In place: what a graph repeats is set back in it, whoever records it."""
    x, _, out = data()
    for options in ({}, {"pre_hook": lambda *args, **kwargs: None}, {"restore_value": ["out"]}):
        k = triton.autotune(configs(128, 1024), key=["n"], use_cuda_graph=True, **options)(accumulate)
        out.fill_(2)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            k[grid](x, out, N)
        assert not [w for w in seen if "CUDA graphs" in str(w.message)], seen[0].message
        torch.testing.assert_close(out, x + 2)
        assert all(0 < t[0] < 0.1 for t in k.configs_timings.values()), k.configs_timings


@case
def autotune_skips_what_does_not_fit():
    k = triton.autotune([triton.Config({"K": K}, num_stages=s, num_warps=8) for K, s in ((512, 4), (64, 3))], key=[])(matmul)
    a, b = torch.randn(256, 1024, device="cuda", dtype=torch.float16), torch.randn(1024, 256, device="cuda", dtype=torch.float16)
    c = torch.empty(256, 256, device="cuda")
    k[(1,)](a, b, c, L=1024, B=256)
    torch.testing.assert_close(c, a.float() @ b.float(), atol=1e-1, rtol=1e-2)
    assert k.best_config.kwargs == {"K": 64} and "shared memory" in str(k.failures[k.configs[0]])


@case
def benchmarks():
    x, y, out = data()
    w = torch.randn(4, device="cuda", requires_grad=True)
    w.grad = torch.ones(4, device="cuda")
    f = lambda: add_kernel[grid](x, y, out, N, BLOCK=1024)
    for r in (testing.do_bench(f), testing.do_bench(f, return_mode="min"), testing.do_bench_cudagraph(f), testing.do_bench_cudagraph(f, grad_to_none=[w])):
        assert 0 < r < 100
    assert len(testing.do_bench(f, quantiles=[0.5, 0.2, 0.8])) == 3 and w.grad is None


@case
def graphs():
    x, y, out = data()
    add_kernel[grid](x, y, out, N, BLOCK=512)
    g = torch.cuda.CUDAGraph()
    with testing.cuda_graph_without_gc(g):
        add_kernel[grid](x, y, out, N, BLOCK=512)
    out.zero_()
    g.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, x + y)


@case
def reports():
    bench = testing.Benchmark(x_names=["n"], x_vals=[2**12, 2**14], line_arg="who", line_vals=["ours", "torch"], line_names=["Ours", "Torch"], plot_name="add",
                              args={}, x_log=True)

    @testing.perf_report(bench)
    def measure(n, who):
        x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
        return testing.do_bench((lambda: add_kernel[grid](x, x, out, n, BLOCK=1024)) if who == "ours" else lambda: x + x, rep=5, quantiles=[0.5, 0.2, 0.8])
    with tempfile.TemporaryDirectory() as folder:
        table = measure.run(save_path=folder, return_df=True)
        assert list(table.columns) == ["n", "Ours", "Torch"] and len(table) == 2 and os.path.exists(f"{folder}/add.csv")


@case
def hooks():
    log = []
    x, y, out = data()
    with triton.knobs.runtime.scope(), torch.cuda.stream(torch.cuda.Stream()):
        triton.knobs.runtime.launch_enter_hook.add(lambda m: log.append(m.get()))
        stream = torch.cuda.current_stream().cuda_stream
        add_kernel[grid](x, y, out, N, BLOCK=256)
    assert log[0]["stream"] == stream and log[0]["name"] == "add_kernel"


@case
def warmup_and_relaunch():
    x, y, out = data()
    k = add_kernel.warmup(torch.float32, torch.float32, torch.float32, N, BLOCK=64, grid=(1,))
    assert add_kernel[(triton.cdiv(N, 64),)](x, y, out, N, BLOCK=64) is k and k.n_regs > 0 and k.metadata.target == driver.active.get_current_target()
    source = triton.compiler.ASTSource(add_kernel, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64})
    for kernel in (k, triton.compile(source)):
        out.zero_()
        kernel[(triton.cdiv(N, 64), 1, 1)](x, y, out, N, 64)
        torch.testing.assert_close(out, x + y)
        out.zero_()
        kernel.run(triton.cdiv(N, 64), 1, 1, torch.cuda.current_stream().cuda_stream, kernel.function, kernel.packed_metadata, None, None, None, x, y, out, N, 64)
        torch.testing.assert_close(out, x + y)


@case
def values():
    from torch._subclasses.fake_tensor import FakeTensorMode
    _, y, out = data()
    with FakeTensorMode():
        fake = torch.empty(4, device="cuda")
    for x, n, text in ((torch.empty(4, device="meta"), 4, "device meta"), (fake, 4, "no memory"), (y.cpu(), 4, "CPU memory"), (y, torch.tensor(4, device="cuda"), ".item()")):
        try:
            add_kernel[torch.Size([1])](x, y, out, n, BLOCK=4)
            raise AssertionError(text)
        except (ValueError, triton.CompilationError) as e:
            assert text in str(e), e
    p = torch.zeros(4, dtype=torch.uint8, device="cuda")
    fill[(1,)](triton.reinterpret(p, tl.float8e5), 1.0, 4)
    assert (p == 0x3C).all()
    fill[(1,)](p, torch.tensor(5).item(), 4)
    assert (p == 5).all()


@case
def arrays_of_tests():
    import triton._internal_testing as t
    assert t.is_cuda()
    x = t.numpy_random((128,), "uint16")
    assert (t.to_numpy(t.to_triton(x, "cuda")) == x).all()
    x = t.numpy_random((128,), "bfloat16")
    assert t.to_triton(x, "cuda", "bfloat16").dtype == torch.bfloat16 and (t.to_numpy(t.to_triton(x, "cuda", "bfloat16")) == x).all()


@case
def block_scaled_formats():
    from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32
    given = [0, .5, 1, 1.5, 2, 3, 4, 6, -1, -6, .25, .75, 1.25, 2.5, 5, 100, 0.3]
    assert MXFP4Tensor(data=torch.tensor(given)).to(torch.float32).tolist() == [0, .5, 1, 1.5, 2, 3, 4, 6, -1, -6, 0, 1, 1, 2, 4, 6, .5]
    t = MXFP4Tensor(size=(6, 7, 4), device="cuda").random()
    for d in (0, 1, 2, -1):
        assert (t.unpack_packed_tensor(t.to_packed_tensor(d), d, (6, 7, 4)) == t.data).all()
    f = MXScaleTensor(size=(100,), device="cuda").random(1 / 128, 2.0).to(torch.float32)
    assert f.min() >= 1 / 128 and f.max() <= 2 and (torch.log2(f) == torch.log2(f).round()).all()
    assert fp8e8m0_to_float32(torch.tensor([0, 127], dtype=torch.uint8)).tolist() == [2.0**-127, 1.0]
    assert fp8e8m0_to_float32(torch.tensor([255], dtype=torch.uint8)).isnan().all()
    assert MXScaleTensor(data=torch.tensor([1.0, 3.0, 0.0])).data.tolist() == [127, 128, 255]


@case
def torch_compile():
    x, y, _ = data()
    f = lambda x, y: torch.nn.functional.gelu(x) + y * 2
    torch.testing.assert_close(torch.compile(f)(x, y), f(x, y))


@case
def torch_compile_of_a_kernel():
    def f(x, y):
        out = torch.empty_like(x)
        add_kernel[grid](x, y, out, x.numel(), BLOCK=1024)
        return out * 2
    x, y, _ = data()
    torch.testing.assert_close(torch.compile(f)(x, y), (x + y) * 2)


@case
def torch_compile_of_modules():
    nn = torch.nn
    m = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 512), nn.Softmax(dim=-1)).cuda()
    x = torch.randn(64, 512, device="cuda", requires_grad=True)
    y = torch.compile(m)(x)
    torch.testing.assert_close(y, m(x), atol=1e-4, rtol=1e-3)
    y.square().sum().backward()
    gradient, x.grad = x.grad, None
    m(x).square().sum().backward()
    torch.testing.assert_close(gradient, x.grad, atol=1e-4, rtol=1e-3)


@case
def torch_compile_with_autotuning():
    f = lambda a, b: torch.relu(a @ b).sum(1).cumsum(0)
    a, b = torch.randn(512, 256, device="cuda", dtype=torch.float16), torch.randn(256, 512, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(torch.compile(f, mode="max-autotune-no-cudagraphs")(a, b), f(a, b), atol=2, rtol=1e-2)


print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
