"""What a mistake in a kernel looks like in Python."""
import copy
import os
import pickle
import re
import runpy
import subprocess
import sys
import warnings

import numpy as np
import pytest
import tegula
import tegula.language as tl
from kernels import wrong_kernel
from tegula import knobs


def mistake():
    with pytest.raises(tegula.CompilationError) as caught:
        wrong_kernel[(1,)](np.zeros(4, np.float32), 4)
    return caught.value


def test_text_and_fields():
    e = mistake()
    text = str(e)
    assert "missing_name" in text and "kernels.py" in text and "^" in text and "wrong_kernel" in text
    assert e.file.endswith("kernels.py") and "missing_name" in e.message
    source = open(e.file).read().splitlines()
    assert "missing_name" in source[e.line - 1]
    assert source[e.line - 1][e.column - 1:].startswith("missing_name")
    assert e.diagnostics[0]["severity"] == "error" and e.kind


@tegula.jit
def deprecated_and_wrong(x, B: tl.constexpr):
    block = tl.make_block_ptr(x, (B, ), (1, ), (0, ), (B, ), (0, ))
    tl.store(block, missing_name)


def test_text_of_errors_leaves_warnings_out():
    with pytest.raises(tegula.CompilationError) as caught:
        deprecated_and_wrong[(1,)](np.zeros(4, np.float32), 4)
    text = str(caught.value)
    assert "missing_name" in text and "deprecated;" not in text and text.count("while instantiating") == 1
    assert [d["severity"] for d in caught.value.diagnostics] == ["warning", "error"]


def test_nothing_was_written():
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(tegula.CompilationError):
        wrong_kernel[(1,)](x, 4)
    assert x.tolist() == [0, 1, 2, 3]


def test_the_same_every_time():
    assert str(mistake()) == str(mistake())


@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy],
                         ids=["pickle", "deepcopy"])
def test_copies(through):
    e = mistake()
    c = through(e)
    assert type(c) is tegula.CompilationError and str(c) == str(e) and c.line == e.line


def test_assembler_error():
    from tegula.runtime.errors import OutOfResources, PTXASError
    assert (OutOfResources, PTXASError) == (tegula.OutOfResources, tegula.PTXASError) and issubclass(PTXASError, tegula.TritonError)
    assert tegula.runtime.errors.PTXASError is PTXASError
    e = pickle.loads(pickle.dumps(PTXASError("line 3")))
    assert type(e) is PTXASError and str(e) == "PTXAS error: line 3" and e.error_message == "line 3"


@tegula.jit
def places_inner(v):
    w = v + 1
    return tl.expand_dims(w, 5)


@tegula.jit
def places_middle(v):
    return places_inner(v)


def test_places_as_triton_counts_them():
    @tegula.jit
    def outer(x):
        # the `def` is line 1, the first column 0
        tl.store(x, places_middle(tl.arange(0, 4)))

    @tegula.jit
    def here(x):
        tl.store(x, 1) + (1.0 << 2)

    @tegula.jit
    def unknown(x):
        tl.store(x, nowhere)

    @tegula.jit
    def never(x):
        tl.static_assert(False)

    def chain(kernel):
        with pytest.raises(tegula.CompilationError) as caught:
            kernel[(1,)](np.zeros(4, np.int32))
        e, found = pickle.loads(pickle.dumps(caught.value)), []
        while isinstance(e, tegula.CompilationError):
            found.append(str(e).splitlines()[0])
            e = e.__cause__
        return found

    assert chain(outer) == ["at 3:16:", "at 2:11:", "at 3:11:"]
    assert [chain(kernel) for kernel in (here, unknown, never)] == [["at 2:22:"], ["at 2:16:"], ["at 2:4:"]]


def test_places_count_bytes_of_the_text(tmp_path):
    path = tmp_path / "tabs.py"
    path.write_text('import tegula\nimport tegula.language as tl\nif 1:\n\t@tegula.jit\n\tdef tabs(x):\n\t\ttl.store(x, 1); tl.store(x, 1) + (1.0 << 2)\n'
                    '\t@tegula.jit\n\tdef wide(x):\n\t\tassert "é漢" != "", "d"; tl.store(x, nowhere + (1.0 << 2))\n'
                    '\t@tegula.jit\n\tdef both(x):\n\t\ttl.static_assert("é漢\t" != ""); tl.static_assert(False)\n', encoding="utf-8")
    with open(path, "a") as f:
        f.write("strange = '\\d'\n")  # Python warns of it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        namespace = runpy.run_path(str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, line, found in (("tabs", 6, "1.0 << 2"), ("wide", 9, "nowhere"), ("both", 12, "tl.static_assert(False)")):
            with pytest.raises(tegula.CompilationError) as caught:
                namespace[name][(1,)](np.zeros(4, np.int32))
            column = len(lines[line - 1][:lines[line - 1].index(found)].encode()) - 1
            assert str(caught.value).splitlines()[0] == f"at 2:{column}:"


