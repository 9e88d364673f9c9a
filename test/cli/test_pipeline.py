"""The kernels of the GPU benchmark take the fast paths: rings of shared memory, TMA, wgmma in flight, A from registers."""
import re
from pathlib import Path

import pytest

from conftest import ROOT

MATMUL = ("matmul", "a:*bf16:16, b:*bf16:16, c:*bf16:16, M:i32:16, N:i32:16, K:i32:16, stride_am:i32:16, stride_ak:1, stride_bk:i32:16, "
          "stride_bn:1, stride_cm:i32:16, stride_cn:1", dict(BM=128, BN=256, BK=64, GROUP=8))
PERSISTENT = ("matmul_persistent", "a:*bf16:16, b:*bf16:16, c:*bf16:16, M:i32:16, N:i32:16, K:i32:16",
              dict(BM=128, BN=256, BK=64, GROUP=8, PROGRAMS=132))
ATTENTION = ("attention", "q:*bf16:16, k:*bf16:16, v:*bf16:16, out:*bf16:16, scale:fp32, N:i32:16", dict(BM=128, BN=64, D=128, CAUSAL=False))
CAUSAL = (*ATTENTION[:2], dict(ATTENTION[2], CAUSAL=True))
POINTERS = ("attention_pointers",) + ATTENTION[1:]
W4 = ("matmul_w4", "a:*bf16:16, b:*i8:16, scale:*bf16:16, c:*bf16:16, M:i32:16, N:i32:16, K:i32:16", dict(BM=128, BN=128, BK=64))


@pytest.fixture
def stage(tegula, tmp_path):
    def emit(kernel, target, stage, stages=3, specialize=None, warps=8, ctas=1):
        name, sig, constants = kernel
        source = f"{ROOT}/bench/gpu_kernels.py"
        if specialize is not None:
            text = Path(source).read_text().replace("flatten=True", f"flatten=True, warp_specialize={specialize!r}")
            source = tmp_path / "kernels.py"
            source.write_text(re.sub(r" in range\((0, (?:full|N), BN)\)", rf" in tl.range(\1, warp_specialize={specialize!r})", text))
        p = tegula("compile", f"{source}::{name}", "--sig", sig, "-t", target, "--emit", stage, "--num-warps", str(warps),
                   "--num-stages", str(stages), "--num-ctas", str(ctas), *(x for k, v in constants.items() for x in ("-c", f"{k}={v}")))
        assert p.returncode == 0, p.stderr
        return p.stdout
    return emit


def loop(text):
    """The innermost loop around the last dot that is in one, of the text of GPU IR."""
    lines = text.splitlines()
    depth = [len(line) - len(line.lstrip()) for line in lines]
    loops = lambda at: [i for i in range(at) if re.search(r"\bfor ", lines[i]) and depth[i] < depth[at] and all(depth[k] > depth[i] for k in range(i + 1, at))]
    at = max(i for i, line in enumerate(lines) if re.search(r" dot ", line) and loops(i))
    first, indent = max(loops(at)), depth[at]
    end = next(i for i in range(at, len(lines)) if lines[i].startswith(" " * (indent - 2) + "}"))
    return "\n".join(lines[first:end])


def test_pointer_matmul_copies_asynchronously(stage):
    body = loop(stage(MATMUL, "sm_90a", "gpu"))
    assert body.count("async_copy") == 2 and "to_shared" not in body and " load " not in body
    # No branch around the copies, and the products one after the other: the assembler puts the addresses between them.
    assert "rounds" not in body and "dot_wait {pending = 1}" in body and " if " not in body
    ptx = stage(MATMUL, "sm_90a", "ptx")
    assert re.search(r"@%p\d+ cp.async.cg.shared.global", ptx) and "nounroll" not in ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16") == 4 and "wgmma.wait_group.sync.aligned 1" in ptx


def test_products_of_tiles_by_tma_are_a_loop(stage):
    """Of four rounds, each a group: a quarter of the text."""
    ptx = stage(PERSISTENT, "sm_90a", "ptx")
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16") == 1 and ptx.count("nounroll") == 1
    # Two swizzle spans along K: a round takes a product of each.
    wide = stage((*PERSISTENT[:2], {**PERSISTENT[2], "BK": 128}), "sm_90a", "ptx", stages=2)
    assert wide.count("wgmma.mma_async") == 2 and re.search(r"add.s64 \tatile, around, 1024", wide)
    narrow = stage((*PERSISTENT[:2], {**PERSISTENT[2], "BN": 128}), "sm_90a", "ptx")
    assert narrow.count("wgmma.mma_async") == 4 and "nounroll" not in narrow


@pytest.mark.parametrize("target", ["sm_80", "sm_86", "sm_89"])
def test_older_gpus_copy_asynchronously_too(stage, target):
    kernel = (*MATMUL[:2], dict(BM=64, BN=64, BK=32, GROUP=8))
    assert loop(stage(kernel, target, "gpu")).count("async_copy") == 2
    ptx = stage(kernel, target, "ptx")
    assert "cp.async.cg.shared.global" in ptx and "ldmatrix" in ptx and "mma.sync" in ptx


def test_descriptors_become_tma_copies(stage):
    body = loop(stage(PERSISTENT, "sm_90a", "gpu", specialize="never"))
    assert body.count("tma_copy") == 2 and "async_copy" not in body and "shared_barrier" not in body
    ptx = stage(PERSISTENT, "sm_90a", "ptx")
    assert ".param .align 64 .b8 matmul_persistent_param_6[128]" in ptx and "cp.async.bulk.tensor.2d" in ptx
    assert "tma_copy" not in stage(PERSISTENT, "sm_89", "gpu")


def test_copies_by_tma_divide_no_warp(stage):
    """Behind a branch that only some lanes take, ptxas keeps slots, phases and addresses of tiles in registers of the threads, and moves them to uniform ones for each wgmma."""
    for kernel in PERSISTENT, ATTENTION:
        ptx = stage(kernel, "sm_90a", "ptx", specialize="never")
        tid = re.search(r"mov\.u32 \t(%r\d+), %tid\.x", ptx)[1]
        thread = re.search(rf"setp\.eq\.s32 \t(%p\d+), {tid}, 0;", ptx)[1]
        elected = re.findall(r"elect\.sync _\|(%p\d+), ", ptx)
        assert elected and f"@{thread} cp.async.bulk" not in ptx and not re.search(rf"@!?(?:{'|'.join([thread, *elected])}) bra(?! \tskip)", ptx)  # skip: mbarriers, before all of that


