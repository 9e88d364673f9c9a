"""Times of launches in CUDA graphs, with a stand-in for the driver (graphs_script.py)."""
import ast
from pathlib import Path

import pytest
import tegula
import tegula.language as tl
from programs import with_fake_driver
from tegula import testing


def run(folder, **env):
    out = with_fake_driver(Path(__file__).with_name("graphs_script.py"), TEGULA_CACHE_DIR=str(folder / "cache"), TEGULA_TUNE_DIR=str(folder / "results"), **env)
    return dict(line.split(": ", 1) for line in out.splitlines())


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    return {**run(folder), "results": "".join(f.read_text() for f in (folder / "results").rglob("*.json"))}


def test_tuning(graphs):
    block, ns, reasons, launched, clock = ast.literal_eval(graphs["graphs"])
    # Rows of 200: a two-hundredth of starting a graph is in each.
    assert (block, ns, reasons, clock) == (256, 1000 + 16 + 10, [], "graphs") and launched > 30
    assert '"arguments": "x:*float32, y:*float32, n=4096, in CUDA graphs"' in graphs["results"]


def test_memory_that_is_set_back_is_not_in_the_time(graphs):
    block, ns, reasons, launched, clock = ast.literal_eval(graphs["in place"])
    assert (block, ns, reasons, clock) == (256, 1016, [], "graphs") and launched > 60


def test_without(graphs):
    assert ast.literal_eval(graphs["without"]) == (256, 1016, [], 0, "events")


def test_launches_on_another_stream(graphs):
    block, ns, (reason,), launched, clock = ast.literal_eval(graphs["another stream"])
    assert (block, launched, clock) == (256, 0, "events")
    assert reason == "add: launches are timed one by one, as they cannot be recorded in CUDA graphs: nothing was launched on the stream that is recorded"


def test_hooks_leave_it_to_do_bench_cudagraph(graphs):
    block, ns, reasons, launched, clock = ast.literal_eval(graphs["hooks"])
    assert (block, reasons, clock) == (256, [], "given") and launched > 0 and 1016 <= ns < 1100


def test_do_bench_cudagraph(graphs):
    assert 1016 < float(graphs["do_bench_cudagraph"]) < 1030 and int(graphs["its graphs"]) == 5 + 11
    assert graphs["a call that cannot be recorded"] == "(True, 0)"
    assert graphs["ends"] == "Stop"
    assert graphs["left"] == "(0, 0)"


def test_a_driver_that_cannot(tmp_path):
    graphs = run(tmp_path, FAKECUDA="captureResult=900")
    block, ns, (reason,), launched, clock = ast.literal_eval(graphs["graphs"])
    assert (block, ns, launched, clock) == (256, 1016, 0, "events")
    assert reason.endswith("recording a CUDA graph on cuda:0 failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: as the switch says"), reason


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error:.*CUDA graphs")
def test_on_a_cpu():
    """There are none, and the clock is the same; nobody is told."""
    import numpy as np

    @tegula.autotune([tegula.Config({"BLOCK": b}) for b in (16, 64)], key=["n"], use_cuda_graph=True)
    @tegula.jit
    def double(x, n, BLOCK: tl.constexpr):
        o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)

    x = np.ones(100, np.float32)
    double[lambda m: (tegula.cdiv(100, m["BLOCK"]),)](x, 100)
    assert (x == 2).all() and len(double.configs_timings) == 2 and double.clock == "steady"
    assert testing.do_bench_cudagraph(lambda: double[(7,)](x, 100), rep=1) > 0
