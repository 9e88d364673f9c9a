"""triton.testing: docs/language.md §4.8. No test here asserts how long something takes."""
import os
import sys
import time
import types

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _timing, testing


@pytest.mark.parametrize("bench, options", [(testing.do_bench, {"warmup": 1, "rep": 4}), (testing.do_bench_cudagraph, {"rep": 4}),
                                            (testing.do_bench_proton, {"warmup": 1, "rep": 4}), (testing.do_bench_cudagraph_proton, {"rep": 4})])
@pytest.mark.parametrize("mode", ["min", "max", "mean", "median", "all"])
def test_modes(bench, options, mode):
    r = bench(lambda: time.sleep(0.001), return_mode=mode, **options)
    assert all(t >= 1 for t in (r if mode == "all" else [r]))
    with pytest.raises(ValueError, match="return_mode"):
        bench(lambda: 0, return_mode="none")


def test_quantiles():
    class Clock:
        def times(self, fn, count, grad_to_none):
            fn()
            return [4.0, 1.0, 3.0, 2.0, 5.0]
    before = _timing._clock
    _timing._clock = Clock
    try:
        assert testing.do_bench(lambda: 0, quantiles=[0.5, 0.2, 0.8]) == pytest.approx([3.0, 1.8, 4.2])
        assert testing.do_bench(lambda: 0, quantiles=[0.5]) == 3.0
        assert testing.do_bench(lambda: 0, return_mode="all") == [4.0, 1.0, 3.0, 2.0, 5.0]
        assert testing.do_bench(lambda: 0, return_mode="median") == testing.do_bench(lambda: 0) == 3.0
    finally:
        _timing._clock = before


def test_gradients_are_dropped():
    seen = []
    x = types.SimpleNamespace(grad=1)

    def fn():
        seen.append(x.grad)
        x.grad = 1
    testing.do_bench(fn, warmup=1, rep=1, grad_to_none=[x])
    assert seen[0] == 1 and None in seen


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_bench_of_a_kernel(device):
    @tegula.jit
    def fill(out, N: tl.constexpr):
        tl.store(out + tl.arange(0, N), 7.0)
    out = np.zeros(16, np.float32)
    assert testing.do_bench(lambda: fill[(1,)](out, 16, device=device), warmup=1, rep=1) > 0 and (out == 7).all()


def test_assert_close():
    x = np.array([1.0, np.nan], np.float32)
    testing.assert_close(x, x + 0.005)
    seen = []
    testing.assert_close(x, x * 1.05, atol=lambda dtype: seen.append(dtype) or 0, rtol=lambda dtype: 0.1)
    assert seen == [np.float32]
    with pytest.raises(AssertionError, match="a reason"):
        testing.assert_close(x, x + 1, err_msg="a reason")
    testing.assert_close(1.0, 1.001)
    testing.assert_close(np.arange(3), [0, 1, 2], atol=0)


def bench(x_vals, **options):
    return testing.Benchmark(**{**dict(x_names=["M", "N"], x_vals=x_vals, line_arg="provider", line_vals=["a", "b"], line_names=["A", "B"], plot_name="plot",
                                       args={"scale": 2}), **options})


def test_report(tmp_path, capsys):
    @testing.perf_report(bench([1, (2, 5)], styles=[("blue", "-"), ("red", "--")], x_log=True, y_log=True, xlabel="x", ylabel="y"))
    def measure(M, N, provider, scale, extra=0):
        y = M * N * scale + extra + (provider == "b")
        return (y, y - 1, y + 1) if provider == "a" else y
    table = measure.run(save_path=str(tmp_path / "out"), print_data=True, return_df=True, extra=10)
    assert list(table.columns) == ["M", "N", "A", "B"]
    assert list(table["A"]) == [12, 30] and list(table["B"]) == [13, 31] and list(table["N"]) == [1, 5]
    assert (tmp_path / "out/plot.csv").read_text().splitlines() == ["M,N,A,B", "1,1,12,13", "2,5,30,31"]
    assert (tmp_path / "out/plot.png").read_bytes()[:4] == b"\x89PNG" and "plot.png" in (tmp_path / "out/results.html").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "plot:" and lines[1].split() == ["M", "N", "A", "B"] and lines[3].split() == ["1", "2", "5", "30", "31"]
    assert measure.run() is None and capsys.readouterr().out == ""


