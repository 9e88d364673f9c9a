"""Ways to torch.compile other than a table of operators: each of them in a process of its own, without a compiler of C++ on its path."""
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

DEVICE = os.environ.get("TEGULA_TEST_TORCH_DEVICE", "cpu")
CPU_ONLY = pytest.mark.skipif(DEVICE != "cpu", reason="a program for cpu")
# Whether the C++ wrapper of this PyTorch calls kernels that are not C++ on CPUs.
CPU_PACKAGES = "DeferredCpuTritonCallWrapper" in (Path(torch.__file__).parent / "_inductor/codegen/cpp_wrapper_cpu.py").read_text()

# What every program has: a function, what it gives, and whether kernels of tegula were launched for it.
PRELUDE = f"""
import sys
import torch
DEVICE = {DEVICE!r}

def f(x, y):
    return torch.nn.functional.gelu(x * 2 + y).sin()

x, y = (torch.randn(100, 30, device=DEVICE) for _ in "xy")
"""


def run(tmp_path, program, *options, alias=True, compiler=False, **environment):
    """What the program prints, in lines. `compiler`: one of C++ is on its path, for what PyTorch itself makes of C++."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    env = {k: v for k, v in os.environ.items() if k not in ("CXX", "CC", "TORCH_CUSTOM_PYTHONPATH")}
    env.update({} if compiler else {"PATH": str(tmp_path / "nothing")}, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), **environment)
    done = subprocess.run([sys.executable, *(["-m", "tegula"] if alias else []), *options, str(script)], text=True, capture_output=True, timeout=600, env=env,
                          cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_alias(tmp_path):
    assert run(tmp_path, PRELUDE + """
c = torch.compile(f, fullgraph=True)
torch.testing.assert_close(c(x, y), f(x, y))
from torch._inductor.utils import run_and_get_code
torch._dynamo.reset()
_, (code,) = run_and_get_code(c, x, y)
print("@triton.jit" in code, "async_compile.triton" in code, "cpp_fused" in code)
""") == ["True True False"]


@CPU_ONLY
def test_module(tmp_path):
    """`import tegula.torch` in a script, and tegula.torch.compile."""
    assert run(tmp_path, """
import tegula.torch
""" + PRELUDE + """
for c in (torch.compile(f), tegula.torch.compile(f), tegula.torch.compile(dynamic=True)(f), torch.compile(f, backend="tegula")):
    torch._dynamo.reset()
    torch.testing.assert_close(c(x, y), f(x, y))
import triton, tegula
print(triton.jit is tegula.jit, torch._inductor.config.cpu_backend)
""", alias=False) == ["True triton"]


# Dynamo imports an installed Triton before it looks for backends: there must be none, or tegula.torch must be imported first.
WITHOUT_TRITON = """
import importlib.abc
import sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden())
"""


@CPU_ONLY
def test_backend_by_name(tmp_path):
    """Nothing of tegula is imported by the program; other functions go their own way."""
    assert run(tmp_path, WITHOUT_TRITON + PRELUDE + """
for options in ({}, {"mode": "max-autotune-no-cudagraphs"}, {"options": {"max_fusion_size": 4}}):
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(f, backend="tegula", **options)(x, y), f(x, y))
print("tegula" in sys.modules, torch._inductor.config.cpu_backend)
""", alias=False) == ["True cpp"]


def test_nothing_of_torch_is_imported(tmp_path):
    assert run(tmp_path, "import sys, tegula, tegula.language, tegula.runtime, tegula.backends, triton; print('torch' in sys.modules)") == ["False"]


def test_unknown_version(tmp_path):
    assert run(tmp_path, """
import torch
torch.__version__ = "2.99.0+cpu"
try:
    import tegula.torch
except RuntimeError as e:
    print(e)
""", alias=False) == ["tegula emits for torch 2.9 to 2.15, not for torch 2.99.0+cpu"]


def test_unknown_version_under_the_alias(tmp_path):
    """Programs run; torch.compile is left alone, with a warning."""
    assert run(tmp_path, """
