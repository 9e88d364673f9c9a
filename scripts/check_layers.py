#!/usr/bin/env python3
"""Checks the layer order: which folder of src/ may include which (the table below is the rule), and banned includes; which module of python/tegula may import which.

A folder may use only the folders its row names. The same table is checked against `DEPS` in the CMake files. The targets are the folders of
src/targets with a Register.cpp: nobody else includes what is in one or says its namespace, and all of them may use `common`, which uses none.
"""
import ast
import fnmatch
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = {
    "abi": [],
    "support": ["abi"],
    "layout": ["support"],
    "syntax": ["support"],
    "ir": ["support", "layout"],
    "lang": ["support", "ir"],
    "lib": [],
    "sema": ["support", "syntax", "ir", "lang", "lib"],
    "passes": ["support", "ir"],
    "gpu": ["support", "ir", "passes", "layout"],
    "sim": ["abi", "support"],
    "targets": ["support", "abi", "ir", "passes", "layout", "gpu"],
    "runtime": ["abi", "support", "sim"],
    "tune": ["abi", "support", "runtime"],
    "api": ["abi", "support", "layout", "syntax", "ir", "lang", "lib", "sema", "passes", "gpu", "targets", "runtime", "tune"],
    "cli": ["support", "api"],
    "tools": ["support", "syntax", "ir", "lang", "sema", "passes", "gpu", "targets"],
}
# Folders inside of a layer, or of a target: which others beside them one may include. What lies in the folder around them is for all of them; of the files there those named in DRIVERS include what is in
# the folders.
FOLDERS = {
    "gpu": {"layouts": [], "masks": [], "shared": [], "loops": ["shared"], "parts": ["layouts", "loops", "shared"]},
    "targets/cpu": {"plan": [], "rewrite": ["plan"], "emit": ["plan"]},
    "targets/nvidia": {"instr": [], "passes": [], "occupancy": [], "lower": ["instr", "passes", "occupancy"]},
}
DRIVERS = {"Passes.cpp", "Compile.cpp", "Codegen.cpp"}
# Modules of python/tegula, the lowest first: they import their own layer and those before it, in functions, too, where an import waits until it is needed. No circles. What several patterns
# name is of the layer that names it first. That importing `runtime.driver` runs `runtime/__init__.py`, which imports all of it for programs, does not count.
PYTHON_LAYERS = {
    "ground, which knows no types": ["_core", "_binding", "_compile_warmup_state", "_memory", "_source", "_table", "_timing", "_version", "errors", "knobs", "experimental", "runtime._allocation",
                                     "runtime._config", "runtime._gpu", "runtime._threads", "runtime._tuned_memory", "runtime.build", "runtime.cache", "tools.disasm", "tools.linear_layout",
                                     "tools.link", "tools.mxfp"],
    "values: objects of Python's as kernels have them": ["language._types", "language._tensor", "_aggregate", "_arguments", "_arrays", "_host", "_interface", "_mock", "_objects", "_options",
                                                         "_specialize", "_uses", "_values", "tools.tensor_descriptor"],
    "devices: targets and drivers": ["backends", "backends.*", "runtime.driver", "testing", "_C.nvidia", "language.target_info", "language", "language.extra", "language.extra.*"],
    "kernels: functions, calls of them, what is compiled": ["_calls", "_function", "_kernel", "compiler", "compiler.*", "_inductor.package", "language.*"],
    "launches: the interpreter, tuners, hooks, decorators": ["_hooks", "jit", "runtime", "runtime.*"],
    "programs, and what they import": ["", "*"],
}
LLVM_LAYERS = {"targets", "api"}
# Tables without code that a lower layer reads: the operations and attributes that the GPU level adds are named where all are.
TABLES = {"ir": {"gpu/Ops.def", "gpu/Attrs.def"}}
TARGETS = {p.parent.name for p in (ROOT / "src/targets").glob("*/Register.cpp")}
OF_TARGET = re.compile(r"(?<![\w:])(?:tegula::)?(" + "|".join(sorted(TARGETS)) + r")::\w+")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def check_file(path: Path, layer: str) -> list[str]:
    errors = []
    where = path.relative_to(ROOT)
    text = path.read_text()
    parts = path.relative_to(ROOT / "src").parts
    own = parts[1] if layer == "targets" and parts[1] in TARGETS else ""  # the target that the file is of
    for kind, target in INCLUDE.findall(text):
        top = target.split("/")[0]
        if top in ("llvm", "llvm-c", "mlir") and layer not in LLVM_LAYERS:
            errors.append(f"{where}: layer `{layer}` may not include LLVM ({target})")
        if kind == '"' and top in LAYERS and top != layer and top not in LAYERS[layer] and target not in TABLES.get(layer, ()):
            errors.append(f"{where}: layer `{layer}` may not include `{target}`; it may use {LAYERS[layer] or 'nothing'}")
        if kind == '"' and (around := "/".join(parts[:2]) if layer == "targets" else layer) in FOLDERS and target.startswith(around + "/"):
            errors += check_folder(where, around, target)
        if kind == '"' and any(target.startswith(f"targets/{t}/") for t in TARGETS - {own}):
            errors.append(f"{where}: {'one target' if own else f'layer `{layer}`'} may not include what another target has ({target}); it may use targets/Target.h")
    for found in OF_TARGET.finditer(re.sub(r"//.*", "", text)):
        if found[1] != own:
            errors.append(f"{where}: names the target `{found[1]}` ({found[0]}); ask targets/Target.h")
    return errors