def test_scaled_sums_are_combined_after_the_loop(stage):
    """Not beside copies by TMA, whose branch the assembler would move them behind."""
    assert "%partial" in loop(stage(POINTERS, "sm_90a", "gpu")) and "%partial" not in loop(stage(ATTENTION, "sm_90a", "gpu"))


@pytest.mark.parametrize("D, warps, copies", [(256, 4, 1), (256, 8, 1), (512, 4, 2), (128, 4, 1), (64, 4, 1), (256, 2, 2), (256, 1, 4)])
def test_warps_share_copies_by_tma(stage, D, warps, copies):
    """Of the boxes of a tile, 64 columns each, the first four warps have one after the other, by the same instructions."""
    kernel = (*ATTENTION[:2], dict(BM=64, BN=16, D=D, CAUSAL=False))
    ptx = stage(kernel, "sm_90a", "ptx", stages=1, specialize="never", warps=warps)
    loads = ptx.count("cp.async.bulk.tensor.2d.shared")
    tiles = stage(kernel, "sm_90a", "gpu", stages=1, specialize="never", warps=warps).count(" tma_copy ")
    assert tiles >= 3 and loads == tiles * copies and "shfl.sync.idx" in ptx or warps == 1


def test_tma_rounds_to_tf32(tmp_path, tegula):
    source = tmp_path / "tiles.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def tiles(a, b, c, K):
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, K, 32):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc)
""")
    signature = "a:tensordesc<fp32[64, 32]>:tf32:16, b:tensordesc<fp32[64, 32]>:16, c:tensordesc<fp32[64, 64]>, K:i32:16"
    p = tegula("compile", f"{source}::tiles", "--sig", signature, "-t", "sm_90a", "--emit", "gpu")
    copies = [line for line in p.stdout.splitlines() if " tma_copy " in line]
    assert copies and all(("tf32 = 1" in line) == ("%a.base" in line) for line in copies), p.stdout + p.stderr


def test_next_tile_is_loaded_before_the_epilogue(stage):
    text = stage(PERSISTENT, "sm_90a", "gpu", specialize="never")
    assert text.index("shared_alloc") < text.index("for %")
    epilogue = text[text.rindex("dot_wait"):]
    assert 0 < epilogue.index("tma_copy") < epilogue.index("fptrunc") < epilogue.index("desc_store")


@pytest.mark.parametrize("kernel, asks", [(PERSISTENT, None), (PERSISTENT, False), (ATTENTION, None), (ATTENTION, False), (CAUSAL, True)])
def test_a_warp_of_its_own_starts_the_copies(stage, kernel, asks):
    """Persistent kernels and attention unasked (False is the default, which kernels pass on), others if they ask: the consumers' loop has no copies, their block barrier is not everybody's."""
    gpu = stage(kernel, "sm_90a", "gpu", specialize=asks)
    consumers, producer = re.search(r"^  partitions \{warps = \[8, 4\], barriers = \[1, 0\], elected = \[0, 1\], registers = \[232, 40\]\} \{\n(.*?)^  \} and \{\n(.*?)^  \}\n  return$",
                                    gpu, re.M | re.S).groups()
    loops = 2 if kernel is CAUSAL else 1
    assert producer.count("tma_copy") == 2 * loops and producer.count("barrier_wait") == loops and "dot" not in producer and "tensor<" not in producer
    body = loop(consumers)
    assert "tma_copy" not in body and body.count("barrier_wait") == 1 and body.count("barrier_arrive") == 1
    ptx = stage(kernel, "sm_90a", "ptx", specialize=asks)
    assert ".reqntid 384" in ptx and ".minnctapersm 1" in ptx
    assert "setmaxnreg.dec.sync.aligned.u32 40" in ptx and "setmaxnreg.inc.sync.aligned.u32 232" in ptx
    assert "bar.sync \t0" not in ptx[ptx.index("setmaxnreg.inc"):]
    if not asks:
        assert all("partitions" not in stage(kernel, *target, **options) for target, options in
                   [(("sm_90a", "gpu"), dict(warps=2)), (("sm_90a", "gpu"), dict(specialize="never")), (("sm_89", "gpu"), {})])


REFUSED = {
    "store to the memory": ("d.store([0, k], d.load([0, k]) * 2)", "", "the kernel may store to the memory that the loop loads"),
    "atomics": ("tl.atomic_add(n, 1)", "", "the kernel has atomics, barriers or calls, which may wait for other programs"),
    "offsets": ("", "k = tl.load(n + k) * 64", "a loop with dots has loads that TMA cannot do, or that cannot be started early"),
    "polling": ("tl.store(c, tl.load(n, volatile=True))", "", "the kernel may wait for a value that another program stores"),
    "pointers": ("", "other += tl.sum(tl.load(n + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]).to(tl.float32))", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_why_no_warp_does_the_copies(tegula, tmp_path, case):
    behind, inside, reason = REFUSED[case]
    source = tmp_path / "k.py"
    source.write_text(f"""import tegula
import tegula.language as tl


@tegula.jit
def k(a, n, c, K):
    d = tl.make_tensor_descriptor(a, [64, K], [K, 1], [64, 64])
    acc = tl.zeros([64, 64], tl.float32)
    other = 0.0
    for i in tl.range(0, K, 64, warp_specialize=True):
        k = i
        {inside or "pass"}
        t = d.load([0, k])
        acc = tl.dot(t, t.T, acc)
    k = 0
    {behind or "pass"}
    tl.store(c + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc + other)
