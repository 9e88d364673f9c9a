"""Files under a key: what autotuning keeps its results in, and programs their own. Compiled kernels are in tegula's own cache (`tegula cache`,
$TEGULA_CACHE_DIR), one file each."""
import base64
import hashlib
import json
import os
from abc import ABC, abstractmethod

from .. import knobs
from .._version import triton_key


def _base32(key):
    """Hexadecimal digits as a shorter text that file systems without case keep apart."""
    return base64.b32encode(bytes.fromhex(key)).decode("ascii").rstrip("=")


class CacheManager(ABC):

    def __init__(self, key, override=False, dump=False):
        pass

    @abstractmethod
    def get_file(self, filename):
        """Path of the file, None if there is none."""

    @abstractmethod
    def put(self, data, filename, binary=True):
        """Keeps bytes, or text, as a file. Returns its path."""

    @abstractmethod
    def get_group(self, filename):
        """{file name: path} of the group, None if there is none or a file of it is gone."""

    @abstractmethod
    def put_group(self, filename, group):
        """Keeps {file name: path} as a group."""


def _group_name(filename):
    return f"__grp__{filename}"


class FileCacheManager(CacheManager):
    """Files in the folder of the key below knobs.cache.dir (or dump_dir, override_dir). Writes replace whole files."""

    def __init__(self, key, override=False, dump=False):
        self.key, self.lock_path = key, None
        if dump or override:
            root = knobs.cache.dump_dir if dump else knobs.cache.override_dir
            self.cache_dir = os.path.join(root, key)
        else:
            if not knobs.cache.dir:
                raise RuntimeError("Could not create or locate cache dir")
            self.cache_dir = os.path.join(knobs.cache.dir, key)
        if not override:
            os.makedirs(self.cache_dir, exist_ok=True)

    def _path(self, filename):
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename):
        return os.path.exists(self._path(filename))

    def get_file(self, filename):
        return self._path(filename) if self.has_file(filename) else None

    def get_group(self, filename):
        path = self.get_file(_group_name(filename))
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            children = json.load(file)["child_paths"]
        return children if all(os.path.exists(p) for p in children.values()) else None

    def put_group(self, filename, group):
        return self.put(json.dumps({"child_paths": group}), _group_name(filename), binary=False)

    def put(self, data, filename, binary=True):
        data = data if isinstance(data, bytes) else str(data).encode()
        os.makedirs(self.cache_dir, exist_ok=True)
        import tempfile
        number, path = tempfile.mkstemp(prefix="tmp.", dir=self.cache_dir)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            os.chmod(path, 0o644)
            os.replace(path, self._path(filename))
        except BaseException:
            os.unlink(path)
            raise
        return self._path(filename)


class RemoteCacheBackend(ABC):
    """Bytes by file name, somewhere else."""

    def __init__(self, key):
        pass

    @abstractmethod
    def get(self, filenames):
        """{file name: bytes} of those that are there."""

    @abstractmethod
    def put(self, filename, data):
        ...


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """In the Redis server of knobs.redis; needs the package redis."""

    def __init__(self, key):
        import redis
        self._key = key
        self._format = knobs.redis.key_format
        self._redis = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _name(self, filename):
        return self._format.format(key=self._key, filename=filename)

    def get(self, filenames):
        found = self._redis.mget([self._name(f) for f in filenames])
        return {f: data for f, data in zip(filenames, found) if data is not None}

    def put(self, filename, data):
        self._redis.set(self._name(filename), data)


class RemoteCacheManager(CacheManager):
    """Files of a remote backend, copied into a folder of this machine when they are asked for."""

    def __init__(self, key, override=False, dump=False):
        self._files = FileCacheManager(key, override, dump)
        backend = knobs.cache.remote_manager_class
        if backend is None:
            raise RuntimeError("Unable to load remote_manager_class from knobs: TRITON_REMOTE_CACHE_BACKEND is not set")
        self._backend = None if override or dump else backend(key)

    def get_file(self, filename):
        if self._backend is None:
            return self._files.get_file(filename)
        data = self._backend.get([filename]).get(filename)
        return None if data is None else self._files.put(data, filename)

    def put(self, data, filename, binary=True):
        if self._backend is not None:
            self._backend.put(filename, data if isinstance(data, bytes) else str(data).encode())
        return self._files.put(data, filename, binary)

    def get_group(self, filename):
        if self._backend is None:
            return self._files.get_group(filename)
        path = self.get_file(_group_name(filename))
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["child_paths"]
        found = {name: self.get_file(name) for name in names}
        return None if None in found.values() else found

    def put_group(self, filename, group):
        return self.put(json.dumps({"child_paths": sorted(group)}), _group_name(filename), binary=False)


def get_cache_manager(key):
    """The manager of the files of a key (hexadecimal digits)."""
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key))


def get_override_manager(key):
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key), override=True)


def get_dump_manager(key):
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key), dump=True)


def get_cache_key(src, backend, backend_options, env_vars):
    """Text that differs for sources, backends, options or variables that differ."""
    key = f"{triton_key()}-{src.hash()}-{backend.hash()}-{backend_options}-{str(sorted(env_vars.items()))}"
    return hashlib.sha256(key.encode()).hexdigest()
