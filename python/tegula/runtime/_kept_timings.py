"""Timings of one tuning in the file that Triton keeps beside its kernels. The library's own results: src/tune/Store.h."""
import hashlib
import json

from .._function import JITFunction
from ._config import Config


class ResultFile:
    """Timings of one tuning on disk, in the folder of kernels: Triton's own file."""

    def __init__(self, manager, name):
        self.manager, self.name = manager, name

    @classmethod
    def of(cls, tuner, key, configs):
        """None: these results are not kept."""
        if not tuner._caches() or tuner._is_interpreted() or any(c.pre_hook for c in configs):
            return None
        fn = tuner.fn
        while not isinstance(fn, JITFunction):
            fn = fn.fn
        from .._version import triton_key
        from .cache import get_cache_manager
        from .driver import driver
        parts = [triton_key(), str(driver.active.get_current_target()), fn.cache_key, str(key), *map(str, configs)]
        return cls(get_cache_manager(hashlib.sha256("-".join(parts).encode()).hexdigest()), f"{fn.__name__[:150]}.autotune.json")

    def read(self, configs):
        path = self.manager.get_file(self.name)
        if not path:
            return None
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["configs_timings"]
        ours = {str(c): c for c in configs}
        return {ours[text]: timings for config, timings in rows if (text := str(Config(**config))) in ours} or None

    def write(self, key, timings):
        text = json.dumps({"key": key, "configs_timings": [(vars(c), t) for c, t in timings.items()]}, default=str)
        self.manager.put(text, self.name, binary=False)