import torch, warnings
torch.__version__ = "2.99.0+cpu"
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch._inductor.config as config
print(config.cpu_backend, [str(w.message) for w in said if "tegula" in str(w.message)])
""") == ["cpp ['tegula emits for torch 2.9 to 2.15, not for torch 2.99.0+cpu; torch.compile goes the way it would without tegula']"]


def test_another_triton(tmp_path):
    (tmp_path / "triton.py").write_text("")
    assert run(tmp_path, """
import triton
try:
    import tegula.torch
except RuntimeError as e:
    print(str(e).replace(triton.__file__, "triton.py"))
""", alias=False) == ["tegula.torch: another triton (triton.py) has been imported already; import tegula.torch first, or run the program by `python -m tegula`"]


@pytest.mark.parametrize("threads", [1, 2])
def test_compile_workers(tmp_path, threads):
    """Kernels compiled in this process, and in workers, that send them as pickles."""
    assert run(tmp_path, PRELUDE + """
import time
import torch._inductor.config as config
from torch._inductor.async_compile import AsyncCompile, maybe_warm_pool
def g(x, y):
    return f(x, y), (x.softmax(1) - y).sum(0), x.cumsum(1) * y
if config.compile_threads > 1:
    maybe_warm_pool()
    AsyncCompile.wait_pool_ready()
    assert AsyncCompile.use_process_pool()
for a, b in zip(torch.compile(g)(x, y), g(x, y)):
    torch.testing.assert_close(a, b)
print(config.compile_threads)
""", TORCHINDUCTOR_COMPILE_THREADS=str(threads)) == [str(threads)]


def test_second_process(tmp_path):
    """The second process takes the compiled graph and its kernels from Inductor's caches."""
    program = PRELUDE + """
torch.manual_seed(0)
torch.testing.assert_close(torch.compile(f)(x, y), f(x, y))
from torch._dynamo.utils import counters
print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""
    assert run(tmp_path, program) == ["0 1"]
    assert run(tmp_path, program) == ["1 0"]


def test_dynamic_shapes(tmp_path):
    assert run(tmp_path, PRELUDE + """
def g(x, y):
    return (f(x, y), x.sum(1), x.softmax(0), torch.cat([x, y]))
c = torch.compile(g, dynamic=True, fullgraph=True)
for rows in (1, 3, 100, 1000):
    for columns in (30, 31, 64, 2000):
        x, y = (torch.randn(rows, columns, device=DEVICE) for _ in "xy")
        for a, b in zip(c(x, y), g(x, y)):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
print("done")
""") == ["done"]


USER_KERNELS = PRELUDE + """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)

@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (64, 256)], key=["n"])
@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""


def test_user_kernels(tmp_path):
    assert run(tmp_path, USER_KERNELS + """
def g(x, y):
    x = x * 3
    out, twice = torch.empty_like(x), torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, twice, x.numel())
    return twice.relu() + x
torch.testing.assert_close(torch.compile(g, fullgraph=True)(x, y), (x * 3 + y).mul(2).relu() + x * 3)
print("done")
""") == ["done"]


