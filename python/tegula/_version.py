"""Which compiler this is, for keys of caches, and which version of the language it follows."""
import functools
import os

from . import _core, knobs


def language_version():
    """The version of Triton whose rules hold in this process."""
    return f"{knobs.language.level}.0"


@functools.cache
def triton_key():
    """Another text for another compiler."""
    import glob
    import hashlib
    digest = hashlib.sha256(_core.version.encode())
    here = os.path.realpath(_core.__file__)
    library = os.path.join(os.path.dirname(here), "..", "..", "lib", "libtegula.so.*.*")
    for path in [here, *sorted(glob.glob(library))]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return f"{_core.version}-{digest.hexdigest()}"
