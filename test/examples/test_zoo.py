"""The zoo (bench/zoo) without a GPU: each spelling with its first configuration beside numpy, and what a run of it leaves.

In CI a spelling runs on cpu or on sim, a hash of its name says which; `bench/zoo/run.py --check` runs everything on both.
"""
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
import tegula

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from zoo import arrays, check, load, measure, report  # noqa: E402

TABLE = load.entries("tegula")
FIRST = list({(r.entry.name, r.spelling.name): r for r in reversed(list(load.rows(TABLE, "small")))}.values())[::-1]


def device_of(row):
    return ("cpu", "sim")[zlib.crc32(row.name.encode()) % 2]


@pytest.mark.filterwarnings("ignore:make_block_ptr is deprecated")
@pytest.mark.parametrize("row", FIRST, ids=[f"{r.entry.name}-{r.spelling.name}".replace(" ", "_") for r in FIRST])
def test_spelling(row):
    config = row.spelling.configs_for(row.shape)[0]
    check.compare(row, config, device_of(row), arrays.Numpy(1))


def test_families():
    """What the zoo promises: forty kernels, each with configurations to choose from, at more than one shape."""
    assert len(TABLE) >= 40
    for e in TABLE.values():
        assert e.spellings, e.name
        for s in e.spellings.values():
            assert len({str(c) for c in s.configs}) == len(s.configs) >= 3, (e.name, s.name)
            assert any(s.configs_for(shape) for shape in e.shapes), (e.name, s.name)
            assert s.configs_for(e.small[0])[:1] == s.configs[:1], f"{e.name}, {s.name}: the first configuration is the tests'"


def test_wrong_result_is_seen():
    row = next(r for r in FIRST if r.entry.name == "add" and r.spelling.name == "pointers")
    maker = arrays.Numpy(1)
    a = arrays.made(maker, row.entry, row.shape, row.dtype)
    want = arrays.expected(maker, row.entry, a, row.shape)
    config = row.spelling.configs_for(row.shape)[0]
    check.run(row, config, a, maker, want, device="cpu")
    a.out[-1] = np.nan
    with pytest.raises(ValueError, match="wrong result: out is off by nan"):
        check.verify(row, a, maker, want)
    a.out[-1] = 100
    with pytest.raises(ValueError, match="wrong result"):
        check.verify(row, a, maker, want)


def record(name, **cells):
    return {"name": name, "unit": "GB/s", "work": 1.0, "configs": cells}


def test_report(tmp_path, monkeypatch, capsys):
    """Best against best, means over kernels, and the ledger's losses."""
    monkeypatch.setattr(report, "LEDGER", tmp_path / "ledger")
    a = record("a / x / n=1 / bf16", one={"tegula": 1.0, "triton": 4.0}, two={"tegula": 2.0, "triton": 2.0}, three={"tegula": 1.0, "triton": "CompilationError: no"})
    b = record("b / x / n=1 / bf16", one={"tegula": 1.0, "triton": 0.5}, two={"tegula": "wrong result", "triton": 3.0})
    broken = {"name": "c / x / n=1 / bf16", "error": "RuntimeError: it broke"}
    assert report.ratio(a) == 2.0 and report.ratio(b) == 0.5 and report.ratio(broken) is None
    assert dict(report.each_ratio(a)) == {"one": 4.0, "two": 1.0}
    assert [report.failed(r) for r in (a, b, broken)] == [False, True, True]
    text = report.summary([a, b, broken], "triton")
    assert "geometric mean over 2 kernels, best configurations: 1.000" in text and "geometric mean over 3 configurations: 1.260" in text
    info = {"device": "a GPU", "date": "today"}
    assert report.compare_with_ledger(info, [a, b, broken], record=True) == []
    assert report.read_ledger()["a / x / n=1 / bf16", "a GPU"][:2] == (2.0, "one")
    slower = record(a["name"], one={"tegula": 1.0, "triton": 1.9})
    same = record(b["name"], one={"tegula": 1.0, "triton": 0.49})
    assert report.compare_with_ledger(info, [slower, same]) == [a["name"]]
    assert "LOST a / x / n=1 / bf16: 1.900, 2.000 on" in capsys.readouterr().out
    report.picture(info, [a, b, broken], tmp_path / "zoo.png")
    assert (tmp_path / "zoo.png").stat().st_size > 1000


def test_a_row_that_fails_does_not_stop_the_rest():
    """measure_row with a compiler whose launches raise, and a device that counts."""
    row = next(r for r in FIRST if r.entry.name == "add" and r.spelling.name == "pointers")
    bad = types.SimpleNamespace(entry=row.entry, shape=row.shape, dtype=row.dtype, name=row.name,
                                spelling=types.SimpleNamespace(launches=lambda *a: (_ for _ in ()).throw(tegula.CompilationError("no such thing")), configs_for=row.spelling.configs_for))
    gpu = types.SimpleNamespace(maker=arrays.Numpy(1), sync=lambda: None, bursts=lambda peers, rounds, before: dict.fromkeys(peers, 1e-3), torch=None)
    out = measure.measure_row(gpu, {"tegula": row, "triton": bad}, 1)
    assert all(isinstance(c["triton"], str) and isinstance(c["tegula"], float) for c in out["configs"].values())


def test_counters_start_anew_for_each_timed_launch():
    """A kernel that takes its tiles from a counter has nothing to do where the last launch's counter stands."""
    row = next(r for r in FIRST if r.entry.name == "attention by a counter of tiles")
    maker, written = arrays.Numpy(1), []

    def bursts(peers, rounds, before):
        for f in peers.values():
            for _ in range(2):
                a.out[...] = 0
                before()
                f()
                written.append(bool(np.all(np.any(maker.wide(a.out) != 0, axis=-1))))
        return dict.fromkeys(peers, 1e-3)
    made = arrays.made(maker, row.entry, row.shape, row.dtype)
    a, entry = made, types.SimpleNamespace(**{**vars(row.entry), "inputs": lambda *_: vars(made), "library": None, "work": row.entry.work, "unit": ""})
    one = types.SimpleNamespace(entry=entry, shape=row.shape, dtype=row.dtype, name=row.name, spelling=types.SimpleNamespace(launches=row.spelling.launches, configs_for=lambda s: row.spelling.configs_for(s)[:1]))
    measure.measure_row(types.SimpleNamespace(maker=maker, sync=lambda: None, bursts=bursts, torch=None), {"tegula": one}, 1)
    assert written == [True, True]