def check_folder(where: Path, around: str, target: str) -> list[str]:
    """The file `where`, below src/`around`, includes `target`, which is there, too."""
    folders = FOLDERS[around]
    own, other = (p.parts[0] if len(p.parts) > 1 else "" for p in (where.relative_to(Path("src", around)), Path(target).relative_to(around)))
    if any(name not in ("", *folders) for name in (own, other)):
        return [f"{where}: src/{around}/{own if own not in folders else other} is not in the folder table of scripts/check_layers.py"]
    if other in ("", own) or other in folders.get(own, []) or (not own and where.name in DRIVERS):
        return []
    return [f"{where}: folder `{around}/{own}` may not include `{target}`; it may use {[around, *(f'{around}/{f}' for f in folders.get(own, []))]}"]


def check_cmake(path: Path) -> list[str]:
    errors = []
    layer = path.relative_to(ROOT / "src").parts[0]
    for name, body in re.findall(r"tegula_library\(\s*(\w+)([^)]*)\)", path.read_text()):
        deps = re.search(r"\bDEPS\b([^)]*)", body)
        for dep in (deps.group(1).split() if deps else []):
            if dep in LAYERS and dep != layer and dep not in LAYERS[layer]:
                errors.append(f"{path.relative_to(ROOT)}: `{name}` may not link `{dep}`")
    return errors


def python_modules() -> dict[str, Path]:
    """{name below tegula: file}; the package itself is ""."""
    root = ROOT / "python/tegula"
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "_alias" not in parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def python_imports(name: str, path: Path, modules: dict[str, Path]) -> dict[str, int]:
    """{module of the package: line} of what a module imports anywhere in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            asked = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = ["tegula", *filter(None, package.split("."))]
            base = ".".join([*up[:len(up) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module
            asked = [f"{base}.{a.name}" for a in node.names]
        else:
            continue
        for full in asked:
            if full == "tegula" or full.startswith("tegula."):
                below = full[len("tegula."):]
                while below and below != "_core" and below not in modules:  # a name in a module
                    below = below.rpartition(".")[0]
                found.setdefault(below, node.lineno)
    found.pop(name, None)
    return found


def check_python() -> list[str]:
    layers, modules = list(PYTHON_LAYERS), python_modules()
    layer_of = lambda name: next(i for i, layer in enumerate(layers) if any(fnmatch.fnmatchcase(name, pattern) for pattern in PYTHON_LAYERS[layer]))
    imports = {name: python_imports(name, path, modules) for name, path in modules.items()}
    errors = [f"{modules[name].relative_to(ROOT)}:{line}: is of the layer `{layers[layer_of(name)]}` and may not import `{other}`, of `{layers[layer_of(other)]}`"
              for name in imports for other, line in imports[name].items() if layer_of(other) > layer_of(name)]
    left = {name: set(other) - {"_core"} for name, other in imports.items()}
    while free := [name for name, other in left.items() if not other]:  # imports nothing that is left
        for name in free:
            del left[name]
        for other in left.values():
            other.difference_update(free)
    used = set().union(*left.values()) if left else set()
    circle = sorted(name for name in left if name in used)
    return errors + ([f"python/tegula: these modules import each other in a circle, or what is in one: {', '.join(circle)}"] if circle else [])


def main() -> int:
    errors = check_python()
    for layer in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        if layer not in LAYERS:
            errors.append(f"src/{layer}: not in the layer table of scripts/check_layers.py")
            continue
        for path in sorted((ROOT / "src" / layer).rglob("*")):
            if path.suffix in (".h", ".cpp", ".def", ".c"):
                errors += check_file(path, layer)
            if path.name == "CMakeLists.txt":
                errors += check_cmake(path)
    print("\n".join(errors) if errors else "layers: ok")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
