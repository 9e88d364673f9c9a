"""-d and -t for GPUs and the simulator; the GPU itself is a stand-in for the driver, which copies and records but does not run."""
import json

import pytest

from conftest import ROOT

ADD = ["kernels.py::add", "--grid", "cdiv(n, BLOCK)", "-a", "x=arange:f32[n]", "-a", "y=ones:f32[n]", "-a", "out=zeros:f32[n]", "-a", "n=1000", "-c",
       "BLOCK=256", "--print", "out"]
SIG = ["kernels.py::add", "--sig", "x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:256"]
FAKE = ROOT / "build/lib/libfakecuda.so"


@pytest.fixture
def fake():
    assert FAKE.exists()
    return {"TEGULA_LIBCUDA": str(FAKE)}


@pytest.mark.parametrize("device", ["cpu", "sim", "sim:sm_80", "sim:sm_89"])
def test_run(tegula, device):
    p = tegula("run", *ADD, "-d", device)
    assert p.returncode == 0 and p.stdout.endswith("998, 999, 1000]\n"), p.stdout + p.stderr


def test_run_on_a_gpu(tegula, fake):
    p = tegula("run", *ADD, "-d", "cuda", env=fake)
    assert p.returncode == 0 and p.stdout.endswith("0, 0, 0]\n"), p.stdout + p.stderr
    p = tegula("run", *ADD, "-d", "cuda:7", env=fake)
    assert p.returncode == 1 and "there is no device `cuda:7`; this machine has: cpu, sim, cuda:0" in p.stderr


def test_no_gpu(tegula):
    none = {"TEGULA_LIBCUDA": "/nonexistent/libcuda.so"}
    p = tegula("run", *ADD, "-d", "cuda", env=none)
    assert p.returncode == 1 and p.stderr.startswith("tegula: no NVIDIA driver found"), p.stderr
    p = tegula("run", *ADD, env={**none, "TEGULA_DEVICE": "cuda"})
    assert p.returncode == 1 and p.stderr.startswith("tegula: TEGULA_DEVICE: no NVIDIA driver found"), p.stderr
    p = tegula("run", *ADD, env={**none, "TEGULA_DEVICE": "gpu"})
    assert p.returncode == 1 and p.stderr == "tegula: TEGULA_DEVICE: there is no device `gpu`; this machine has: cpu, sim\n", p.stderr
    p = tegula("run", *ADD, "-d", "cpu", env={**none, "TEGULA_DEVICE": "gpu"})
    assert p.returncode == 0, p.stderr


@pytest.mark.parametrize("name, text, rule", [
    ("TEGULA_NUM_THREADS", "all", "a number of threads"), ("TEGULA_NUM_THREADS", "-1", "a number of threads"), ("TEGULA_CACHE_LIMIT_MB", "1G", "a number of MiB"),
    ("TEGULA_TUNE_BYTES", "1 GB", "a number of bytes"), ("TEGULA_HANG_S", "soon", "a number of seconds"), ("TEGULA_CHECK", "treu", "1 or 0"), ("TEGULA_DEBUG", "2", "1 or 0"),
    ("TEGULA_STRICT", "strict", "1 or 0"), ("TEGULA_VERIFY", "all", "1 or 0"), ("TEGULA_NO_JIT", "maybe", "1, warn, or not be set"),
    ("TEGULA_TRITON_LEVEL", "4", "3.6, 3.7 or 3.9"), ("TEGULA_TUNE", "fast", "`deterministic`, or not be set")])
def test_variables_that_mean_nothing(tegula, name, text, rule):
    p = tegula("info", env={name: text})
    assert p.returncode == 1 and p.stderr == f"tegula: {name} is `{text}`; it must be {rule}\n" and not p.stdout, p


def test_variables_as_people_write_them(tegula):
    p = tegula("info", env={"TEGULA_NUM_THREADS": "0", "TEGULA_CHECK": "Off", "TEGULA_DEBUG": "no", "TEGULA_STRICT": "TRUE", "TEGULA_VERIFY": "", "TEGULA_CACHE_LIMIT_MB": "100"})
    assert p.returncode == 0 and not p.stderr, p


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89", "sm_90a"])
def test_stages(tegula, target, tmp_path):
    for stage, part in ("gpu", "store"), ("llvm", "define"), ("ptx", f".target {target}"):
        p = tegula("compile", *SIG, "-t", target, "--emit", stage)
        assert p.returncode == 0 and part in p.stdout, p.stdout + p.stderr
    out = tmp_path / "add.cubin"
    p = tegula("compile", *SIG, "-t", target, "-o", str(out))
    assert p.returncode == 0, p.stderr
    assert out.read_bytes()[:4] == b"\x7fELF"


