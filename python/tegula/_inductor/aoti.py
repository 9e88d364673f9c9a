"""Packages of AOTInductor. Kernels for GPUs are cubins that PyTorch starts itself; what it cannot start is refused here. Kernels for CPUs are made by package.py:
PyTorch's C++ wrapper knows how to call those that users wrote, whose grids it is told; here it learns it for Inductor's own, whose grids it computes for GPUs in
the same words."""
import functools

_GRIDS = ["grid_0", "grid_1", "grid_2"]


def remember_launches(module):
    """torch._inductor.runtime.triton_heuristics: beside a kernel that is saved for a package stands how it is launched."""
    save_gpu = module.CachingAutotuner.save_gpu_kernel

    @functools.wraps(save_gpu)
    def save_gpu_kernel(self, stream, launcher):
        launcher.bin = in_one_block(launcher.bin)
        if why := beyond_arguments(launcher.bin):
            raise RuntimeError(f"tegula.torch: `{launcher.bin.name}` cannot be in a package of AOTInductor: {why}, which PyTorch's C++ runtime cannot launch")
        save_gpu(self, stream, launcher)

    module.CachingAutotuner.save_gpu_kernel = save_gpu_kernel
    save = getattr(module.CachingAutotuner, "save_cpu_kernel", None)
    if save is None:
        return

    @functools.wraps(save)
    def save_cpu_kernel(self, launcher):
        from torch._inductor.codecache import CpuTritonKernelCache
        save(self, launcher)
        CpuTritonKernelCache.get(self.inductor_meta["kernel_name"]).update(
            config=module.config_to_dict(launcher.config), def_args=launcher.def_args, inductor_meta=self.inductor_meta)

    module.CachingAutotuner.save_cpu_kernel = save_cpu_kernel


def in_one_block(kernel):
    """The kernel as it is where no cluster shares a program, unless its author asked for one: what the compiler chose by itself (the option `clusters`), PyTorch's C++ runtime cannot launch."""
    from ..compiler.compiler import compile
    options = kernel._options
    if kernel.metadata.num_ctas == 1 or (options.get("num_ctas") or 1) > 1 or kernel.src is None:
        return kernel
    return compile(kernel.src, target=kernel.metadata.target, options={**options, "clusters": False})


def beyond_arguments(kernel):
    """What a GPU's kernel needs beyond a grid, warps, shared memory and its arguments; None if nothing. PyTorch gives it two null pointers behind the arguments,
    for scratch: the first comes where tegula has the address of the record that failing programs write, so that device_assert ends such a kernel as an illegal access."""
    if "ptx" not in kernel.asm:
        return None
    entry = kernel.asm["ptx"].partition(".entry")[2].partition("{")[0]
    if ".b8" in entry:
        return "it takes tensor maps"
    if kernel.metadata.num_ctas > 1:
        return f"it runs in clusters of {kernel.metadata.num_ctas} blocks"
    return None


def compute_grids(module):
    """torch._inductor.codegen.cpp_wrapper_cpu: calls of Inductor's own kernels."""
    call = getattr(module, "DeferredCpuTritonCallWrapper", None)
    if call is None:
        _refuse(module)
        return
    resolve, launch = call._resolve_arg_names, call._generate_launch

    def own(self):
        """What is known of a kernel of Inductor's; None for a user's."""
        from torch._inductor.codecache import CpuTritonKernelCache
        info = CpuTritonKernelCache.get(self.kernel_name)
        return info if info and info.get("inductor_meta", {}).get("grid_type", "PrecomputedGrid") != "PrecomputedGrid" else None

    @functools.wraps(resolve)
    def _resolve_arg_names(self):
        info = own(self)
        if info is None:
            return resolve(self)
        return list(info["def_args"]), [name for name, code in info["signature"].items() if code != "constexpr"], _GRIDS

    @functools.wraps(launch)
    def _generate_launch(self, prefix, kernel_arg_names, grid_arg_names, signature):
        info = own(self)
        if info is not None:
            from torch._inductor.runtime.triton_heuristics import GridExpr
            grid = GridExpr.from_meta(info["inductor_meta"], info["config"], mode="cpp")
            for line in [*grid.prefix, *(f"const uint32_t {name} = {value};" for name, value in zip(_GRIDS, (grid.x_grid, grid.y_grid, grid.z_grid)))]:
                prefix.writeline(line)
        launch(self, prefix, kernel_arg_names, grid_arg_names, signature)

    call._resolve_arg_names, call._generate_launch = _resolve_arg_names, _generate_launch


def _refuse(module):
    """Versions whose C++ wrapper cannot call a kernel of a CPU say so, before anything is compiled."""
    init = module.CppWrapperCpu.__init__

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        import torch
        from torch._inductor import config
        if type(self) is module.CppWrapperCpu and config.cpu_backend == "triton":
            raise RuntimeError(f"tegula.torch: the C++ wrapper of torch {torch.__version__} (AOTInductor, cpp_wrapper) cannot call kernels that are not C++ on CPUs; "
                               "that of torch 2.14 can. With torch._inductor.config.cpu_backend = \"cpp\" the CPU's part is made of C++")
        init(self, *args, **kwargs)

    module.CppWrapperCpu.__init__ = __init__