def test_what_kernels_write(tmp_path):
    """Only what a user's kernel may write to counts as written: in a helper, by atomics, in one configuration of several."""
    assert run(tmp_path, USER_KERNELS + """
import torch._inductor.config
import torch._higher_order_ops.triton_kernel_wrap as wrap

def written(*args):
    found = wrap.identify_mutated_tensors(*args) if hasattr(wrap, "identify_mutated_tensors") else wrap.identify_accessed_tensors(*args)
    return found if isinstance(found, list) else [dep.name for dep in found.read_writes.writes]

@triton.jit
def put(where, value, i, m):
    tl.store(where + i, value, mask=m)

@triton.jit
def many_kernel(read, helped, counted, chosen, other, unused, choice, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(read + i, mask=i < n)
    put(helped, v, i, i < n)
    tl.atomic_add(counted, 1)
    tl.store(tl.where(choice > 0, chosen, other) + i, v, mask=i < n)

@triton.autotune(configs=[triton.Config({"SPLIT": s}) for s in (1, 2)], key=[])
@triton.jit
def split_kernel(x, out, part, SPLIT: tl.constexpr):
    if SPLIT == 1:
        tl.store(out, tl.load(x))
    else:
        tl.store(part, tl.load(x))
        tl.atomic_add(out, tl.load(part))

t = torch.zeros(10, device=DEVICE)
ints = torch.zeros(10, dtype=torch.int32, device=DEVICE)
print(written(add_kernel, dict(x=t, y=t, out=t, n=10, BLOCK=64), {}))
print(written(many_kernel, dict(read=t, helped=t, counted=ints, chosen=t, other=t, unused=t, choice=1, n=10, BLOCK=64), {}))
print(written(split_kernel, dict(x=t, out=t, part=t), {}))
print(written(add_kernel, dict(x=t, y=t, out=t, n=10, BLOCK="no size"), {}))

@torch.compile(fullgraph=True)
def g(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out + x
from torch._inductor.utils import run_and_get_code
result, (code,) = run_and_get_code(g, x, y)
torch.testing.assert_close(result, x + y + x)
print("clone" in code)
""") == ["['out']", "['helped', 'counted', 'chosen', 'other']", "['out', 'part']", "['x', 'y', 'out']", "False"]


def test_triton_op(tmp_path):
    assert run(tmp_path, USER_KERNELS + """
from torch.library import triton_op, wrap_triton

@triton_op("test::add", mutates_args={})
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out

def backward(context, gradient):
    return gradient, gradient

add.register_autograd(backward)
x.requires_grad_()
g = lambda x, y: add(x.sin(), y).cos()
expected = (x.sin() + y).cos()
torch.testing.assert_close(g(x, y), expected)
compiled = torch.compile(g, fullgraph=True)(x, y)
torch.testing.assert_close(compiled, expected)
torch.testing.assert_close(torch.autograd.grad(compiled.sum(), x), torch.autograd.grad(expected.sum(), x))
print("done")
""") == ["done"]


def test_flex_attention(tmp_path):
    assert run(tmp_path, PRELUDE + """
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
torch.set_float32_matmul_precision("highest")
q, k, v = (torch.randn(2, 4, 128, 32, device=DEVICE) for _ in range(3))
def biased(score, b, h, i, j):
    return score + (i - j) * 0.01
causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device=DEVICE)
attend = torch.compile(flex_attention, fullgraph=True)
for options in ({}, {"score_mod": biased}, {"block_mask": causal}, {"score_mod": biased, "block_mask": causal}):
    torch.testing.assert_close(attend(q, k, v, **options), flex_attention(q, k, v, **options), atol=2e-5, rtol=2e-5)
print("done")
""") == ["done"]


def test_what_merely_imports(tmp_path):
    """Optimizers, checkpoints, custom operators and fake tensors."""
    assert run(tmp_path, PRELUDE + """
from torch._subclasses import FakeTensorMode
from torch.utils.checkpoint import checkpoint
model = torch.nn.Linear(30, 30, device=DEVICE)
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
    optimizer = kind(model.parameters())
    checkpoint(model, x, use_reentrant=False).sum().backward()
    optimizer.step()
@torch.library.custom_op("test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@twice.register_fake
def _(x):
    return torch.empty_like(x)
torch.testing.assert_close(torch.compile(lambda x: twice(x).sin(), fullgraph=True)(x), (x * 2).sin())
with FakeTensorMode():
    print(tuple(torch.empty(3, 4).t().shape))
""") == ["(4, 3)"]


def test_autocast(tmp_path):
    """Forward and backward under torch.autocast, with a gradient scaler, as programs train in mixed precision."""
    assert run(tmp_path, PRELUDE + """
def train(compiled, dtype, scaled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 30), torch.nn.Softmax(1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=256.0, enabled=scaled)
    step = torch.compile(model, fullgraph=True) if compiled else model
    losses = []
    for _ in range(5):
        with torch.autocast(DEVICE, dtype=dtype):
            loss = (step(x) * y).square().sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return torch.tensor(losses)
for dtype, scaled in ((torch.bfloat16, False), (torch.float16, True)):
    torch._dynamo.reset()
    expected = train(False, dtype, scaled)
    assert expected[-1] < expected[0]
    torch.testing.assert_close(train(True, dtype, scaled), expected, atol=0, rtol=1e-2)
print("done")
""") == ["done"]


