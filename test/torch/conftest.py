"""Runs under `python -m tegula -m pytest` (make test-torch). A table of the operators comes last."""


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, help="only every so many of the tests")


def pytest_collection_modifyitems(config, items):
    items[:] = items[::config.getoption("--every")]


def pytest_terminal_summary(terminalreporter):
    """What test_operators.py recorded: a row for each operator and data type. Speed beside Inductor's C++ is bench.py's."""
    rows = [(dict(r.user_properties), outcome) for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome) if r.when == "call" and r.user_properties]
    if not rows:
        return
    terminalreporter.section("operators: largest difference from eager, of what is allowed")
    for row, outcome in sorted(rows, key=lambda r: (r[0]["operator"], r[0]["dtype"])):
        found = f"{row['off']:.3f}" if outcome == "passed" else "FAILED"
        terminalreporter.write_line(f"{row['operator']:32} {row['dtype']:10} {'forward, backward' if row['backward'] else 'forward':18} {found}")
