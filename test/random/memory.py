"""The buffers of a launch in the reference, and who has touched what: an access that depends on the order of
programs, or
on the order of accesses through different arguments without a barrier, is Undefined."""
from dataclasses import dataclass

import numpy as np
import program as P
from arithmetic import Undefined
from data import fill
from program import NUMPY

MANY = -1
MIXED = 99
KINDS = ("add", "max", "min", "and", "or", "xor", "xchg", "cas")


@dataclass
class Pointer:
    argument: int
    index: object  # int64 array: elements from where the argument points
    dtype: str = None  # of these elements, if the kernel made it a pointer to others

    def at(self, index):
        return Pointer(self.argument, index, self.dtype)

    def moved(self, change):
        return self.at(change(self.index))

    @property
    def shape(self):
        return np.shape(self.index)


@dataclass
class Select:
    """Pointers into two buffers, of which the condition takes one for each element."""
    condition: np.ndarray
    first: object
    second: object

    @property
    def shape(self):
        return np.broadcast_shapes(self.condition.shape, self.first.shape, self.second.shape)

    def moved(self, change):
        return Select(self.condition, self.first.moved(change), self.second.moved(change))

    def parts(self, mask):
        """(pointer, mask) of each."""
        c = np.broadcast_to(self.condition, self.shape)
        for p, on in ((self.first, c), (self.second, ~c)):
            yield spread(p, self.shape), on if mask is None else on & mask


def spread(p, shape):
    return p.moved(lambda i: np.broadcast_to(i, shape)) if isinstance(p, Pointer) else Select(np.broadcast_to(p.condition, shape), p.first, p.second)


def leaves(p):
    return [p] if isinstance(p, Pointer) else leaves(p.first) + leaves(p.second)


def select(condition, p, q):
    """A pointer of one argument, if both are of that one: then all about them is known."""
    if isinstance(p, Pointer) and isinstance(q, Pointer) and (p.argument, p.dtype) == (q.argument, q.dtype):
        return p.at(np.where(condition, p.index, q.index))
    return Select(condition, p, q)


class Marks:
    """For each element, or each byte of a buffer that holds elements of several dtypes: program (from 1; MANY) that wrote, read, changed it atomically; the kind of that; and for
    buffers
    with several arguments, the last barrier's number and argument of the last write and read."""

    def __init__(self, n, shared):
        self.wrote, self.read, self.atomic, self.kind = (np.zeros(n, np.int32) for _ in range(4))
        self.last = {
            w: (np.full(n, -1, np.int32), np.zeros(n, np.int32))
            for w in ("write", "read")
        } if shared else None


def casts(p):
    """The buffers to whose elements the program makes a pointer to others."""
    buffers = {a.name: a.buffer for a in p.arguments}
    return {buffers[e.args[0].attrs["name"]] for e in P.all_expressions(p) if e.op == "pointer_cast"}