@tegula.jit
def chooses(x, flag):
    tl.store(x, tl.where(flag, 1, 2))


def test_warnings():
    x, line = np.zeros(4, np.int32), chooses.fn.__code__.co_firstlineno + 2
    with pytest.warns(UserWarning, match="non-boolean condition of scalar int32") as seen:
        chooses[(1,)](x, 7)
    assert x[0] == 1 and [(w.filename, w.lineno) for w in seen] == [(__file__, line)]
    source = tegula.compiler.ASTSource(chooses, {"x": "*i32", "flag": "i64"})
    with pytest.warns(UserWarning, match="of scalar int64"):
        tegula.compile(source)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        chooses[(1,)](x, 7)  # there already
        assert not seen
        warnings.simplefilter("default")
        for value in (2, 1 << 40):
            for warps in (1, 2):
                chooses[(1,)](x, value, num_warps=warps)
        assert ["int32" in str(w.message) for w in seen] == [True, False]
        warnings.simplefilter("error")
        told = []
        with knobs.compilation.scope():
            knobs.compilation.listener = lambda **kw: told.append(kw["metadata"]["name"])
            with pytest.raises(UserWarning, match="of scalar float32"):
                chooses[(1,)](x, 0.5)
        kernel = chooses[(1,)](x, 0.5)
        assert told == [kernel.name] and x[0] == 1 and kernel.src.fn is chooses


def test_names():
    e = pickle.loads(pickle.dumps(tegula.runtime.errors.AutotunerError("none left")))
    assert str(e) == "Autotuner error: none left" and e.error_message == "none left"
    assert issubclass(tegula.CompilationError, tegula.TritonError)
    assert tegula.errors.CompilationError is tegula.CompilationError


@tegula.jit
def many_mistakes(x):
    a = first_missing
    b = second_missing
    tl.store(x, third_missing)


def test_all_mistakes_at_once():
    with pytest.raises(tegula.CompilationError) as caught:
        many_mistakes[(1,)](np.zeros(4, np.float32))
    assert all(name in str(caught.value) for name in ("first_missing", "second_missing", "third_missing"))


def test_source_that_cannot_be_found():
    scope = {"tl": tl}
    exec("def k(x):\n    tl.store(x, 1)\n", scope)
    with pytest.raises(ValueError, match="defined in a Python file"):
        tegula.jit(scope["k"])


@tegula.jit
def h_inner(v):
    return v + undefined_inside


@tegula.jit
def calls_inner(x):
    tl.store(x, h_inner(tl.load(x)))


def test_mistakes_in_helpers_say_who_called():
    with pytest.raises(tegula.CompilationError) as caught:
        calls_inner[(1,)](np.zeros(4, np.float32))
    assert "undefined_inside" in str(caught.value) and "calls_inner" in str(caught.value)


@tegula.jit
def product(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(x + i * N + j)
    tl.store(out + i + j * N, tl.dot(a, a))


def test_out_of_resources():
    x, out = np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float32)
    with pytest.raises(tegula.OutOfResources) as caught:
        product[(1,)](x, out, 512, device="sim")
    e = caught.value
    assert e.name == "shared memory" and e.required > e.limit == 232448
    assert f"out of resource: shared memory, Required: {e.required}, Hardware limit: {e.limit}. `product` needs" in str(e)
    line = product.fn.__code__.co_firstlineno + 3
    assert re.search(rf"most of it, \d+ bytes, is for the tile of .*test_errors.py:{line}:9\. Smaller blocks", str(e))
    c = pickle.loads(pickle.dumps(e))
    assert type(c) is tegula.OutOfResources and str(c) == str(e) and (c.required, c.limit, c.name) == (e.required, e.limit, e.name)
    assert str(tegula.OutOfResources(5, 4, "threads")).startswith("out of resource: threads, Required: 5, Hardware limit: 4.")


@tegula.jit
def gather(x, idx, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + tl.load(idx + i)))


@pytest.mark.parametrize("again", [False, True], ids=["compiled", "cached"])
def test_remarks(again, tmp_path_factory):
    script = f"""
import sys; sys.path.insert(0, {str(__file__.rpartition('/')[0])!r})
import numpy as np
from test_errors import gather
k = gather[(1,)](np.zeros(512, np.float32), np.zeros(512, np.int32), np.zeros(512, np.float32), 512, device="sim")
print([(r.kind, r.message, r.file.rpartition("/")[2], r.line > 0) for r in k.remarks], k.occupancy, k.n_max_threads)
"""
    cache = tmp_path_factory.getbasetemp() / "remarks"
    for _ in range(1 + again):
        p = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, TEGULA_CACHE_DIR=str(cache)), text=True, capture_output=True)
        assert p.stdout == ("[('notVectorized', 'this load takes 1 of the 4 elements of 4 bytes that fit one instruction: its addresses are not known to be "
                            "consecutive', 'test_errors.py', True)] 0 128\n"), p.stdout + p.stderr