def test_graphs(tmp_path):
    """mode="reduce-overhead": on GPUs kernels are captured in CUDA graphs, whose replays see new inputs."""
    assert run(tmp_path, PRELUDE + """
def g(x, y):
    return f(x, y), x.softmax(1), (x * y).sum()
c = torch.compile(g, mode="reduce-overhead", fullgraph=True)
for _ in range(6):
    x, y = torch.randn_like(x), torch.randn_like(y)
    for a, b in zip(c(x, y), g(x, y)):
        torch.testing.assert_close(a.clone(), b, atol=1e-4, rtol=1e-4)
if DEVICE == "cuda":
    from torch._dynamo.utils import counters
    from torch._inductor.cudagraph_trees import get_container
    assert not counters["inductor"]["cudagraph_skips"]
    assert get_container(0).tree_manager.roots, "nothing was captured"
print("done")
""") == ["done"]


@pytest.mark.skipif(DEVICE != "cuda", reason="PyTorch's static launcher starts kernels of GPUs")
def test_static_launcher(tmp_path):
    """PyTorch starts the kernels of a graph by itself; a second process takes them from Inductor's cache and compiles nothing; a kernel that may fail keeps its message."""
    program = PRELUDE + """
from torch._inductor.runtime import triton_heuristics
launchers = []
make = triton_heuristics.StaticTritonCompileResult.make_launcher
triton_heuristics.StaticTritonCompileResult.make_launcher = lambda self: launchers.append(make(self)) or launchers[-1]
def g(x, y):
    return f(x, y), x.softmax(1), (x * y).sum()
torch.manual_seed(0)
x, y = (torch.randn(100, 30, device=DEVICE) for _ in "xy")
for a, b in zip(torch.compile(g, fullgraph=True)(x, y), g(x, y)):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
print(len(launchers) > 0 and all(l._is_static for l in launchers))
count = len(launchers)
index = torch.arange(0, 100, 3, device=DEVICE)
torch.testing.assert_close(torch.compile(lambda x, i: x[i] + 1, fullgraph=True)(x, index), x[index] + 1)
print(len(launchers) - count)
"""
    assert run(tmp_path, program) == ["True", "0"]
    assert run(tmp_path, program) == ["True", "0"]


PACKAGE = PRELUDE + """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(30, 40), torch.nn.LayerNorm(40)

    def forward(self, x, y):
        h = self.norm(f(self.linear(x), self.linear(y)))
        return h.softmax(1), h.sum(0), (x * y).sum()

model = Model().eval().to(DEVICE)
rows = torch.export.Dim("rows", min=2)
program = torch.export.export(model, (x, y), dynamic_shapes={"x": {0: rows}, "y": {0: rows}})
"""


@pytest.mark.skipif(DEVICE == "cpu" and not CPU_PACKAGES, reason="its C++ wrapper calls no kernels that are not C++ on CPUs")
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="PyTorch makes a package's wrapper of C++, and there is no compiler")
def test_package(tmp_path):
    """AOTInductor: kernels in a package, which another process loads that knows nothing of tegula, at other sizes too."""
    assert run(tmp_path, PACKAGE + """
import os
torch._inductor.aoti_compile_and_package(program, package_path=os.environ["WHERE"] + "/model.pt2")
examples = [tuple(torch.randn(n, 30, device=DEVICE) for _ in "xy") for n in (100, 7, 1000)]
torch.save([(e, model(*e)) for e in examples], os.environ["WHERE"] + "/examples.pt")
print("done")
""", compiler=True, WHERE=str(tmp_path))[-1] == "done"
    with zipfile.ZipFile(tmp_path / "model.pt2") as package:
        names = [name.rpartition("/")[2] for name in package.namelist()]
    kernels = [n for n in names if n.endswith(".cubin" if DEVICE == "cuda" else ".so") and "wrapper" not in n]
    assert len(kernels) >= 2, names
    assert run(tmp_path, """
import os, sys
import torch
model = torch._inductor.aoti_load_package(os.environ["WHERE"] + "/model.pt2")
for inputs, expected in torch.load(os.environ["WHERE"] + "/examples.pt"):
    for a, b in zip(model(*inputs), expected):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
print("tegula" in sys.modules, "libtegula" in open("/proc/self/maps").read())
""", alias=False, WHERE=str(tmp_path), PYTHONPATH="")[-1] == "False False"


