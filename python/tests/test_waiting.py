"""Launches that wait: for one another, for ever, and from threads with little stack."""
import threading

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@tegula.jit
def spin(x):
    while tl.load(x) == 0:
        pass


@tegula.jit
def meet(count, out):
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < tl.num_programs(0):
        pass
    tl.store(out + tl.program_id(0), tl.load(count))


def test_a_hang_names_the_line_and_the_programs():
    with pytest.raises(tegula.DeviceError, match=r"test_waiting.py:18:5: error: `spin` made no progress for 0.2 s; program \(0, 0, 0\) does not leave this loop") as e:
        spin[(3,)](np.zeros(1, np.int32), hang_s=0.2, device="cpu")
    assert e.value.fault["line"] == 18 and e.value.fault["kernel"] == "spin"


@pytest.mark.parametrize("value,error", [(float("nan"), ValueError), ("soon", TypeError)])
def test_times_that_are_none(value, error):
    with pytest.raises(error):
        spin[(1,)](np.ones(1, np.int32), hang_s=value)


def test_programs_that_wait_for_one_another():
    for threads in (1, 2):
        count, out = np.zeros(1, np.int32), np.zeros(300, np.int32)
        meet[(300,)](count, out, num_threads=threads, device="cpu")
        assert (out == 300).all()


def test_a_thread_with_a_small_stack_compiles_and_launches():
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    before = threading.stack_size(64 * 1024)
    try:
        thread = threading.Thread(target=lambda: add[(8,)](x, x, out, 1000, BLOCK=128))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert (out == 2).all()