""")
    p = tegula("compile", f"{source}::k", "--sig", "a:*bf16:16, n:*i32:16, c:*fp32:16, K:i32:16", "-t", "sm_90a", "--emit", "gpu", "--remarks")
    assert p.returncode == 0, p.stderr
    assert ("partitions" in p.stdout) == (reason is None)
    found = re.findall(r"k.py:(\d+):\d+: remark: the copies of this loop get no dedicated warp: (.*?) \[notSpecialized\]", p.stderr)
    assert found == ([("10", reason)] if reason else [])


def test_warps_store_their_part_of_a_tile_by_tma(stage):
    ptx = stage(PERSISTENT, "sm_90a", "ptx")
    epilogue = ptx[ptx.index("cp.async.bulk.wait_group"):ptx.rindex("cp.async.bulk.commit_group")]
    # 16 x 256 of a warp in four steps, two buffers; no block barrier, no store by pointers, nothing read back.
    assert epilogue.count("cp.async.bulk.tensor.2d.global.shared::cta") == 4 and ptx.count("cp.async.bulk.commit_group") == 4
    assert epilogue.count("stmatrix.sync.aligned.m8n8.x4") == 16 and epilogue.count("cp.async.bulk.wait_group.read 1") == 2
    assert not re.search(r"bar\.sync|barrier|st\.global|ld\.shared", epilogue)
    assert "desc_store" not in stage(PERSISTENT, "sm_89", "gpu")
    # Rows begin at a program's number times an argument; extents say that it is positive.
    assert stage(ATTENTION, "sm_90a", "ptx").count("cp.async.bulk.tensor.2d.global.shared::cta") == 2


def test_warps_do_not_meet_between_tiles(stage):
    """The epilogue exchanges values inside warps, in bytes that each warp has for itself: no barrier of the block in the loop over tiles."""
    gpu, ptx = stage(PERSISTENT, "sm_90a", "gpu"), stage(PERSISTENT, "sm_90a", "ptx")
    stored = re.findall(r"^layout L\d+ = .* warp: (\S+ \S+ \S+) -> dim0 128, dim1 256", gpu, re.M)
    assert len(set(stored)) == 1, stored
    # One when the mbarriers are made, two when they end.
    assert ptx.count("bar.sync") == 3 and "stmatrix" in ptx


def test_first_dot_of_attention_runs_ahead(stage):
    body = loop(stage(ATTENTION, "sm_90a", "gpu", specialize="never", warps=4))
    assert body.count("tma_copy") == 2 and "to_shared" not in body
    # One wait in an iteration, for both, where the second dot's last result is used; a carried result is what the first reads.
    assert len(re.findall("dot_wait", body)) == 1 and "dot_wait %acc" in body
    # Eight warps: the second dot a step late, so each of the two is waited for.
    late = loop(stage(ATTENTION, "sm_90a", "gpu", specialize="never"))
    assert late.count("tma_copy") == 2 and len(re.findall("dot_wait", late)) == 2
    # By pointers as well, where the warps copy themselves (of eight a producer does); the load for the iteration behind the last one is masked off.
    by_pointers = loop(stage(POINTERS, "sm_90a", "gpu", warps=4))
    assert "to_shared" not in by_pointers and by_pointers.index("async_copy") > by_pointers.index("splat")


def test_probabilities_stay_in_registers(stage):
    ptx = stage(ATTENTION, "sm_90a", "ptx")
    assert re.search(r"wgmma\.mma_async\.sync\.aligned\.m64n128k16\S* \{[^}]*\}, \{%r", ptx)


def test_computed_operands_take_turns(stage):
    body = loop(stage(W4, "sm_90a", "gpu", stages=4))
    assert body.count("async_copy") == 2 and "shared_store" in body and "dot_wait {pending = 1}" in body


def test_loads_start_together(stage):
    """Conversions to wider types wait for their users: the loads of scale and shift follow each other."""
    norm = ("layer_norm", "x:*bf16:16, w:*bf16:16, b:*bf16:16, out:*bf16:16, cols:i32:16, eps:fp32", dict(BLOCK=8192))
    kinds = re.findall(r" (load|fpext) ", stage(norm, "sm_90a", "gpu"))
    assert kinds == ["load", "fpext", "load", "load", "fpext", "fpext"]
    lines = [line for line in stage(norm, "sm_90a", "ptx").splitlines() if re.search(r"ld\.global|shl\.b32|fma", line)]
    loads = [i for i, line in enumerate(lines) if "ld.global" in line]
    assert len(loads) == 12 and loads[-1] - loads[4] == 7


@pytest.fixture
def scatter(tmp_path, tegula):
    def emit(target, pointer, stage="ptx", *, use=False, sem="relaxed", mask="n", more=()):
        source = tmp_path / "scatter.py"
        source.write_text(f"""
