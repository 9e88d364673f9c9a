"""torch.compile by tegula (docs/pytorch.md): importing this makes Inductor emit to tegula in this process and its children, as `python -m tegula` does."""
import functools

import torch

from ._inductor import backend, later
from ._inductor.backend import compile_graph
from ._inductor.versions import UnknownVersion

backend.prepare()
later.when_imported()


def compile(model=None, *, fullgraph=False, dynamic=None, mode=None, options=None, disable=False):
    """torch.compile(model, backend="tegula", ...); without a model, a decorator."""
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, disable=disable)
    return torch.compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=compile_graph, mode=mode, options=options, disable=disable)
