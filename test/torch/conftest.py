"""Runs under `python -m tegula -m pytest` (make test-torch)."""


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, help="only every so many of the tests")


def pytest_collection_modifyitems(config, items):
    items[:] = items[::config.getoption("--every")]