import tegula
import tegula.language as tl
@tegula.jit
def scatter(x, v, old, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.atomic_add(x + i, tl.load(v + i), i < n, sem="{sem}")
    {"tl.store(old + i, r)" if use else "pass"}
""")
        p = tegula("compile", f"{source}::scatter", "--sig", f"x:*{pointer}:16, v:*{pointer}:16, old:*{pointer}:16, {mask}", "-t", target,
                   "--emit", stage, "-c", "BLOCK=2048", *more)
        assert p.returncode == 0, p.stderr
        return p
    return emit


@pytest.mark.parametrize("target, pointer, wide", [
    ("sm_90a", "fp32", "add.v4.f32"), ("sm_90a", "fp16", "add.noftz.v4.f16x2"), ("sm_90a", "bf16", "add.noftz.v4.bf16x2"),
    ("sm_90a", "fp64", "add.f64"), ("sm_90a", "i32", "add.u32"), ("sm_80", "fp32", "add.f32"), ("sm_80", "fp16", "add.noftz.f16x2"),
])
def test_atomic_sums_are_wide(scatter, target, pointer, wide):
    mask = "n:i32:16"
    assert f"red.relaxed.gpu.global.{wide} " in scatter(target, pointer, mask=mask).stdout
    order = "global.gpu.relaxed" if ".v4" not in wide and "x2" not in wide else "relaxed.gpu.global"
    assert f"atom.{order}.{wide} " in scatter(target, pointer, mask=mask, use=True).stdout
    # Ordered ones of a whole tile whose old values nobody reads: one fence, in front.
    text = scatter(target, pointer, mask=mask, sem="acq_rel").stdout
    assert f"red.relaxed.gpu.global.{wide} " in text and text.count("fence.acq_rel.gpu") == 1
    assert scatter(target, pointer, mask=mask, sem="release").stdout.count("fence.acq_rel.gpu") == 1


def test_exchanges_nobody_reads_keep_their_order(tegula, tmp_path):
    """Locks taken by relaxed compare-and-swaps live on an acq_rel exchange forgetting what the L1 holds."""
    (tmp_path / "k.py").write_text("import tegula\nimport tegula.language as tl\n@tegula.jit\ndef unlock(lock):\n"
                                   "    tl.atomic_xchg(lock, 0)\n    tl.atomic_xchg(lock + 1, 0, sem='release')\n")
    text = tegula("compile", f"{tmp_path}/k.py::unlock", "--sig", "lock:*i32:16", "-t", "sm_90a", "--emit", "ptx").stdout
    assert [text.count(f"atom.global.gpu.{sem}.exch.b32") for sem in ("acq_rel", "release")] == [1, 1], text


def test_atomic_sums_of_bf16_before_hopper_swap_pairs(scatter):
    text = scatter("sm_86", "bf16", mask="n:i32:16").stdout
    assert text.count("atom.global.relaxed.cas.b32") == 8 and "cas.b16" not in text


def test_atomic_under_a_mask_of_single_elements_is_narrow(scatter):
    p = scatter("sm_90a", "fp32", mask="n:i32", more=("--remarks",))
    assert "red.relaxed.gpu.global.add.f32 " in p.stdout
    assert "this atomic takes 1 of the 4 elements" in p.stderr


def test_programmatic_dependent_launch(tmp_path, tegula):
    source = tmp_path / "chained.py"
    source.write_text("""
import tegula
import tegula.language as tl
from tegula.language.extra import cuda
@tegula.jit
def chained(x, y):
    i = tl.arange(0, 128)
    cuda.gdc_wait()
    v = tl.load(x + i)
    cuda.gdc_launch_dependents()
    tl.store(y + i, v + cuda.globaltimer() + cuda.smid())
""")
    def ptx(target):
        p = tegula("compile", f"{source}::chained", "--sig", "x:*i64:16, y:*i64:16", "-t", target, "--emit", "ptx")
        assert p.returncode == 0, p.stderr
        return p.stdout
    text = ptx("sm_90a")
    order = [text.index(s) for s in ("griddepcontrol.wait;", "ld.global", "griddepcontrol.launch_dependents;", "st.global")]
    assert order == sorted(order) and "%globaltimer" in text and "%smid" in text
    assert "griddepcontrol" not in ptx("sm_89")


def tensor_kernel(tegula, tmp_path, rank, body, sig, numbers, stages="ptx"):
    source = tmp_path / "k.py"
    source.write_text("import tegula\nimport tegula.language as tl\n\n\n@tegula.jit\ndef k(" + body)
    p = tegula("compile", f"{source}::k", "--sig", sig, "-t", "sm_90a", "--emit", stages, *(x for k, v in numbers.items() for x in ("-c", f"{k}={v}")))
    assert p.returncode == 0, p.stderr
    return p.stdout


BATCHED = """a, b, c, Z, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [Z, M, K], [M * K, K, 1], [1, BM, BK])
    bd = tl.make_tensor_descriptor(b, [Z, N, K], [N * K, K, 1], [1, BN, BK])
    cd = tl.make_tensor_descriptor(c, [Z, M, N], [M * N, N, 1], [1, BM, BN])
    z, m, n = tl.program_id(0), tl.program_id(1) * BM, tl.program_id(2) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(ad.load([z, m, k]).reshape(BM, BK), bd.load([z, n, k]).reshape(BN, BK).T, acc)
    cd.store([z, m, n], acc.reshape(1, BM, BN).to(cd.dtype))
"""


def test_batched_matmul_by_descriptors_of_three_dimensions(tegula, tmp_path):
    emit = lambda stage: tensor_kernel(tegula, tmp_path, 3, BATCHED, "a:*bf16:16, b:*bf16:16, c:*bf16:16, Z:i32, M:i32:16, N:i32:16, K:i32:16",
                                       dict(BM=128, BN=128, BK=64), stage)
    body = loop(emit("gpu"))
    # wgmma reads the tiles of the ring as they lie.
    assert body.count("tma_copy") == 2 and "to_shared" not in body and "shared_load" not in body and "shared_store" not in body
    ptx = emit("ptx")
    assert "cp.async.bulk.tensor.3d.shared::cluster" in ptx and "cp.async.bulk.tensor.3d.global" in ptx and "st.global" not in ptx


@pytest.mark.parametrize("op, elem, suffix", [("add", "fp32", "add"), ("add", "bf16", "add"), ("max", "i32", "max"), ("min", "u64", "min"),
                                              ("xor", "i64", "xor"), ("max", "fp16", "max"), ("min", "bf16", "min")])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_reductions_of_every_rank_by_tma(tegula, tmp_path, op, elem, suffix, rank):
    lead = ", ".join(["2"] * (rank - 1) + [""]) if rank > 1 else ""
    zeros = ", ".join(["0"] * (rank - 1) + ["tl.program_id(0) * 64"])
    # 64 columns of a tensor that is contiguous.
    strides = ", ".join([f"{64 * 2 ** (rank - 2 - d)}" for d in range(rank - 1)] + ["1"])
    body = f"""x):
    d = tl.make_tensor_descriptor(x, [{lead} 64], [{strides}], [{lead} 64])
    d.atomic_{op}([{zeros}], d.load([{zeros}]))
"""
    ptx = tensor_kernel(tegula, tmp_path, rank, body, f"x:*{elem}:16", {})
    assert f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{suffix}.tile" in ptx and not re.search(r"\b(red|atom)\.global", ptx)


IN_FRONT = """a, c, M, N, shift, BM: tl.constexpr, BN: tl.constexpr):
    ad = tl.make_tensor_descriptor(a, [M, 64], [64, 1], [BM, 64])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    x = ad.load([tl.program_id(0) * BM, 0])
    cd.{write}([tl.program_id(0) * BM - shift, 0], tl.dot(x, x.T).to(cd.dtype))
