"""Launches that somebody watches: hooks of triton.knobs, of functions (`add_pre_run_hook`), compilations in other threads (AsyncCompileMode).

Launches look at nothing of this while there is no hook (_options.py). Each kernel comes by `new_kernel` once, right after it was made.
"""
import functools
import os

from . import _core, knobs
from ._calls import Call, JitFunctionInfo, get_full_name, serialize_specialization_data
from ._options import decide, interpreting, option_defaults, watched


def _hook_arguments(call, warmup):
    """Keywords of jit_cache_hook and jit_post_compile_hook."""
    from .runtime.driver import driver
    fn, options = call.fn, {"num_warps": 4, "num_ctas": 1, "num_stages": 3, "enable_fp_fusion": True, "launch_cooperative_grid": False,
                            "extern_libs": None, **call.options}
    if isinstance(options["extern_libs"], dict):
        options["extern_libs"] = tuple(options["extern_libs"].items())
    name = get_full_name(fn)
    listed = ", ".join(f"{p}: {code}" for p, code in call.signature.items())
    text = (f"{name}[num_warps={options['num_warps']}, num_ctas={options['num_ctas']}, num_stages={options['num_stages']}, "
            f"enable_fp_fusion={options['enable_fp_fusion']}, launch_cooperative_grid={options['launch_cooperative_grid']}]({listed})")
    picked = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion", "launch_cooperative_grid", "extern_libs")
    compile_info = {"signature": call.signature, "device": driver.active.get_current_device(), "constants": call.constants,
                    **{k: options[k] for k in picked}, "configs": [call.attrs],
                    "specialization_data": serialize_specialization_data(name, call.signature, call.constants, call.attrs, call.options, call.key),
                    "is_warmup": warmup, "key": call.key}
    return dict(key=call.key, repr=text, fn=JitFunctionInfo(fn.__module__, fn.__qualname__, fn), compile=compile_info, is_manual_warmup=warmup,
                already_compiled=False)


def intercept(fn, grid, warmup, args, kwargs):
    """In place of a launch while there are hooks."""
    if interpreting(fn):
        from .runtime import interpreter
        return None if warmup else interpreter.run(fn, grid, args, kwargs)
    for hook in fn.pre_run_hooks:
        hook(*args, **kwargs)
    kwargs = {**option_defaults(), **kwargs}
    call = Call(fn, args, {k: v for k, v in kwargs.items() if k not in ("device", "stream")})
    announced = bool(knobs.runtime.jit_cache_hook) and not fn._has_kernel(call)
    if announced and knobs.runtime.jit_cache_hook(**_hook_arguments(call, warmup)):
        return None
    mode = _active_mode() if watched() else None
    kernel = _proceed(fn, grid, warmup, call, mode, args, kwargs)
    if announced and mode is None and not fn._has_kernel(call):  # there under another key: the options that differ have no meaning here
        _announce(call, kernel, warmup)
    return kernel


def _proceed(fn, grid, warmup, call, mode, args, kwargs):
    runtime = knobs.runtime
    if mode is not None and not fn._has_kernel(call):
        cache = fn._kernels()
        compiles = lambda: fn.direct(None)(*args, **kwargs)
        if call.key in cache:
            future = mode.submit((fn, call.key), compiles)
        else:
            future = mode.submit((fn, call.key), compiles, lambda kernel: cache.__setitem__(call.key, kernel), lambda _: cache.pop(call.key, None))
            cache.setdefault(call.key, future)
        if warmup:
            return future
        future.result()
    if warmup or not (runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls):
        return fn.direct(None if warmup else grid)(*args, **kwargs)
    if callable(grid):
        grid = grid(call.arguments)
    kernel = fn.direct(None)(*args, **kwargs)
    if any(int(n) == 0 for n in grid):
        return kernel
    metadata = kernel.launch_metadata(grid, kwargs.get("stream"), *call.arguments.values())
    runtime.launch_enter_hook(metadata)
    kernel = fn.direct(grid)(*args, **kwargs)
    runtime.launch_exit_hook(metadata)
    return kernel


def _announce(call, kernel, warmup):
    call.fn._remember(call, kernel)
    if knobs.runtime.jit_post_compile_hook:
        knobs.runtime.jit_post_compile_hook(**_hook_arguments(call, warmup))


def _source_of(fn, signature, constants, attrs):
    from .compiler.compiler import ASTSource
    return ASTSource(fn, signature, constants, attrs)


def new_kernel(fn, kernel, warmup, args, kwargs):
    """Called by the first launch or compilation that got this kernel."""
    call = Call(fn, args, {k: v for k, v in kwargs.items() if k not in ("device", "stream")})
    try:
        kernel._come_from(functools.partial(_source_of, fn, call.signature, call.constants, call.attrs), call.options)
    except TypeError:
        return  # an argument of a kind that only the launch knows
    _announce(call, kernel, warmup)
    runtime, compilation = knobs.runtime, knobs.compilation
    if compilation.listener:
        compilation.listener(src=kernel.src, metadata=kernel.metadata._asdict(), metadata_group=kernel.metadata_group, times=kernel.compile_times,
                             cache_hit=kernel.info()["origin"] == "disk")
    if runtime.kernel_load_start_hook.calls or runtime.kernel_load_end_hook.calls:
        runtime.kernel_load_start_hook(None, None, kernel.name, kernel.metadata_group, kernel.hash)
        runtime.kernel_load_end_hook(kernel.module, kernel.function, kernel.name, kernel.metadata_group, kernel.hash)
    if compilation.dump_ir:
        _dump(kernel)


def _dump(kernel):
    """All stages as <dump_dir>/<hash>/<name>.<stage>."""
    folder = os.path.join(knobs.cache.dump_dir, kernel.hash)
    os.makedirs(folder, exist_ok=True)
    for stage in kernel.asm:
        data = kernel.asm[stage]
        with open(os.path.join(folder, f"{kernel.name}.{stage}"), "wb") as out:
            out.write(data if isinstance(data, bytes) else data.encode())


def _active_mode():
    from .runtime._async_compile import active_mode
    return active_mode.get()


def install():
    _core.set_launch_hooks(intercept, new_kernel)
    knobs.on_change(decide)
    decide()