def test_a_cubin_of_what_is_left_to_the_driver(tegula, fake, tmp_path):
    """The code of a launch with `setmaxnreg` stays PTX where a driver is, whose assembler knows it; who asks for the cubin gets it all the same."""
    out = tmp_path / "matmul.cubin"
    kernel = [f"{ROOT}/bench/gpu_kernels.py::matmul_persistent", "--sig", "a:*bf16:16, b:*bf16:16, c:*bf16:16, M:i32:16, N:i32:16, K:i32:16", "-t", "sm_90a", "--num-warps", "8"]
    constants = [x for c in ("BM=128", "BN=128", "BK=64", "GROUP=8", "PROGRAMS=132") for x in ("-c", c)]
    assert "setmaxnreg" in tegula("compile", *kernel, *constants, "--emit", "ptx").stdout
    p = tegula("compile", *kernel, *constants, "-o", str(out), env=fake)
    assert p.returncode == 0 and out.read_bytes()[:4] == b"\x7fELF", p.stderr


def test_stages_of_other_targets(tegula):
    p = tegula("compile", *SIG, "-t", "sm_90a", "--emit", "asm")
    assert p.returncode == 1 and "no stage `asm` for `sm_90a`; stages are source, ast, tree, tile, gpu, llvm, ptx, cubin" in p.stderr
    p = tegula("compile", *SIG, "--emit", "ptx")
    assert p.returncode == 1 and "no stage `ptx` for `cpu" in p.stderr


def test_the_gpu_level_behind_a_pass(tegula):
    first, last = (tegula("compile", *SIG, "-t", "sm_90a", "--emit", stage) for stage in ("gpu@assign-layouts", "gpu@order-memory"))
    assert first.returncode == last.returncode == 0 and first.stdout.startswith("layout L1 = register:") and "load" in first.stdout
    assert last.stdout == tegula("compile", *SIG, "-t", "sm_90a", "--emit", "gpu").stdout
    tile = tegula("compile", *SIG, "-t", "sm_90a", "--emit", "gpu@partition-cluster").stdout
    assert tile == tegula("compile", *SIG, "-t", "sm_90a", "--emit", "tile").stdout
    p = tegula("compile", *SIG, "-t", "sm_90a", "--emit", "gpu@layouts")
    assert p.returncode == 1 and "there is no pass `layouts` of stage `gpu`; passes are turn-dots, delay-loads, partition-cluster, split-tiles," in p.stderr
    p = tegula("compile", *SIG, "--emit", "gpu@assign-layouts")
    assert p.returncode == 1 and "no stage `gpu@assign-layouts` for `cpu" in p.stderr


def test_info(tegula, fake):
    out = tegula("info", env=fake).stdout
    assert "device cuda:0: Fake H200\n  target sm_90a, compute capability 9.0, 227 KiB shared memory per block, 132 multiprocessors" in out
    assert "device sim: simulated GPU" in out and "assembler of GPU code: " in out


def test_tune_in_cuda_graphs(tegula, fake, tmp_path):
    """On the stand-in's clock a launch takes 1000 ns and one for each block, and starting a graph 2000."""
    args = ["tune", *ADD[:-4], "-t", "BLOCK=64,128,256", "-d", "cuda", "--no-persist", "--json"]
    for more, clock, ns in ([], "events", 1004), (["--cuda-graph"], "graphs", 1014):
        p = tegula(*args, *more, env=fake)
        assert p.returncode == 0, p.stdout + p.stderr
        report = json.loads(p.stdout)
        assert (report["clock"], report["chosen"], report["warnings"]) == (clock, 2, [])
        assert report["configs"][2]["median_ns"] == pytest.approx(ns, abs=1)
    p = tegula(*args, "--cuda-graph", env={**fake, "FAKECUDA": "captureResult=900"})
    report = json.loads(p.stdout)
    assert report["clock"] == "events" and "add: launches are timed one by one, as they cannot be recorded in CUDA graphs: recording a CUDA graph on cuda:0" in p.stderr
    assert report["configs"][2]["median_ns"] == pytest.approx(1004, abs=1)
