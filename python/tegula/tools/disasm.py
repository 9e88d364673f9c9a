"""Machine code of NVIDIA GPUs as text, by the toolkit's cuobjdump (knobs.nvidia.cuobjdump names it)."""
import functools
import os
import re
import subprocess
import tempfile

from .. import knobs

# One line of cuobjdump -sass: /*0010*/ OP ... ; /* 0x... */ and, on the next line, the other half of the encoding.
_CODE = re.compile(r"^\s*/\*(\w{4,})\*/\s+(.*?;)\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
_REST = re.compile(r"^\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
_FUNCTION = re.compile(r"^\s*Function\s*:\s*(\S+)")


def _control(high):
    """The scheduling bits of an instruction: barriers waited for, read barrier, write barrier, yield, stall cycles."""
    bits = high >> 41
    stall, no_yield, write, read, wait = bits & 0xF, bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 0x3F
    waits = "".join(str(i) if wait >> i & 1 else "-" for i in range(6))
    return f"{waits}:{'-' if read == 7 else read}:{'-' if write == 7 else write}:{'-' if no_yield else 'Y'}:{stall:x}"


def parse(text, fun=None):
    """What cuobjdump -sass prints, one instruction a line behind its scheduling bits, functions apart. `fun`: only that one."""
    out, shown, pending = [], fun is None, None
    for line in text.splitlines():
        if m := _FUNCTION.match(line):
            shown = fun is None or m[1] == fun
            if shown:
                out.append(f"Function:{m[1]}")
        elif m := _CODE.match(line):
            pending = m[2]
        elif pending and (m := _REST.match(line)):
            if shown:
                out.append(f"{_control(int(m[1], 16))}\t{pending}")
            pending = None
    return "\n".join(out) + "\n"


def extract(file_path, fun=None):
    """The machine code of a cubin file, as `parse` gives it."""
    return parse(subprocess.check_output([knobs.nvidia.cuobjdump.path, "-sass", file_path], text=True), fun)


@functools.lru_cache
def get_sass(cubin_asm, fun=None):
    """The machine code of a cubin, given as bytes."""
    number, path = tempfile.mkstemp(suffix=".cubin")
    try:
        with os.fdopen(number, "wb") as out:
            out.write(cubin_asm)
        return extract(path, fun)
    finally:
        os.remove(path)
