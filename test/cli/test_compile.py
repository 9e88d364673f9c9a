"""tegula compile, check, info, cache."""
import json
import os
import re
import stat
import subprocess

import pytest

from conftest import ROOT, TEGULA

SIG = ["--sig", "x:*f32:16, y:*f32:16, out:*f32:16, n:i32", "-c", "BLOCK=1024"]
WORDS = {"ast": "FunctionDef add", "tree": "int32[1024]", "tile": "kernel @add", "cpu": "load", "llvm": "define", "asm": ".globl"}


@pytest.mark.parametrize("stage", WORDS)
def test_stages_as_text(tegula, stage):
    p = tegula("compile", "kernels.py::add", *SIG, "-t", "cpu", "--emit", stage)
    assert p.returncode == 0, p.stderr
    assert WORDS[stage] in p.stdout
    assert stage != "ast" or "fill" not in p.stdout  # the kernel asked for, not its whole file


@pytest.mark.parametrize("target,machine", [("cpu:x86-64", "X86-64"), ("cpu:avx2", "X86-64"), ("cpu:avx512bf16", "X86-64"), ("cpu:aarch64", "AArch64")])
def test_objects_for_targets(tegula, target, machine):
    out = tegula.dir / "k.o"
    p = tegula("compile", "kernels.py::add", *SIG, "-t", target, "--emit", "obj", "-o", out)
    assert p.returncode == 0, p.stderr
    header = subprocess.run(["readelf", "-h", str(out)], capture_output=True, text=True, check=True).stdout
    assert machine in header


def test_same_input_same_bytes(tegula):
    for name in ("a.o", "b.o"):
        assert tegula("compile", "kernels.py::add", *SIG, "-o", name).returncode == 0
    assert (tegula.dir / "a.o").read_bytes() == (tegula.dir / "b.o").read_bytes()


@pytest.mark.parametrize("sig,words", [("x:*f99", "f99"), ("x:*f32, x:*f32", "x"), ("x:*f32", "`y`"), ("q:*f32", "q"), ("x", "x")])
def test_bad_signatures(tegula, sig, words):
    p = tegula("compile", "kernels.py::add", "--sig", sig, "-c", "BLOCK=16", "--emit", "tile")
    assert p.returncode == 1 and words in p.stderr, p.stderr


def test_unknown_target_and_stage(tegula):
    p = tegula("compile", "kernels.py::add", *SIG, "-t", "cpu:z80", "--emit", "asm")
    assert p.returncode == 1 and "z80" in p.stderr
    p = tegula("compile", "kernels.py::add", *SIG, "--emit", "nonsense")
    assert p.returncode == 1 and "nonsense" in p.stderr


def test_check_reports_all_mistakes_as_json_too(tegula):
    (tegula.dir / "bad.py").write_text("import triton\n\n@triton.jit\ndef k(x)\n    return x\n\ndef f():\n    y = 1 +\n")
    p = tegula("check", "bad.py")
    assert p.returncode == 1 and p.stderr.count(" error: ") == 2
    p = tegula("check", "bad.py", "--json")
    items = json.loads(p.stdout)
    assert [i["line"] for i in items] == [4, 8] and all(i["severity"] == "error" and i["file"] == "bad.py" for i in items)
    assert tegula("check", "kernels.py").returncode == 0


def test_instruction_set_of_the_environment(tegula):
    baseline = {"TEGULA_CPU_TARGET": "cpu:x86-64"}
    p = tegula("compile", "kernels.py::add", *SIG, "--emit", "asm", env=baseline)
    assert p.returncode == 0 and "%xmm" in p.stdout and "%ymm" not in p.stdout and "%zmm" not in p.stdout
    assert "target cpu:x86-64 (128-bit vectors)" in tegula("info", env=baseline).stdout
    for name, words in ("cpu:z80", "there is no target"), ("cpu:aarch64", "cannot execute"):
        p = tegula("info", env={"TEGULA_CPU_TARGET": name})
        assert p.returncode == 1 and name in p.stderr and words in p.stderr


def test_info_and_version(tegula):
    p = tegula("info")
    assert p.returncode == 0 and "device cpu" in p.stdout and "cpu:avx2" in p.stdout
    assert tegula("--version").stdout.startswith("tegula ")


RUN = ["run", "kernels.py::fill", "--grid", "1", "-a", "x=zeros:f32[8]", "-a", "n=8", "-c", "BLOCK=8", "--print", "x"]


def test_cache_stat_and_clear(tegula):
    assert tegula(*RUN).returncode == 0
    p = tegula("cache", "--stat")
    assert p.returncode == 0 and "entries: 1\n" in p.stdout
    assert stat.S_IMODE(os.stat(tegula.dir / "cache").st_mode) == 0o700
    p = tegula("cache", "--clear")
    assert p.returncode == 0 and p.stdout.startswith("1 entries")
    assert "entries: 0\n" in tegula("cache", "--stat").stdout


def test_a_corrupted_entry_is_rebuilt(tegula):
    assert tegula(*RUN).returncode == 0
    entries = list((tegula.dir / "cache").rglob("*.kernel"))
    assert len(entries) == 1
    good = entries[0].read_bytes()
    for bad in (b"", good[:100], good[:-1], good[:200] + bytes([good[200] ^ 1]) + good[201:], os.urandom(len(good))):
        entries[0].chmod(0o600)
        entries[0].write_bytes(bad)
        p = tegula(*RUN)
        assert p.returncode == 0 and "[7, 7, 7, 7, 7, 7, 7, 7]" in p.stdout, p.stderr
    assert entries[0].read_bytes() == good


