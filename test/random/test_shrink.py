"""The shrinker and the generator by themselves: bugs planted in a copy of the reference must be found and made
small."""
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check
import program as P
import reference
import rules
import text
import values
from arithmetic import Undefined, bits_of
from generate import generate
from program import Argument, Buffer, Program, Type
from rules import make
from run import Failure, Worker
from shrink import shrink

PLANTED = {
    "flip":
    lambda r, e, a: a[0],
    "shr":
    lambda r, e, a: np.left_shift(*values.literals(a)),
    "split_part":
    lambda r, e, a: a[0][..., 1 - e.attrs["part"]],
    "gather":
    lambda r, e, a: a[0][tuple(slice(0, n) for n in a[1].shape)]
    if a[0].shape == a[1].shape else a[1].astype(a[0].dtype),
    "where":
    lambda r, e, a: values.select(*a) if e.type.is_pointer else np.where(a[0], *reversed(values.literals(a[1:]))),
}


def planted(op, p):
    """What `p` leaves in memory if `op` means something else, or None."""
    right = values.VALUES[op]
    values.VALUES[op] = PLANTED[op]
    try:
        return reference.evaluate(p)[0]
    except Undefined:
        return None
    finally:
        values.VALUES[op] = right


def wrong(op, p, memory):
    other = planted(op, p)
    return other is not None and any((bits_of(other[b.name]) != bits_of(memory[b.name])).any() for b in p.buffers)


@pytest.mark.parametrize("op", PLANTED)
def test_a_planted_bug_is_found_and_made_small(op):
    for seed in range(400):
        p, memory = generate(seed)
        if any(e.op == op for e in P.all_expressions(p)) and wrong(op, p, memory):
            break
    else:
        pytest.fail(f"no program of 400 shows a wrong {op}")
    small = shrink(p, lambda q, m: wrong(op, q, m), seconds=300)
    assert wrong(op, small, reference.evaluate(small)[0])
    written = [line for line in text.kernel(small).splitlines() if line]  # a helper that is left stands behind empty ones
    assert P.lines(small) <= 6 and len(written) <= 8, text.kernel(small)


def test_programs_depend_on_the_seed_alone():
    for seed in (1, 2, 3):
        (p, m), (q, n) = generate(seed), generate(seed)
        assert text.kernel(p) == text.kernel(q) and p.buffers == q.buffers and p.options == q.options
        assert all(np.array_equal(bits_of(m[k]), bits_of(n[k])) for k in m)


def test_every_operation_and_statement_comes():
    missing = set(rules.RULES)
    kinds = {P.Assign, P.Store, P.BlockStore, P.Effect, P.For, P.While, P.If, P.Return, P.Barrier, P.Break, P.Continue}
    for seed in range(1500):
        p, _ = generate(seed)
        missing -= {e.op for e in P.all_expressions(p)}
        kinds -= {type(s) for s in P.all_statements(p)}
        if not missing and not kinds:
            return
    assert not missing and not kinds


# The reference, on programs written here


def name(n, t):
    return make("var", name=n, type=t)


def program(body, out=4, dtype="int32", recipe="zero", grid=(1, ), functions=(), more=()):
    buffers = [Buffer("o", dtype, out, recipe)] + [b for b, _ in more]
    return Program(buffers, [Argument("o", "o")] + [a for _, args in more for a in args], list(functions), body, grid)


def at(i, argument="o", dtype="int32"):
    return make("addptr", name(argument, Type("*" + dtype)), i)


RANGE = make("arange", start=0, end=4)


def literal(v):
    return make("literal", value=v)


def run(p):
    return reference.evaluate(check.retype(p))[0]["o"].tolist()


def test_a_tile_carried_by_while():
    t, w = Type("int32", (4, )), Type("int32")
    body = [
        P.Assign(("c", ), RANGE),
        P.Assign(("w", ), make("const", value=2, type=w)),
        P.While(make("gt", name("w", w), literal(0)), [
            P.Assign(("c", ), make("add", name("c", t), make("mul", make("flip", name("c", t), axis=0), literal(2)))),
            P.Assign(("w", ), make("sub", name("w", w), literal(1)))
        ]),
        P.Store(at(RANGE), name("c", t))
    ]
    # (0 1 2 3) + 2 (3 2 1 0) = (6 5 4 3); (6 5 4 3) + 2 (3 4 5 6)
    assert run(program(body)) == [12, 13, 14, 15]


def test_shifts_by_the_width_and_more_leave_the_sign():
    minus = make("neg", RANGE)
    shifted = lambda op, x, k: run(program([P.Store(at(RANGE), make(op, x, make("mul", RANGE, literal(k), value=k)))]))
    assert shifted("shl", RANGE, 11) == [0, 1 << 11, 2 << 22, 0]
    assert shifted("shr", minus, 16) == [0, -1, -1, -1]
    assert shifted("shl", RANGE, -1) == [0, 0, 0, 0] and shifted("shr", RANGE, -1) == [0, 0, 0, 0]


