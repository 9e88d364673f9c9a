"""Runs programs on a device and compares every buffer with the reference: `run.py --seeds A..B [--device D] [--print]`.

`Worker` does so in a process of its own, so that a crash or a hang is a result too."""
import argparse
import functools
import itertools
import linecache
import multiprocessing
import os
import re
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
import text
from arithmetic import bits_of
from data import fill
from generate import generate, variant
from program import NUMPY, Argument, Buffer, Program

GUARD = 64
_number = itertools.count()


@dataclass
class Failure:
    """kind: "wrong" (another result), "error" (an exception), "crash" (the process died), "hang"; "generator": of our
    own. "late": none, the caller's time was over (Worker.end)."""
    kind: str
    text: str
    variant: int = 0  # of the program's options that fails, see generate.variant

    def signature(self):
        """What must stay while the program is made smaller."""
        if self.kind != "error":
            return self.kind
        lines = [line for line in self.text.splitlines() if line.strip()] or [""]
        line = next((line.partition("error: ")[2] for line in lines if "error: " in line), lines[-1])
        return "error: " + re.sub(r"[`'\"][^`'\"]*[`'\"]|[a-z]+\d+\w*|\d+", "#", line)[:160]


def jit(source):
    """The function `kernel` of a text that is in no file."""
    import tegula
    import tegula.language as tl
    from tegula.language.extra import libdevice
    name = f"<random program {next(_number)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"tegula": tegula, "tl": tl, "libdevice": libdevice, "__name__": "random_program"}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def allocate(b):
    """(the memory with guards, the buffer in it). 64 bytes stand between them, so that alignment is a buffer's own."""
    data = fill(b.recipe, b.dtype, b.size, b.seed)
    raw = np.full(2 * GUARD + data.nbytes + 256, 0xa5, np.uint8)
    start = GUARD + (-(raw.ctypes.data + GUARD)) % 128
    inside = raw[start:start + data.nbytes].view(data.dtype)
    inside[:] = data
    return raw, start, inside


def difference(p, memory, held):
    for b in p.buffers:
        raw, start, actual = held[b.name]
        expected = memory[b.name]
        bad = np.flatnonzero(bits_of(actual) != bits_of(expected))
        if bad.size:
            i = int(bad[0])
            return f"{b.name}[{i}]: got {actual[i]}, expected {expected[i]} ({bad.size} of {b.size} differ)"
        if (raw[:start] != 0xa5).any() or (raw[start + actual.nbytes:] != 0xa5).any():
            return f"{b.name}: memory beside it was written"
    return None


def check(p, memory, device, times=1, make=None):
    """None if `p` leaves `memory` on `device`, else a Failure. A text, if the program does not fit the device.
    make: gives the kernel of `p`, where it is made once for several devices."""
    import tegula
    try:
        kernel = make() if make else jit(text.kernel(p))
        for _ in range(times):
            held = {b.name: allocate(b) for b in p.buffers}
            args = arguments(p, {name: inside for name, (_, _, inside) in held.items()})
            launch(kernel, p, args, device)
            bad = difference(p, memory, held)
            if bad:
                return Failure("wrong", bad)
    except tegula.OutOfResources as e:
        return f"skipped: {e}"
    except Exception as e:
        if "requires NVIDIA SM90+" in str(e):
            return f"skipped: {e}"
        return Failure("error", f"{type(e).__name__}: {e}")
    finally:
        for name in [n for n in linecache.cache if n.startswith("<random program")]:
            del linecache.cache[name]
    return None


def arguments(p, arrays):
    """What the launch gets: the program's arguments, then the descriptors made of them."""
    from tegula.tools.tensor_descriptor import TensorDescriptor
    by_name = {a.name: arrays[a.buffer].view(NUMPY[p.element(a)])[a.offset:] if a.buffer else a.value for a in p.arguments}
    blocks = text.host_blocks(p).values()
    return list(by_name.values()) + [TensorDescriptor(by_name[a], list(n), list(s), list(b)) for a, n, s, b in blocks] + text.constants(p)


WIDE = {"wide_offsets": True} if os.environ.get("TEGULA_TEST_WIDE") == "1" else {}  # as in test/run


def launch(kernel, p, args, device):
    if device == "interpreter":
        import tegula
        with tegula.interpret():
            kernel[tuple(p.grid)](*args, **p.options)
        return
    if not device.startswith("cuda"):
        kernel[tuple(p.grid)](*args, device=device, **p.options, **WIDE)
        return
    from tegula.testing import Mirror
    with Mirror(device) as m:
        kernel[tuple(p.grid)](*m.to(tuple(args)), device=device, **p.options, **WIDE)


# In a process of its own ---------------------------------------------------------------------------------------------


def lost(results):
    """Whether a device of {device: result} answers nothing any more: an error on a GPU takes the context of the whole process with it."""
    return any(isinstance(r, Failure) and r.kind == "error" and available(d) for d, r in results.items())


