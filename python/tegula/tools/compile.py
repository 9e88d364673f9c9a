"""Kernels ahead of time: a kernel compiled for one signature becomes a C file and its header, which programs build in. They need libtegula-runtime, which has no
compiler in it, and neither Python nor the source of the kernel: the C file holds a bundle of one entry (docs/bundle.md).

    python -m tegula.tools.compile kernels.py -n add -s "*fp32:16, *fp32:16, *fp32:16, i32, 1024" -g "(n + 1023) / 1024" -on add
    cc $(python -m tegula.tools.compile --flags) main.c add.1b2f0c53_0d1d2d3.c

The header declares load_add_1b2f0c53_0d1d2d3(), unload_... and the launch, which takes a stream and the kernel's run-time arguments. tools.link
joins several signatures of one kernel to one function.
"""
import argparse
import ast
import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from tegula import _core
from tegula._bundle import aot
from tegula._triton_name import install
from tegula._specialize import type_canonicalisation_dict
from tegula.backends.compiler import GPUTarget, name_of
from tegula.errors import CompilationError
from tegula.jit import JITFunction

DESCRIPTION = "Compiles a kernel for one signature to a C file and its header."

# A type code as a parameter of C, and how it becomes an argument of a launch.
_SCALARS = {
    **{code: ("int32_t", "tegula_bool({})") for code in ("i1", "u1")},
    **{f"i{w}": (f"int{w}_t", "tegula_int({})") for w in (8, 16, 32, 64)},
    **{f"u{w}": (f"uint{w}_t", "tegula_int({})") for w in (8, 16, 32)}, "u64": ("uint64_t", "tegula_aot_u64({})"),
    **{code: ("float", "tegula_float({})") for code in ("fp16", "bf16", "fp32")}, "fp64": ("double", "tegula_float({})"),
}
_KEYWORDS = frozenset("""auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return
    short signed sizeof static struct switch typedef union unsigned void volatile while bool true false nullptr alignas alignof constexpr
    static_assert thread_local typeof algo_id tegula_stream""".split())


@dataclasses.dataclass
class CompileArgs:
    """What the command line says."""
    path: str
    kernel_name: str = ""
    signature: str = ""
    grid: str = ""
    target: str | None = None
    num_warps: int = 1
    num_stages: int = 3
    out_name: str | None = None
    out_path: Path | None = None
    wide_offsets: bool = False


@dataclasses.dataclass
class _Parameter:
    name: str  # of the kernel
    text: str  # as signatures have it
    ctype: str | None = None  # None: a compile-time value
    argument: str = "tegula_aot_none"  # of the launch, in C
    code: str = ""  # its type, without what is known of the value
    fact: int = 0  # what it is divisible by; 1: it is 1
    constant: object = None

    @property
    def c(self):
        return self.name + "_" if self.name in _KEYWORDS else self.name


def split(text):
    """Items between commas that are in no brackets and quotes."""
    out, depth, quote, item = [], 0, "", ""
    for c in text:
        if c == "," and not depth and not quote:
            out.append(item.strip())
            item = ""
            continue
        quote = "" if c == quote else c if c in "'\"" and not quote else quote
        depth += 0 if quote else (c in "([<{") - (c in ")]>}")
        item += c
    return [*out, item.strip()] if item.strip() else out


def _constant(name, item):
    try:
        return _Parameter(name, item, constant=ast.literal_eval(item))
    except (ValueError, SyntaxError):
        return _Parameter(name, item)  # the compiler knows more kinds


def _parameter(param, item, is_cuda):
    """What an item of the signature makes of a parameter (KernelParam)."""
    name, type_, fact = param.name, item.partition(":")[0].strip(), item.partition(":")[2].strip()
    if item.startswith("tensordesc<"):
        return _Parameter(name, item, "const struct TegulaArg *", "*{}", item)
    pointee = type_.removeprefix("*") if type_.startswith("*") else None
    if pointee not in (None, *type_canonicalisation_dict):
        pointee = pointee.removeprefix("k")
    code = type_canonicalisation_dict.get(type_ if pointee is None else pointee)
    if code is None or param.is_constexpr:
        if item.startswith("(") and not param.is_constexpr:
            raise ValueError(f"`{name}`: tuples have no form in C")
        return _constant(name, item)
    if fact and not fact.isdecimal():
        raise ValueError(f"`{name}`: `{item}`: behind the type is what divides the argument, or 1 for an argument that is 1")
    n = int(fact or 0)
    known = f":{n}" if n > 1 else ""
    if pointee is not None:
        ctype, argument = ("unsigned long long", "(void *)(uintptr_t){}") if is_cuda else ("void *", "{}")
        return _Parameter(name, f"*{code}{known}", ctype, f"tegula_ptr({argument}, {_dtype(code)}, -1)", f"*{code}", n if n > 1 else 0)
    if code not in _SCALARS:
        raise ValueError(f"`{name}`: `{item}`: numbers of this type have no form in C")
    ctype, argument = _SCALARS[code]
    return _Parameter(name, "1", ctype, code=code, fact=1) if n == 1 else _Parameter(name, code + known, ctype, argument, code, n)


