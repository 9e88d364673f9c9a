"""tegula tune: sweeps, files of results, and what bad input gets."""
import json
import os
import re
import subprocess

from conftest import TEGULA

ARGS = ["--grid", "cdiv(n, BLOCK)", "-a", "x=randn:f32[n]", "-a", "y=randn:f32[n]", "-a", "out=empty:f32[n]", "-a", "n=5000"]
TUNE = ["tune", "kernels.py::add", *ARGS]


def rows(p):
    """{configuration: the columns before it}"""
    assert p.returncode == 0, p.stderr
    lines = p.stdout.splitlines()
    assert lines[0].split() == ["us", "x", "model", "us", "configuration"]
    return {m[2]: m[1].split() for line in lines[1:] if (m := re.match(r"(.*?)  (BLOCK: .*)", line))}


def test_sweep_with_constraint(tegula):
    p = tegula(*TUNE, "-t", "BLOCK=powers(64, 512)", "-t", "num_warps=4,8", "--where", "BLOCK * num_warps >= 512", "--no-persist", "--explain")
    found = rows(p)
    assert set(found) == {"BLOCK: 64, num_warps: 8", *(f"BLOCK: {b}, num_warps: {w}" for b in (128, 256, 512) for w in (4, 8))}
    assert any(r[1] == "1.00" for r in found.values()) and all(float(r[0]) > 0 for r in found.values())
    assert re.search(r"^best: BLOCK: \d+, num_warps: \d \(measured, 7 configurations, [\d.]+ s\)$", p.stdout, re.M) and "\nthe model: " in p.stdout


