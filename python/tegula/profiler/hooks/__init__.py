"""What sessions do at launches beside taking the time."""
import re

COMPUTE_METADATA_SCOPE_NAME = "__proton_launch_metadata"  # of what `launch_metadata` launches itself, in profiles of Triton's


class Hook:
    """Base: enter() and exit() get the launch's metadata (its get() is a dict); a session calls activate() and deactivate() when it starts and stops to look."""
    priority = 0

    def init_handle(self, module, function, name, metadata_group, hash):
        """A kernel was loaded."""

    def destroy_handle(self, module, function, name, metadata_group, hash):
        """Kernels stay loaded: never called."""

    def enter(self, metadata):
        ...

    def exit(self, metadata):
        ...

    def activate(self):
        ...

    def deactivate(self):
        ...

    def metrics_of(self, metadata):
        """(name of the launch, its metrics {name: number}); name None: it does not count."""
        return metadata.kernel.name, {}


class LaunchHook(Hook):
    """hook="triton": names and metrics (flops, bytes, flops16 ..., any other number) that functions give by `launch_metadata`. There is one."""
    priority = 100
    flops_width = [8, 16, 32, 64]
    metrics = [f"flops{w}" for w in flops_width] + ["flops", "bytes"]
    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.configure()
        return cls._instance

    def configure(self, include=None, exclude=None):
        """Regular expressions that the names of kernels begin with: only those of `include` count, without those of `exclude`. Of others `launch_metadata` is not called."""
        self.include, self.exclude = (re.compile(p) if p else None for p in (include, exclude))

    def metrics_of(self, metadata):
        kernel = metadata.kernel.name
        if self.include and not self.include.match(kernel) or self.exclude and self.exclude.match(kernel):
            return None, {}
        given = metadata.get()
        return given["name"], {k: v for k, v in given.items() if k not in ("stream", "function") and isinstance(v, (int, float)) and not isinstance(v, bool)}


class InstrumentationHook(Hook):
    """Triton's, which puts marks into kernels: it can be made and registered, and says at its first session that there are none here."""

    def __init__(self, mode=None):
        self.mode = mode

    def activate(self):
        raise NotImplementedError("the profiler times launches; it puts no instruments into kernels")


class HookManager:
    """The hooks of sessions."""
    active_hooks: list = []
    session_hooks: dict = {}

    @classmethod
    def register(cls, hook, session):
        cls.session_hooks.setdefault(session, {})[hook] = True
        cls._collect()

    @classmethod
    def unregister(cls, session=None):
        for key in list(cls.session_hooks) if session is None else [session]:
            cls.session_hooks.pop(key, None)
        cls._collect()

    @classmethod
    def set_active(cls, session, on):
        for hook in cls.session_hooks.get(session, {}):
            cls.session_hooks[session][hook] = on
        cls._collect()

    @classmethod
    def _collect(cls):
        found = {h: None for hooks in cls.session_hooks.values() for h, on in hooks.items() if on}
        cls.active_hooks = sorted(found, key=lambda h: h.priority, reverse=True)
