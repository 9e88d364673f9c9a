"""A plugin of pytest for carry.py: notes the cases of which something is in no bundle, with the reason ($TEGULA_LEFT_OUT), or skips these ($TEGULA_LEAVE_OUT).

While a program is recorded: cases in which the compiler refuses a kernel, and cases that fail or are skipped. Without a compiler: cases of those, and such as ask for a class that `tegula aot` said it left out."""
import os
import re

import pytest

OUT, IN = os.environ.get("TEGULA_LEFT_OUT"), os.environ.get("TEGULA_LEAVE_OUT")
_current = ""
_cases, _classes = {}, {}


def _name(nodeid):
    """The case on whatever GPU: what is recorded on the simulator runs on cuda."""
    return re.sub(r"\[(sim|cuda)\b", "[gpu", nodeid)


def _note(nodeid, reason):
    with open(OUT, "a") as f:
        f.write(f"{_name(nodeid)}\t{' '.join(reason.split())[:200]}\n")


def pytest_runtest_setup(item):
    global _current
    _current = item.nodeid
    if _name(item.nodeid) in _cases:
        pytest.skip(f"left out: {_cases[_name(item.nodeid)]}")


def pytest_configure(config):
    if OUT:
        from tegula.errors import CompilationError
        made = CompilationError.__init__

        def noted(self, *args, **keywords):
            made(self, *args, **keywords)
            _note(_current, "the compiler refuses a kernel")

        CompilationError.__init__ = noted
    if IN:
        with open(IN) as f:
            for line in f:
                case, _, reason = line.rstrip("\n").partition("\t")
                if case.startswith("`"):  # "`kernel` class for target: reason", as `tegula aot --keep-going` writes it
                    _classes[case.partition(" for ")[0]] = case.partition(": ")[2] or "left out"
                else:
                    _cases[case] = reason


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if OUT and report.skipped:
        _note(item.nodeid, "skipped while it was recorded")  # another device may run it
    if not report.failed:
        return
    if OUT:
        _note(item.nodeid, f"failed while it was recorded: {str(call.excinfo.value).splitlines()[:1]}")
    missing = re.search(r"(`\w+`) is not compiled ahead of time (for .*?) for ", str(call.excinfo.value))
    why = missing and _classes.get(f"{missing[1]} {missing[2][4:]}")
    if IN and why:
        report.outcome, report.longrepr = "skipped", (str(item.fspath), 0, f"Skipped: left out: `tegula aot` cannot compile it: {why}")