"""


@pytest.mark.parametrize("write, tma, pointer", [("store", "cp.async.bulk.tensor.2d.global", "st.global.v4.b32"),
                                                 ("atomic_add", "cp.reduce.async.bulk.tensor.2d.global", "red.relaxed.gpu.global.add.noftz.bf16 ")])
def test_writes_that_may_begin_in_front_of_the_tensor(tegula, tmp_path, write, tma, pointer):
    """By TMA; beside each copy a short loop for the case that they do. Which stands there only if it may be the case."""
    emit = lambda body: tensor_kernel(tegula, tmp_path, 2, body, "a:*bf16:16, c:*bf16:16, M:i32:16, N:i32:16, shift:i32", dict(BM=64, BN=64))
    ptx = emit(IN_FRONT.format(write=write))
    assert ptx.count(tma) == ptx.count(pointer) == ptx.count('.pragma "nounroll"') and tma in ptx
    ptx = emit(IN_FRONT.format(write=write).replace(" - shift", ""))
    assert tma in ptx and pointer not in ptx
    # Rows that end anywhere are clipped element by element; where they are as long as the stride they end at 16 bytes.
    sig = "a:*bf16:16, c:*bf16:16, M:i32:16, N:i32, shift:i32"
    for stride, by_tma in ("N", True), ("N + 8", False):
        body = IN_FRONT.format(write=write).replace("[N, 1]", f"[{stride}, 1]")
        assert (tma in tensor_kernel(tegula, tmp_path, 2, body, sig, dict(BM=64, BN=64))) == by_tma


ROWS = """x, index, out, M, stride, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    rows = tl.load(index + r)
    tile = tl.load(x + rows[:, None] * stride + c[None, :], mask=(rows[:, None] >= 0) & (rows[:, None] < M) & (c[None, :] < stride), other=0)
    tl.store(out + rows[:, None] * stride + c[None, :], tile * 2, mask=(rows >= 0)[:, None] & (c < stride)[None, :])
"""


def test_rows_by_index_move_no_tiles_of_pointers(tegula, tmp_path):
    """What is loaded is one index for each row; addresses and masks of the tile are computed where the access wants them."""
    gpu = tensor_kernel(tegula, tmp_path, 2, ROWS, "x:*bf16:16, index:*i32:16, out:*bf16:16, M:i32, stride:i32:16", dict(R=128, C=64), "gpu")
    moved = re.findall(r"= convert .* : tensor<(\w+),", gpu)
    assert moved and not [t for t in moved if t.startswith("128x64")], moved
    assert gpu.count("vec = 8") == 2


GATHERED = """x, w, index, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    xd = tl.make_tensor_descriptor(x, [M, K], [K, 1], [1, BK])
    wd = tl.make_tensor_descriptor(w, [K, N], [N, 1], [BK, BN])
    od = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, BN])
    rows = tl.load(index + tl.program_id(0) * BM + tl.arange(0, BM))
    n = tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(xd.gather(rows, k), wd.load([k, n]), acc)
    od.scatter(acc.to(tl.bfloat16), rows, n)
"""


def test_gathered_operands_are_copied_asynchronously(tegula, tmp_path):
    """Straight to the ring, 16 bytes at a time; what depends on the rows alone is moved to where the copies want it in front of the loop."""
    sig = "x:*bf16:16, w:*bf16:16, index:*i32:16, out:*bf16:16, M:i32, N:i32:16, K:i32:16"
    gpu = tensor_kernel(tegula, tmp_path, 2, GATHERED, sig, dict(BM=128, BN=128, BK=64), "gpu")
    body = loop(gpu)
    assert "async_copy" in body and "{vec = 8}" in body and "tma_copy" in body
    assert not re.search(r"convert|shared_store|to_shared|shared_load| load ", body)


@pytest.mark.parametrize("rows, columns, merged, copies", [(16, 1024, 4, 1), (32, 512, 4, 1), (16, 2048, 4, 2), (32, 256, 0, 0), (8, 512, 0, 0)])
def test_wide_rows_are_copies_of_their_own(tegula, tmp_path, rows, columns, merged, copies):
    """Where that takes fewer instructions than pointers: rows of a KiB and more, unless a dot is computed from them."""
    body = """x, index, out, M, N, R: tl.constexpr, C: tl.constexpr):
    tile = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, C]).gather(tl.load(index + tl.arange(0, R)), 0)
    tl.store(out + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], {value})
"""
    emit = lambda value, stage: tensor_kernel(tegula, tmp_path, 2, body.format(value=value), "x:*bf16:16, index:*i32:16, out:*bf16:16, M:i32, N:i32:16",
                                              dict(R=rows, C=columns), stage)
    assert (f"merged = {merged}" in emit("tile", "gpu")) == (merged > 0)
    assert emit("tile", "ptx").count("cp.async.bulk.tensor.2d.shared::cluster") == copies
    assert "tma_copy" not in emit("tile + tl.dot(tile, tile.T).to(tl.bfloat16).sum(axis=1)[:, None]", "gpu")


PAGED = """q, kv, table, out, M, L, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    qd = tl.make_tensor_descriptor(q, [BM, D], [D, 1], [BM, D])
    kd = tl.make_tensor_descriptor(kv, [M, D], [D, 1], [{block}, D])
    x = qd.load([0, 0])
    acc = tl.zeros([BM, D], tl.float32)
    for i in range(0, L):
        y = {load}
        acc = tl.dot(tl.dot(x, y.T).to(tl.bfloat16), y, acc)
    tl.store(out + tl.arange(0, BM)[:, None] * D + tl.arange(0, D)[None, :], acc)
"""


@pytest.mark.parametrize("block, load, copy", [("BN", "kd.load([tl.load(table + i) * BN, 0])", "tma_copy"),
                                               ("1", "kd.gather(tl.load(table + i * BN + tl.arange(0, BN)), 0)", "async_copy")])
def test_indices_are_loaded_ahead_too(tegula, tmp_path, block, load, copy):
    """Pages of a cache, rows of a sparse one: the index is loaded where the copy starts, only if that iteration runs."""
    gpu = tensor_kernel(tegula, tmp_path, 2, PAGED.format(block=block, load=load), "q:*bf16:16, kv:*bf16:16, table:*i32:16, out:*fp32:16, M:i32:16, L:i32",
                        dict(BM=64, BN=64, D=128), "gpu")
    body = loop(gpu)
    ahead = re.search(r"^    if %\w+ \{\n(.*?)^    \} else", body, re.M | re.S).group(1)
    assert ahead.count(" load ") == 1 and ahead.count(copy) == 1 and body.count(" load ") == 1 and body.count(copy) == 1


def test_nothing_is_copied_before_the_kernel_in_front_has_ended(tmp_path, tegula):
    source = tmp_path / "behind.py"
    source.write_text("""
