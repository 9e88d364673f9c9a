"""What dots on CPUs fetch ahead."""
import re
from pathlib import Path

import pytest

SOURCE = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(a, b, c, at, M, N, K, SCATTERED: tl.constexpr, TURNED: tl.constexpr):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        d = k + tl.arange(0, 64)
        acc += tl.dot(tl.load(a + m[:, None] + d[None, :] * M if TURNED else a + m[:, None] * K + d[None, :]), tl.load(b + d[:, None] * N + n[None, :]), input_precision="ieee")
    rows = tl.load(at + m) if SCATTERED else m
    tl.store(c + rows[:, None] * N + n[None, :], acc)
'''


def fetched_for(text):
    """The arguments that addresses of fetches are made from."""
    name = r"%[-\w.\"]+"
    made = {m[1]: re.findall(name, m[2]) for m in re.finditer(rf"^ *({name}) = (.*)$", text, re.M)}
    reached, todo = set(), re.findall(rf"@llvm\.prefetch\.p0\(ptr (?:nonnull )?({name})", text)
    while todo:
        x = todo.pop()
        if x not in reached:
            reached.add(x)
            todo += made.get(x, ())
    return {x for x in "abc" if f"%{x}" in reached}


def waits_for_its_last_level():
    """Has this machine AVX-512 and 2 MiB of L2?"""
    try:
        size = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text()
        return int(size.rstrip("KM\n")) >= 2048 and "avx512vl" in Path("/proc/cpuinfo").read_text()
    except (OSError, ValueError):
        return False


@pytest.mark.parametrize("target", [pytest.param("cpu", marks=pytest.mark.skipif(not waits_for_its_last_level(), reason="for cores with AVX-512 and 2 MiB of L2")), "cpu:avx2"])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_the_place_of_the_result(tegula, tmp_path, target, scattered, turned):
    """Its lines come in the last round, in place of A's next tile, if the place is known in front of the dot and rows are neighbours; A may lie by columns."""
    (tmp_path / "t.py").write_text(SOURCE)
    p = tegula("compile", "t.py::k", "--sig", "a:*f32:16, b:*f32:16, c:*f32:16, at:*i32:16, M:i32:16, N:i32:16, K:i32:16", "-c", f"SCATTERED={scattered}", "-c", f"TURNED={turned}", "-t", target, "--emit", "llvm")
    assert p.returncode == 0, p.stderr
    assert fetched_for(p.stdout) == ({"a", "b"} if scattered else {"a", "b", "c"})