def loops(n):
    """The loops below in Python, for one element."""
    s, w = 0, n
    for i in range(n):
        if i == 1:
            continue
        if i > 3:
            break
        s += 10
        if i == n - 2:
            return s, -1
    else:
        s += 1
    while w > 0:
        w -= 1
        if w == 4:
            break
        s += 100
    else:
        s += 2
    return s, w


def test_each_element_leaves_loops_by_itself():
    w = Type("int32")
    n, s, i, k = (name(x, w) for x in ("n", "s", "i", "k"))
    const = lambda v: make("const", value=v, type=w)
    more = lambda v: P.Assign(("s", ), make("add", s, literal(v), value=v))
    leave = lambda op, x, y, *then: P.If(make(op, x, y, value=y.attrs.get("value", 0)), list(then), [])
    for_ = P.For("i", const(0), n, const(1), [
        leave("eq", i, literal(1), P.Continue()), leave("gt", i, literal(3), P.Break()), more(10),
        leave("eq", i, make("sub", n, literal(2), value=2), P.Return((s, const(-1))))
    ], other=[more(1)])
    down = P.Assign(("k", ), make("sub", k, literal(1), value=1))
    while_ = P.While(make("gt", k, literal(0), value=0), [down, leave("eq", k, literal(4), P.Break()), more(100)], [more(2)])
    f = P.Function("f", ("n", ), [P.Assign(("s", ), const(0)), P.Assign(("k", ), n), for_, while_, P.Return((s, k))])
    eight = make("arange", start=0, end=8)
    body = [P.Assign(("a", "b"), make("map", eight, function="f", types=(w, w)))]
    t = Type("int32", (8, ))
    body += [P.Store(at(eight), name("a", t)), P.Store(at(make("add", eight, literal(8), value=8)), name("b", t))]
    assert run(program(body, out=16, functions=[f])) == [loops(x)[k] for k in (0, 1) for x in range(8)]


def test_break_outside_of_a_loop_is_no_program():
    with pytest.raises(rules.Invalid):
        check.retype(program([P.If(make("eq", ZERO, literal(0)), [P.Break()], [])]))


def combine_function(*values, body=()):
    return P.Function("f", ("a", "b"), list(body) + [P.Return(values)])


A, B = name("a", Type("int32")), name("b", Type("int32"))


def reduced(f):
    e = make("reduce", RANGE, axis=0, keep=False, function="f")
    return program([P.Store(at(make("const", value=0, type=Type("int32"))), e)], out=1, functions=[f])


def test_an_early_return_of_a_combine_function():
    f = combine_function(B, body=[P.If(make("gt", A, B), [P.Return((A, ))], [])])
    assert run(reduced(f)) == [3]


@pytest.mark.parametrize("value",
                         [make("sub", A, B), A, make("add", A, make("mul", B, literal(2)))],
                         ids=["a-b", "a", "a+2b"])
def test_reductions_that_depend_on_the_order_are_refused(value):
    with pytest.raises(Undefined, match="order"):
        run(reduced(combine_function(value)))


def test_scans_may_not_commute_but_must_associate():
    scanned = lambda v: program(
        [P.Store(at(RANGE), make("scan", make("add", RANGE, literal(1)), axis=0, reverse=False, function="f"))],
        functions=[combine_function(v)])
    assert run(scanned(A)) == [1, 1, 1, 1]
    assert run(scanned(B)) == [1, 2, 3, 4]
    with pytest.raises(Undefined, match="associative"):
        run(scanned(make("sub", A, B)))


ZERO = make("const", value=0, type=Type("int32"))
LINE = Type("int32", (4, ))
UNDEFINED = {
    "division": [P.Store(at(RANGE), make("div", make("const", value=3, type=LINE), RANGE))],
    "bounds": [P.Store(at(make("add", RANGE, literal(1))), RANGE)],
    "one address": [P.Store(at(make("and", RANGE, literal(2))), RANGE)],
    "no barrier":
    [P.Store(at(RANGE), RANGE),
     P.Store(at(make("and", RANGE, literal(0)), "q"), make("const", value=1, type=LINE))],
    "gather": [P.Store(at(RANGE), make("gather", RANGE, make("add", RANGE, literal(1)), axis=0))],
    "too long": [P.While(make("ge", make("pid", axis=0), literal(0)), [])],
}


@pytest.mark.parametrize("why", UNDEFINED)
def test_what_has_no_one_result_is_refused(why):
    p = program(UNDEFINED[why])
    p.arguments.append(Argument("q", "o"))
    if why == "no barrier":
        p.body[1] = P.Store(at(RANGE, "q"), make("add", RANGE, literal(1)))
    with pytest.raises(Undefined, match=why):
        run(p)


def test_a_barrier_orders_two_arguments():
    p = program([
        P.Store(at(RANGE), RANGE),
        P.Barrier(),
        P.Store(at(RANGE, "q"), make("add", make("load", at(RANGE, "q")), literal(1)))
    ])
    p.arguments.append(Argument("q", "o"))
    assert run(p) == [1, 2, 3, 4]