def _dtype(code):
    """i32 as TEGULA_INT32."""
    return "TEGULA_" + re.sub(r"^([IU])(?=\d)", lambda m: {"I": "INT", "U": "UINT"}[m[1]], "I1" if code == "u1" else code.upper())


def _kernel(args):
    path = Path(args.path).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or not path.is_file():
        raise FileNotFoundError(f"there is no Python file {args.path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    found = getattr(module, args.kernel_name, None)
    while found is not None and not isinstance(found, JITFunction):
        found = getattr(found, "fn", None)  # what wraps kernels says nothing here
    if found is None:
        raise ValueError(f"{args.path} has no kernel `{args.kernel_name}`")
    return found


def _target(text):
    """`backend:arch:warp size`, or a name as `tegula compile -t` takes it; None: what launches run on."""
    if text is None:
        from tegula.runtime.driver import driver
        return name_of(driver.active.get_current_target()) or "cpu"
    parts = text.split(":")
    return text if len(parts) != 3 else name_of(GPUTarget(parts[0], int(parts[1]) if parts[1].isdecimal() else parts[1], int(parts[2] or 0))) or "cpu"


def _bytes(data):
    rows = (",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32))
    return ",\n  ".join(rows)


HEADER = """/* Kernel {kernel} of {file} for {target}: {signature}. Made by tegula.tools.compile. */
/* tegula-link: {link} */
#ifndef TEGULA_AOT_{guard}
#define TEGULA_AOT_{guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif
{declare}/* Loads the code; by one thread, before others launch. These give 0, or a status of tegula.h: tegula_bundle_error() says what is wrong. */
int32_t load_{name}(void);
void unload_{name}(void);
/* Launches on the stream (GPU; else NULL). On a CPU it returns when the kernel is done. */
int32_t {name}({parameters});
#ifdef __cplusplus
}}
#endif
#endif
"""

SOURCE = """/* Kernel {kernel} of {file} for {target}: {signature}. Made by tegula.tools.compile. */
#include <tegula/bundle.h>
{declare}int32_t load_{name}(void);
void unload_{name}(void);
int32_t {name}({parameters});

static const unsigned char {name}_code[] = {{
  {bytes}
}};
static TegulaBundle *{name}_bundle;
static const TegulaBundleKernel *{name}_kernel;

int32_t load_{name}(void) {{
  int32_t status;
  if ({name}_kernel) return TEGULA_OK;
  status = tegula_bundle_open_memory({name}_code, sizeof {name}_code, NULL, &{name}_bundle);
  return status != TEGULA_OK ? status : tegula_bundle_kernel({name}_bundle, "{symbol}", &{name}_kernel);
}}

void unload_{name}(void) {{
  tegula_bundle_close({name}_bundle);
  {name}_bundle = NULL;
  {name}_kernel = NULL;
}}

static inline int64_t cdiv(int64_t x, int64_t y) {{ return (x + y - 1) / y; }}
static inline TegulaArg tegula_aot_u64(uint64_t v) {{
  TegulaArg a = tegula_int((int64_t)v);
  a.kind = TEGULA_ARG_UINT;
  return a;
}}

int32_t {name}({parameters}) {{
{constants}  const TegulaArg tegula_aot_none = {{0, 0, 0, 0, {{0}}, {{0}}}};
  const int64_t tegula_aot_grid[3] = {{{grid}}};
  const TegulaArg tegula_aot_args[] = {{{arguments}}};
  TegulaLaunchOptions tegula_aot_options = TEGULA_LAUNCH_OPTIONS_INIT;
  const int32_t tegula_aot_status = load_{name}();
  (void)tegula_aot_none;
  (void)cdiv;
  (void)tegula_aot_u64;
  if (tegula_aot_status != TEGULA_OK) return tegula_aot_status;
{checks}  tegula_aot_options.stream = (void *)tegula_stream;
  return tegula_bundle_launch({name}_kernel, tegula_aot_grid, tegula_aot_args, {count}, &tegula_aot_options);
}}
"""


def compile_kernel(args):
    """(name of the launch function, [header, C file]) of CompileArgs."""
    grid = split(args.grid)
    if not 1 <= len(grid) <= 3:
        raise ValueError(f"a grid has 1 to 3 extents, found {len(grid)}: {args.grid!r}")
    target = _target(args.target)
    is_cuda = target.startswith("sm_")
    kernel = _kernel(args)
    items, names = split(args.signature), kernel.arg_names
    if len(items) > len(names):
        raise ValueError(f"the signature has {len(items)} items; `{args.kernel_name}` has {len(names)} parameters: {', '.join(names)}")
    params = [_parameter(param, item, is_cuda) for param, item in zip(kernel.params, items)]
    signature = ", ".join(f"{p.name}:{p.text}" for p in params)
    options = dict(num_warps=args.num_warps, num_stages=args.num_stages, wide_offsets=args.wide_offsets)
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "one.tgb"
        aot([dict(kernel=kernel, signature=signature, options=options, targets=[target])], bundle, classes="given")
        code = bundle.read_bytes()

    constants = {p.name: p.text for p in params if p.ctype is None} | {"num_warps": args.num_warps, "num_stages": args.num_stages, "target": target}
    if args.wide_offsets:
        constants["wide_offsets"] = True
    base = args.out_name or args.kernel_name
    types = " ".join(p.code or p.text for p in params)
    digest = hashlib.sha256(f"{types} {sorted(constants.items())} {grid}".encode()).hexdigest()[:8]
    given = [p for p in params if p.ctype]
    suffix = "".join(str(i) + {0: "", 1: "c"}.get(p.fact, "d") for i, p in enumerate(params) if p.ctype)
    name = "_".join([base, digest, suffix] if suffix else [base, digest])
    stream = "struct CUstream_st *tegula_stream" if is_cuda else "void *tegula_stream"
    declare = ("struct CUstream_st;\n" if is_cuda else "") + ("struct TegulaArg;\n" if any("TegulaArg" in p.ctype for p in given) else "")
    text = lambda t: t + ("" if t.endswith("*") else " ")
    link = dict(name=base, variant=name, algorithm=f"{digest}", stream=stream.removesuffix("tegula_stream"), declare=declare,
                args=[dict(name=p.c, ctype=p.ctype, fact=p.fact, pointer=p.text.startswith("*")) for p in given], constants=constants)
    fields = dict(
        kernel=args.kernel_name, file=Path(args.path).name, target=target, signature=signature.replace("*/", "* /"), name=name, guard=name.upper(),
        link=json.dumps(link).replace("*/", "*\\u002f"), declare=declare,
        parameters=", ".join([stream, *(f"{text(p.ctype)}{p.c}" for p in given)]), bytes=_bytes(code), symbol=code[240:240 + int.from_bytes(code[232:240], "little")].decode(),  # the index begins with the kernel's name (docs/bundle.md)
        constants="".join(f"  enum {{ {p.name} = {int(p.constant)} }};\n" for p in params
                          if p.ctype is None and p.name not in _KEYWORDS and isinstance(p.constant, int) and -2**31 <= p.constant < 2**31),
        grid=", ".join([*grid, "1", "1"][:3]), arguments=", ".join(p.argument.format(p.c) for p in params) or "tegula_aot_none", count=len(params),
        checks="".join(f"  if ({p.c} != 1) return TEGULA_INVALID_ARGUMENT;\n" for p in given if p.fact == 1))
    out = Path(args.out_path) if args.out_path else Path(base)
    files = []
    for extension, template in (("h", HEADER), ("c", SOURCE)):
        path = out.parent / f"{out.name}.{name.removeprefix(base + '_')}.{extension}"
        path.write_text(template.format(**fields))
        files.append(path)
    return name, files


def flags():
    """What the C compiler needs beside the files: where bundle.h and libtegula-runtime.so of this installation are."""
    root, source = Path(_core.__file__).resolve().parents[2], Path(__file__).resolve().parents[3]  # two places in a build tree
    headers = [f"-I{p}" for p in (source / "include", root / "include") if (p / "tegula/tegula.h").is_file()]
    return [*headers[:1], f"-L{root / 'lib'}", "-ltegula-runtime", f"-Wl,-rpath,{root / 'lib'}"]


class _Flags(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        print(*flags())
        parser.exit()


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tegula.tools.compile", description=DESCRIPTION)
    parser.add_argument("path", help="Python file with the kernel")
    parser.add_argument("-n", "--kernel-name", required=True)
    parser.add_argument("-s", "--signature", required=True, help='one item a parameter: type, type:16 (divisible by that), type:1 (is 1) or a constant, '
                        'as in "*fp32:16, i32, 1024"')
    parser.add_argument("-g", "--grid", required=True, help="1 to 3 extents, expressions of C in the run-time arguments and integer constants")
    parser.add_argument("-t", "--target", help="backend:arch:warp size, as in cuda:90:32, or a target of `tegula compile`; default: what launches run on")
    parser.add_argument("-w", "--num-warps", type=int, default=1)
    parser.add_argument("-ns", "--num-stages", type=int, default=3)
    parser.add_argument("--wide-offsets", action="store_true", help="offsets of 64 bits, for tensors of 2^30 elements and more: C gives addresses only")
    parser.add_argument("-on", "--out-name", help="of the functions; default: the kernel's name")
    parser.add_argument("-o", "--out-path", type=Path, help="of the files, without extension; default: the name")
    parser.add_argument("--flags", action=_Flags, nargs=0, default=argparse.SUPPRESS, help="prints what the C compiler needs to build the files, and ends")
    try:
        name, files = compile_kernel(CompileArgs(**vars(parser.parse_args(argv))))
    except (CompilationError, OSError, ValueError, LookupError, RuntimeError) as e:
        sys.exit(f"{parser.prog}: {e.args[0] if isinstance(e, KeyError) else e}")
    print(name, *files)


if __name__ == "__main__":
    install()
    main()