import tegula
import tegula.language as tl
from tegula.language.extra import cuda
@tegula.jit
def behind(a, b, c, K):
    cuda.gdc_wait()
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))
    cuda.gdc_launch_dependents()
""")
    tile = "tensordesc<fp16[64, 64]>:16"
    p = tegula("compile", f"{source}::behind", "--sig", f"a:{tile}, b:{tile}, c:{tile}, K:i32:16", "-t", "sm_90a", "--emit", "gpu")
    ops = [m.group(1) for m in re.finditer(r"\b(grid_wait|grid_launch|tma_copy|desc_store|store)\b", p.stdout)]
    assert ops[0] == "grid_wait" and ops[-1] == "grid_launch" and ops.count("tma_copy") >= 4, p.stdout + p.stderr


def test_barriers_of_carried_pointers_and_skipped_loops(tegula):
    """What another thread may have stored is met by a barrier: through pointers that change places, and behind a loop that may not run."""
    def ptx(kernel, signature):
        p = tegula("compile", f"{ROOT}/test/run/test_specialized.py::{kernel}", "--sig", signature, "-c", "N=512", "-t", "sm_90a", "--emit", "ptx")
        assert p.returncode == 0, p.stderr
        return p.stdout
    text = ptx("ping_pong", "a:*i32:16, b:*i32:16, T:i32")
    assert text.count("ld.global") and text.count("bar.sync") >= 1
    text = ptx("skipped", "c:*i32:16, y:*i32:16, n:i32")
    behind = text[:text.rindex("ld.global")]
    assert "bar.sync" in behind[behind.rindex("$L"):]


def test_ctas_of_a_cluster_have_parts(stage):
    """Rows of A and of the result; all of B. What the parts are computed with is what one CTA uses for such a tile."""
    for kernel in MATMUL, PERSISTENT:
        kernel = (*kernel[:2], dict(kernel[2], BM=256))
        text = stage(kernel, "sm_90a", "gpu", ctas=2)
        assert "cluster_rank" in text and re.search(r" dot .*: tensor<128x256xf32", text) and "256x256x" not in text
        ptx = stage(kernel, "sm_90a", "ptx", ctas=2)
        assert "wgmma.mma_async.sync.aligned.m64n256k16" in ptx and "%cluster_ctarank" in ptx and "%clusterid.x" in ptx


@pytest.mark.parametrize("kernel, warps", [(ATTENTION, 4), (CAUSAL, 4), (POINTERS, 4)])
def test_ctas_share_attention(stage, kernel, warps):
    text = stage(kernel, "sm_90a", "gpu", ctas=2, warps=warps)
    assert re.search(r" dot .*: tensor<64x64xf32", text) and re.search(r" dot .*: tensor<64x128xf32", text) and "cluster_gather" not in text


@pytest.mark.parametrize("kernel, warps, whole", [((*PERSISTENT[:2], dict(PERSISTENT[2], BM=256)), 8, 1),  # B, for all rows
                                                  ((*PERSISTENT[:2], dict(PERSISTENT[2], BM=64)), 4, 1),   # A, for all columns
                                                  (ATTENTION, 4, 2)])                                       # keys and values
def test_what_all_ctas_read_is_multicast(stage, kernel, warps, whole):
    text = stage(kernel, "sm_90a", "gpu", ctas=2, warps=warps)
    assert "partitions {" in text and text.count("multicast = 2") == whole
    assert re.search(rf"barrier_alloc {{slots = \d+, arrivals = {2 * warps}, ctas = 2[,}}]", text)
    ptx = stage(kernel, "sm_90a", "ptx", ctas=2, warps=warps)
    assert ptx.count(".multicast::cluster") >= whole and "mbarrier.arrive.shared::cluster.b64" in ptx
    # At the beginning, when the barriers are there, and at the end, when nobody arrives any more.
    assert ptx.count("barrier.cluster.arrive.aligned") == 2 == ptx.count("barrier.cluster.wait.aligned")


def test_a_cluster_without_shared_work_is_one_cta(tmp_path, tegula):
    source = tmp_path / "sums.py"
    source.write_text("""
import tegula
import tegula.language as tl
@tegula.jit
def sums(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.cumsum(tl.load(x + at), 0))
""")
    p = tegula("compile", f"{source}::sums", "--sig", "x:*fp32", "-c", "BLOCK=256", "-t", "sm_90a", "--num-ctas", "2", "--emit", "ptx", "--remarks")
    assert p.returncode == 0, p.stderr
    assert "cluster" not in p.stdout
    assert "sums.py:7:22: remark: the 2 CTAs of a cluster do not share the work of a store, because of this scan: it goes along axis 0 of tensor<256xf32>" in p.stderr


@pytest.mark.parametrize("columns, warps", [(64, 1), (256, 1), (256, 4)])
def test_argmax_of_a_warp_is_two_instructions(tegula, columns, warps):
    """The maximum and the smallest index that has it, each by redux.sync; max of the same tile is there already. No barrier between scalars, which one thread stores."""
    p = tegula("compile", f"{ROOT}/test/run/test_reduce.py::largest_first", "--sig", "x:*fp32:16, out:*fp32:16, at:*i32:16", "-t", "sm_90a", "--emit", "ptx", "--num-warps", str(warps), "-c", f"N={columns}", "-c", "K=5")
    assert p.returncode == 0, p.stderr
    assert p.stdout.count("redux.sync.max.s32") == 5 and p.stdout.count("redux.sync.min.s32") == 5 and "shfl" not in p.stdout
    # Across warps: the barrier of each of the two reductions, and one where their scratch comes around.
    assert p.stdout.count("bar.sync") <= (0 if warps == 1 else 11)


BYTES = """import tegula
import tegula.language as tl