def test_progress_on_a_terminal(tegula):
    """A bar, the best so far and the time left, on one line; what is no terminal gets nothing."""
    assert tegula(*TUNE, "-t", "BLOCK=powers(64, 1024)", "--no-persist").stderr == ""
    ours, its = os.openpty()
    p = subprocess.Popen([TEGULA, *TUNE, "-t", "BLOCK=powers(64, 1024)", "--no-persist"], cwd=tegula.dir, env={**os.environ, "TEGULA_CACHE_DIR": str(tegula.dir / "cache")},
                         stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # nobody has the other end any more
        pass
    os.close(ours)
    lines = seen.decode().split("\r\033[K")
    assert p.wait() == 0 and lines[-1] == ""
    assert re.fullmatch(r"tuning add \[#+\.+\] 2 of \d, best [\d.]+ us \(BLOCK: \d+\), \d+ s left", lines[2]), lines


def test_remarks(tegula):
    """Where no two configurations leave the same nothing is refused, and that is said."""
    (tegula.dir / "apart.py").write_text("import triton\nimport triton.language as tl\n@triton.jit\ndef apart(x, n, BLOCK: tl.constexpr):\n"
                                         "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.store(x + i, BLOCK, mask=i < n)\n")
    args = ["tune", "apart.py::apart", "--grid", "cdiv(n, BLOCK)", "-a", "x=empty:i32[n]", "-a", "n=1000", "-t", "BLOCK=64,128,256", "--no-persist"]
    p = tegula(*args)
    assert p.returncode == 0 and "\nremark: apart: no more than half of the configurations leave the same values in what they write" in p.stdout
    assert len(json.loads(tegula(*args, "--json").stdout)["remarks"]) == 1
    assert json.loads(tegula(*args, "--json", "--no-validate").stdout)["remarks"] == []


def test_json(tegula):
    p = tegula(*TUNE, "-t", "BLOCK=range(64, 200, 64)", "--no-persist", "--json")
    report = json.loads(p.stdout)
    assert report["function"] == "add" and report["by"] == "measured" and report["key"] == "x:*fp32, y:*fp32, out:*fp32, n=5000"
    assert [c["config"] for c in report["configs"]] == ["BLOCK: 64", "BLOCK: 128", "BLOCK: 192"]
    assert report["configs"][report["chosen"]]["median_ns"] == min(c["median_ns"] for c in report["configs"] if c["state"] == "ok")


def test_results_are_kept_shown_and_merged(tegula, monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE_DIR", str(tegula.dir / "results"))
    monkeypatch.setenv("TEGULA_TUNE_FILE", str(tegula.dir / "tegula.tune.json"))
    assert "(measured, 2 configurations" in tegula(*TUNE, "-t", "BLOCK=64,128").stdout
    assert "(file, 2 configurations" in tegula(*TUNE, "-t", "BLOCK=64,128", "--save-project").stdout
    kept = tegula.dir / "tegula.tune.json"
    assert {c["config"] for k in json.loads(kept.read_text())["kernels"] for e in k["entries"] for c in e["configs"]} == {"BLOCK: 64", "BLOCK: 128"}
    assert "BLOCK: 128" in tegula("tune", "--show", kept).stdout
    p = tegula("tune", "--merge", kept, "--merge", kept, "-o", tegula.dir / "all.json")
    assert p.returncode == 0 and (tegula.dir / "all.json").read_text() == kept.read_text()
    p = tegula("tune", "--show", tegula.dir / "none.json")
    assert p.returncode == 1 and "none.json" in p.stderr


def test_results_are_forgotten(tegula, monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE_DIR", str(tegula.dir / "results"))
    monkeypatch.setenv("TEGULA_TUNE_FILE", "")
    by = lambda: re.search(r"\((measured|file), 2", tegula(*TUNE, "-t", "BLOCK=64,128").stdout)[1]
    assert [by(), by()] == ["measured", "file"]
    forget = ["tune", "--forget", "kernels.py::add"]
    assert tegula(*forget, "--config", "BLOCK: 64").stdout == "forgotten: 1 results\n" and by() == "measured" and by() == "file"
    p = tegula(*forget, "--config", "BLOCK: 65", "--config", "BLOCK: 128")
    assert p.returncode == 1 and "`add`: there are no results of (BLOCK: 65)" in p.stderr and by() == "measured"
    assert tegula(*forget).stdout == "forgotten: 2 results\n" and tegula(*forget).stdout == "forgotten: 0 results\n" and by() == "measured"


def test_large_spaces_are_searched(tegula):
    space = ["-t", "BLOCK=powers(16, 4096)", "-t", "num_warps=1,2,4,8", "-t", "num_stages=range(1, 5)", "--no-persist"]
    p = tegula(*TUNE, *space)
    found = rows(p)
    tried = [r for r in found.values() if r[0] != "-"]
    assert len(found) == 144 and 24 <= len(tried) <= 96
    assert f"(measured, {len(tried)} of 144 configurations" in p.stdout
    assert all(r[2] != "-" for r in found.values())  # the model looked at all
    assert "(measured, 144 configurations" in tegula(*TUNE, *space, "--all").stdout
    assert len([r for r in rows(tegula(*TUNE, *space, "--top", "5")).values() if r[0] != "-"]) == 5
    assert "(model, 144 configurations" in tegula(*TUNE, *space, "--deterministic").stdout


def test_auto_proposes_a_space_and_says_why(tegula):
    p = tegula(*TUNE, "--auto", "--no-persist", "--explain", "-d", "cpu")
    assert p.returncode == 0, p.stderr
    assert re.search(r"^recipe: elementwise, \d+ configurations$", p.stdout, re.M)
    values = json.loads(re.search(r"^  BLOCK = (\[.*?\]): extent of tiles, and one of 8192 holds all$", p.stdout, re.M)[1])
    assert values[-1] == 8192 and "tiles have 128 to 65536 elements" in p.stdout and "num_warps and num_stages change nothing on a CPU" in p.stdout
    best = re.search(r"^best: BLOCK: (\d+) \(measured", p.stdout, re.M)[1]
    assert int(best) in values and int(best) >= 128


def test_deterministic_runs_nothing(tegula):
    p = tegula(*TUNE, "-t", "BLOCK=64,128,1024", "--no-persist", "--deterministic")
    assert all(r[0] == "-" for r in rows(p).values()) and "(model, 3 configurations" in p.stdout


def test_a_fault_on_the_simulator_makes_a_configuration_bad(tegula, monkeypatch):
    (tegula.dir / "dry.py").write_text("""
import tegula
import tegula.language as tl

@tegula.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)
""")
    monkeypatch.setenv("TEGULA_TUNE_DRY", "sim")
    monkeypatch.setenv("TEGULA_TUNE_DIR", str(tegula.dir / "results"))
    monkeypatch.setenv("TEGULA_TUNE_FILE", "")
    tune = ["tune", "dry.py::twice", "--grid", "cdiv(n, BLOCK)", "-a", "x=randn:f32[n]", "-a", "n=32", "-t", "BLOCK=16,32,128", "-d", "cpu", "--json"]
    for attempt in range(2):
        p = tegula(*tune)
        assert p.returncode == 0, p.stderr
        report = json.loads(p.stdout)
        states = {c["config"]: c for c in report["configs"]}
        bad = states["BLOCK: 128"]
        assert states["BLOCK: 16"]["state"] == states["BLOCK: 32"]["state"] == "ok" and report["chosen"] < 2
        assert bad["state"] == "faulted" and bad["reason"].startswith("one program on the simulator: ") and "`x`" in bad["reason"]
        assert bad["reason"].endswith(", given x:*fp32, n=32")
        assert "configuration (BLOCK: 128)" in p.stderr and "not used" in p.stderr
    assert report["by"] == "file"
    monkeypatch.setenv("TEGULA_TUNE_DRY", "yes")
    p = tegula(*tune)
    assert p.returncode != 0 and "TEGULA_TUNE_DRY is `yes`; it must be `sim`, or not be set" in p.stderr


def test_mistakes(tegula):
    for args, text, code in ((["-t", "BLOK=16"], "`add` has no parameter `BLOK`", 1),
                             (["-t", "BLOCK"], "-t BLOCK: write NAME=VALUES", 1),
                             (["-t", "BLOCK=powers(0, 4)"], "`powers(0, 4)` has no end", 1),
                             (["-t", "BLOCK=16", "--where", "BLOCK > 16"], "`add`: the constraint leaves no configuration", 1),
                             (["-t", "BLOCK=16", "--where", "M > 16"], "`M` is not the name of an integer argument or constant", 1),
                             (["-t", "BLOCK=16,32", "-t", "num_warps=0"], "`num_warps`: takes positive numbers", 1),
                             (["-t", "BLOCK=16", "--top", "none"], "--top takes a positive number, found `none`", 2),
                             (["--config", "BLOCK: 16"], "--config goes with --forget", 2),
                             (["--forget", "another.py::k"], "--forget takes one FILE.py::KERNEL", 2),
                             ([], "tune needs -t NAME=VALUES or --auto", 2),
                             (["--auto", "-t", "BLOCK=16"], "--auto proposes values, -t gives them; one of both", 2),
                             (["--auto", "-c", "BLOCK=16"], "no constexpr parameter is left to be proposed", 1)):
        p = tegula(*TUNE, *args)
        assert p.returncode == code and text in p.stderr, (args, p.stderr)
    p = tegula("tune", "kernels.py::add", "-t", "BLOCK=16")
    assert p.returncode == 2 and "tune needs --grid" in p.stderr
    p = tegula("tune", "--merge", "x.json")
    assert p.returncode == 2 and "--merge needs -o FILE" in p.stderr
