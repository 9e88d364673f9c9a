"""Compilations in other threads: `with triton.AsyncCompileMode(ThreadPoolExecutor()):`."""
from contextvars import ContextVar

from .. import _hooks

active_mode = ContextVar("async_compile_active_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled. Any attribute, and launching it, waits for the kernel itself; result() gives it."""

    def __init__(self, finalize, cleanup, future):
        self.finalize, self.cleanup, self.future = finalize, cleanup, future
        self._kernel = None

    def result(self, ignore_errors=False):
        """The kernel; None if it could not be compiled and `ignore_errors`."""
        if self._kernel is not None:
            return self._kernel
        try:
            kernel = self.future.result()
        except Exception:
            if self.cleanup:
                self.cleanup()
            if ignore_errors:
                return None
            raise
        if self._kernel is None:
            self._kernel = kernel
            if self.finalize:
                self.finalize(kernel)
        return self._kernel

    def __getattr__(self, name):
        return getattr(self.result(), name)

    def __getitem__(self, grid):
        return self.result()[grid]


class AsyncCompileMode:
    """In it, warmup() gives a FutureKernel at once, and the executor compiles; a launch waits for its kernel. At the end all are there, and the first error
    is raised unless `ignore_errors`."""

    def __init__(self, executor, *, ignore_errors=False):
        self.executor, self.ignore_errors = executor, ignore_errors
        self.raw_futures, self.future_kernels = [], {}

    def submit(self, key, compile_fn, finalize_fn=None, cleanup_fn=None):
        """The FutureKernel of `key`: compile_fn() in the executor, unless there is one already."""
        if key in self.future_kernels:
            return self.future_kernels[key]
        future = self.executor.submit(compile_fn)
        future._key = key
        self.raw_futures.append(future)
        self.future_kernels[key] = FutureKernel(finalize_fn, cleanup_fn, future)
        return self.future_kernels[key]

    def __enter__(self):
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        self._token = active_mode.set(self)
        _hooks.watch_launches(+1)
        return self

    def __exit__(self, kind, error, trace):
        active_mode.reset(self._token)
        _hooks.watch_launches(-1)
        from concurrent.futures import as_completed
        try:
            for future in as_completed(self.raw_futures):
                self.future_kernels[future._key].result(self.ignore_errors)
        finally:
            self.raw_futures, self.future_kernels = [], {}
