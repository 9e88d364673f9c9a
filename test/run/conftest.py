"""Devices the cases run on (TEGULA_TEST_DEVICES, a comma-separated list; "interpreter" is one), `--every N` for a sample of them, and the count
of cases by section of the language. The instruction set is TEGULA_CPU_TARGET's (docs/how-to-add.md), the number of CTAs of a cluster, where a case
says nothing of it, TEGULA_TEST_CTAS. TEGULA_TEST_WIDE=1: the form of the kernels that is for large tensors."""
import collections
import os
import re
import sys
import zlib
from pathlib import Path

os.environ["TEGULA_CACHE_DIR"] = ""  # what is tested is compiled here and now

import pytest
import tegula
from tegula.testing import Mirror

sys.path.insert(0, str(Path(__file__).parent))
DEVICES = os.environ.get("TEGULA_TEST_DEVICES", "cpu").split(",")
CTAS = int(os.environ.get("TEGULA_TEST_CTAS", "1"))
WIDE = os.environ.get("TEGULA_TEST_WIDE") == "1"


class Device:
    def __init__(self, name):
        self.name = name

    def __call__(self, kernel, grid, *args, **kw):
        if self.name == "interpreter":
            try:
                with tegula.interpret():
                    return kernel[grid](*args, **kw)
            except tegula.InterpreterError as e:
                raise e.__cause__  # what the cases expect of every device
        kw.setdefault("device", self.name)
        if CTAS > 1:
            kw.setdefault("num_ctas", CTAS)
        if WIDE:
            kw.setdefault("wide_offsets", True)
        if not self.name.startswith("cuda"):
            return kernel[grid](*args, **kw)
        with Mirror(self.name) as m:
            return kernel[grid](*m.to(args), **m.to(kw))


# Mistakes that only a compilation of the whole function sees, or that the interpreter reports by another class or without a place in the file; asserts that
# are off, and Python's print as the compiled kernel's.
NOT_INTERPRETED = {("test_statements", "test_rejected"), ("test_statements", "test_loop_errors"), ("test_descriptors", "test_errors"),
                   ("test_extra", "test_errors"), ("test_surprises", "test_19_types_before_the_loop"), ("test_aggregates", "test_field_types_are_checked"),
                   ("test_surprises", "test_02_ones_are_constants"), ("test_surprises", "test_04_pruning"), ("test_debug", "test_device_print_forms"),
                   ("test_debug", "test_device_assert"), ("test_exits", "test_strict"), ("test_exits", "test_numbers_returned_are_one_type"),
                   ("test_exits", "test_static_conditions"), ("test_slices", "test_strict"), ("test_odd_shapes", "test_strict_refuses"),
                   ("test_atomics", "test_poll_waits_for_all"), ("test_wrappers", "test_types_that_kernels_make"),
                   ("test_wrappers", "test_classes_of_the_language_as_variables"), ("test_wrappers", "test_types_of_a_block_pointer"),
                   ("test_wrappers", "test_type_of_compile_time_objects"), ("test_functions", "test_compile_time"), ("test_functions", "test_noinline"),
                   ("test_functions", "test_call_errors"), ("test_functions", "test_globals"), ("test_shape", "test_errors"),
                   ("test_libdevice", "test_exact_functions_wrap"), ("test_combine", "test_few_elements_are_combined_in_pairs")}


@pytest.fixture(params=DEVICES)
def dev(request):
    if request.param == "interpreter" and (request.module.__name__, request.node.originalname) in NOT_INTERPRETED:
        pytest.skip("about what only compiled kernels do")
    return Device(request.param)


def pytest_configure(config):
    config.addinivalue_line("markers", "section(name): the section of the language that a case belongs to")
    config.sections = collections.Counter()


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, metavar="N", help="run about one of N cases: always the same ones, "
                     "chosen by a hash of their names, so that no dtype or shape is favoured")
    parser.addoption("--sample", type=int, default=0, metavar="K", help="which of the N samples of --every, 0 to N-1: no case is in two of them")


def pytest_collection_modifyitems(config, items):
    n = config.getoption("every")
    sampled_as = os.environ.get("TEGULA_TEST_SAMPLED_AS")  # the same cases as on that device
    device = re.compile(rf"\[({'|'.join(map(re.escape, DEVICES))})(?=[-\]])")
    name = lambda i: device.sub(f"[{sampled_as}", i.nodeid, count=1) if sampled_as else i.nodeid
    out = [i for i in items if n > 1 and zlib.crc32(name(i).encode()) % n != config.getoption("sample")]
    if out:
        chosen = set(map(id, items)) - set(map(id, out))
        items[:] = [i for i in items if id(i) in chosen]
        config.hook.pytest_deselected(items=out)
    for item in items:
        mark = item.get_closest_marker("section")
        if mark:
            config.sections[mark.args[0]] += 1


def pytest_terminal_summary(terminalreporter, config):
    total = 0
    for name, n in sorted(config.sections.items(),
                          key=lambda kv: [int(p) if p.isdigit() else 0 for p in kv[0].split()[0].split(".")]):
        terminalreporter.write_line(f"conformance {name}: {n} cases")
        total += n
    terminalreporter.write_line(f"conformance total: {total} cases on {', '.join(DEVICES)}"
                                   f"{' (' + os.environ['TEGULA_CPU_TARGET'] + ')' if 'TEGULA_CPU_TARGET' in os.environ else ''}")