@pytest.mark.parametrize("directory", ["/proc/nothing", "/dev/null/x"])
def test_an_unusable_cache_is_no_error(tegula, directory):
    p = tegula(*RUN, env={"TEGULA_CACHE_DIR": directory})
    assert p.returncode == 0 and "[7, 7, 7, 7, 7, 7, 7, 7]" in p.stdout, p.stderr


def test_eight_processes_race_on_one_key(tegula):
    env = dict(os.environ, TEGULA_CACHE_DIR=str(tegula.dir / "cache"))
    procs = [subprocess.Popen([str(TEGULA), *RUN], cwd=tegula.dir, env=env, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for p in procs:
        out, _ = p.communicate(timeout=60)
        assert p.returncode == 0 and "[7, 7, 7, 7, 7, 7, 7, 7]" in out
    assert "entries: 1\n" in tegula("cache", "--stat").stdout


REMARKS = """import tegula
import tegula.language as tl


@tegula.jit
def gather(x, idx, out, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a = tl.load(x + tl.load(idx + i)) + tl.load(x + i + 1)
    tl.store(out + i, a, mask=i < n)


@tegula.jit
def product(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x + i * N + j)
    tl.store(out + i + j * N, tl.dot(a, a))
"""


def test_info_and_remarks(tegula, tmp_path):
    file = tmp_path / "remarks.py"
    file.write_text(REMARKS)
    args = ["compile", f"{file}::gather", "--sig", "x:*f32:16, idx:*i32:16, out:*f32:16, n:i32, N:1024"]
    p = tegula(*args, "-t", "sm_90a", "--info", "--remarks")
    assert p.returncode == 0 and p.stdout == "", p.stderr
    info, *rest = p.stderr.split("\n  ", 1)
    assert info == "gather for sm_90a: x:*fp32:16, idx:*i32:16, out:*fp32:16, n:i32, N:1024"
    assert "128 threads per block" in rest[0] and "registers" in rest[0]
    remarks = [line.removeprefix(str(file)) for line in p.stderr.splitlines() if "remark: " in line]
    reason = "this load takes 1 of the 4 elements of 4 bytes that fit one instruction: "
    assert remarks == [
        f":8:9: remark: {reason}its addresses are not known to be consecutive [notVectorized]",
        f":8:41: remark: {reason}its addresses are known to be multiples of 4 bytes only; strides and offsets divisible by 16 (or tl.multiple_of) help "
        "[notVectorized]",
        ":9:5: remark: this store takes 1 of the 4 elements of 4 bytes that fit one instruction: its mask may differ from element to element; "
        "a bound that is divisible by 16 (or tl.multiple_of) helps [notVectorized]",
    ]
    p = tegula(*args, "--remarks", "--emit", "tile")
    assert p.returncode == 0 and "store" in p.stdout
    # On CPUs what matters is whether elements are neighbours: masks and alignment are no obstacles.
    assert re.findall(r":(\d+:\d+): remark: .* \[(\w+)\]", p.stderr) == [("8:9", "oneByOne")]


LOOPS = """import tegula
import tegula.language as tl


@tegula.jit
def loops(x, y, idx, out, n, KIND: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = x + i * N + j
    b = y + i * N + j
    at, acc = 0, tl.zeros((N, N), tl.float32)
    if KIND == "while":
        k = 0
        while k < n:
            acc = tl.dot(tl.load(a + k * N), tl.load(b), acc)
            k += n - k
    elif KIND == "backwards":
        for k in range(n, 0, -1):
            acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
    elif KIND == "no dot":
        for k in tl.range(0, n, num_stages=2):
            acc += tl.load(a + k * N)
    elif KIND == "one dot":
        for k in tl.range(0, n, num_stages=2):
            acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc) + tl.load(a + k)
    else:
        for k in range(n):
            if KIND == "good":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
            elif KIND == "if":
                if k % 2 == 1:
                    acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
            elif KIND == "inner":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                for l in tl.range(0, k, num_stages=1):
                    acc += tl.load(a + l * N)
            elif KIND == "write":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                tl.store(out + i * N + j, acc)
            elif KIND == "print":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                tl.device_print("k", k)
            elif KIND == "narrow":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k), acc)
            elif KIND == "other":
                acc = tl.dot(tl.load(a + k * N, mask=i < n, other=1), tl.load(b + k * N), acc)
            elif KIND == "indirect":
                at = tl.load(idx + k)
                acc = tl.dot(tl.load(a + k * N), tl.load(b + at * N), acc)
            elif KIND == "chased":
                at = tl.load(idx + at)
                acc = tl.dot(tl.load(a + k * N), tl.load(b + at * N), acc)
            elif KIND == "invariant":
                acc = tl.dot((i + j + k).to(tl.float16), tl.load(b) + acc.to(tl.float16), acc)
            elif KIND == "stores":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                if k % 2 == 1:
                    tl.store(out + i * N + j, acc)
            elif KIND == "stores it":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                if k % 2 == 1:
                    tl.store(a + k * N, acc.to(tl.float16))
            elif KIND == "adds unread":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                tl.atomic_add(out + i * N + j, acc)
            elif KIND == "adds":
                acc = tl.dot(tl.load(a + k * N), tl.load(b + k * N), acc)
                if k % 2 == 1:
                    n = tl.atomic_add(idx, 1)
                    acc *= n
    tl.store(out + i * N + j, acc)
"""


def test_remarks_of_loops(tegula, tmp_path):
    file = tmp_path / "loops.py"
    file.write_text(LOOPS)

    def remarks(kind, n=64, target="sm_90a", *more):
        sig = f"x:*f16:16, y:*f16:16, idx:*i32:16, out:*f32:16, n:i32, N:{n}"
        p = tegula("compile", f"{file}::loops", "--sig", sig, "-c", f"KIND='{kind}'", "-t", target, "--remarks", *more)
        assert p.returncode == 0, p.stderr
        lines = [line.removeprefix(str(file)) for line in p.stderr.splitlines() if "remark: " in line and "[notVectorized]" not in line and "[spills]" not in line and "[dotsSerialized]" not in line]
        return [(int(line.split(":")[1]), line.split("remark: ")[1]) for line in lines]

    loop, load = "this loop is not pipelined: ", "this load is not copied to shared memory ahead of its iteration: "
    not_pipelined, not_copied = " [notPipelined]", " [notCopiedAhead]"
    for kind, expected in {
        "good": [],
        "while": [(13, f"{loop}whether a `while` loop goes on is known only at the end of an iteration{not_pipelined}")],
        "backwards": [],
        "no dot": [(20, f"{loop}it has no dot, and loads are started early only for those{not_pipelined}")],
        "one dot": [(24, f"{load}no dot is computed from it{not_copied}")],
        "if": [(26, f"{loop}its body has a dot in a branch (line 31){not_pipelined}")],
        "inner": [(26, f"{loop}its body has a loop inside (line 34){not_pipelined}")],
        "write": [],
        "adds unread": [],
        "print": [(26, f"{loop}loads of later iterations must not come before what its body does (line 41){not_pipelined}")],
        "narrow": [(43, f"{load}a copy moves 4, 8 or 16 consecutive bytes, 2 at a time are known to be consecutive and aligned here{not_copied}")],
        "other": [(45, f"{load}a copy writes 0 where the mask is off, and `other` is not known to be 0{not_copied}")],
        "indirect": [],
        "chased": [(51, f"{load}its addresses or its mask depend on a load (line 50) of the same iteration{not_copied}")],
        "invariant": [],
        "stores": [],
        "stores it": [(26, f"{loop}its body writes memory (line 61), which may be what a later iteration loads{not_pipelined}")],
        "adds": [(26, f"{loop}loads of later iterations must not come before what its body does (line 68){not_pipelined}")],
    }.items():
        for target in "sm_80", "sm_90a", "sim":
            assert remarks(kind, 64, target) == expected, (kind, target)
    assert remarks("if", 64, "sm_90a", "--num-stages", "1") == []
    # A stage of two tiles takes 64 KiB; three are enough for copies of two iterations ahead that start behind the wait for the product.
    assert remarks("good", 128, "sm_90a", "--num-warps", "8", "--num-stages", "2") == remarks("good", 128, "sm_90a", "--num-warps", "8", "--num-stages", "3") == []
    assert remarks("good", 128, "sm_90a", "--num-warps", "8", "--num-stages", "4") == [
        (26, "this loop is pipelined with 3 stages, not 4: those take 262656 bytes of shared memory, a block has 232448 [fewerStages]")]
    assert remarks("good", 128, "sm_86", "--num-warps", "8") == [
        (26, f"{loop}that takes 131584 bytes of shared memory at least, a block has 101376{not_pipelined}")]


def test_too_much_shared_memory(tegula, tmp_path):
    file = tmp_path / "remarks.py"
    file.write_text(REMARKS)
    p = tegula("compile", f"{file}::product", "--sig", "x:*f16:16, out:*f32:16, N:512", "-t", "sm_90a", "--info")
    assert p.returncode == 1
    assert "out of resource: shared memory, Required: " in p.stderr and ", Hardware limit: 232448. `product` needs " in p.stderr
    assert f" bytes, is for the tile of {file}:15:9. Smaller blocks or a smaller num_stages help" in p.stderr


@pytest.mark.parametrize("target, kind, instruction", [
    ("sm_80", "fp8e4nv", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),  # no instruction for fp8: by fp16, which is exact
    ("sm_80", "fp8e5", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ("sm_89", "fp8e4nv", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    ("sm_90a", "fp8e4nv", "wgmma.mma_async.sync.aligned"),
])
def test_fp8_products_use_tensor_cores(tegula, tmp_path, target, kind, instruction):
    file = tmp_path / "remarks.py"
    file.write_text(REMARKS)
    p = tegula("compile", f"{file}::product", "--sig", f"x:*{kind}:16, out:*f32:16, N:64", "-t", target, "--emit", "ptx")
    assert p.returncode == 0 and instruction in p.stdout, p.stderr


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512bf16"])
def test_masks_of_either_axis_leave_the_transposing_loads(tegula, tmp_path, target):
    """A tile that is transposed on its way into a dot is read by whole vectors where it lies inside of the matrix, whichever axis the mask is along."""
    (tmp_path / "t.py").write_text(TRANSPOSED)
    shuffles = {}
    for form in ("none", "rows", "columns", "both"):
        p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-t", target, "--emit", "llvm")
        assert p.returncode == 0, p.stderr
        shuffles[form] = p.stdout.count("shufflevector")
        assert widest(p.stdout) <= 16  # where the mask is off for some, elements go vector by vector: chunks of hundreds of lanes were most of the code
    assert min(shuffles.values()) >= shuffles["none"] > 16, shuffles


def widest(text):
    """Lanes of the longest vector of addresses."""
    return max((int(n) for n in re.findall(r"<(\d+) x ptr>", text)), default=0)


@pytest.mark.parametrize("elem", ["bf16", "f16", "f64"])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512", "cpu:avx512bf16"])
def test_tiles_under_a_mask_are_turned_vector_by_vector(tegula, tmp_path, target, elem):
    (tmp_path / "t.py").write_text(TRANSPOSED.replace(", input_precision=\"ieee\"", "").replace("tl.float32", "OUT").replace("FORM: tl.constexpr", "FORM: tl.constexpr, OUT: tl.constexpr"))
    (tmp_path / "u.py").write_text(TURNED)
    out = "f64" if elem == "f64" else "f32"
    common = ("-t", target, "--emit", "llvm")
    dot = tegula("compile", "t.py::k", "--sig", f"x:*{elem}:16, w:*{elem}:16, out:*{out}:16, N:i32:16, K:i32:16", "-c", "FORM='both'", "-c", f"OUT='{out}'", *common)
    store = tegula("compile", "u.py::k", "--sig", f"x:*{elem}:16, out:*{elem}:16, M:i32, N:i32", "-c", "FORM='store'", *common)
    for p in (dot, store):
        assert "shufflevector" in p.stdout and widest(p.stdout) <= 32, p.stderr


@pytest.mark.parametrize("form", ["store", "trans"])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_transposing_stores_turn_tiles_in_registers(tegula, tmp_path, target, form):
    """Whole vectors are read in the order of the source, and written in that of the target, whichever of both the kernel says it in."""
    (tmp_path / "t.py").write_text(TURNED)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, M:i32, N:i32", "-c", f"FORM='{form}'", "-t", target, "--emit", "llvm")
    lanes = 8 if target == "cpu:avx2" else 16
    loads = p.stdout.count(f"load <{lanes} x float>, ptr") + p.stdout.count("@llvm.x86.avx.ldu.dq.256(ptr %")  # in one piece or in halves
    assert loads >= lanes and p.stdout.count(f"store <{lanes} x float>") >= lanes, p.stdout + p.stderr
    assert p.stdout.count("shufflevector") >= lanes and "scatter" not in p.stdout and widest(p.stdout) <= lanes
    if lanes == 8:  # two chunks in a trip, which fill lines of the target
        beside = [len(re.findall(rf"(%\w+) = getelementptr i8, ptr %\w+, i64 32\n(?:.*\n){{0,3}}?.*{access} <8 x float>.*ptr \1,", p.stdout)) for access in ("load", "store")]
        assert beside == [0, 1], p.stdout


@pytest.mark.parametrize("form, said", [("both", "as far as it is seen, as far as operands are not zero"), ("stored", "as far as it is seen"), ("zero", "as far as operands are not zero"), ("added", "as far as it is seen, as far as operands are not zero"), ("sum", "as far as operands are not zero"), ("where", "as far as it is seen, as far as operands are not zero")])
def test_dots_end_where_nothing_counts(tegula, tmp_path, form, said):
    (tmp_path / "t.py").write_text(DEEP_PARTS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, M:i32, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "cpu")
    [dot] = [line for line in p.stdout.splitlines() if " dot buffers " in line]
    assert dot.partition(", as far")[1:] == tuple((", " + said).partition(", as far")[1:]), p.stdout


@pytest.mark.parametrize("form", ["both", "stored", "zero"])
def test_rows_that_nobody_sees_are_not_packed(tegula, tmp_path, form):
    (tmp_path / "t.py").write_text(PARTS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, M:i32, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "llvm")
    [end] = re.findall(r"icmp slt i64 %\w+, (\S+)\n  br i1 %\w+, label %\w+, label %left\.loopexit", p.stdout)
    assert end == "64" if form == "zero" else end.startswith("%"), p.stdout


@pytest.mark.parametrize("rows, branches", [(16, 1), (32, 0)])
def test_tiles_of_sixteen_rows_have_a_loop_for_one_or_two(tegula, tmp_path, rows, branches):
    (tmp_path / "t.py").write_text(PARTS.replace("* 64 + tl.arange(0, 64), tl.program_id(1)", f"* {rows} + tl.arange(0, {rows}), tl.program_id(1)").replace("tl.zeros((64, 64)", f"tl.zeros(({rows}, 64)"))
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, M:i32, N:i32:16, K:i32:16", "-c", "FORM='both'", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and len(re.findall(r"^few.rows\d*:", p.stdout, re.M)) == branches, p.stdout + p.stderr


@pytest.mark.parametrize("form, asks", [("both", 1), ("stored", 0)])
def test_panels_of_the_next_round_are_fetched_where_all_of_them_are_inside(tegula, tmp_path, form, asks):
    """Behind the last panel of a tile come those of the loop's next round: not where its end is known and it may lie behind the matrix."""
    (tmp_path / "t.py").write_text(DEEP_PARTS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, M:i32, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "llvm")
    assert len(re.findall(r"icmp sge i64 %\w+, 512\n", p.stdout)) == asks and "icmp ugt i32" in p.stdout, p.stdout


ENDS = """import tegula
import tegula.language as tl
@tegula.jit
def k(x, out, N, B: tl.constexpr, FORM: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < N, other=0.0)
    if FORM == "stored":
        tl.store(out + o, v + 1, mask=o < N)
    elif FORM == "kept":
        e = tl.exp(v)
        tl.store(out, tl.sum(e, 0))
        tl.store(out + o, e / tl.sum(e, 0), mask=o < N)
    elif FORM == "places":
        tl.store(out, tl.sum(v * o, 0))
    else:
        tl.store(out, tl.sum(v, 0))
"""


@pytest.mark.parametrize("form, loads, filled", [("sum", 1, 0), ("stored", 1, 0), ("kept", 1, 1), ("places", 4, 0)])
def test_loops_under_masks_end_with_the_row(tegula, tmp_path, form, loads, filled):
    """One vector at a time, to the one behind which nothing changes; a sum of what differs behind the end goes on, four vectors at a time."""
    (tmp_path / "t.py").write_text(ENDS)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", f"FORM='{form}'", "-t", "cpu:avx512", "--emit", "llvm")
    assert len(re.findall(r"call <16 x float> @llvm.masked.load", p.stdout)) == loads and p.stdout.count("fill.trip:") == filled, p.stdout + p.stderr


TWO_SUMS = ENDS.replace("        tl.store(out, tl.sum(v, 0))\n", """        w = tl.load(x + 4096 + o, mask=o < N, other=0.0)
        for row in range(8):
            v = tl.load(x + row * N + o, mask=o < N, other=0.0)
            first = tl.sum(v * w, 0) / N
            second = tl.sum(w + v, 0) / N
            tl.store(out + row * N + o, v * first - second, mask=o < N)
""")


def test_a_number_from_a_sum_does_not_part_it_from_the_next_one(tegula, tmp_path):
    """It is computed behind the nest, which takes both; and that ends with the row, though one of its sides was loaded before the loop."""
    (tmp_path / "t.py").write_text(TWO_SUMS)
    emit = lambda stage: tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='sums'", "-t", "cpu:avx512", "--emit", stage)
    assert re.search(r"reduce .*\n *%\S+ = reduce ", emit("cpu").stdout)
    assert len(re.findall(r"^ *%ends\d* = ", emit("llvm").stdout, re.M)) >= 3


SCAN = ENDS.replace("        tl.store(out, tl.sum(v, 0))\n", "        tl.store(out + o, tl.cumsum(v, 0), mask=o < N)\n")


def test_scans_end_with_the_row(tegula, tmp_path):
    (tmp_path / "t.py").write_text(SCAN)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='scan'", "-t", "cpu:avx512", "--emit", "llvm")
    assert p.stdout.count("fill.trip:") == 1, p.stdout + p.stderr


@pytest.mark.parametrize("index, looks", [("o // N", True), ("o // 48", True), ("o >> 5", True), ("o % N", True), ("o // tl.load(out + o).to(tl.int32)", False), ("tl.load(out + o).to(tl.int32) // N", False)])
def test_quotients_that_are_one_number_are_no_gathers(tegula, tmp_path, index, looks):
    """The first and the last of a vector are looked at, where the dividend is linear and the divisor the same for all."""
    (tmp_path / "t.py").write_text(ENDS.replace("tl.sum(v, 0)", f"tl.sum(tl.load(x + ({index})), 0)"))
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='sum'", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and (re.search(r"^flat\d*:", p.stdout, re.M) is not None) == looks, p.stdout + p.stderr


def test_erf_of_floats_goes_one_way(tegula, tmp_path):
    """With fused multiply-adds one polynomial and one exponential do for small and for large numbers; others compute both and choose."""
    (tmp_path / "t.py").write_text(ENDS.replace("v + 1, mask", "tl.erf(v), mask"))
    for target, ways in (("cpu:avx512", 0), ("cpu:avx2", 0), ("cpu:x86-64", 1)):
        p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='stored'", "-t", target, "--emit", "llvm")
        assert p.returncode == 0 and bool(re.search(r"fcmp olt <\d+ x float>", p.stdout)) == ways, p.stdout + p.stderr


def test_histograms_count_four_elements_in_a_trip(tegula, tmp_path):
    """Without asking for the mask, where the block is inside."""
    (tmp_path / "t.py").write_text(ENDS.replace("tl.sum(v, 0))\n", "tl.max(tl.histogram(v.to(tl.int32), 256), 0))\n"))
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='sum'", "-t", "cpu:avx2", "--emit", "llvm")
    loop = p.stdout[:p.stdout.index("icmp slt i32")]
    assert len(re.findall(r"icmp ult i64 %\w+, 256\n", loop)) == 4, p.stdout + p.stderr


def test_rows_of_memory_are_read_in_halves_of_a_line(tegula, tmp_path):
    """Loads of 64 bytes that lie in two lines are slow from memory; where another nest has read the row they stay whole."""
    (tmp_path / "t.py").write_text(ENDS)
    counts = {}
    for target in ("cpu:avx2", "cpu:avx512"):
        for form in ("sum", "twice"):
            source = ENDS if form == "sum" else ENDS.replace("tl.sum(v, 0))\n", "tl.sum(v * (v - tl.max(v, 0)), 0))\n")
            (tmp_path / "t.py").write_text(source)
            p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='sum'", "-t", target, "--emit", "llvm")
            counts[target, form] = len(re.findall(r"call <32 x i8> @llvm.x86.avx.ldu", p.stdout)), len(re.findall(r"= load <16 x float>", p.stdout))
    assert counts["cpu:avx2", "sum"][0] == counts["cpu:avx2", "twice"][0] == 0 and counts["cpu:avx512", "sum"] == (4, 0), counts
    halves, whole = counts["cpu:avx512", "twice"]
    assert halves == 4 and whole == 4, counts


def test_rows_are_split_where_a_select_begins_to_matter(tegula, tmp_path):
    """Inside of a diagonal nothing is compared: one loop for that part of a row, one for the rest."""
    (tmp_path / "t.py").write_text(DIAGONAL)
    loads = {}
    for form in ("linear", "data"):
        p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, limit:f32", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "llvm")
        assert p.returncode == 0, p.stderr
        loads[form] = p.stdout.count("load <8 x float>")
    assert loads["linear"] > loads["data"] > 0, loads


def test_extremes_are_computed_quickly_and_again_if_in_doubt(tegula, tmp_path):
    (tmp_path / "t.py").write_text(DIAGONAL.replace("tl.sum", "tl.max"))
    for target in ("cpu:avx2", "cpu:x86-64"):
        p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, limit:f32", "-c", "FORM='data'", "-t", target, "--emit", "llvm")
        assert p.returncode == 0, p.stderr
        # Where NaN is asked for, it is for each comparison.
        assert p.stdout.count("fcmp ogt <") >= 2 * p.stdout.count("fcmp uno <") > 0, p.stdout


@pytest.mark.parametrize("form", ["load", "scaled", "turned", "half"])
def test_left_operands_are_packed_in_front_of_the_loop(tegula, tmp_path, form):
    (tmp_path / "t.py").write_text(KEPT)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, scale:f32, K:i32", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "cpu")
    before, _, loop = p.stdout.partition(" = for ") if " = for " in p.stdout else p.stdout.partition("  for ")
    [dot] = [line for line in loop.splitlines() if " dot buffers " in line]
    left = dot.split()[2]
    assert f"buffer {left} = " in before and f"buffer {left} = " not in loop, p.stdout


@pytest.mark.parametrize("mask", ["(at >= 0) & (at < n)", "at >= 0", "(0 <= at) & (at < n)"])
def test_lower_bounds_leave_loops_without_masks(tegula, tmp_path, mask):
    (tmp_path / "t.py").write_text(BETWEEN.replace("MASK", mask))
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, first:i32, n:i32", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0 and "= load <8 x float>" in p.stdout and "maskload" in p.stdout, p.stdout + p.stderr


KEPT = """
import tegula
import tegula.language as tl

@tegula.jit
def k(x, w, out, scale, K, FORM: tl.constexpr):
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    q = tl.load(x + at)
    if FORM == "scaled":
        q *= scale
    if FORM == "turned":
        q = tl.trans(q)
    if FORM == "half":
        q = q.to(tl.float16)
    for j in range(0, K):
        y = tl.dot(q, tl.load(w + j * 4096 + at).to(q.dtype))
        tl.store(out + j * 4096 + at, y)
"""

BETWEEN = '''
import triton
import triton.language as tl


@triton.jit
def k(x, out, first, n):
    at = first + tl.arange(0, 1024)
    tl.store(out + tl.arange(0, 1024), tl.load(x + at, mask=MASK, other=0.0))
'''

DIAGONAL = '''
import triton
import triton.language as tl


@triton.jit
def k(x, out, limit, FORM: tl.constexpr):
    m, n = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64)
    a = tl.load(x + m[:, None] * 64 + n[None, :])
    s = tl.where(m[:, None] >= n[None, :] if FORM == "linear" else a < limit, a, 1.0)
    tl.store(out + m, tl.sum(s, 1))
'''

PARTS = '''
import triton
import triton.language as tl


@triton.jit
def k(x, w, out, M, N, K, FORM: tl.constexpr):
    m, n = tl.program_id(0) * 64 + tl.arange(0, 64), tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for start in range(0, K, 64):
        k = start + tl.arange(0, 64)
        if FORM == "stored":
            a, b = tl.load(x + m[:, None] * K + k[None, :]), tl.load(w + k[:, None] * N + n[None, :])
        else:
            a, b = tl.load(x + m[:, None] * K + k[None, :], mask=(k < K)[None, :], other=0.0), tl.load(w + k[:, None] * N + n[None, :], mask=(k < K)[:, None], other=0.0)
        acc += tl.dot(a, b)
    if FORM == "zero":
        tl.store(out + m[:, None] * N + n[None, :], acc)
    elif FORM == "sum":
        tl.store(out + m, tl.sum(acc, 1), mask=m < M)
    elif FORM == "added":
        tl.atomic_add(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])
    elif FORM == "where":
        tl.store(out + m, tl.max(tl.where(m[:, None] >= n[None, :], acc * 2.0, float("-inf")), 1))
    else:
        m, n = tl.program_id(0) * 64 + tl.arange(0, 64), tl.program_id(1) * 64 + tl.arange(0, 64)
        tl.store(out + m[:, None] * N + n[None, :], acc * 2.0, mask=(m < M)[:, None] & (n < N)[None, :])
'''

DEEP_PARTS = PARTS.replace("range(0, K, 64)", "range(0, K, 256)").replace("start + tl.arange(0, 64)", "start + tl.arange(0, 256)")  # rounds that stay as they are

TURNED = '''
import triton
import triton.language as tl


@triton.jit
def k(x, out, M, N, FORM: tl.constexpr):
    i, j = tl.program_id(0) * 32 + tl.arange(0, 32), tl.program_id(1) * 32 + tl.arange(0, 32)
    mask = (i[:, None] < M) & (j[None, :] < N)
    tile = tl.load(x + i[:, None] * N + j[None, :], mask=mask)
    if FORM == "store":
        tl.store(out + j[None, :] * M + i[:, None], tile, mask=mask)
    else:
        tl.store(out + j[:, None] * M + i[None, :], tl.trans(tile), mask=(j[:, None] < N) & (i[None, :] < M))
'''

TRANSPOSED = '''
import triton
import triton.language as tl


@triton.jit
def k(x, w, out, N, K, FORM: tl.constexpr):
    m, n = tl.arange(0, 16), tl.program_id(0) * 64 + tl.arange(0, 64)
    acc = tl.zeros((16, 64), tl.float32)
    for start in range(0, K, 64):
        k = start + tl.arange(0, 64)
        if FORM == "rows":
            b = tl.load(w + n[None, :] * K + k[:, None], mask=(n < N)[None, :], other=0.0)
        elif FORM == "columns":
            b = tl.load(w + n[None, :] * K + k[:, None], mask=(k < K)[:, None], other=0.0)
        elif FORM == "both":
            b = tl.load(w + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
        else:
            b = tl.load(w + n[None, :] * K + k[:, None])
        acc = tl.dot(tl.load(x + m[:, None] * K + k[None, :]), b, acc, input_precision="ieee")
    tl.store(out + m[:, None] * N + n[None, :], acc)
'''


UPDATES = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, index, y, D, SCOPE: tl.constexpr, FORM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    o = tl.arange(0, B)
    at = tl.load(index + r) * D + o if FORM == "row" else tl.load(index + o)
    tl.atomic_add(y + at, tl.load(x + r * D + o, mask=o < D), mask=o < D, scope=SCOPE)
'''


@pytest.mark.parametrize("scope, form, plain, vector", [("gpu", "row", True, True), ("cta", "row", True, True), ("gpu", "places", True, False), ("sys", "row", False, False)])
@pytest.mark.parametrize("target, lanes", [("cpu:avx512", 16), ("cpu:avx2", 8)])
def test_atomics_of_launches_that_are_alone_are_plain(tegula, tmp_path, target, lanes, scope, form, plain, vector):
    """In vectors where their elements are neighbours; never of scope sys."""
    (tmp_path / "t.py").write_text(UPDATES)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, index:*i32:16, y:*f32:16, D:i32", "-c", f"SCOPE='{scope}'", "-c", f"FORM='{form}'", "-c", "B=256", "-t", target, "--emit", "llvm")
    assert p.returncode == 0 and "atomicrmw fadd" in p.stdout, p.stdout + p.stderr
    assert (" = fadd " in p.stdout) == plain and (f"fadd <{lanes} x float>" in p.stdout) == vector, p.stdout


ORDER = '''
import tegula, tegula.language as tl
@tegula.jit
def k(x, i, y, N, FORM: tl.constexpr):
    a = tl.program_id(1 if FORM == "x" else 0)
    b = tl.program_id(0 if FORM == "x" else 1)
    if FORM == "grouped":
        a, b = a % 4, b + a // 4
    r = a * 16 + tl.arange(0, 16)
    c = b * 64 + tl.arange(0, 64)
    rows = tl.load(i + r) if FORM == "gathered" else r
    v = tl.load(x + rows[:, None] * N + c[None, :])
    if FORM == "bias":
        v += tl.load(y + c)[None, :]
    if FORM == "printed":
        tl.device_print("v", v)
    if FORM == "turned":
        tl.store(y + c[:, None] * N + r[None, :], v.T)
    elif FORM == "added":
        tl.atomic_add(y + r[:, None] * N + c[None, :], v)
    else:
        tl.store(y + r[:, None] * N + c[None, :], v)
'''


@pytest.mark.parametrize("form, along", [("y", True), ("gathered", True), ("bias", True), ("x", False), ("grouped", False), ("printed", False), ("turned", False), ("added", False)])
def test_programs_run_along_the_axis_that_is_near_in_memory(tegula, tmp_path, form, along):
    """Not where something tells the order: prints, atomics."""
    (tmp_path / "t.py").write_text(ORDER)
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, i:*i32:16, y:*f32:16, N:i32", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0 and ("programs along y first" in p.stdout) == along, p.stdout + p.stderr


COLUMNS = '''
import tegula, tegula.language as tl
@tegula.jit
def k(a, b, c, M, N, K, BM: tl.constexpr, FORM: tl.constexpr, TURNED: tl.constexpr):
    p, n = tl.program_id(0), tl.cdiv(N, 64)
    i, j = p // n, p % n
    if FORM == "axes":
        i, j = tl.program_id(1), p
    elif FORM == "heads":
        i = p
    elif FORM == "downwards":
        i, j = p % n, p // n
    elif FORM == "groups":
        f = p // (n * 8) * 8
        h = tl.minimum(tl.cdiv(M, BM) - f, 8)
        i, j = f + p % (n * 8) % h, p % (n * 8) // h
    m, o, d = i * BM + tl.arange(0, BM), j * 64 + tl.arange(0, 64), tl.arange(0, 64)
    if FORM == "heads":
        m += j
    acc = tl.zeros((BM, 64), tl.float32)
    for s in range(0, K, 64):
        acc += tl.dot(tl.load(a + m[:, None] * K + s + d[None, :] if not TURNED else a + m[:, None] + (s + d[None, :]) * M), tl.load(b + (s + d[:, None]) * N + o[None, :]))
    if FORM == "printed":
        tl.device_print("acc", acc)
    tl.store(c + m[:, None] * N + o[None, :], acc)
'''


@pytest.mark.parametrize("form, rows, text", [("rows", 64, "16 rows"), ("rows", 1024, None), ("axes", 128, "8 rows"), ("groups", 16, "64 rows"), ("groups", 64, "16 rows"), ("groups", 128, None), ("heads", 64, "columns"), ("downwards", 64, None), ("printed", 64, None),
                                              ("rows turned", 64, "4 to 16 rows"), ("axes turned", 128, "2 to 8 rows"), ("groups turned", 128, "2 to 8 rows"), ("groups turned", 16, "16 to 64 rows"), ("heads turned", 64, "columns")])
def test_programs_of_a_product_follow_one_another_down_the_columns(tegula, tmp_path, form, rows, text):
    """Where the next program would want other columns. Not where the author's order does that, nor where something tells the order. As many rows of an A that is packed as find places together."""
    form, _, turned = form.partition(" ")
    (tmp_path / "t.py").write_text(COLUMNS)
    p = tegula("compile", "t.py::k", "--sig", "a:*f32:16, b:*f32:16, c:*f32:16, M:i32, N:i32, K:i32", "-c", f"BM={rows}", "-c", f"FORM='{form}'", "-c", f"TURNED={bool(turned)}", "-t", "cpu:avx2", "--emit", "cpu")
    found = re.search(r", programs by (.*) of tiles", p.stdout)
    assert p.returncode == 0 and (found[1] if found else None) == text, p.stdout + p.stderr


@pytest.mark.parametrize("rows", [16, 64])
def test_a_packed_left_operand_has_places_for_two_megabytes(tegula, tmp_path, rows):
    """Beside four for the right one, however few rows its tiles have."""
    (tmp_path / "t.py").write_text(COLUMNS)
    p = tegula("compile", "t.py::k", "--sig", "a:*f32:16, b:*f32:16, c:*f32:16, M:i32, N:i32, K:i32", "-c", f"BM={rows}", "-c", "FORM='rows'", "-c", "TURNED=True", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0 and int(re.search(r"scratch (\d+) bytes", p.stdout)[1]) > 6 << 20, p.stdout[:200] + p.stderr


@pytest.mark.parametrize("index, once", [("o // N", True), ("(o + N) // 48", True), ("o % N", True), ("o // N % 7 * N + o % N", True), ("o // 48 % 5 * 48 + o % 48", True), ("o // 3", False), ("tl.load(out + o).to(tl.int32) // N", False)])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_quotients_are_asked_for_once_in_a_row(tegula, tmp_path, target, index, once):
    """The vectors of a row have one in common: what they load is a scalar, or goes on as the elements do. Not where rows are shorter than vectors."""
    (tmp_path / "t.py").write_text(ENDS.replace("tl.store(out, tl.sum(v, 0))", f"tl.store(out + o, v * tl.load(x + ({index}), mask=o < N), mask=o < N)"))
    p = tegula("compile", "t.py::k", "--sig", "x:*f32:16, out:*f32:16, N:i32", "-c", "B=1024", "-c", "FORM='sum'", "-t", target, "--emit", "llvm")
    assert p.returncode == 0 and (re.search(r"^run.vector\d*:", p.stdout, re.M) is not None) == once, p.stdout + p.stderr


TILES = """
import tegula
import tegula.language as tl


@tegula.jit
def k(x, y, out, n, s, FORM: tl.constexpr, C: tl.constexpr):
    pm, pn = tl.program_id(1), tl.program_id(0)
    if FORM == "y":
        pm, pn = pn, pm
    elif FORM == "quotient":
        pm, pn = pn // tl.cdiv(n, C), pn % tl.cdiv(n, C)
    elif FORM == "rows":
        pm, pn = pn, 0
    r, c = pm * 32 + tl.arange(0, 32)[:, None], pn * C + tl.arange(0, C)[None, :]
    at = r * s + c
    v = tl.load(x + at, mask=c < n, volatile=FORM == "volatile")
    if FORM == "apart":
        v += tl.load(x + r * s + 2 * c)
    elif FORM == "turned":
        v += tl.load(y + c * s + r)
    elif FORM == "gathered":
        v += tl.load(y + tl.load(out.to(tl.pointer_type(tl.int32)) + c))
    elif FORM == "reversed":
        v += tl.load(y + r * s + (n - 1 - c))
    elif FORM == "assert":
        tl.device_assert(v > 0)
    elif FORM == "print":
        tl.device_print("v", v)
    elif FORM == "sum":
        v += tl.sum(v, 1)[:, None]
    elif FORM == "loop":
        for i in range(n):
            v += i
    elif FORM == "branch":
        if pn > 3:
            v += 1
    elif FORM == "once":
        tl.store(y, 1.0)
    if FORM == "atomic":
        tl.atomic_add(out + at, v, mask=c < n)
    else:
        tl.store(out + at, v, mask=c < n)
"""


@pytest.mark.parametrize("form, columns, axis", [("x", 64, "x"), ("y", 64, "y"), ("quotient", 64, "x"), ("x", 32, "x"), ("x", 512, "x"), ("x", 1024, None), ("x", 16, "x"), ("x", 8, None), ("rows", 64, None)] +
                         [(form, 64, None) for form in ("volatile", "apart", "turned", "gathered", "reversed", "assert", "print", "sum", "loop", "branch", "once", "atomic")])
def test_programs_run_in_groups(tegula, tmp_path, form, columns, axis):
    """Where each treats elements one by one, and short rows go on from program to program; a remark says so."""
    (tmp_path / "t.py").write_text(TILES)
    args = ("t.py::k", "--sig", "x:*f32:16, y:*f32:16, out:*f32:16, n:i32, s:i32", "-c", f"FORM='{form}'", "-c", f"C={columns}", "-t", "cpu:avx2")
    p = tegula("compile", *args, "--emit", "cpu", *(("--debug",) if form == "assert" else ()))
    assert p.returncode == 0 and (f"by groups of {1024 // columns} programs" in p.stdout) == bool(axis), p.stdout + p.stderr
    p = tegula("compile", *args, "--remarks")
    assert (f"up to {1024 // columns} programs next to one another along {axis} run as one: rows of this" in p.stderr) == bool(axis), p.stderr
    # Grids of one program along the axis go down short rows, in a loop of their own.
    assert ("%is.one = icmp" in tegula("compile", *args, "--emit", "llvm", *(("--debug",) if form == "assert" else ())).stdout) == bool(axis)


@pytest.mark.parametrize("inputs,sums", [(2048, 4), (8192, 16)])
def test_rows_are_added_up_together(tegula, inputs, sums):
    """A matrix times a vector by sums along rows: one row after the other, with four sums; of a vector that takes more than half of L1, four rows beside one another, with four each."""
    p = tegula("compile", f"{ROOT}/examples/llm/kernels/matmul.py::gemv", "--sig", "x:*f32:16, w:*f32:16, out:*f32:16, M:i32, N:i32:16, K:i32:16, stride:i32:16", "-c", "BN=8", "-c", f"BK={inputs}",
               "-c", "WHOLE=True", "-t", "cpu:avx2", "--emit", "llvm")
    assert p.returncode == 0, p.stderr
    assert max(len(re.findall(r"phi <8 x float>", block)) for block in re.split(r"\n\d+:|\n\w+:", p.stdout)) == sums