@tegula.jit
def outside(x):
    return tl.expand_dims(x, 7)


@tegula.jit
def twice_removed(x):
    return outside(x)


@tegula.jit
def causes(x, what: tl.constexpr):
    v = tl.arange(0, 8)
    if what == "value":
        tl.expand_dims(v, 5)
    elif what == "type":
        tl.multiple_of(v, 1.5)
    elif what == "assertion":
        tl.dot(v, v)
    elif what == "keyword":
        tl.arange(0, 8, step=2)
    elif what == "none":
        tl.expand_dims(None, -1)
    elif what == "operator":
        v + (1, 2)
    elif what == "name":
        missing
    elif what == "static":
        tl.static_assert(what == "")
    else:
        twice_removed(v)


def cause_of(what):
    with pytest.raises(tegula.CompilationError) as caught:
        causes[(1,)](np.zeros(4, np.float32), what)
    return caught.value, caught.value.__cause__


@pytest.mark.parametrize("what, cls", [("value", ValueError), ("type", TypeError), ("assertion", AssertionError), ("keyword", TypeError), ("none", TypeError),
                                       ("operator", None), ("name", None), ("static", None)])
def test_cause(what, cls):
    """As Triton's: what a function of the language raised, and nothing where the mistake is not in a call."""
    e, cause = cause_of(what)
    assert (cause is None if cls is None else type(cause) is cls and str(cause) == e.message) and e.__cause__ is cause


def test_cause_in_a_helper():
    e, cause = cause_of("helper")
    assert type(cause) is tegula.CompilationError and type(cause.__cause__) is tegula.CompilationError and cause.__cause__.line == e.line
    assert [str(e).count("called from here"), str(cause).count("called from here"), str(cause.__cause__).count("called from here")] == [2, 1, 0]
    innermost = pickle.loads(pickle.dumps(e)).__cause__.__cause__.__cause__
    assert type(innermost) is ValueError and "invalid axis 7" in str(innermost)


def test_cause_that_was_given():
    e, _ = cause_of("value")
    with pytest.raises(tegula.CompilationError) as caught:
        raise e from OSError(5)
    assert type(caught.value.__cause__) is OSError
    e.__cause__ = KeyError(3)  # as concurrent.futures does
    assert type(e.__cause__) is KeyError


def test_kinds_of_causes_exist():
    from tegula import errors
    folder = os.path.join(os.path.dirname(__file__), "../../src")
    if not os.path.exists(folder):
        pytest.skip("no sources here")
    text = "".join(open(os.path.join(folder, layer, "Diagnostics.def")).read() for layer in ("lang", "sema"))
    assert set(errors._CALL_ERRORS) <= set(re.findall(r"DIAG\((\w+)", text))


@tegula.jit
def uses_numpy(out, NAME: tl.constexpr):
    if NAME == "exp":
        tl.store(out, np.exp(1.0))
    elif NAME == "mean":
        tl.store(out, np.mean(1.0))
    else:
        tl.store(out, np.arcsinh(1.0))


@pytest.mark.parametrize("name, hint", [("exp", "did you mean `tl.exp`?"), ("arcsinh", ""), ("mean", "use tl.sum(x, axis) / n")])
def test_functions_of_other_packages(name, hint):
    with pytest.raises(tegula.CompilationError) as caught:
        uses_numpy[(1,)](np.zeros(4, np.float32), name)
    assert f"module `numpy` has no attribute `{name}` that kernels can use" in str(caught.value) and hint in str(caught.value)


@tegula.jit
def averages(out):
    tl.store(out, tl.mean(tl.arange(0, 4), 0))


def test_functions_by_their_names_elsewhere():
    with pytest.raises(tegula.CompilationError, match=r"has no attribute `mean`[^$]*use tl\.sum\(x, axis\) / n"):
        averages[(1,)](np.zeros(4, np.float32))


async def waits(x):
    pass


@pytest.mark.parametrize("what, message", [(waits, "found `async def waits`"), (3, "found 3"), (len, "found <built-in function len>"), (type("Cls", (), {}), "found <class"), (lambda x: x, "found a lambda"),
                                           (tegula.heuristics({})(causes), "below Heuristics; found it above")])
def test_jit_of_what_is_no_function(what, message):
    with pytest.raises(TypeError, match="^@jit .*" + message):
        tegula.jit(what)


def test_jit_twice_is_jit():
    assert tegula.jit(tegula.jit(causes.fn)).fn is causes.fn


class Plain:
    pass


@tegula.jit
def makes_an_object(x):
    a = Plain()
    tl.store(x, 1)


def test_classes_of_python():
    with pytest.raises(tegula.CompilationError, match="`Plain` is a class of Python: .* NamedTuples .* @triton.aggregate"):
        makes_an_object[(1,)](np.zeros(1, np.float32))
