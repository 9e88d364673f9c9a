"""Spaces of configurations: ranges, searches, what is proposed, guesses from earlier versions. What is fast is decided by the cost model here, or by nobody."""
import json
import pickle

import numpy as np
import pytest
import tegula
import tegula.language as tl
from programs import ended, start
from tegula import knobs, powers
from tegula.errors import AutotunerError


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE", "")


def increment(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def row_sum(x, out, cols, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)))


def flagged(x, out, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if TWICE:
        v += v
    tl.store(out + i, v, mask=i < n)


def grid(meta):
    return (tegula.cdiv(meta["n"], meta["BLOCK"]),)


def arrays(n=5000):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def timed(tuner):
    return [c for c, t in tuner.configs_timings.items() if t[0] != float("inf")]


def test_powers():
    assert powers(16, 100) == [16, 32, 64] and powers(1, 1) == [1] and powers(8, 4) == [] and powers(3, 12) == [3, 6, 12]
    with pytest.raises(ValueError, match=r"powers\(0, 4\) has no end"):
        powers(0, 4)


def test_ranges_make_configurations():
    tuner = tegula.autotune(space={"BLOCK": powers(16, 64), "num_warps": (4, 8), "num_stages": range(2, 3)}, where=lambda m: m["BLOCK"] < 64 or m["num_warps"] == 8,
                            key=["n"])(tegula.jit(increment))
    assert [(c.kwargs["BLOCK"], c.num_warps, c.num_stages) for c in tuner.configs] == [(16, 4, 2), (16, 8, 2), (32, 4, 2), (32, 8, 2), (64, 8, 2)]
    x, out = arrays()
    tuner[grid](x, out, 5000)
    assert (out == x + 1).all() and len(timed(tuner)) == 5 and tuner.best_config in tuner.configs
    assert len(pickle.loads(pickle.dumps(tuner.configs))) == 5


def test_large_spaces_are_searched():
    space = {"BLOCK": powers(16, 4096), "num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3, 4)}
    x, out = arrays()
    for search in (None, False):
        tuner = tegula.autotune(space=space, key=["n"], search=search)(tegula.jit(increment))
        tuner[grid](x, out, 5000)
        assert (out == x + 1).all() and len(tuner.configs_timings) == 144
        assert len(timed(tuner)) == 144 if search is False else 24 <= len(timed(tuner)) <= 96


def test_a_search_by_the_model_runs_nothing(monkeypatch):
    monkeypatch.setenv("TEGULA_TUNE_DIR", "")
    runs = []
    tuner = tegula.autotune(space={"BLOCK": powers(16, 4096)}, key=["n"], search=True, deterministic=True)(tegula.jit(increment))
    tuner.pre_hook = lambda kwargs, reset_only=False: runs.append(reset_only)
    x, out = arrays()
    tuner[grid](x, out, 5000)
    # Once before the launch that tuning was for.
    assert (out == x + 1).all() and runs == [True] and not timed(tuner)


def test_a_budget_ends_a_search():
    tuner = tegula.autotune(space={"BLOCK": powers(16, 4096), "num_warps": (1, 2, 4, 8)}, key=["n"], budget_ms=0.001)(tegula.jit(increment))
    x, out = arrays()
    tuner[grid](x, out, 5000)
    assert (out == x + 1).all() and 1 <= len(timed(tuner)) <= 8


def test_mistakes_in_spaces():
    kernel = tegula.jit(increment)
    for given, error, text in (({"space": {}}, ValueError, "the space has no axes"),
                               ({"space": {"BLOK": [16]}}, ValueError, "not a kernel argument: BLOK"),
                               ({"space": {"BLOCK": []}}, ValueError, "no values for BLOCK"),
                               ({"space": {"BLOCK": [16]}, "where": lambda m: False}, ValueError, "`where` leaves no configuration"),
                               ({"space": {"BLOCK": range(400), "num_warps": range(1, 401)}}, ValueError, "more than 100000 configurations"),
                               ({}, TypeError, "either `configs` or `space`"),
                               ({"configs": [], "space": {"BLOCK": [16]}}, TypeError, "either `configs` or `space`"),
                               ({"configs": []}, TypeError, "needs `key`"),
                               ({"configs": [], "key": [], "where": lambda m: True}, TypeError, "`where` with the ranges"),
                               ({"space": "auto", "where": lambda m: True}, TypeError, "`where` with the ranges")):
        with pytest.raises(error, match=text):
            tegula.autotune(**given)(kernel)
    with pytest.raises(ValueError, match='autotune="auto", found 3'):
        tegula.jit(increment, autotune=3)


def test_auto():
    tuner = tegula.jit(autotune="auto")(increment)
    x, out = arrays()
    tuner[grid](x, out, 5000)
    assert (out == x + 1).all()
    assert tuner.keys == ["n"] and tuner.recipe["kind"] == "elementwise" and tuner.best_config.kwargs["BLOCK"] in tuner.recipe["axes"][0]["values"]
    text = tuner.explain()
    assert text.startswith("recipe: elementwise, ") and "BLOCK = [" in text and "chosen: BLOCK: " in text
    # Another key, another proposal; the same key, none.
    recipe = tuner.recipe
    tuner[grid](x, out, 5000)
    assert tuner.recipe is recipe
    tuner[grid](x, out, 100)
    assert tuner.recipe is not recipe and len(tuner.cache) == 2 and tuner.configs == []


def test_auto_covers_rows_of_any_length():
    tuner = tegula.autotune(space="auto", key=["cols"])(tegula.jit(row_sum))
    for cols in (7, 100, 1024, 1025):
        x, out = np.ones((8, cols), np.float32), np.zeros(8, np.float32)
        tuner[(8,)](x, out, cols)
        assert (out == cols).all() and tuner.best_config.kwargs == {"WIDTH": max(8, 1 << (cols - 1).bit_length())}
        assert tuner.recipe["axes"][0]["role"] == "whole"


def test_auto_leaves_what_is_given():
    tuner = tegula.autotune(space="auto")(tegula.jit(flagged))
    x, out = arrays()
    tuner[grid](x, out, 5000, TWICE=True)
    assert (out == 2 * x).all() and [a["name"] for a in tuner.recipe["axes"]] == ["BLOCK"]
    tuner[grid](x, out, 5000, TWICE=False)
    assert (out == x).all()


def test_auto_says_what_it_cannot_know():
    x, out = arrays()
    with pytest.raises(Exception, match="no value can be proposed for `TWICE`: it changes neither tiles nor their number nor their order; give it a value"):
        tegula.autotune(space="auto")(tegula.jit(flagged))[grid](x, out, 5000)
    with pytest.raises(KeyError, match="BLOK"):  # the grid's own mistakes come as they are
        tegula.autotune(space="auto")(tegula.jit(increment))[lambda meta: (meta["BLOK"],)](x, out, 5000)
    with pytest.raises(AutotunerError, match="with configurations of its own"):
        tegula.autotune(space="auto")(tegula.autotune([tegula.Config({"BLOCK": 16})], key=[])(tegula.jit(increment)))[grid](x, out, 5000)
    with pytest.raises(Exception, match="no constexpr parameter is left"):
        tegula.autotune(space="auto")(tegula.heuristics({"BLOCK": lambda a: 16})(tegula.jit(increment)))[grid](x, out, 5000)
    with pytest.raises(Exception, match="no constexpr parameter is left"):
        tegula.autotune(space="auto")(tegula.jit(increment))[grid](x, out, 5000, BLOCK=16)


def test_auto_sees_through_heuristics():
    def scaled(x, out, n, EVEN: tl.constexpr, TIMES: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        if EVEN:
            tl.store(out + i, tl.load(x + i) * TIMES)
        else:
            tl.store(out + i, tl.load(x + i, mask=i < n) * TIMES, mask=i < n)

    values = {"TIMES": lambda a: 3, "EVEN": lambda a: a["n"] % a["BLOCK"] == 0}
    tuner = tegula.autotune(space="auto", key=["n"])(tegula.heuristics(values)(tegula.jit(scaled)))
    for n in (5000, 4096):
        x, out = arrays(n)
        tuner[grid](x, out, n)
        assert (out == 3 * x).all() and [a["name"] for a in tuner.recipe["axes"]] == ["BLOCK"] and len(timed(tuner)) > 2
    assert tuner[grid](x, out, 4096).metadata.signature.count("EVEN:True") == 1


def test_warmup_compiles_what_a_search_would_try_first():
    space = {"BLOCK": powers(16, 4096), "num_warps": (1, 2, 4, 8), "num_stages": (1, 2, 3, 4)}
    tuner = tegula.autotune(space=space, key=["n"])(tegula.jit(increment))
    kernels = tuner.warmup(tl.float32, tl.float32, 5000, grid=grid)
    assert len(kernels) == 8 and not any("BLOCK:16," in k.metadata.signature for k in kernels)
    tuner = tegula.autotune(space={"BLOCK": powers(16, 64)}, key=["n"])(tegula.jit(increment))
    assert len(tuner.warmup(tl.float32, tl.float32, 5000, grid=grid)) == 3


def test_searches_see_through_heuristics():
    def scaled(x, out, n, BLOCK: tl.constexpr, TIMES: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) * TIMES, mask=i < n)
    seen = []
    kernel = tegula.heuristics({"TIMES": lambda a: seen.append(a["BLOCK"]) or 3})(tegula.jit(scaled))
    tuner = tegula.autotune(space={"BLOCK": powers(16, 4096)}, key=["n"], search=True)(kernel)
    x, out = arrays()
    tuner[grid](x, out, 5000)
    assert (out == 3 * x).all() and set(seen) == set(powers(16, 4096))


def test_printing(capsys):
    knobs.autotuning.print = True
    try:
        tuner = tegula.autotune(space="auto")(tegula.jit(increment))
        tuner[grid](*arrays(), 5000)
    finally:
        knobs.autotuning.print = False
    said = capsys.readouterr().out
    assert "recipe: elementwise, " in said and "  BLOCK = [" in said and "best config selected: BLOCK: " in said


GUESS = """
import numpy as np, tegula, tegula.language as tl

@tegula.autotune(space={"BLOCK": (16, 256)}, key=["n"])
@tegula.jit
def increment(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

x, out = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
increment[lambda m: (tegula.cdiv(300, m["BLOCK"]),)](x, out, 300)
assert (out == x + 1).all()
print("chosen", increment.best_config.kwargs["BLOCK"], (increment.guess or {}).get("used"))
"""


def test_another_versions_choice_is_a_guess(tmp_path):
    def run(**env):
        return ended(start(tmp_path, GUESS, **env))[0]

    assert run().split()[-1] == "None"
    (path,) = (tmp_path / "results" / "tune").glob("increment-*.json")
    known = json.loads(path.read_text())
    (entry,) = known["kernels"][0]["entries"]
    entry["version"], chosen = "0.0.1", next(c["config"] for c in entry["configs"] if c["config"].startswith("BLOCK: 16,"))
    entry["choice"]["config"] = chosen
    path.write_text(json.dumps(known))
    said = run(TEGULA_TUNE="deterministic", TRITON_PRINT_AUTOTUNING="1")
    assert f"Autotuning kernel increment: the choice of version 0.0.1 on {entry['device']}, {chosen}, is taken; nothing is timed" in said
    assert said.splitlines()[-1] == "chosen 16 chosen"
    said = run(TRITON_PRINT_AUTOTUNING="1")
    assert f"{chosen}, is tried first" in said and said.split()[-1] == "first"
    trials = [line for line in said.splitlines() if line.startswith("Autotuning kernel increment with config")]
    assert "BLOCK: 16," in trials[0] and len(trials) == 2
