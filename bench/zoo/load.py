"""Loads the families once for each compiler: one source, in which `triton` means tegula the first time and Triton the second."""
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from sources import load_as  # noqa: E402
from zoo.table import Entry  # noqa: E402  the same module that the families import
from zoo.table import Record, Spelling  # noqa: E402

MODULES = "language", "tools", "tools.tensor_descriptor", "language.extra", "language.extra.libdevice"


def aliases(package):
    """{"triton...": module of `package`}"""
    return {"triton": importlib.import_module(package), **{f"triton.{m}": importlib.import_module(f"{package}.{m}") for m in MODULES}}


def entries(who, name=None):
    """All entries, with the kernels of compiler `who` ("tegula" or "triton"), by name; `name` tells their modules from those of another call."""
    modules = aliases(who)
    found = {}
    for path in sorted((HERE / "kernels").glob("*.py")):
        for value in vars(load_as(f"zoo_{path.stem}_{name or who}", path, modules)).values():
            if isinstance(value, Entry):
                if found.setdefault(value.name, value) is not value:
                    raise ValueError(f"{path.name}: two entries are named {value.name}")
    return found


@dataclass
class Row:
    """What is compared: one spelling of an entry at one shape and dtype; its configurations compete."""
    entry: Entry
    spelling: Spelling
    shape: Record
    dtype: str

    @property
    def name(self):
        return f"{self.entry.name} / {self.spelling.name} / {self.shape} / {self.dtype}"


def is_named(name, text):
    """Does a row's name contain `text`, or one of several texts with | between them? What --rows means everywhere."""
    return any(t in name for t in text.split("|"))


def for_cpu(entry):
    """The first shape with its largest extents halved until a CPU does it in some hundredths of a second."""
    shape = Record(**vars(entry.shapes[0]))
    too_much = lambda: entry.flops(shape) > 4e9 if entry.flops else entry.bytes(shape, 4) > 64e6
    while too_much():
        largest = max(vars(shape), key=lambda k: vars(shape)[k])
        setattr(shape, largest, vars(shape)[largest] // 2)
    return shape


def rows(table, where="gpu"):
    """All rows: at the shapes for a GPU, one that suits a CPU ("cpu", first dtype only), or the small ones that are checked ("small")."""
    for entry in table.values():
        shapes = {"gpu": entry.shapes, "small": entry.small}.get(where) or [for_cpu(entry)]
        for spelling in entry.spellings.values():
            for shape in shapes:
                for dtype in entry.dtypes[:1] if where == "cpu" else entry.dtypes:
                    if spelling.configs_for(shape):
                        yield Row(entry, spelling, shape, dtype)
