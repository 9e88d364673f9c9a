"""Code that depends on numbers which only a launch knows (support/LaunchForms.h): how often loops run, how many programs there are."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
from programs import with_fake_driver  # noqa: E402

SCRIPT = Path(__file__).with_name("launch_forms_script.py")


def launched(folder):
    return dict(line.split(": ", 1) for line in with_fake_driver(SCRIPT, TEGULA_CACHE_DIR=str(folder)).splitlines())


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return launched(folder), launched(folder)


def test_launches_of_a_class_share_their_code(twice):
    """One trip, and 64; a grid that fills the multiprocessors again and again, and one program on each. A kernel without loops has one form."""
    assert twice[0]["trips"] == "0 1 0 1 0" and twice[0]["grid"] == "0 1 0 1 0" and twice[0]["straight"] == "0 0"


def test_rows_of_many_blocks_are_loaded_ahead(twice):
    """Sixteen elements of a thread in four loads, which stand in front of the loop, too, where the launch says that it runs often; a block that may be the row is not worth the registers."""
    ahead, once = map(int, twice[0]["loads"].split())
    assert twice[0]["ahead"] == "0 1 0 0" and once == 4 and ahead >= 2 * once
    assert twice[0]["counted"] == "0 1"


def test_warmup_makes_what_the_launch_wants(twice):
    assert twice[0]["warmup"] == "0 0 1 1"


def test_forms_come_out_of_the_disk_cache(twice):
    first, second = twice
    assert int(first["compiles"]) > 0 and second == {**first, "compiles": "0"}
