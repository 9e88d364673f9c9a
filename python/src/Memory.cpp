// The memory behind the arguments of a launch, asked for only while a launch that checks its accesses is under way.
#include "Core.h"

namespace tegula_python {

static PyObject *finder; // f(tensor) -> (address, bytes) or None

PyObject *setMemoryFinder(PyObject *, PyObject *f) {
  Py_XSETREF(finder, Py_NewRef(f));
  Py_RETURN_NONE;
}

// The object that `wanted`, which is `a` or an item inside of it, was converted from.
static PyObject *objectOf(PyObject *object, const TegulaArg &a, const TegulaArg *wanted) {
  if (&a == wanted) return object;
  if (a.kind != TEGULA_ARG_TUPLE) return nullptr;
  for (uint32_t i = 0; i < a.count; ++i) {
    bool isItem = PyTuple_Check(object) && i < PyTuple_GET_SIZE(object);
    // The parts of a descriptor are its own.
    if (PyObject *found = objectOf(isItem ? PyTuple_GET_ITEM(object, i) : object, a.u.items[i], wanted)) return found;
  }
  return nullptr;
}

int32_t MemoryQuery::answer(void *user, const TegulaArg *arg, TegulaMemory *out) {
  auto *query = static_cast<const MemoryQuery *>(user);
  WithGil gil;
  if (!gil || !finder) return 0;
  PyObject *object = nullptr;
  for (size_t i = 0; !object && i < query->count; ++i)
    if (query->objects[i]) object = objectOf(query->objects[i], query->args[i], arg);
  PyObject *found = object ? PyObject_CallOneArg(finder, object) : nullptr;
  unsigned long long address, bytes;
  bool known = found && found != Py_None && PyArg_ParseTuple(found, "KK", &address, &bytes);
  Py_XDECREF(found);
  dropError(); // an object that cannot say is one that is not asked
  if (known) *out = {reinterpret_cast<void *>(address), bytes};
  return known;
}

} // namespace tegula_python