class Memory:

    def __init__(self, p):
        self.arrays = {b.name: fill(b.recipe, b.dtype, b.size, b.seed) for b in p.buffers}
        self.arguments, self.elements = p.arguments, {a.name: p.element(a) for a in p.arguments if a.buffer}
        users = [a.buffer for a in p.arguments if a.buffer]
        self.mixed = {a.buffer for a in p.arguments if a.dtype} | casts(p)
        self.marks = {
            b.name: Marks(self.arrays[b.name].nbytes if b.name in self.mixed else b.size, users.count(b.name) > 1 and not p.ordered)
            for b in p.buffers
        }
        self.pid, self.epoch = 0, 0

    def begin(self, pid):
        self.pid, self.epoch = pid, self.epoch + 1

    def barrier(self):
        self.epoch += 1

    def locate(self, p, mask):
        """(array, marks, flat indices of the active elements, of their marks, mask or None)."""
        a = self.arguments[p.argument]
        dtype = NUMPY[p.dtype or self.elements[a.name]]
        start = a.offset * NUMPY[self.elements[a.name]].itemsize
        array = self.arrays[a.buffer]
        if start % dtype.itemsize or array.nbytes % dtype.itemsize:
            raise Undefined("misaligned")
        index = np.asarray(p.index) + start // dtype.itemsize
        if mask is not None:
            mask = np.broadcast_to(mask, index.shape)
            index = index[mask]
        index = np.ravel(index)
        if array.dtype != dtype:
            array = array.view(dtype)
        if index.size and (index.min() < 0 or index.max() >= array.size):
            raise Undefined("out of bounds")
        cells = index
        if a.buffer in self.mixed:
            cells = np.ravel(index[:, None] * dtype.itemsize + np.arange(dtype.itemsize))
        return array, self.marks[a.buffer], index, cells, mask

    def put(self, a, array, index, value):
        """Writes; which NaN an operation gives is open, so its bits may not be read as another type's."""
        if self.arguments[a].buffer in self.mixed and array.dtype.kind not in "iu" and np.isnan(np.asarray(value).astype(np.float32)).any():
            raise Undefined("the bits of a NaN")
        array[index] = value

    def others(self, who, index, text):
        w = who[index]
        if ((w != 0) & (w != self.pid)).any():
            raise Undefined(text)

    def ordered(self, marks, index, argument, writes):
        """Accesses through two arguments to one element, of which one writes, need a barrier between them."""
        if marks.last is None:
            return
        for what in ("write", "read") if writes else ("write", ):
            epoch, who = marks.last[what]
            if ((epoch[index] == self.epoch) & (who[index] != argument)).any():
                raise Undefined("two arguments, no barrier", barrier=True)
        epoch, who = marks.last["write" if writes else "read"]
        if not writes:
            several = (epoch[index] == self.epoch) & (who[index] != argument)
            who[index] = np.where(several, MANY, argument)
        else:
            who[index] = argument
        epoch[index] = self.epoch

    def load(self, p, mask=None, other=None):
        if isinstance(p, Select):
            out = None
            for q, on in p.parts(mask):
                if out is None:
                    out = self.load(q, on, 0 if other is None else other)
                else:
                    out = np.where(on, self.load(q, on, 0), out)
            return np.asarray(out)
        array, marks, index, cells, mask = self.locate(p, mask)
        self.others(marks.wrote, cells, "read after another program's write")
        self.others(marks.atomic, cells, "read after another program's atomic")
        self.ordered(marks, cells, p.argument, False)
        r = marks.read[cells]
        marks.read[cells] = np.where((r == 0) | (r == self.pid), self.pid, MANY)
        if mask is None:
            return array[index].reshape(p.shape)
        if not isinstance(other, np.ndarray):
            other = np.asarray(other).astype(array.dtype)
        out = np.array(np.broadcast_to(other, p.shape))
        out[mask] = array[index]
        return out

    def store(self, p, value, mask=None):
        if isinstance(p, Select):
            buffers = [self.arguments[x.argument].buffer for x in leaves(p)]
            if len(set(buffers)) < len(buffers):
                raise Undefined("two ways to one buffer in one store")
            for q, on in p.parts(mask):
                self.store(q, value, on)
            return
        array, marks, index, cells, mask = self.locate(p, mask)
        value = np.ravel(np.broadcast_to(value, p.shape) if mask is None else np.broadcast_to(value, p.shape)[mask])
        for who in (marks.wrote, marks.read, marks.atomic):
            self.others(who, cells, "write to what another program touched")
        if np.unique(index).size != index.size:
            raise Undefined("two elements stored to one address")
        self.ordered(marks, cells, p.argument, True)
        marks.wrote[cells] = self.pid
        self.put(p.argument, array, index, value)

    def atomic(self, kind, p, value, *more, result):
        """Old values. `more`: the mask, or for cas the new value. Results are defined only where no one else comes."""
        mask = more[0] if more and kind != "cas" else None
        if mask is not None and result:
            raise Undefined("old values under a mask")
        array, marks, index, cells, mask = self.locate(p, mask)
        pick = lambda v: np.ravel(np.broadcast_to(v, p.shape) if mask is None else np.broadcast_to(v, p.shape)[mask])
        v = pick(value)
        for who in (marks.wrote, marks.read):
            self.others(who, cells, "atomic on what another program touched")
        k = KINDS.index(kind) + 1
        alone = marks.atomic[cells]
        if ((marks.kind[cells] != 0) & (marks.kind[cells] != k) & (alone != self.pid)).any():
            raise Undefined("atomics that do not commute")
        distinct = np.unique(index).size == index.size
        self.ordered(marks, cells, p.argument, True)
        if result or kind in ("xchg", "cas"):
            if not distinct or ((alone != 0) & (alone != self.pid)).any():
                raise Undefined("an old value that depends on the order")
            marks.wrote[cells] = self.pid
        marks.kind[cells] = np.where((marks.kind[cells] == 0) | (marks.kind[cells] == k), k, MIXED)
        marks.atomic[cells] = np.where((alone == 0) | (alone == self.pid), self.pid, MANY)
        old = array[index]
        self.update(array, index, kind, v, pick(more[0]) if kind == "cas" else None, distinct)
        return old.reshape(p.shape) if mask is None else None

    def update(self, array, index, kind, v, new, distinct):
        if kind == "xchg":
            array[index] = v
        elif kind == "cas":
            array[index] = np.where(array[index] == v, new, array[index])
        elif kind in ("max", "min"):
            (np.maximum if kind == "max" else np.minimum).at(array, index, v)
        elif kind == "add" and array.dtype.kind == "f":
            small, large = (8, 512) if array.dtype.itemsize == 2 else (256, 1 << 14)
            w, m = v.astype(np.float64), array[index].astype(np.float64)
            if not (np.all(w == np.trunc(w)) and np.all(np.abs(w) <= small) and np.all(m == np.trunc(m))
                    and np.all(np.abs(m) <= large)):
                raise Undefined("an atomic sum that depends on the order")
            if (np.signbit(w) & (w == 0)).any():
                raise Undefined("either zero")
            np.add.at(array, index, v)
            if (array[index] == 0).any() and np.signbit(array[index]).any():
                raise Undefined("either zero")
        else:
            {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind].at(array, index, v)
