// Comparing pointers. All under the GIL.
#include "Watch.h"
#include "structmember.h"

namespace tegula_python {
namespace {
Py_ssize_t constexprOffset = -1; // of its slot `value`
unsigned long bindings;          // see bindingsChanged

PyObject *heldBy(PyObject *constexprObject) {
  return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(constexprObject) + constexprOffset);
}

// A number that is another one after each change of the dict; 0 where CPython has none.
uint64_t versionOf(PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}
} // namespace

PyObject *setConstexprClass(PyObject *, PyObject *cls) {
  PyObject *slot = PyObject_GetAttrString(cls, "value");
  if (!slot) return nullptr;
  if (Py_TYPE(slot) != &PyMemberDescr_Type) {
    Py_DECREF(slot);
    return PyErr_SetString(PyExc_TypeError, "a class with a slot `value` is needed"), nullptr;
  }
  constexprOffset = reinterpret_cast<PyMemberDescrObject *>(slot)->d_member->offset;
  Py_DECREF(slot);
  Py_RETURN_NONE;
}

PyObject *bindingsChanged(PyObject *, PyObject *) {
  ++bindings;
  Py_RETURN_NONE;
}

bool Watch::add(PyObject *row) {
  PyObject *place, *name, *value, *held;
  int found, holds;
  if (!PyArg_ParseTuple(row, "OUpOpO", &place, &name, &found, &value, &holds, &held)) return false;
  for (PyObject *o : {place, name, value, held}) kept_.push_back(Py_NewRef(o));
  PyObject *expected = found ? value : nullptr;
  if (holds) constants_.push_back({value, held});
  if (PyCell_Check(place)) {
    cells_.push_back({place, expected});
    return true;
  }
  if (!PyDict_Check(place)) return PyErr_SetString(PyExc_TypeError, "a variable is in a dict or a cell"), false;
  for (Module &m : modules_)
    if (m.dict == place) return m.variables.push_back({name, expected}), true;
  modules_.push_back({place, ~uint64_t(0), {{name, expected}}});
  return true;
}

Watch *Watch::make(PyObject *rows, bool always, PyObject *changed) {
  auto w = std::unique_ptr<Watch>(new Watch);
  w->changed_ = Py_NewRef(changed);
  w->always_ = always;
  w->bindings_ = bindings;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); ++i)
    if (!w->add(PyList_GET_ITEM(rows, i))) return nullptr;
  return w.release();
}

Watch::~Watch() {
  for (PyObject *o : kept_) Py_DECREF(o);
  Py_XDECREF(changed_);
}

int Watch::traverse(visitproc visit, void *arg) const {
  for (PyObject *o : kept_) Py_VISIT(o);
  Py_VISIT(changed_);
  return 0;
}

bool Watch::same(Module &m) {
  uint64_t now = versionOf(m.dict);
  if (now == m.version && now) return true;
  for (const Variable &v : m.variables)
    if (PyDict_GetItemWithError(m.dict, v.name) != v.expected) return false;
  m.version = now;
  return true;
}

bool Watch::same() {
  if (bindings_ != bindings || always_) return false;
  for (Module &m : modules_)
    if (!same(m)) return false;
  for (const Pair &c : cells_)
    if (PyCell_GET(c.object) != c.expected) return false;
  for (const Pair &c : constants_)
    if (heldBy(c.object) != c.expected) return false;
  return true;
}

int Watch::holds() {
  if (same()) return 1;
  PyErr_Clear();
  PyObject *changed = Py_NewRef(changed_), *r = PyObject_CallNoArgs(changed);
  Py_DECREF(changed);
  if (!r) return -1;
  int unchanged = r == Py_True;
  Py_DECREF(r);
  return unchanged;
}

} // namespace tegula_python
