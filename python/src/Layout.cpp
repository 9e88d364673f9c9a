// Linear layouts as tuples ([(name, bits), ...] of inputs, the same of outputs, one tuple of coordinates for each input
// bit): the algebra is the library's.
#include "Core.h"

namespace tegula_python {
namespace {

/// A layout that was read from Python; strings belong to the objects it was read from.
struct Given {
  std::vector<TegulaLayoutDim> ins, outs;
  std::vector<uint32_t> bases;
  TegulaLayout layout{};

  static bool readDims(PyObject *list, std::vector<TegulaLayoutDim> &out) {
    PyObject *fast = PySequence_Fast(list, "a list of dimensions is needed");
    for (Py_ssize_t i = 0, n = fast ? PySequence_Fast_GET_SIZE(fast) : 0; i < n; ++i) {
      PyObject *name;
      unsigned bits;
      if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(fast, i), "O!I", &PyUnicode_Type, &name, &bits)) break;
      const char *text = textOf(name);
      if (!text) break;
      out.push_back({text, bits});
    }
    Py_XDECREF(fast);
    return fast && !PyErr_Occurred();
  }
  bool readBases(PyObject *rows) {
    for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(rows); i < n; ++i) {
      PyObject *row = PyTuple_GET_ITEM(rows, i);
      if (!PyTuple_Check(row) || static_cast<size_t>(PyTuple_GET_SIZE(row)) != outs.size())
        return PyErr_SetString(PyExc_ValueError, "linear layout: a basis has one coordinate for each output"), false;
      for (size_t k = 0; k < outs.size(); ++k) {
        unsigned long v = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(row, static_cast<Py_ssize_t>(k)));
        if (PyErr_Occurred()) return false;
        if (v > UINT32_MAX) return PyErr_SetString(PyExc_ValueError, "linear layout: a coordinate is too large"), false;
        bases.push_back(static_cast<uint32_t>(v));
      }
    }
    size_t bits = 0;
    for (const TegulaLayoutDim &d : ins) bits += d.bits;
    if (bits != static_cast<size_t>(PyTuple_GET_SIZE(rows)))
      return PyErr_SetString(PyExc_ValueError, "linear layout: there is one basis for each bit of the inputs"), false;
    return true;
  }
  bool read(PyObject *object) {
    PyObject *in, *out, *rows;
    if (!PyArg_ParseTuple(object, "OOO!", &in, &out, &PyTuple_Type, &rows) || !readDims(in, ins) ||
        !readDims(out, outs) || !readBases(rows))
      return false;
    bases.push_back(0); // never empty
    layout = {sizeof layout, ins.data(), outs.data(), ins.size(), outs.size(), bases.data()};
    return true;
  }
};

PyObject *dimsOf(const TegulaLayoutDim *dims, size_t count) {
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; list && i < count; ++i)
    PyList_SET_ITEM(list, i, Py_BuildValue("(sI)", dims[i].name, dims[i].bits));
  return list;
}

PyObject *basesOf(const TegulaLayout &l) {
  size_t bits = 0;
  for (size_t i = 0; i < l.in_count; ++i) bits += l.ins[i].bits;
  PyObject *rows = PyTuple_New(static_cast<Py_ssize_t>(bits));
  for (size_t i = 0; rows && i < bits; ++i) {
    PyObject *row = PyTuple_New(static_cast<Py_ssize_t>(l.out_count));
    for (size_t k = 0; row && k < l.out_count; ++k)
      PyTuple_SET_ITEM(row, k, PyLong_FromUnsignedLong(l.bases[i * l.out_count + k]));
    PyTuple_SET_ITEM(rows, i, row);
  }
  return rows;
}

// layout_operate(operation, a, b or None) -> layout
PyObject *operate(PyObject *, PyObject *args) {
  const char *name;
  PyObject *first, *second;
  Given a, b;
  if (!PyArg_ParseTuple(args, "sO!O", &name, &PyTuple_Type, &first, &second) || !a.read(first) ||
      (second != Py_None && !b.read(second)))
    return nullptr;
  TegulaLayout *out = nullptr;
  TegulaStatus s = tegula_layout_operate(name, &a.layout, second == Py_None ? nullptr : &b.layout, &out);
  if (s != TEGULA_OK) return raiseStatus(s);
  PyObject *result =
      Py_BuildValue("(NNN)", dimsOf(out->ins, out->in_count), dimsOf(out->outs, out->out_count), basesOf(*out));
  tegula_free(out);
  return result;
}

// layout_rank(layout) -> int
PyObject *rank(PyObject *, PyObject *object) {
  Given l;
  uint32_t n;
  if (!PyTuple_Check(object)) return PyErr_SetString(PyExc_TypeError, "a layout is a tuple"), nullptr;
  if (!l.read(object)) return nullptr;
  TegulaStatus s = tegula_layout_rank(&l.layout, &n);
  return s == TEGULA_OK ? PyLong_FromUnsignedLong(n) : raiseStatus(s);
}

} // namespace

PyMethodDef layoutMethods[] = {{"layout_operate", operate, METH_VARARGS, nullptr},
                               {"layout_rank", rank, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
