#!/usr/bin/env python3
"""The zoo beside a version of Triton that the machine with the GPU does not have: its code is compiled elsewhere, where no GPU has to be, and launched there by the version that is there.

    cubins.py DIR [--rows TEXT] [--every N]      compiles rows for sm_90 by the Triton that is installed; every N-th configuration only
    run.py --cubins DIR                          on a GPU: what is in DIR is a third compiler, "cubins"

A kernel is found again by what a launcher has compiled (name, types, constants, what divides by 16, warps, stages), which 3.6 and 3.9 describe in one way, but for facts that say nothing.
Arguments are passed alike as well: those of the signature, then two pointers to scratch memory.
"""
import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cold  # noqa: E402
from zoo import load  # noqa: E402
from zoo.quiet import quiet  # noqa: E402

LAUNCHED = ("name", "shared", "num_warps", "num_ctas", "num_stages", "global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align", "launch_cooperative_grid",
            "launch_pdl", "tensordesc_meta", "tmem_size")  # of a kernel's metadata what a launch reads


def stem(name, signature, constants, facts, options):
    """The name of a kernel's two files."""
    known = {k: v for k, v in facts.items() if v}
    chosen = {k: options.get(k) for k in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    return name + "-" + hashlib.sha256(repr((signature, constants, known, chosen)).encode()).hexdigest()[:20]


def compile_configuration(side, folder, rows, r, i):
    for launch, (signature, constants, facts, options) in zip(cold.launches(rows, r, i), cold.described(rows, r, i), strict=True):
        path = folder / stem(launch.kernel.__name__, signature, constants, facts, options)
        if not path.with_suffix(".cubin").exists():
            kernel = side.compiler.compile(side.compiler.ASTSource(launch.kernel, signature, constants, facts), side.target, options)
            path.with_suffix(".json").write_text(json.dumps({k: getattr(kernel.metadata, k) for k in LAUNCHED if hasattr(kernel.metadata, k)}))
            path.with_suffix(".cubin").write_bytes(kernel.asm["cubin"])


def compile_rows(folder, text, every):
    """Prints what cannot be compiled. Each configuration is compiled by a process of its own, as Triton may end it."""
    side = cold.TritonSide(("cuda", 90, 32))
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(load.rows(load.entries("triton")))
    wanted = [(r, i) for r, row in enumerate(rows) if load.is_named(row.name, text) for i in range(len(row.spelling.configs_for(row.shape)))][::every]
    failed = 0
    for r, i in wanted:
        name = f"{rows[r].name} | {rows[r].spelling.configs_for(rows[r].shape)[i]}"
        child = os.fork()
        if not child:
            try:
                with quiet():
                    compile_configuration(side, folder, rows, r, i)
            except Exception as e:
                print(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}", flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failed += bool(status)
        if status < 0:
            print(f"{name}: ended by signal {-status}", flush=True)
    print(f"{len(wanted) - failed} of {len(wanted)} configurations by {side.about()} in {folder}")
    return len(wanted) - failed


def entries(folder):
    """The zoo's entries once more, by kernels whose code comes from the folder; a launch of one that is not there fails and says so."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction
    compiles = JITFunction._do_compile

    def find(self, key, signature, device, constexprs, options, attrs, warmup):
        if not self.fn.__module__.endswith("_cubins"):
            return compiles(self, key, signature, device, constexprs, options, attrs, warmup)
        path = folder / stem(self.__name__, signature, constexprs, attrs, options.__dict__)
        if not path.with_suffix(".cubin").exists():
            raise FileNotFoundError(f"no {path.name}.cubin")
        numbers = {"cluster_dims": [1, 1, 1], "target": {"backend": "cuda", "arch": 90, "warp_size": 32}, **json.loads(path.with_suffix(".json").read_text())}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as metadata:
            json.dump(numbers, metadata)
            metadata.flush()
            kernel = CompiledKernel(self.ASTSource(self, signature, constexprs, attrs), {"kernel.json": metadata.name, "kernel.cubin": str(path.with_suffix(".cubin"))}, path.name)
        self.device_caches[device][0][key] = kernel
        return kernel

    JITFunction._do_compile = find
    return load.entries("triton", "cubins")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path, metavar="DIR")
    p.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name contains TEXT, or one of several: TEXT|TEXT")
    p.add_argument("--every", type=int, default=1, metavar="N")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        return 0 if compile_rows(a.folder, a.rows, a.every) else 1


if __name__ == "__main__":
    sys.exit(main())
