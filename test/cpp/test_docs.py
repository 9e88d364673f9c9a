"""The C++ pieces of docs/cpp.md, one after the other, are a program; its last piece of text is what it prints."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from test_twins import COMPILERS, ROOT, build


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_page_is_a_program(compiler, tmp_path):
    page = (ROOT / "docs/cpp.md").read_text()
    source = tmp_path / "page.cpp"
    source.write_text("".join(re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S)))
    program = build(compiler, source, tmp_path)
    p = subprocess.run([program], capture_output=True, text=True, env={**os.environ, "TEGULA_CACHE_DIR": ""})
    assert (p.returncode, p.stdout) == (0, re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)[-1]), p.stdout + p.stderr
