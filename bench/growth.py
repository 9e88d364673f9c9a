#!/usr/bin/env python3
"""Processor time of a compilation against the length of a kernel: `growth.py [NAME ...] [--target cpu sm_90a sim] [--json FILE]`.

Each row is a kernel of n statements of one kind, compiled with n, 2n and 4n of them in processes of their own (`tegula compile`, user seconds). `power` is
the exponent of the last doubling, the time of an empty kernel taken off: 1 is linear. A compilation ends after --most seconds.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = "import tegula\nimport tegula.language as tl\nfrom tegula.language.extra import libdevice\n\n\n"
ALL, CPU, GPU = ("cpu", "sm_90a", "sim"), ("cpu",), ("sm_90a", "sim")
POINTERS = "x:*f32:16, y:*f32:16, o:*f32:16, n:i32"


def lines(n, text):
    return "".join("    " + text.replace("#", str(i)).replace("\n", "\n    ") + "\n" for i in range(n))


def kernel(body, parameters="x, y, o, n", before=""):
    return f"{HEAD}{before}@tegula.jit\ndef k({parameters}):\n    i = tl.arange(0, 1024)\n    t = tl.arange(0, 16)\n    s = t[:, None] * 16 + t[None, :]\n{body}"


def repeated(text, first="", last="", signature=POINTERS, before="", step="1"):
    """The statement n times in a row; `#` is its number."""
    parameters = ", ".join(p.split(":")[0].strip() for p in signature.split(","))
    return lambda n: (kernel(first + lines(n, text) + last, parameters, before), signature)


def unrolled(text, first="", last="", signature=POINTERS):
    def make(n):
        return kernel(f"{first}    for j in tl.static_range({n}):\n        {text}\n{last}"), signature

    return make


LOAD, STORE = "    v = tl.load(x + i)\n", "    tl.store(o + i, v)\n"
DOT, STORE_DOT = "    c = tl.load(o + s)\n", "    tl.store(o + s, c)\n"
LARGE = "    u = tl.arange(0, 64)\n    w = u[:, None] * 64 + u[None, :]\n    c = tl.load(o + w)\n"
DESCRIPTOR = "    d = tl.make_tensor_descriptor(x, [n, 1024], [1024, 1], [16, 64])\n    e = tl.make_tensor_descriptor(o, [n, 1024], [1024, 1], [16, 64])\n"
ATTENTION = """m = tl.full([64], -1e30, tl.float32)
l = tl.zeros([64], tl.float32)
acc = tl.zeros([64, 64], tl.float32)
for j in range(0, n, 64):
    k_ = tl.load(x + (j + u)[None, :] * 64 + u[:, None])
    z = tl.dot(q, k_)
    mm = tl.maximum(m, tl.max(z, 1))
    p = tl.exp2(z - mm[:, None])
    a = tl.exp2(m - mm)
    l = l * a + tl.sum(p, 1)
    v_ = tl.load(y + (j + u)[:, None] * 64 + u[None, :])
    acc = tl.dot(p.to(tl.float16), v_, acc * a[:, None])
    m = mm