@tegula.jit
def k(a, b, scales, zeros, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, i = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k + i)[None, :])
        w = tl.load(b + (k + i)[:, None] * N + n[None, :])
        scale, zero = tl.load(scales + k // 128 * N + n).to(tl.float32), tl.load(zeros + k // 128 * N + n).to(tl.float32)
        acc += tl.dot(x, ((w.to(tl.float32) - zero[None, :]) * scale[None, :]).to(x.dtype))
    tl.store(c + m[:, None] * N + n[None, :], acc)
"""


@pytest.mark.parametrize("tile", [(16, 32, 64), (16, 64, 128), (16, 128, 64)], ids=str)
def test_widened_operands_are_read_where_they_are_needed(tegula, tmp_path, tile):
    """Weights of a few bits for mma.sync: read in the instruction's layout, they cross shared memory once, and an iteration has the barrier of its ring alone."""
    source = tmp_path / "k.py"
    source.write_text(BYTES)
    p = tegula("compile", f"{source}::k", "--sig", "a:*bf16:16, b:*u8:16, scales:*bf16:16, zeros:*u8:16, c:*fp32:16, N:i32:16, K:i32:16", "-t", "sm_90a", "--emit", "gpu",
               *(x for name, n in zip(("BM", "BN", "BK"), tile) for x in ("-c", f"{name}={n}")))
    assert p.returncode == 0, p.stderr
    body = loop(p.stdout)
    assert body.count("shared_barrier") == 1 and "shared = [" not in body


def test_dots_that_the_assembler_serializes_are_remarked(tegula):
    """128x256 sums of 4 warps are all registers of a thread."""
    name, sig, constants = MATMUL
    p = tegula("compile", f"{ROOT}/bench/gpu_kernels.py::{name}", "--sig", sig, "-t", "sm_90a", "--remarks", "--num-warps", "4",
               *(x for k, v in constants.items() for x in ("-c", f"{k}={v}")))
    assert p.returncode == 0, p.stderr
    if "[spills]" not in p.stderr:
        pytest.skip("no assembler: scripts/requirements.txt brings it")
    assert re.search(r"gpu_kernels.py:\d+:\d+: remark: the dots of this kernel wait for each other: insufficient register resources.* \[dotsSerialized\]", p.stderr)


TAPS = '''import triton
import triton.language as tl


@triton.jit
def taps(a, b, c, N, K, TAPS: tl.constexpr):
    m = tl.arange(0, 64)
    k = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for tap in range(TAPS):
        for at in range(0, K, 64):
            x = tl.load(a + m[:, None] * N + (tap * K + at + k)[None, :])
            y = tl.load(b + (tap * K + at + k)[:, None] * 64 + m[None, :])
            acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * 64 + m[None, :], acc)
'''


@pytest.mark.parametrize("taps", (1, 9))
def test_inner_loops_copy_under_a_branch(tegula, tmp_path, taps):
    """They often have few iterations, in the last of which nothing is copied."""
    (tmp_path / "k.py").write_text(TAPS if taps > 1 else TAPS.replace("range(TAPS)", "tl.static_range(TAPS)"))
    p = tegula("compile", f"{tmp_path}/k.py::taps", "--sig", "a:*fp16:16, b:*fp16:16, c:*fp32:16, N:i32:16, K:i32:16", "-c", f"TAPS={taps}", "-t", "sm_90a", "--emit", "gpu")
    assert p.returncode == 0, p.stderr
    assert ("if" in re.findall(r"\w+", loop(p.stdout))) == (taps > 1)


ROWS_BY_LOOPS = '''import triton
import triton.language as tl


@triton.jit
def total(x, out, cols, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x + tl.program_id(0) * cols + offs, mask=offs < cols, other=0.0).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.sum(acc))


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    d = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        v = tl.load(x + tl.program_id(0) * cols + offs, mask=offs < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, v)
        d = d * tl.exp(m - new) + tl.exp(v - new)
        m = new
    top = tl.max(m)
    tl.store(out + tl.program_id(0), top + tl.log(tl.sum(d * tl.exp(m - top))))
'''


@pytest.mark.parametrize("kernel, block, warps, blocks", [
    ("total", 1024, 4, 12),    # a sum and 16 bytes ahead a thread would fit 16 times; loads of later iterations want registers
    ("total", 4096, 4, 12),    # a sum for all of a thread's columns, and 64 bytes: an iteration ahead
    ("softmax", 1024, 4, 12),  # carries 16 registers; exponentials take longer than memory
    ("softmax", 8192, 16, 2),  # carries 32, not 64: what leaves the loop takes the place of what it carried
])
def test_blocks_that_share_a_multiprocessor(tegula, tmp_path, kernel, block, warps, blocks):
    source = tmp_path / "rows.py"
    source.write_text(ROWS_BY_LOOPS)
    p = tegula("compile", f"{source}::{kernel}", "--sig", "x:*bf16:16, out:*fp32:16, cols:i32:16", "-c", f"BLOCK={block}", "-t", "sm_90a", "--emit", "ptx", "--num-warps", str(warps))
    assert p.returncode == 0, p.stderr
    assert re.search(r"\.minnctapersm (\d+)", p.stdout)[1] == str(blocks)


ROTARY = '''import triton
import triton.language as tl


@triton.jit
def rotary(x, cos, sin, y, rows, GUARD: tl.constexpr, BLOCK: tl.constexpr):
    if GUARD:
        if tl.program_id(0) * BLOCK >= rows:
            return
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, 64)[None, :]
    a = tl.load(x + r * 128 + c, mask=r < rows).to(tl.float32)
    b = tl.load(x + r * 128 + c + 64, mask=r < rows).to(tl.float32)
    m = tl.load(cos + r * 64 + c, mask=r < rows).to(tl.float32)
    n = tl.load(sin + r * 64 + c, mask=r < rows).to(tl.float32)
    tl.store(y + r * 128 + c, a * m - b * n, mask=r < rows)
    tl.store(y + r * 128 + c + 64, b * m + a * n, mask=r < rows)
'''


@pytest.mark.parametrize("block, blocks", [(16, [18]), (128, [])])
def test_a_branch_around_a_kernel_is_no_loop(tegula, tmp_path, block, blocks):
    """Its loads are wanted at once, as without `if ...: return`; a wish that they do not fit costs seconds in the assembler, which spills, before it is dropped."""
    (tmp_path / "k.py").write_text(ROTARY)
    for guard in (0, 1):
        p = tegula("compile", f"{tmp_path}/k.py::rotary", "--sig", "x:*bf16:16, cos:*bf16:16, sin:*bf16:16, y:*bf16:16, rows:i32", "-c", f"GUARD={guard}", "-c", f"BLOCK={block}", "-t", "sm_90a", "--emit", "ptx",
                   "--num-warps", "2")
        assert p.returncode == 0, p.stderr
        assert [int(n) for n in re.findall(r"\.minnctapersm (\d+)", p.stdout)] == blocks


LIBDEVICE = '''import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def one(x, y, out):
    i = tl.arange(0, 1024)
    tl.store(out + i, libdevice.{}(tl.load(x + i)))


@triton.jit
def two(x, y, out):
    i = tl.arange(0, 1024)
    tl.store(out + i, libdevice.{}(tl.load(x + i), tl.load(y + i)))
'''


def test_float32_functions_stay_in_float32(tegula, tmp_path):
    """A float64 instruction takes two turns of a float32 one on an H200, an exact division eight instructions. The most PTX that one element may take."""
    most = {"two pow": 100, "one erfc": 60, "one erfinv": 33, "one cbrt": 31, "one rcbrt": 34, "one sinpi": 34, "one cospi": 31, "one normcdf": 68, "one normcdfinv": 51, "one erfcinv": 49}
    for which, bound in most.items():
        entry, function = which.split()
        (tmp_path / f"{function}.py").write_text(LIBDEVICE.format(*([function] * 2 if entry == "two" else [function, "pow"])))
        p = tegula("compile", f"{tmp_path}/{function}.py::{entry}", "--sig", "x:*f32:16, y:*f32:16, out:*f32:16", "-t", "sm_90a", "--emit", "ptx", "--num-warps", "4")
        assert p.returncode == 0, p.stderr
        assert not re.search(r"\.f64|div\.", p.stdout), function
        count = len(re.findall(r"^\s+(?:@\S+ )?(?:add|sub|mul|mad|fma|neg|abs|min|max|setp|selp|shl|shr|and|or|xor|lop3|cvt|copysign|rcp|ex2|lg2|rsqrt)\.", p.stdout, re.M))
        assert count <= 8 * bound, (function, count / 8)


@pytest.mark.parametrize("function, instruction", [("fast_sinf", "sin.approx.ftz"), ("fast_cosf", "cos.approx.ftz"), ("fast_expf", "ex2.approx.ftz"), ("fast_logf", "lg2.approx.ftz")])
def test_fast_functions_are_one_instruction(tegula, tmp_path, function, instruction):
    (tmp_path / "k.py").write_text(LIBDEVICE.format(function, "pow"))
    p = tegula("compile", f"{tmp_path}/k.py::one", "--sig", "x:*f32:16, y:*f32:16, out:*f32:16", "-t", "sm_90a", "--emit", "ptx", "--num-warps", "4")
    assert p.returncode == 0, p.stderr
    assert p.stdout.count(instruction) == 8 and "fma." not in p.stdout and "setp" not in p.stdout


QUANTIZE = '''import triton
import triton.language as tl


@triton.jit
def quantize(x, q, scales, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    top = tl.max(tl.abs(v))
    tl.store(q + at, (v * (127 / top)).to(q.dtype.element_ty), mask=mask)
    tl.store(scales + tl.program_id(0), top / 127)
'''


@pytest.mark.parametrize("x, q, moved", [
    ("bf16", "i8", False),   # 8 bytes a thread, 256 a warp
    ("fp32", "bf16", False),
    ("fp32", "i8", True),    # 4 bytes
    ("bf16", "fp32", True),  # 32 bytes a thread: neighbours would write 16 each of them
])
def test_narrowed_rows_are_stored_where_they_are(tegula, tmp_path, x, q, moved):
    """Half as much a thread costs less than an exchange in shared memory, as long as a warp fills lines."""
    (tmp_path / "k.py").write_text(QUANTIZE)
    p = tegula("compile", f"{tmp_path}/k.py::quantize", "--sig", f"x:*{x}:16, q:*{q}:16, scales:*fp32:16, cols:i32:16", "-c", "BLOCK=4096", "-t", "sm_90a", "--emit", "gpu", "--num-warps", "8")
    assert p.returncode == 0, p.stderr
    assert ("convert" in re.findall(r"= (\w+)", p.stdout)) == moved


PAIRS = '''import triton
import triton.language as tl


@triton.jit
def halves(x, out, BLOCK: tl.constexpr):
    d = tl.arange(0, BLOCK)
    a, b = tl.split(tl.load(x + d[:, None] * 2 + tl.arange(0, 2)[None, :]))
    tl.store(out + d, a * b)


@triton.jit
def unpack(q, zeros, out, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r, c, wide = tl.arange(0, ROWS)[:, None], tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :], tl.program_id(0) * COLS * 4 + tl.arange(0, COLS * 4)[None, :]
    shifts = tl.reshape(tl.broadcast_to((tl.arange(0, 4) * 8)[None, :], (ROWS * COLS, 4)), (ROWS, COLS * 4))
    v = tl.load(q + r * cols + c)
    v = tl.interleave(v, v)
    v = tl.interleave(v, v)
    z = tl.load(zeros + c)
    z = tl.interleave(z, z)
    z = tl.broadcast_to(tl.interleave(z, z), (ROWS, COLS * 4))
    v = ((v >> shifts) & 255) - ((z >> shifts) & 255)
    tl.store(out + r * cols * 4 + wide, v.to(tl.float32))
'''


def test_pairs_stay_in_their_thread(tegula, tmp_path):
    """What is split or unpacked is loaded so that neither the halves nor what is stored moves, though some threads load copies or less at once."""
    (tmp_path / "k.py").write_text(PAIRS)
    p = tegula("compile", f"{tmp_path}/k.py::halves", "--sig", "x:*fp32:16, out:*fp32:16", "-c", "BLOCK=64", "-t", "sm_90a", "--emit", "gpu")
    assert p.returncode == 0, p.stderr
    assert "convert" not in p.stdout and "{vec = 2}" in p.stdout
    p = tegula("compile", f"{tmp_path}/k.py::unpack", "--sig", "q:*i32:16, zeros:*i32:16, out:*fp32:16, cols:i32:16", "-c", "ROWS=32", "-c", "COLS=32", "-t", "sm_90a", "--emit", "gpu")
    assert p.returncode == 0, p.stderr
    assert not re.search(r"convert .*tensor<32x128", p.stdout), p.stdout