def test_reports_of_several(tmp_path):
    mark = testing.perf_report([bench([1], plot_name="one"), bench([2], plot_name="two")])(lambda M, N, provider, scale: float(M))
    tables = mark.run(return_df=True, save_path=str(tmp_path))
    assert [list(t["A"]) for t in tables] == [[1.0], [2.0]]
    assert sorted(os.listdir(tmp_path)) == ["one.csv", "one.png", "results.html", "two.csv", "two.png"]
    assert (tmp_path / "one.csv").read_text() == "M,N,A,B\n1,1,1.000000,1.000000\n"
    with pytest.raises(ValueError, match="Expected 2 values"):
        testing.perf_report(bench([(1, 2, 3)]))(lambda **kw: 1).run()


def test_reports_without_matplotlib(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    mark = testing.perf_report(bench([1]))(lambda M, N, provider, scale: 1.0)
    mark.run(save_path=str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["plot.csv", "results.html"] and "matplotlib is not installed" in capsys.readouterr().err


def test_reports_with_pandas(monkeypatch):
    """pandas is no requirement of the tests: what it is given is what counts."""
    made = []
    frame = types.SimpleNamespace(to_string=lambda: "frame")
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda data, columns: made.append((data, columns)) or frame))
    assert testing.perf_report(bench([1, 2]))(lambda M, N, provider, scale: M).run(return_df=True) is frame
    assert made == [({"M": (1, 2), "N": (1, 2), "A": (1, 2), "B": (1, 2)}, ["M", "N", "A", "B"])]


def test_hardware():
    assert testing.get_dram_gbps() > 0
    for dtype in (np.float32, tl.float16, "torch.bfloat16", tl.int8, tl.float8e5):
        assert testing.get_max_simd_tflops(dtype, clock_rate=10**6) > 0 and testing.get_max_tensorcore_tflops(dtype, 10**6) > 0
    assert testing.get_max_simd_tflops(np.float32, 2 * 10**6) == pytest.approx(2 * testing.get_max_simd_tflops(np.float32, 10**6))
    with pytest.raises(RuntimeError, match="dtype not supported"):
        testing.get_max_simd_tflops("complex")
    with testing.set_gpu_clock() as (tflops, gbps):
        assert tflops > 0 and gbps > 0


def test_hardware_of_gpus(monkeypatch):
    """The numbers that NVIDIA gives for an A100 and an H100 (dense)."""
    def be(capability, sms, clock, memory_clock, width):
        p = {"multiprocessor_count": sms, "sm_clock_rate": clock, "mem_clock_rate": memory_clock, "mem_bus_width": width, "capability_major": capability}
        monkeypatch.setattr(testing, "_is_gpu", lambda: True)
        monkeypatch.setattr(testing, "_properties", lambda device: p)
    be(8, 108, 1410000, 1215000, 5120)
    assert testing.get_max_tensorcore_tflops("float16") == pytest.approx(312, rel=0.01) and testing.get_max_tensorcore_tflops("torch.float32") == pytest.approx(156, rel=0.01)
    assert testing.get_max_tensorcore_tflops("int8") == pytest.approx(624, rel=0.01) and testing.get_max_simd_tflops("fp32") == pytest.approx(19.5, rel=0.01)
    assert testing.get_dram_gbps() == pytest.approx(1555, rel=0.01)
    be(9, 132, 1830000, 2619000, 5120)
    assert testing.get_max_tensorcore_tflops("bfloat16") == pytest.approx(989, rel=0.01) and testing.get_max_tensorcore_tflops("fp8e4nv") == pytest.approx(1979, rel=0.01)
    assert testing.get_max_simd_tflops("fp32") == pytest.approx(61.8, rel=0.01)
    with pytest.raises(RuntimeError, match="not supported"):
        testing.get_max_tensorcore_tflops("float64")


def test_nvsmi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="no nvidia-smi"):
        testing.nvsmi(["clocks.sm"])
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '1980, 71.53'\n")
    tool.chmod(0o755)
    assert testing.nvsmi(["clocks.sm", "power.draw"]) == [1980, 71]
