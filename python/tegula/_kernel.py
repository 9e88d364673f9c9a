"""Compiled kernels as Python objects."""
import collections
import functools

from . import _core, knobs
from ._version import language_version


class LazyDict:
    """A dict parts of which are computed when get() is called for the first time."""

    def __init__(self, data):
        self.data, self.extras, self.kernel = dict(data), [], None

    def add(self, f, args):
        self.extras.append((f, args))

    def get(self):
        while self.extras:
            f, args = self.extras.pop(0)
            self.data.update(f(*args) or {})
        return self.data


Estimate = collections.namedtuple("Estimate", "ns why")
Remark = collections.namedtuple("Remark", "kind message file line column")


class CompiledKernel(_core.Kernel):
    """One compiled form of a kernel: `.asm[stage]`, `.metadata`, `.timings` (nanoseconds by stage)."""

    _made_from = None  # makes the ASTSource of a kernel that a launch made
    _saved = None  # bytes: the kernel itself, of objects that came from another process
    _options: dict = {}  # given at its first launch

    @functools.cached_property
    def _source(self):
        """An ASTSource, None if it is not known: what it was made from. The compiler's modules take longer to load than a kernel from the disk cache, so it is made when it is asked for."""
        return self._made_from and self._made_from()

    def _come_from(self, made_from, options):
        self.__dict__.pop("_source", None)
        self._made_from, self._options = made_from, dict(options)

    def __getstate__(self):
        sent = {k: v for k, v in self._options.items() if v is None or isinstance(v, (bool, int, float, str))}
        return {**self.__dict__, "_source": self._source, "_made_from": None, "_options": sent, "_saved": self.save()}

    def __reduce_ex__(self, protocol):
        return _restored, (type(self), self.__getstate__())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self  # nothing in it changes

    def _described(self):
        import json
        return json.loads(self.metadata_json())

    def _compiled_again(self):
        """The same kernel from its source; None if its function is not in this process."""
        fn = self._source and self._source.fn
        if fn is None or fn.fn is None:
            return None
        made = self._described()
        options = {k: made[k] for k in _COMPILED_WITH if k in made}
        return fn.compile_signature(made["signature"], {}, made["target"], options)

    @property
    def asm(self):
        return _Asm(self)

    @property
    def src(self):
        return self._source

    @property
    def metadata(self):
        """Named fields: what was compiled, for what, and with which options."""
        return _metadata(_use(self.info()), self._options)

    @property
    def packed_metadata(self):
        return self.metadata

    @property
    def metadata_group(self):
        """{file: path} of the kernel's files. They are in one entry of tegula's own cache, which is no folder of files."""
        return {}

    @property
    def name(self):
        return self.info()["name"]

    @property
    def hash(self):
        return self.info()["hash"]

    @property
    def timings(self):
        return self.timings_ns()

    @property
    def compile_times(self):
        """The same as knobs.CompileTimes, in microseconds. One that was taken from the disk cache has no stages: finding it is its initialization."""
        t = self.timings
        stages = [(k, t[k] // 1000) for k in ("passes", "plan", "emit", "optimize", "codegen", "assemble", "load")]
        first = t["parse"] + t["sema"]
        if not any(time for stage, time in stages if stage != "load"):
            return knobs.CompileTimes(ir_initialization=max(t["total"] // 1000, 1), lowering_stages=[], store_results=0)
        rest = t["total"] - first - sum(t[stage] for stage, _ in stages)
        return knobs.CompileTimes(ir_initialization=first // 1000, lowering_stages=stages, store_results=max(rest // 1000, 1))

    @property
    def accesses(self):
        """(name, whether it may be read through, whether it may be written through) of each run-time parameter."""
        return [(a["name"], a["read"], a["written"]) for a in self._described()["args"]]

    @property
    def n_regs(self):
        """Registers per thread. Where no assembler counts them (CPUs, the simulator), a number by which scripts can divide."""
        return _use(self.info())["n_regs"]

    @property
    def n_spills(self):
        """Registers spilled to local memory, per thread (GPU)."""
        return self.info()["n_spills"]

    @property
    def shared(self):
        """Bytes of shared memory per block; on CPUs, of buffers on the stack, at least 1 and no more than `max_shared_mem`."""
        return _use(self.info())["shared"]

    @property
    def num_warps(self):
        """Warps of a block as it is launched (GPU): those that the launch asked for, and what the compiler added to copy ahead."""
        return (self.info()["threads"] + 31) // 32 or self.info()["num_warps"]

    @property
    def n_max_threads(self):
        """Threads of a block (GPU)."""
        return self.info()["threads"]

    @property
    def module(self):
        """A number for the loaded code, which is loaded when it is compiled."""
        return self.handle()

    @property
    def function(self):
        """A number for the entry point."""
        return self.handle()

    @property
    def kernel(self):
        """The code itself."""
        return self.asm["cubin" if "cubin" in self.asm else "obj"]

    def _init_handles(self):
        """Triton loads a kernel at its first launch; here the code is loaded when it is compiled."""

    @property
    def occupancy(self):
        """Blocks that fit on one multiprocessor at once (GPU, once loaded)."""
        return self.info()["blocks_per_core"]

    @property
    def remarks(self):
        """What the compiler has to say that is no mistake: list of Remark (kind, message, file, line, column)."""
        return [Remark(*row) for row in self.remark_rows()]

    def estimate(self, grid, *args, num_threads=None):
        """What a launch with these arguments (all parameters, constants included) would take on the device that the kernel was compiled for, by the cost
        model: Estimate(ns, why), nanoseconds and a text that says what bounds it. Nothing runs; tensors count by type and size, the device need not be there."""
        return Estimate(*self.estimate_launch(grid, args, num_threads or 0))

    def launch_metadata(self, grid, stream, *args):
        """What the launch hooks get, None if there are none: a LazyDict with name, function, stream and what the function's `launch_metadata` says."""
        if not (knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls):
            return None
        from .runtime.driver import driver
        stream = driver.active.get_current_stream() if stream is None else stream
        found = LazyDict({"name": self.name, "function": self.function, "stream": stream})
        found.kernel = self
        fn = self._source and self._source.fn
        if fn is not None and fn.launch_metadata is not None:
            found.add(fn.launch_metadata, (grid, self.metadata, dict(zip(fn.arg_names, args))))
        return found

    @property
    def run(self):
        """f(grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, launch_enter_hook, launch_exit_hook, *arguments), which launches with
        all arguments of the signature. No method, as programs that send a kernel's `__dict__` put None there in its place."""
        return self.run_all

    def __getitem__(self, grid):
        return functools.partial(self._relaunch, grid)

    def _with_constants(self, args):
        """Arguments for all parameters: those of launchers that leave compile-time values out, as Triton before 3.3 had it, with these in their places."""
        fn = self._source and self._source.fn
        params = fn.params if fn is not None else ()
        if len(args) >= len(params) or len(args) != sum(not p.is_constexpr for p in params):
            return args
        given, constants = iter(args), self._source.constants
        return tuple(constants.get((p.num,)) if p.is_constexpr else next(given) for p in params)

    def _relaunch(self, grid, *args, stream=None):
        args = self._with_constants(args)
        metadata = self.launch_metadata(grid, stream, *args)
        if metadata is None:
            self.launch(grid, args, stream)
            return
        knobs.runtime.launch_enter_hook(metadata)
        self.launch(grid, args, stream)
        knobs.runtime.launch_exit_hook(metadata)


_COMPILED_WITH = ("num_warps", "num_stages", "num_ctas", "debug", "checked", "debug_info", "enable_fp_fusion", "sanitize_overflow", "language_level", "strict",
                  "wide_offsets")


def _restored(cls, state):
    """A kernel that was pickled. It is loaded when it is first asked something, on a device that runs its code."""
    kernel = cls.__new__(cls)
    kernel.__dict__.update(state)
    return kernel


_NO_OPTIONS = dict(maxnreg=None, enable_fp_fusion=True, enable_reflect_ftz=True, launch_cooperative_grid=False, launch_pdl=False, sanitize_overflow=True,
                   extern_libs=None, ir_override=None, ptx_version=None, instrumentation_mode="", tmem_size=0, global_scratch_size=0,
                   global_scratch_align=1, profile_scratch_size=0, profile_scratch_align=1, tensordesc_meta=())


def _use(info):
    """`info` with `n_regs` and `shared` of targets that have no such limits."""
    from .backends.compiler import REGISTERS, SHARED
    kind = info["target"].partition(":")[0]
    if kind == "sim":  # as many as an assembler may give a thread
        return {**info, "n_regs": min(255, REGISTERS // max(info["threads"], 1))}
    if kind == "cpu":
        return {**info, "n_regs": 32, "shared": min(max(info["scratch_bytes"], 1), SHARED)}
    return info


@functools.cache
def _metadata_class(names):
    return collections.namedtuple("KernelMetadata", names)


def _metadata(info, options):
    from .backends.compiler import target_of
    options = {k: v for k, v in options.items() if k not in info and k.isidentifier()}
    target = target_of(info["target"])
    ctas = max(info["num_ctas"], info["cluster_ctas"])  # the compiler may have chosen a cluster
    fields = {**_NO_OPTIONS, **options, **info, "num_ctas": ctas, "target": target, "target_name": info["target"], "backend_name": target.backend, "arch": target.arch,
              "warp_size": target.warp_size, "triton_version": language_version(),
              "cluster_dims": (ctas, 1, 1)}  # up to Triton 3.5; PyTorch 2.9 asks for it
    return _metadata_class(tuple(fields))(*fields.values())


# Made when they are asked for, for PyTorch's packages: a kernel of a CPU as a shared library, and its launcher.
_PACKAGED = ("so", "launcher.so")


_SAME_STAGE = {"ttir": "tile", "ttgir": "gpu", "llir": "llvm"}  # Triton's names of stages that are here too, each in the library's own text


class _Asm:
    """The stages of a kernel as a read-only mapping. Triton's names of stages are understood, too, but not listed."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __getitem__(self, asked):
        stage = _SAME_STAGE.get(asked, asked)
        if stage == "sass" and "cubin" in self:  # made by a tool of NVIDIA's when it is asked for
            from .tools.disasm import get_sass
            return get_sass(self["cubin"])
        if stage in _PACKAGED and self._is_cpu():
            from ._inductor import package
            return package.library(self._kernel) if stage == "so" else package.launcher()
        try:
            return self._kernel.stage(stage)
        except KeyError as e:
            raise KeyError(e.args[0].replace(f"'{stage}'", f"'{asked}'", 1)) from None
        except NotImplementedError:  # a kernel of another process has its code alone
            again = self._kernel._compiled_again()
            if again is None:
                raise
            return again.stage(stage)

    def _is_cpu(self):
        return self._kernel.info()["target"].startswith("cpu")

    def get(self, stage, default=None):
        return self[stage] if stage in self or stage in _PACKAGED and self._is_cpu() else default

    def items(self):
        return [(stage, self[stage]) for stage in self]

    def values(self):
        return [self[stage] for stage in self]

    def keys(self):
        return self._kernel.stage_names()

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, stage):
        return _SAME_STAGE.get(stage, stage) in self.keys()

    def __len__(self):
        return len(self.keys())
