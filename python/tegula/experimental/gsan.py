"""Triton's checks of global memory on GPUs. Here the simulator does them: `device="sim"` finds races between programs and threads, missing waits and
accesses outside of buffers in unchanged kernels, without an allocator of its own."""

__all__ = ["configure", "create_mem_pool", "freeze_config", "get_allocator", "has_live_allocations", "reset"]


def _refused(name):
    def f(*args, **kwargs):
        raise NotImplementedError(f'gsan.{name}: there is no instrumented memory; launch with device="sim", whose checks find races and stray accesses')
    f.__name__ = name
    return f


configure, create_mem_pool, freeze_config, get_allocator = map(_refused, __all__[:4])


def has_live_allocations():
    return False


def reset():
    """Nothing is kept, so nothing is set back."""