@pytest.mark.skipif(DEVICE != "cpu" or CPU_PACKAGES, reason="packages can be made")
def test_no_package(tmp_path):
    assert run(tmp_path, PACKAGE + """
try:
    torch._inductor.aoti_compile_and_package(program)
except Exception as e:
    print(str(e).partition("cannot call")[1:2], "cpu_backend" in str(e))
""", compiler=True)[-1] == "('cannot call',) True"


def test_compiled_optimizer(tmp_path):
    assert run(tmp_path, PRELUDE + """
def train(compiled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = torch.compile(optimizer.step) if compiled else optimizer.step
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        step()
    return torch.cat([p.flatten() for p in model.parameters()])
torch.testing.assert_close(train(True), train(False), atol=1e-4, rtol=1e-3)
print("done")
""") == ["done"]


def test_settings(tmp_path):
    """Settings of Inductor that change its kernels, or what it measures of them."""
    settings = [{"triton.persistent_reductions": False}, {"triton.cooperative_reductions": True}, {"triton.multi_kernel": 1}, {"triton.prefer_nd_tiling": True, "triton.max_tiles": 3},
                {"coordinate_descent_tuning": True}, {"combo_kernels": True, "benchmark_combo_kernel": True}, {"benchmark_fusion": True}, {"max_autotune_pointwise": True},
                {"triton.codegen_upcast_to_fp32": False}, {"nan_asserts": True}, {"deterministic": True}, {"triton.use_block_ptr": True}]
    assert run(tmp_path, PRELUDE + f"""
def g(x, y):
    return f(x, y), x.softmax(1), torch.nn.functional.layer_norm(y, (30,)), x.cumsum(1), x.t().contiguous() + 1, x.var(0), x.sum()
for options in {settings!r}:
    torch._dynamo.reset()
    for a, b in zip(torch.compile(g, options=options)(x, y), g(x, y)):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4, msg=lambda m: f"{{options}}: {{m}}")
print("done")
""")[-1] == "done"


def test_dumps(tmp_path):
    """What Inductor writes is where PyTorch says."""
    program = PRELUDE + "torch.compile(f)(x, y)\n"
    run(tmp_path, program, TORCH_COMPILE_DEBUG="1")
    written = [path.read_text() for path in (tmp_path / "torch_compile_debug").rglob("output_code.py")]
    assert written and all("@triton.jit" in text for text in written)


def test_logs(tmp_path):
    """TORCH_LOGS shows the code, and a program in one file that runs a kernel by itself is written where it is asked for."""
    program = PRELUDE + """
import logging
said = []
class Kept(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("torch._inductor.graph.__output_code").addHandler(Kept())
logging.getLogger("torch._inductor.output_code").addHandler(Kept())
logging.getLogger("torch._inductor").addHandler(Kept())
torch.compile(f)(x, y)
print(any("@triton.jit" in text for text in said))
"""
    assert run(tmp_path, program, TORCH_LOGS="output_code")[-1] == "True"
    assert run(tmp_path, program)[-1] == "False"
    unique = PRELUDE + """
import os
torch.compile(f)(x, y)
import torch._inductor.config as config
print(config.triton.unique_kernel_names, config.benchmark_kernel)
"""
    assert run(tmp_path, unique, TORCHINDUCTOR_BENCHMARK_KERNEL="1", TORCHINDUCTOR_UNIQUE_KERNEL_NAMES="1")[-1].split() == ["True", "True"]
    texts = [p.read_text() for p in (tmp_path / "inductor").rglob("*.py")]
    alone = [t for t in texts if "def benchmark_all_configs" in t or "def call(args)" in t and "get_args" in t]
    assert alone, "no kernel with its own benchmark was written"