def serve(pipe, log, target):
    """Child: answers ("seed", seed, devices, without, variants) and ("program", program, memory, device, times) until the pipe closes. What comes
    is ("at", device), ("done", answer) or, from a process that has lost a device, ("last", answer)."""
    quiet = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    # Kernels of random programs come once.
    os.environ["TEGULA_CACHE_DIR"] = ""
    if target:
        os.environ["TEGULA_CPU_TARGET"] = target
    while True:
        try:
            what, *rest = pipe.recv()
        except EOFError:
            return
        if what == "available":
            pipe.send(("done", available(*rest)))
        elif what == "seed":
            seed, devices, without, variants = rest
            out = {}
            try:
                p, memory = generate(seed, without)
            except Exception:
                out, devices = {d: Failure("generator", traceback.format_exc()) for d in devices}, ()
            make = functools.cache(lambda: jit(text.kernel(p)))
            for d in devices:
                pipe.send(("at", d))
                for k in range(variants + 1 if p is not None and not d.startswith(("cpu", "interpreter")) else 1):
                    pipe.send(("variant", k))
                    out[d] = check(variant(p, k), memory, d, make=make)
                    if isinstance(out[d], Failure):
                        out[d].variant = k
                        break
            pipe.send(("last" if lost(out) else "done", out))
        else:
            p, memory, device, times = rest
            answer = check(p, memory, device, times)
            pipe.send(("last" if lost({device: answer}) else "done", answer))


def available(device):
    """None if the machine has the device, else why not."""
    p, memory = Program([Buffer("o0", "int32", 1, "zero")], [Argument("o0", "o0")], [], []), {
        "o0": np.zeros(1, np.int32)
    }
    try:
        launch(jit(text.kernel(p)), p, [memory["o0"]], device)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def cpu_seconds(pid):
    """Processor time of a process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


class Worker:
    """A child that checks programs; started again after it died, hung, lost a device, or served `life` requests. It hangs if an answer
    takes `timeout` seconds of its processor time (on a busy machine that is long), or ten times as long by the clock.
    end: a time of time.monotonic() from which on nobody waits for answers; a program that has none then counts as skipped.
    target: the instruction set of cpu (TEGULA_CPU_TARGET)."""

    def __init__(self, timeout=60, life=2000, log=os.devnull, target="", end=float("inf")):
        self.timeout, self.life, self.log, self.target, self.end = timeout, life, log, target, end
        self.process = None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.log, self.target), daemon=True)
        self.process.start()
        theirs.close()
        self.left = self.life

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def ask(self, request):
        """(answer, None) or (Failure, device it happened on)."""
        if not self.process or self.left <= 0:
            self.stop()
            self.start()
        self.left -= 1
        device, number = None, 0
        try:
            self.pipe.send(request)
            while True:
                if not self.answered():
                    self.stop()
                    if time.monotonic() > self.end:
                        return Failure("late", "not finished when the time was over", number), device
                    return Failure("hang", f"no answer for {self.timeout} s", number), device
                what, value = self.pipe.recv()
                if what == "last":
                    self.stop()
                if what in ("done", "last"):
                    return value, None
                if what == "variant":
                    number = value
                else:
                    device, number = value, 0
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            self.stop()
            return Failure("crash", f"the process ended with {code}", number), device

    def answered(self):
        """Waits for a message; whether one came in time."""
        used, end = cpu_seconds(self.process.pid), min(self.end, time.monotonic() + 10 * self.timeout)
        while not self.pipe.poll(min(1.0, self.timeout)):
            if cpu_seconds(self.process.pid) - used > self.timeout or time.monotonic() > end:
                return False
        return True

    def seed(self, seed, devices, without=(), variants=0):
        """device -> None, Failure or a text (skipped), for the program of a seed; on devices that have warps with so many other options, too."""
        out, rest = {}, list(devices)
        while rest:
            answer, device = self.ask(("seed", seed, rest, without, variants))
            if not isinstance(answer, Failure):
                out.update(answer)
                break
            if answer.kind == "late":
                out.update({d: answer.text for d in rest})
                break
            # Devices before the one that killed it were right, or they are asked again.
            if device is None:
                out.update({d: Failure(answer.kind, f"in the generator: {answer.text}") for d in rest})
                break
            out[device] = answer
            rest.remove(device)
        return out

    def program(self, p, memory, device, times=1):
        answer, _ = self.ask(("program", p, memory, device, times))
        return answer


def seeds(text_):
    a, _, b = text_.partition("..")
    return range(int(a), int(b) if b else int(a) + 1)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seeds", type=seeds, required=True, help="A..B (without B), or one")
    a.add_argument("--device", default="cpu")
    a.add_argument("--without", default="", help="features of generate.py to leave out, with commas; +NAME: one that all programs have")
    a.add_argument("--print", action="store_true", help="the text of each program")
    o = a.parse_args()
    failed = 0
    for s in o.seeds:
        p, memory = generate(s, o.without.split(","))
        if o.print:
            print(describe(p))
        r = check(p, memory, o.device)
        if isinstance(r, Failure):
            failed += 1
            print(f"seed {s}: {r.kind}: {r.text}", flush=True)
    print(f"{len(o.seeds) - failed} passed, {failed} failed")
    return int(failed > 0)


def describe(p):
    """The program's text with what the launch gets."""
    out = [text.kernel(p)]
    for x in p.arguments:
        b = p.buffer(x.buffer) if x.buffer else None
        out.append(f"# {x.name} = " +
                   (f"{b.dtype}[{b.size}] ({b.recipe}, seed {b.seed})" +
                    (f" from {b.name}[{x.offset}]" if x.offset or x.name != b.name else "") + (f" as {x.dtype}" if x.dtype else "") if b else str(x.value)))
    out.append(f"# grid {tuple(p.grid)}, {', '.join(f'{k}={v}' for k, v in p.options.items())}")
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
