"""The buffers of a launch in the reference, and who has touched what: an access that depends on the order of
programs, or
on the order of accesses through different arguments without a barrier, is Undefined."""
from dataclasses import dataclass

import numpy as np
from arithmetic import Undefined
from data import fill

MANY = -1
MIXED = 99
KINDS = ("add", "max", "min", "and", "or", "xor", "xchg", "cas")


@dataclass
class Pointer:
    argument: int
    index: object  # int64 array: elements from where the argument points

    @property
    def shape(self):
        return np.shape(self.index)


class Marks:
    """For each element: program (from 1; MANY) that wrote, read, changed it atomically; the kind of that; and for
    buffers
    with several arguments, the last barrier's number and argument of the last write and read."""

    def __init__(self, n, shared):
        self.wrote, self.read, self.atomic, self.kind = (np.zeros(n, np.int32) for _ in range(4))
        self.last = {
            w: (np.full(n, -1, np.int32), np.zeros(n, np.int32))
            for w in ("write", "read")
        } if shared else None


class Memory:

    def __init__(self, p):
        self.arrays = {b.name: fill(b.recipe, b.dtype, b.size, b.seed) for b in p.buffers}
        self.arguments = p.arguments
        users = [a.buffer for a in p.arguments if a.buffer]
        self.marks = {b.name: Marks(b.size, users.count(b.name) > 1) for b in p.buffers}
        self.pid, self.epoch = 0, 0

    def begin(self, pid):
        self.pid, self.epoch = pid, self.epoch + 1

    def barrier(self):
        self.epoch += 1

    def locate(self, p, mask):
        """(array, marks, flat indices of the active elements, mask or None)."""
        a = self.arguments[p.argument]
        index = np.asarray(p.index) + a.offset
        if mask is not None:
            mask = np.broadcast_to(mask, index.shape)
            index = index[mask]
        index = np.ravel(index)
        array = self.arrays[a.buffer]
        if index.size and (index.min() < 0 or index.max() >= array.size):
            raise Undefined("out of bounds")
        return array, self.marks[a.buffer], index, mask

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
        array, marks, index, mask = self.locate(p, mask)
        self.others(marks.wrote, index, "read after another program's write")
        self.others(marks.atomic, index, "read after another program's atomic")
        self.ordered(marks, index, p.argument, False)
        r = marks.read[index]
        marks.read[index] = np.where((r == 0) | (r == self.pid), self.pid, MANY)
        if mask is None:
            return array[index].reshape(p.shape)
        if not isinstance(other, np.ndarray):
            other = np.asarray(other).astype(array.dtype)
        out = np.array(np.broadcast_to(other, p.shape))
        out[mask] = array[index]
        return out

    def store(self, p, value, mask=None):
        array, marks, index, mask = self.locate(p, mask)
        value = np.ravel(np.broadcast_to(value, p.shape) if mask is None else np.broadcast_to(value, p.shape)[mask])
        for who in (marks.wrote, marks.read, marks.atomic):
            self.others(who, index, "write to what another program touched")
        if np.unique(index).size != index.size:
            raise Undefined("two elements stored to one address")
        self.ordered(marks, index, p.argument, True)
        marks.wrote[index] = self.pid
        array[index] = value

    def atomic(self, kind, p, value, *more, result):
        """Old values. `more`: the mask, or for cas the new value. Results are defined only where no one else comes."""
        mask = more[0] if more and kind != "cas" else None
        if mask is not None and result:
            raise Undefined("old values under a mask")
        array, marks, index, mask = self.locate(p, mask)
        pick = lambda v: np.ravel(np.broadcast_to(v, p.shape) if mask is None else np.broadcast_to(v, p.shape)[mask])
        v = pick(value)
        for who in (marks.wrote, marks.read):
            self.others(who, index, "atomic on what another program touched")
        k = KINDS.index(kind) + 1
        alone = marks.atomic[index]
        if ((marks.kind[index] != 0) & (marks.kind[index] != k) & (alone != self.pid)).any():
            raise Undefined("atomics that do not commute")
        distinct = np.unique(index).size == index.size
        self.ordered(marks, index, p.argument, True)
        if result or kind in ("xchg", "cas"):
            if not distinct or ((alone != 0) & (alone != self.pid)).any():
                raise Undefined("an old value that depends on the order")
            marks.wrote[index] = self.pid
        marks.kind[index] = np.where((marks.kind[index] == 0) | (marks.kind[index] == k), k, MIXED)
        marks.atomic[index] = np.where((alone == 0) | (alone == self.pid), self.pid, MANY)
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
