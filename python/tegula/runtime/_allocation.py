"""`triton.set_allocator`: memory that the caller gives to kernels. Kernels here need none (docs/differences.md), so allocators are kept and never called;
programs that look at them find theirs."""
from contextvars import ContextVar


class Allocator:
    """f(size, alignment, stream) -> an object with data_ptr()"""

    def __call__(self, size, alignment, stream):
        raise NotImplementedError


class NullAllocator(Allocator):

    def __call__(self, size, alignment, stream):
        raise RuntimeError("Kernel requires a runtime memory allocation, but no allocator was set. Use triton.set_allocator to specify an allocator.")


_NULL_ALLOCATOR = NullAllocator()
_allocator = ContextVar("_allocator", default=_NULL_ALLOCATOR)
_profile_allocator = ContextVar("_profile_allocator", default=_NULL_ALLOCATOR)


def set_allocator(allocator):
    """Of this thread or context: allocator(size, alignment, stream)."""
    _allocator.set(allocator)


def set_profile_allocator(allocator):
    _profile_allocator.set(_NULL_ALLOCATOR if allocator is None else allocator)


def has_profile_allocator():
    return _profile_allocator.get() is not _NULL_ALLOCATOR