def test_programs_may_only_share_atomics_of_one_kind():
    add = P.Effect(make("atomic", at(make("and", RANGE, literal(0))), RANGE, kind="add"))
    assert run(program([add], grid=(3, ))) == [18, 0, 0, 0]
    largest = P.Effect(make("atomic", at(make("and", RANGE, literal(0))), RANGE, kind="max"))
    with pytest.raises(Undefined, match="commute"):
        run(program([add, largest], grid=(2, )))
    with pytest.raises(Undefined, match="another program"):
        run(program([P.Store(at(RANGE), RANGE)], grid=(2, )))


def test_float_sums_must_be_exact():
    value = make("mul", make("cast", RANGE, to="float32"), make("literal", value=0.1))
    with pytest.raises(Undefined, match="order"):
        run(
            program([P.Store(at(ZERO, dtype="float32"), make("sum", value, axis=0, keep=False))],
                    out=1,
                    dtype="float32"))


# Child processes


@pytest.mark.parametrize("results", [1, 2])
def test_a_helper_is_taken_apart(results):
    """One with statements, an early return, a parameter that it changes, results that no one needs."""
    x, y, scalar = name("x", LINE), name("y", LINE), name("k", Type("int32"))
    values = lambda e: P.Return((e, scalar)[:results])
    body = [
        P.If(make("gt", scalar, literal(5), value=5), [values(x)], []),
        P.Assign(("y", ), make("add", x, literal(1), value=1)),
        P.Assign(("x", ), make("flip", y, axis=0)),
        values(make("add", x, y))
    ]
    f = P.Function("f", ("x", "k"), body)
    call = make("call", RANGE, make("const", value=2, type=Type("int32")), function="f", types=(LINE, Type("int32"))[:results])
    p = check.retype(program([P.Assign(("a", "b")[:results], call), P.Store(at(RANGE), name("a", LINE))], functions=[f]))
    assert reference.evaluate(p)[0]["o"].tolist() == [5, 5, 5, 5]
    small = shrink(p, lambda q, m: wrong("flip", q, m), seconds=100)
    assert not small.functions and P.lines(small) == 1, text.kernel(small)


def test_a_process_that_dies_or_hangs_is_a_failure_and_is_replaced():
    w = Worker(timeout=60)
    try:
        assert w.ask(("available", "cpu")) == (None, None)
        os.kill(w.process.pid, signal.SIGKILL)
        answer, _ = w.ask(("available", "cpu"))
        assert isinstance(answer, Failure) and answer.kind == "crash"
        assert w.ask(("available", "cpu")) == (None, None)
        os.kill(w.process.pid, signal.SIGSTOP)
        w.timeout = 0.2
        answer, _ = w.ask(("available", "cpu"))
        assert isinstance(answer, Failure) and answer.kind == "hang"
    finally:
        w.stop()


def test_a_program_is_given_up_when_the_time_is_over():
    w = Worker(timeout=60)
    try:
        assert w.ask(("available", "cpu")) == (None, None)
        os.kill(w.process.pid, signal.SIGSTOP)
        w.end = time.monotonic() + 0.2
        assert w.seed(0, ["sim", "cpu"]) == dict.fromkeys(["sim", "cpu"], "not finished when the time was over")
        assert w.process is None
    finally:
        w.stop()


def test_another_result_is_a_failure():
    p = check.retype(program([P.Store(at(RANGE), RANGE)]))
    w = Worker(timeout=60)
    try:
        assert w.program(p, {"o": np.arange(4, dtype=np.int32)}, "cpu") is None
        r = w.program(p, {"o": np.array([0, 1, 2, 4], np.int32)}, "cpu")
        assert r.kind == "wrong" and r.text == "o[3]: got 3, expected 4 (1 of 4 differ)"
        process = w.process
        r = w.program(program([P.Effect(make("abs", ZERO)),
                               P.Store(at(RANGE), name("missing", LINE))]), {"o": np.zeros(4, np.int32)}, "cpu")
        assert r.kind == "error" and "missing" in r.text
        assert w.process is process and process.is_alive()
    finally:
        w.stop()


def test_a_process_that_lost_its_gpu_is_replaced(monkeypatch):
    # A driver whose every launch ends with CUDA_ERROR_ILLEGAL_ADDRESS, in the processes that are started here.
    monkeypatch.setenv("TEGULA_LIBCUDA", str(Path(__file__).resolve().parents[2] / "build/lib/libfakecuda.so"))
    monkeypatch.setenv("FAKECUDA", "waitResult=700")
    p, memory = check.retype(program([P.Store(at(RANGE), RANGE)])), {"o": np.arange(4, dtype=np.int32)}
    w = Worker(timeout=60)
    try:
        r = w.program(p, memory, "cuda")
        assert r.kind == "error" and "CUDA_ERROR_ILLEGAL_ADDRESS" in r.text, r
        assert w.process is None
        assert w.program(p, memory, "cpu") is None
        process = w.process
        # Of several devices the others still give their results.
        results = w.seed(0, ["cuda", "cpu"])
        assert results["cuda"].kind == "error" and results["cpu"] is None
        assert w.process is None and not process.is_alive()
    finally:
        w.stop()
