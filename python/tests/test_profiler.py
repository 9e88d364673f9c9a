"""triton.profiler: names, scopes, counts and metrics of launches on every device. How long something takes is not asserted."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import knobs, profiler


def metadata(grid, metadata, args):
    return {"name": f"fill_{args['N']}", "flops": 2 * args["N"], "bytes": 4 * args["N"], "other": 1}


@tegula.jit(launch_metadata=metadata)
def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not profiler.sessions and not knobs.runtime.launch_enter_hook.calls and not knobs.runtime.launch_exit_hook.calls


def launch(n=4, **options):
    fill[(1,)](np.zeros(16, np.float32), 1.0, n, **options)


def flat(node, path=()):
    """{path: metrics}"""
    out = {path: node["metrics"]}
    for c in node["children"]:
        out.update(flat(c, (*path, c["frame"]["name"])))
    return out


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_trees(device, folder):
    launch(device=device)
    session = profiler.start("run")
    launch(device=device)
    with profiler.scope("outer", {"tokens": 3}):
        launch(device=device)
        launch(device=device)
        with profiler.scope("inner"), profiler.state("state"), profiler.state("other"):
            launch(8, device=device)
        assert profiler.context.depth(session) == 1
    profiler.deactivate(session)
    launch(device=device)
    profiler.activate(session)
    launch(device=device)
    profiler.finalize(session)
    launch(device=device)
    root, device_info = json.loads((folder / "run.hatchet").read_text())
    nodes = flat(root)
    assert {p: m.get("count") for p, m in nodes.items()} == {(): None, ("fill",): 2, ("outer",): None, ("outer", "fill"): 2, ("outer", "inner"): None,
                                                             ("outer", "inner", "other"): None, ("outer", "inner", "other", "fill"): 1}
    assert nodes["outer",] == {"tokens": 3} and nodes["fill",]["time (ns)"] > 0 and nodes["fill",]["device_type"] == device.upper()
    assert list(device_info.values())[0]["0"]["num_sms"] >= 1


def test_metrics_of_launches(folder):
    profiler.start("run", hook="triton")
    launch(4)
    launch(4)
    launch(8)
    profiler.finalize()
    nodes = flat(json.loads((folder / "run.hatchet").read_text())[0])
    assert nodes["fill_4",]["flops"] == 16 and nodes["fill_4",]["bytes"] == 32 and nodes["fill_8",]["flops"] == 16 and nodes["fill_4",]["other"] == 2
    called = []

    @tegula.jit(launch_metadata=lambda grid, metadata, args: called.append(1) or {"name": "other"})
    def other(out):
        pass

    profiler.hooks.LaunchHook().configure(include="fil")
    try:
        profiler.start("run", hook="triton")
        launch(4)
        other[(1,)](np.zeros(1))
        assert set(flat(profiler.data.get(max(profiler.sessions))[0])) == {(), ("fill_4",)} and not called
    finally:
        profiler.hooks.LaunchHook().configure()
        profiler.finalize()


def test_lists_are_metrics(folder):
    session = profiler.start("run")
    for _ in range(2):
        with profiler.scope("a", {"one": 1, "many": [1, 2.5], "array": np.arange(2)}):
            launch()
    profiler.finalize(session)
    a = flat(json.loads((folder / "run.hatchet").read_text())[0])["a",]
    assert (a["one"], a["many"], a["array"]) == (2, [2, 5], [0, 2])


def test_properties(folder):
    session = profiler.start("run")
    for _ in range(2):
        with profiler.scope("a", {"text (pty)": "x", "n (pty)": 1.0, "own (exc)": 2}):
            pass
    profiler.finalize(session)
    assert flat(json.loads((folder / "run.hatchet").read_text())[0])["a",] == {"text": "x", "n": 1, "own": 2}


def test_hooks_follow_their_sessions():
    hooks = profiler.hooks
    session = profiler.start("run", hook="triton")
    assert hooks.HookManager.active_hooks == [hooks.LaunchHook()] and list(hooks.HookManager.session_hooks[session].values()) == [True]
    profiler.deactivate(session)
    assert not hooks.HookManager.active_hooks and list(hooks.HookManager.session_hooks[session].values()) == [False]
    with pytest.raises(ValueError, match=f"Session has not been initialized: {session + 1}"):
        profiler.activate(session + 1)
    profiler.finalize()
    hooks.HookManager.register(hooks.InstrumentationHook(""), 7)
    hooks.HookManager.register(hooks.LaunchHook(), 7)
    assert [type(h) for h in hooks.HookManager.active_hooks] == [hooks.LaunchHook, hooks.InstrumentationHook]
    hooks.HookManager.unregister()
    with pytest.raises(NotImplementedError, match="no instruments"):
        profiler.start("run", hook=hooks.InstrumentationHook())
    profiler.finalize()


PROFILE = [{"frame": {"name": "ROOT"}, "metrics": {}, "children": [
    {"frame": {"name": "/a/b.py:f@7"}, "metrics": {"tokens": 3}, "children": [
        {"frame": {"name": "mm"}, "metrics": {"time (ns)": 2e6, "count": 4, "flops16": 8e9, "bytes": 4e6, "device_id": "0", "device_type": "CUDA"}, "children": []},
        {"frame": {"name": "__proton_launch_metadata"}, "metrics": {"time (ns)": 1e6, "count": 1}, "children": []}]},
    {"frame": {"name": "copy"}, "metrics": {"time (ns)": 1e6, "count": 1, "bytes": 1e6}, "children": []}]},
    {"CUDA": {"0": {"arch": "90", "num_sms": 132, "clock_rate": 1755000, "memory_clock_rate": 2619000, "bus_width": 5120}}}]


def test_viewer(folder, capsys):
    """Inclusive sums, rates and shares of a profile, and what is left out."""
    from tegula.profiler import viewer
    (folder / "p.hatchet").write_text(json.dumps(PROFILE))
    tree, columns = viewer.parse(["tflop16/s", "time/ms", "avg_time/us", "time/%", "gbyte/s", "tokens", "util"], "p.hatchet")
    assert columns == [f"{c} (inc)" for c in ("tflop16/s", "time/ms", "avg_time/us", "time/%", "gbyte/s", "tokens", "util")]
    scope, copy = tree.children
    (mm,) = scope.children
    row = lambda n: [n.values[c] for c in columns]
    assert row(mm)[:5] == pytest.approx([4, 2, 500, 50, 2]) and row(mm)[5] is None
    assert row(mm)[6] == pytest.approx(8e9 / profiler.specs.max_flops("CUDA", "90", 16, 132, 1755000) / 2e-3)
    assert row(tree)[1] == pytest.approx(4) and row(scope)[1:4] == [pytest.approx(3), None, pytest.approx(75)] and row(scope)[5] == 3
    assert row(copy)[0] is None and row(copy)[4] == pytest.approx(1)
    viewer.print_tree(tree, columns[1:2], format="file_function", print_sorted=True)
    assert capsys.readouterr().out.splitlines() == ["4.000 ROOT", "├─ 3.000 b.py:f", "│  └─ 2.000 mm", "└─ 1.000 copy", "Sorted kernels by metric time/ms",
                                                    f"{'mm':105} 50.0%", f"{'copy':105} 25.0%"]
    names = lambda **how: [n.name for n in viewer.parse(["time/ms"], "p.hatchet", **how)[0].nodes()][1:]
    assert names(include="mm") == ["/a/b.py:f@7", "mm"] and names(exclude="f@") == ["copy"] and names(threshold=1.5) == ["/a/b.py:f@7", "mm"]
    viewer.main(["-l", "p.hatchet"])
    assert capsys.readouterr().out.split("- ")[1:] == ["tokens\n", "time\n", "count\n", "flops16\n", "bytes\n"]
    viewer.main(["-m", "time/s,count", "-d", "1", "p.hatchet"])
    assert capsys.readouterr().out.splitlines()[-1] == "└─ 0.001 1.000 copy"
    with pytest.raises(RuntimeError, match="Metric nothing is not found"):
        viewer.parse(["nothing"], "p.hatchet")


@pytest.mark.parametrize("arguments, message", [
    (["nowhere.hatchet"], "proton-viewer: [Errno 2] No such file or directory: 'nowhere.hatchet'"), (["text"], "proton-viewer: text: Expecting value: line 1 column 1 (char 0)"),
    (["other.json"], "proton-viewer: other.json: this is no profile of a session (NAME.hatchet)"), (["-m", "nothing", "p.hatchet"], "proton-viewer: p.hatchet: Metric nothing is not found"),
    (["-i", "(", "p.hatchet"], "proton-viewer: p.hatchet: missing ), unterminated subpattern at position 0")], ids=["no file", "no JSON", "no profile", "no metric", "no expression"])
def test_viewer_of_wrong_files(folder, arguments, message):
    from tegula.profiler import viewer
    (folder / "p.hatchet").write_text(json.dumps(PROFILE))
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "text").write_text("no profile")
    with pytest.raises(SystemExit) as e:
        viewer.main(arguments)
    assert str(e.value).startswith(message)


def test_traces(folder):
    profiler.start("run", data="trace")
    with profiler.scope("a"):
        launch()
        launch()
    profiler.finalize()
    events = json.loads((folder / "run.chrome_trace").read_text())["traceEvents"]
    assert [(e["name"], e["ph"], e["args"]["call_stack"]) for e in events] == [("fill", "X", ["ROOT", "a", "fill"])] * 2
    assert events[0]["ts"] == 0 and events[1]["ts"] > 0 and all(e["dur"] > 0 for e in events)


def test_callers_as_scopes():
    session = profiler.start(context="python")
    launch()
    (path,) = [p for p, m in flat(profiler.data.get(session)[0]).items() if "count" in m]
    assert path[-1] == "fill" and ":launch@" in path[-2] and ":test_callers_as_scopes@" in path[-3]
    profiler.finalize(session)


def test_scopes_and_states_as_decorators():
    session = profiler.start()

    @profiler.scope("scope")
    @profiler.state("state")
    def f():
        launch()
    f()
    f()
    with profiler.cpu_timed_scope("timed"):
        launch()
    profiler.enter_scope("a", metrics={"m": 1})
    with pytest.raises(RuntimeError, match="innermost scope is 'a'"):
        profiler.exit_scope("b")
    profiler.exit_scope("a", metrics={"m": np.float32(2)})
    nodes = flat(profiler.data.get(session)[0])
    assert nodes["scope", "state", "fill"]["count"] == 2 and nodes["timed",]["cpu_time (ns)"] > 0 and nodes["a",] == {"m": 3}
    profiler.finalize(session)


def test_phases():
    session = profiler.start()
    launch()
    assert not profiler.data.is_phase_complete(session, 0) and profiler.data.advance_phase(session) == 1 and profiler.data.is_phase_complete(session, 0)
    launch(8)
    launch(8)
    counts = lambda phase: flat(profiler.data.get(session, phase)[0]).get(("fill",), {}).get("count")
    assert (counts(0), counts(1)) == (1, 2)
    profiler.data.clear(session, 0)
    assert (counts(0), counts(1)) == (None, 2)
    profiler.finalize(session)


def test_several_sessions_and_own_hooks(folder):
    log = []

    class Mine(profiler.Hook):
        def enter(self, metadata):
            log.append(("enter", metadata.get()["name"]))

        def exit(self, metadata):
            log.append("exit")

        def activate(self):
            log.append("activate")

        def deactivate(self):
            log.append("deactivate")
    a, b = profiler.start("a", hook=Mine()), profiler.start("b")
    launch()
    profiler.deactivate(a)
    launch()
    profiler.finalize()
    assert log == ["activate", ("enter", "fill_4"), "exit", "deactivate"]
    assert [flat(json.loads((folder / f"{n}.hatchet").read_text())[0]) for n in "ab"][1]["fill",]["count"] == 2
    with pytest.raises(ValueError, match="Session has not been initialized"):
        profiler.finalize(b)


def test_decorator(folder):
    @profiler.profile(name="run")
    def f(n):
        launch(n)
        return n
    assert f(4) == 4 and flat(json.loads((folder / "run.hatchet").read_text())[0])["fill",]["count"] == 1


def test_what_it_refuses(monkeypatch):
    for options, error in (({"backend": "instrumentation"}, NotImplementedError), ({"mode": "pcsampling"}, NotImplementedError),
                           ({"mode": profiler.mode.PCSampling(100)}, NotImplementedError), ({"data": "list"}, ValueError), ({"hook": "what"}, ValueError)):
        with pytest.raises(error):
            profiler.start(**options)
    session = profiler.start(mode="periodic_flushing", backend="cupti")
    with pytest.raises(ValueError, match="output_format"):
        profiler.finalize(session, "chrome_trace")
    profiler.finalize(session)
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    assert profiler.start() is None


def test_command_line(folder):
    (folder / "script.py").write_text('''
import sys
import numpy as np
import triton, triton.language as tl
import triton.profiler as proton

@triton.jit
def fill(out):
    tl.store(out, 1.0)

assert proton.start("mine") is None
with proton.scope("a"):
    fill[(1,)](np.zeros(1, np.float32))
print(sys.argv, __name__)
''')
    packages = os.path.dirname(os.path.dirname(os.path.abspath(tegula.__file__)))
    done = subprocess.run([sys.executable, "-m", "tegula", "-m", "triton.profiler.proton", "-n", "run", "script.py", "-x"], text=True, capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": packages})
    assert done.stdout == "['script.py', '-x'] __main__\n", done.stderr
    assert flat(json.loads((folder / "run.hatchet").read_text())[0])["a", "fill"]["count"] == 1