tl.store(o + # * 4096 + w, (acc / l[:, None]).to(tl.float16))"""
HALVES = "x:*f16:16, y:*f16:16, o:*f16:16, n:i32"
HELPER = "@tegula.jit\ndef h(v, a):\n    return v * a + 1.0\n\n\n"
NOINLINE = "@tegula.jit(noinline=True)\ndef h(v, a):\n    return v * a + 1.0\n\n\n"
COMBINE = "@tegula.jit\ndef c2(a, b, p, q):\n    return a + p, tl.maximum(b, q)\n\n\n"

# name: (n, targets, source[, options of the command])
DEBUG = ("--debug",)
ROWS = {
    "checked sums": (500, ALL, repeated("a = a * n + #", "    a = n\n", "    tl.store(o, a.to(tl.float32))\n"), DEBUG),
    "checked tuples": (250, ALL, lambda n: (kernel("    q = (" + ", ".join(f"n + {j}" for j in range(n)) + f",)\n    a = n\n    for j in tl.static_range({n}):\n        a = a * 3 + q[j]\n    tl.store(o, a.to(tl.float32))\n"), POINTERS), DEBUG),
    "asserts of tiles": (100, ALL, repeated('tl.device_assert(v > #, "a")', LOAD), DEBUG),
    "statements": (1000, ALL, repeated("v = v * # + tl.load(y + i + # * 1024)", LOAD, STORE)),
    "arithmetic": (1000, ALL, repeated("v = v * v + #.5", LOAD, STORE)),
    "scalars": (1000, ALL, repeated("a = a * n + #", "    a = n\n", "    tl.store(o, a.to(tl.float32))\n")),
    "stores": (500, ALL, repeated("tl.store(o + # * 1024 + i, v + #)", LOAD)),
    "masked stores": (400, ALL, repeated("tl.store(o + # * 1024 + i, tl.load(x + # * 1024 + i, i < n - #), i < n - #)")),
    "strided loads": (200, ALL, repeated("v += tl.load(x + i * 7 + #)", LOAD, STORE)),
    "loads by index": (200, ALL, repeated("v += tl.load(x + tl.load(y + i + #).to(tl.int32))", LOAD, STORE)),
    "gathers": (200, ALL, repeated("v = tl.gather(v, (i + #) % 1024, 0) + #", LOAD, STORE)),
    "loops": (200, ALL, repeated("for j in range(n):\n    v += tl.load(y + j * 1024 + # + i)", LOAD, STORE)),
    "loops in a loop": (125, ALL, repeated("    for j in range(n):\n        v += tl.load(y + j * 1024 + # + i)", LOAD + "    for r in range(n):\n", STORE)),
    "loops that store": (200, ALL, repeated("for j in range(n):\n    tl.store(o + j * 1024 + i, tl.load(y + j * 1024 + # + i) + #)")),
    "while": (200, ALL, repeated("while tl.sum(v) > #:\n    v = v * 0.5", LOAD, STORE)),
    "branches": (200, ALL, repeated("if n > #:\n    v = v * 1.5 + #\nelse:\n    v = v - #", LOAD, STORE)),
    "branches of scalars": (500, ALL, repeated("if n > #:\n    a = a * 3 + #", "    a = n\n", "    tl.store(o, a.to(tl.float32))\n")),
    "branches that store": (200, ALL, repeated("if n > #:\n    tl.store(o + # * 1024 + i, v)", LOAD)),
    "sums": (200, ALL, repeated("v = v * 0.5 + tl.sum(v + #, 0)", LOAD, STORE)),
    "sums of rows": (100, ALL, repeated("c = c + tl.sum(c * #, 1)[:, None]", LARGE, "    tl.store(o + w, c)\n")),
    "argmax": (100, ALL, repeated("a += tl.argmax(v + a, 0) * #", LOAD + "    a = 0\n", "    tl.store(o, a.to(tl.float32))\n")),
    "scans": (100, ALL, repeated("v = tl.cumsum(v * 0.5, 0)", LOAD, STORE)),
    "reductions of two": (100, ALL, repeated("a, b = tl.reduce((v, v + #), 0, c2)\nv = v * a + b", LOAD, STORE, before=COMBINE)),
    "dots": (100, ALL, repeated("tl.store(o + # * 256 + s, tl.dot(tl.load(x + # * 256 + s), tl.load(y + # * 256 + s)))")),
    "dots of halves": (100, ALL, repeated("tl.store(o + # * 256 + s, tl.dot(tl.load(x + # * 256 + s), tl.load(y + # * 256 + s)).to(tl.float16))", signature=HALVES)),
    "chained dots": (40, ALL, repeated("c = tl.dot(c, c) * 0.5", LARGE, "    tl.store(o + w, c)\n")),
    "chained dots of halves": (40, ALL, repeated("c = (tl.dot(c, c) * 0.5).to(tl.float16)", LARGE, "    tl.store(o + w, c)\n", signature=HALVES)),
    "loops with a dot": (50, ALL, repeated("c = tl.zeros([64, 64], tl.float32)\nfor j in range(n):\n    c = tl.dot(tl.load(x + j * 4096 + w), tl.load(y + j * 4096 + w), c)\ntl.store(o + # * 4096 + w, c.to(tl.float16))", LARGE, signature=HALVES)),
    "attention loops": (50, ALL, repeated(ATTENTION, LARGE + "    q = c\n", signature=HALVES)),
    "descriptors": (100, ALL, repeated("e.store([#, 64], d.load([#, 0]) + #)", DESCRIPTOR)),
    "descriptors made": (50, ALL, repeated("d# = tl.make_tensor_descriptor(x + # * 1024, [n, 1024], [1024, 1], [16, 64])\nv += d#.load([#, 0])", "    v = tl.zeros([16, 64], tl.float32)\n", "    tl.store(o + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], v)\n")),
    "rand": (16, ALL, unrolled("v += tl.rand(n + j, i)", LOAD, STORE)),
    "randn4x": (4, ALL, unrolled("a, b, c, d = tl.randn4x(n + j, i)\n        v += a + b * c - d", LOAD, STORE)),
    "sines": (50, ALL, repeated("v = tl.sin(v) * #", LOAD, STORE)),
    "exponentials": (100, ALL, repeated("v = tl.exp(v) + tl.log(v) * #", LOAD, STORE)),
    "libdevice": (25, ALL, repeated("v = libdevice.pow(v, 1.5) + libdevice.erf(v) * #", LOAD, STORE)),
    "divisions": (200, ALL, repeated("v = v / (v + #)", LOAD, STORE)),
    "integer divisions": (200, ALL, repeated("a = a // (a + #) + a % 7", "    a = tl.load(x + i).to(tl.int32)\n", "    tl.store(o + i, a.to(tl.float32))\n")),
    "long divisions": (50, ALL, repeated("a = a // (a + #) + a % 7", "    a = tl.load(x + i).to(tl.int64)\n", "    tl.store(o + i, a.to(tl.float32))\n")),
    "fp8": (200, ALL, repeated("v = (v + #).to(tl.float8e5).to(tl.float32)", LOAD, STORE)),
    "histograms": (100, ALL, repeated("tl.store(o + # * 64 + tl.arange(0, 64), tl.histogram(tl.load(x + # * 1024 + i).to(tl.int32), 64).to(tl.float32))")),
    "atomics": (200, ALL, repeated("tl.atomic_add(o + # * 1024 + i, v * #)", LOAD)),
    "atomics of scalars": (200, ALL, repeated("a = tl.atomic_add(o + #, a)", "    a = 1.0\n")),
    "transpositions": (100, ALL, repeated("c = tl.trans(c) + c * #", LARGE, "    tl.store(o + w, c)\n")),
    "reshapes": (100, ALL, repeated("c = tl.reshape(tl.trans(tl.reshape(c, [16, 256])), [64, 64]) * #", LARGE, "    tl.store(o + w, c)\n")),
    "splits": (100, ALL, repeated("a, b = tl.split(tl.reshape(v, [512, 2]))\nv = tl.reshape(tl.join(a + b, a - b), [1024]) * #", LOAD, STORE)),
    "interleaves": (100, ALL, repeated("v = tl.sum(tl.reshape(tl.interleave(v, v * #), [2, 1024]), 0)", LOAD, STORE)),
    "flips": (100, ALL, repeated("v = tl.flip(v, 0) + v * #", LOAD, STORE)),
    "sort": (256, ALL, lambda n: (kernel(f"    r = tl.arange(0, {n})\n    tl.store(o + r, tl.sort(tl.load(x + r)))\n"), POINTERS)),
    "topk": (256, ALL, lambda n: (kernel(f"    r = tl.arange(0, {n})\n    tl.store(o + tl.arange(0, 32), tl.topk(tl.load(x + r), 32))\n"), POINTERS)),
    "sorts": (4, ALL, repeated("v = tl.sort(v) * #", LOAD, STORE)),
    "helpers": (300, ALL, repeated("v = h(v, #)", LOAD, STORE, before=HELPER)),
    "helpers not inlined": (200, ALL, repeated("a = h(a, n)", "    a = tl.load(x)\n", "    tl.store(o, a)\n", before=NOINLINE)),
    "functions": (100, ALL, lambda n: (kernel(LOAD + lines(n, "v = h#(v)") + STORE, before="".join(f"@tegula.jit\ndef h{j}(v):\n    return v * {j} + 1.0\n\n\n" for j in range(n))), POINTERS)),
    "parameters": (100, ALL, lambda n: (kernel(LOAD + lines(n, "v += tl.load(p# + i)") + STORE, "x, y, o, n, " + ", ".join(f"p{j}" for j in range(n))), POINTERS + "".join(f", p{j}:*f32:16" for j in range(n)))),
    "inline assembly": (100, ("sm_90a", "sim"), repeated('v = tl.inline_asm_elementwise("add.f32 $0, $1, 1.0;", "=r,r", [v], dtype=tl.float32, is_pure=True, pack=1)', LOAD, STORE)),
    "prints": (100, ALL, repeated('tl.device_print("a", n + #)')),
    "asserts": (100, ALL, repeated('tl.device_assert(n > #, "a")'), DEBUG),
    "barriers": (200, ALL, repeated("tl.debug_barrier()\ntl.store(o + i, tl.load(o + i + #))")),
    "selections": (300, ALL, repeated("v = tl.where(v > #, v * 0.5, tl.load(y + i + #))", LOAD, STORE)),
    "block pointers": (50, ALL, repeated("b = tl.make_block_ptr(x, (n, n), (n, 1), (#, 0), (16, 64), (1, 0))\nv += tl.load(b, boundary_check=(0, 1))", "    v = tl.zeros([16, 64], tl.float32)\n", "    tl.store(o + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], v)\n")),
    "constants": (2000, CPU, lambda n: (kernel("    a: tl.constexpr = 1\n" + lines(n, "a = a * 3 % 1000003 + #") + "    tl.store(o, a)\n"), POINTERS)),
    "one long sum": (120, ALL, lambda n: (kernel(LOAD + "    v = v" + "".join(f" + tl.load(x + i + {j})" for j in range(n)) + "\n" + STORE), POINTERS)),
    "nested branches": (10, ALL, lambda n: (kernel(LOAD + "".join("    " * (j + 1) + f"if n > {j}:\n" + "    " * (j + 2) + f"v = v * {j}.5 + 1\n" for j in range(n)) + STORE), POINTERS)),
    "nested loops": (5, ALL, lambda n: (kernel(LOAD + "".join("    " * (j + 1) + f"for j{j} in range(n):\n" + "    " * (j + 2) + f"v = v * {j}.5 + tl.load(y + i + j{j})\n" for j in range(n)) + STORE), POINTERS)),
    "maps": (20, ALL, repeated("v = tl.map_elementwise(h, v, v + #)", LOAD, STORE, before="@tegula.jit\ndef h(v, a):\n    r = a\n    if v > a:\n        r = v * 2.0\n    return r\n\n\n")),
    "scaled dots": (10, ALL, repeated("tl.store(o + # * 256 + s, tl.dot_scaled(tl.load(x + t[:, None] * 32 + tl.arange(0, 32)[None, :] + # * 512), tl.load(y + t[:, None] + tl.arange(0, 1)[None, :] + #), \"e4m3\", tl.load(x + tl.arange(0, 32)[:, None] * 16 + t[None, :]), tl.load(y + t[:, None] + tl.arange(0, 1)[None, :]), \"e4m3\"))", signature="x:*u8:16, y:*u8:16, o:*f32:16, n:i32")),
}


def seconds(path, signature, target, most, options=()):
    """User seconds of one compilation, and whether it ended well; `most` if it took longer."""
    stage = {"cpu": "obj", "sim": "obj"}.get(target.split(":")[0], "ptx")
    command = [str(ROOT / "build/bin/tegula"), "compile", f"{path}::k", "--sig", signature, "-t", target, "--emit", stage, "-o", f"{path}.out", "--num-warps", "4", *options]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["TEGULA_CACHE_DIR"] = ""
        out = os.open(str(path) + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execv(command[0], command)
    _, status, used = os.wait4(child, 0)
    return used.ru_utime, status


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("names", nargs="*", help="rows whose name contains one of these (default: all)")
    args.add_argument("--target", nargs="+", default=list(ALL))
    args.add_argument("--most", type=int, default=60, help="processor seconds of a compilation at most")
    args.add_argument("--times", type=int, nargs="+", default=[1, 2, 4], help="how many times n statements")
    args.add_argument("--json", type=pathlib.Path)
    a = args.parse_args()
    rows = []
    print(f"{'':24} {'target':8} {'n':>6} " + " ".join(f"{f'{t} n':>7}" for t in a.times) + "  power")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "k.py"
        path.write_text(kernel("    pass\n"))
        for target in a.target:
            path.write_text(kernel("    pass\n"))
            empty, _ = seconds(path, POINTERS, target, a.most)
            for name, (n, targets, make, *options) in ROWS.items():
                if (a.names and not any(p in name for p in a.names)) or not any(target.startswith(t[:3]) for t in targets):
                    continue
                times, failed = [], ""
                for t in a.times:
                    text, signature = make(n * t)
                    path.write_text(text)
                    took, status = seconds(path, signature, target, a.most, *options)
                    if status:
                        failed = "over the limit" if took >= a.most - 1 else pathlib.Path(str(path) + ".log").read_text().strip().split("\n")[0][:120] or f"status {status}"
                        times.append(took)
                        break
                    times.append(took)
                power = math.log2(max(times[-1] - empty, 1e-3) / max(times[-2] - empty, 1e-3)) if len(times) > 1 else 0
                rows.append({"name": name, "target": target, "n": n, "seconds": times, "power": power, "failed": failed})
                print(f"{name:24} {target:8} {n:6} " + " ".join(f"{s:7.2f}" for s in times) + f"  {power:5.2f}  {failed}", flush=True)
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
