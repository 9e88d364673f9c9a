"""Compilations in other threads: `with triton.AsyncCompileMode(ThreadPoolExecutor()):`."""
from concurrent.futures import as_completed
from contextvars import ContextVar

from .._options import watch_launches

active_mode = ContextVar("async_compile_active_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled. Any attribute, and launching it, waits for the kernel itself; result() gives it. Callbacks are pairs: finalize(kernel)
    is called once it is there, cleanup(self) if it could not be compiled, in the thread that asks first. Made of a future, or of two callbacks and a future."""

    def __init__(self, *made_of):
        *callbacks, self.future = made_of
        self.kernel, self._state, self._ignorable = None, "pending", False
        self._callbacks, self._calling = [], False
        if callbacks:
            finalize, cleanup = callbacks
            self.add_callbacks(finalize, cleanup and (lambda _: cleanup()))

    def add_callbacks(self, finalize, cleanup):
        """Of one more that waits for the kernel. Those that come after it was there are called by the next result()."""
        self._callbacks.append((finalize, cleanup))

    def _run_callbacks(self):
        """All of them, also those that they add; gives the first exception, if possible one that ends programs. One that asks for result() does not start them again."""
        failed, first = self._state == "failed", None
        if self._calling:
            return None
        self._calling = True
        while self._callbacks:
            finalize, cleanup = self._callbacks.pop(0)
            try:
                if failed and cleanup:
                    cleanup(self)
                elif not failed and finalize:
                    finalize(self.kernel)
            except BaseException as e:
                if first is None or isinstance(first, Exception) and not isinstance(e, Exception):
                    first = e
        self._calling = False
        return first

    def _fail(self, ignorable):
        self._state, self._ignorable, self.future = "failed", ignorable, None
        return self._run_callbacks()

    def result(self, ignore_errors=False):
        """The kernel; None if it could not be compiled and `ignore_errors`. Its error is raised once, later calls say that there was one."""
        if self._state == "pending":
            try:
                self.kernel = self.future.result()
            except BaseException as e:
                ignorable = isinstance(e, Exception)
                problem = self._fail(ignorable)
                if problem is not None and not isinstance(problem, Exception):
                    raise problem
                if not (ignorable and ignore_errors):
                    raise
                return None
            self._state, self.future = "succeeded", None
        problem = self._run_callbacks()
        if problem is not None and (self._state == "succeeded" or not isinstance(problem, Exception)):
            raise problem
        if self._state == "succeeded":
            return self.kernel
        if ignore_errors and self._ignorable:
            return None
        raise RuntimeError("this kernel's compilation previously failed")

    def __getattr__(self, name):
        # Copying and pickling ask for such names; so does what was made without __init__.
        if name.startswith("__") and name.endswith("__") or "_state" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.result(), name)

    def __getitem__(self, grid):
        return self.result()[grid]


class AsyncCompileMode:
    """In it, warmup() gives a FutureKernel at once, and the executor compiles; a launch waits for its kernel. At the end all are there, and the first error
    is raised unless `ignore_errors`. What ends the program (Ctrl-C) waits for none of them."""

    def __init__(self, executor, *, ignore_errors=False):
        self.executor, self.ignore_errors = executor, ignore_errors
        self.raw_futures, self.future_kernels = [], {}

    def submit(self, key, compile_fn, finalize_fn=None, cleanup_fn=None):
        """The FutureKernel of `key`: compile_fn() in the executor, unless there is one already."""
        kernel = self.future_kernels.get(key)
        if kernel is None:
            future = self.executor.submit(compile_fn)
            future._key = key
            self.raw_futures.append(future)
            kernel = self.future_kernels[key] = FutureKernel(future)
        if finalize_fn or cleanup_fn:
            kernel.add_callbacks(finalize_fn, cleanup_fn)
        return kernel

    def __enter__(self):
        if active_mode.get() is not None:
            raise RuntimeError("Another AsyncCompileMode is already active")
        self._token = active_mode.set(self)
        watch_launches(+1)
        return self

    def __exit__(self, kind, error, trace):
        active_mode.reset(self._token)
        watch_launches(-1)
        try:
            if error is None or isinstance(error, Exception):
                self._drain()
        finally:
            self._abandon()

    def _drain(self):
        """Waits for all; callbacks may submit more. The first error is raised at the end."""
        errors = []

        def resolve(kernel):
            was = kernel._state
            try:
                kernel.result(self.ignore_errors)
            except Exception as e:
                errors.extend([e] if was != "failed" else [])

        while self.raw_futures or any(k._callbacks for k in self.future_kernels.values()):
            waiting, self.raw_futures = self.raw_futures, []
            for future in as_completed(waiting):
                resolve(self.future_kernels[future._key])
            for kernel in list(self.future_kernels.values()):
                if kernel._callbacks and kernel._state != "pending":
                    resolve(kernel)
        if errors:
            raise errors[0]

    def _abandon(self):
        """Takes back what nobody waits for any more: all of it after an interruption, else nothing."""
        problem = None
        while any(k._state == "pending" for k in self.future_kernels.values()):
            for k in list(self.future_kernels.values()):
                if k._state == "pending":
                    problem = problem or k._fail(False)
        self.raw_futures, self.future_kernels = [], {}
        if problem is not None:
            raise problem
