// Compile-time objects: constructors for Python's converter (tegula/_values.py), which decides what a Python object
// means.
#include "Core.h"

namespace tegula_python {
namespace {

void dealloc(PyObject *self) {
  tegula_value_release(reinterpret_cast<ValueObject *>(self)->value);
  Py_TYPE(self)->tp_free(self);
}

PyObject *repr(PyObject *self) {
  return PyUnicode_FromString(tegula_value_repr(reinterpret_cast<ValueObject *>(self)->value));
}

// A sequence of _core.Value as an array of borrowed handles.
bool readValues(PyObject *sequence, std::vector<TegulaValue *> &out) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
    if (!PyObject_TypeCheck(item, &ValueType)) {
      PyErr_SetString(PyExc_TypeError, "a list of _core.Value is needed");
      return false;
    }
    out.push_back(reinterpret_cast<ValueObject *>(item)->value);
  }
  return true;
}

PyObject *valueNone(PyObject *, PyObject *) { return wrapValue(tegula_value_none()); }
PyObject *valueBool(PyObject *, PyObject *x) { return wrapValue(tegula_value_bool(PyObject_IsTrue(x))); }
PyObject *valueFloat(PyObject *, PyObject *x) {
  double d = PyFloat_AsDouble(x);
  return PyErr_Occurred() ? nullptr : wrapValue(tegula_value_float(d));
}
PyObject *valueInt(PyObject *, PyObject *x) {
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(x, &overflow);
  if (v == -1 && PyErr_Occurred()) return nullptr;
  if (!overflow) return wrapValue(tegula_value_int(v));
  PyObject *text = PyObject_Str(x);
  PyObject *result = text ? wrapValue(tegula_value_int_text(PyUnicode_AsUTF8(text))) : nullptr;
  Py_XDECREF(text);
  return result;
}
PyObject *valueStr(PyObject *, PyObject *x) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(x, &n);
  return s ? wrapValue(tegula_value_str(s, n)) : nullptr;
}
PyObject *valueDtype(PyObject *, PyObject *x) {
  const char *s = textOf(x);
  return s ? wrapValue(tegula_value_dtype(s)) : nullptr;
}
PyObject *valueTuple(PyObject *, PyObject *x) {
  PyObject *fast = PySequence_Fast(x, "a list of values is needed");
  if (!fast) return nullptr;
  std::vector<TegulaValue *> items;
  PyObject *result = readValues(fast, items) ? wrapValue(tegula_value_tuple(items.data(), items.size())) : nullptr;
  Py_DECREF(fast);
  return result;
}
PyObject *valueSet(PyObject *, PyObject *x) {
  PyObject *fast = PySequence_Fast(x, "a list of values is needed");
  if (!fast) return nullptr;
  std::vector<TegulaValue *> items;
  PyObject *result = readValues(fast, items) ? wrapValue(tegula_value_set(items.data(), items.size())) : nullptr;
  Py_DECREF(fast);
  return result;
}
PyObject *valueDict(PyObject *, PyObject *args) {
  PyObject *keys, *values;
  std::vector<TegulaValue *> k, v;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &keys, &PyList_Type, &values) || !readValues(keys, k) ||
      !readValues(values, v))
    return nullptr;
  if (k.size() != v.size()) {
    PyErr_SetString(PyExc_ValueError, "as many values as keys are needed");
    return nullptr;
  }
  return wrapValue(tegula_value_dict(k.data(), v.data(), k.size()));
}
PyObject *valueClass(PyObject *, PyObject *args) {
  const char *name;
  PyObject *fields, *defaults;
  if (!PyArg_ParseTuple(args, "sO!O!", &name, &PyList_Type, &fields, &PyList_Type, &defaults)) return nullptr;
  std::vector<const char *> names;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(fields); ++i) {
    const char *s = textOf(PyList_GET_ITEM(fields, i));
    if (!s) return nullptr;
    names.push_back(s);
  }
  std::vector<TegulaValue *> values;
  if (!readValues(defaults, values)) return nullptr;
  return wrapValue(tegula_value_class(name, names.data(), names.size(), values.data(), values.size()));
}
PyObject *valueRecord(PyObject *, PyObject *args) {
  PyObject *cls, *items;
  if (!PyArg_ParseTuple(args, "O!O!", &ValueType, &cls, &PyList_Type, &items)) return nullptr;
  std::vector<TegulaValue *> values;
  if (!readValues(items, values)) return nullptr;
  return wrapValue(tegula_value_record(reinterpret_cast<ValueObject *>(cls)->value, values.data(), values.size()));
}
PyObject *valueAggregate(PyObject *, PyObject *args) {
  const char *name;
  unsigned long long identity;
  PyObject *fields, *types, *defaults, *bases;
  if (!PyArg_ParseTuple(args, "sKO!O!O!O!", &name, &identity, &PyList_Type, &fields, &PyList_Type, &types, &PyList_Type,
                        &defaults, &PyList_Type, &bases))
    return nullptr;
  std::vector<const char *> names;
  std::vector<TegulaValue *> typeValues, defaultValues, baseValues;
  Py_ssize_t n = PyList_GET_SIZE(fields);
  if (PyList_GET_SIZE(types) != n || PyList_GET_SIZE(defaults) != n) {
    PyErr_SetString(PyExc_ValueError, "as many types and defaults as fields are needed");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    const char *s = textOf(PyList_GET_ITEM(fields, i));
    if (!s) return nullptr;
    names.push_back(s);
    PyObject *d = PyList_GET_ITEM(defaults, i);
    if (d != Py_None && Py_TYPE(d) != &ValueType) {
      PyErr_SetString(PyExc_TypeError, "a default is a _core.Value or None");
      return nullptr;
    }
    defaultValues.push_back(d == Py_None ? nullptr : reinterpret_cast<ValueObject *>(d)->value);
  }
  if (!readValues(types, typeValues) || !readValues(bases, baseValues)) return nullptr;
  return wrapValue(tegula_value_aggregate(name, identity, names.data(), typeValues.data(), defaultValues.data(),
                                          names.size(), baseValues.data(), baseValues.size()));
}
PyObject *valueAddMember(PyObject *, PyObject *args) {
  PyObject *cls, *member;
  const char *name;
  int role;
  if (!PyArg_ParseTuple(args, "O!siO!", &ValueType, &cls, &name, &role, &ValueType, &member)) return nullptr;
  TegulaStatus s = tegula_value_add_member(reinterpret_cast<ValueObject *>(cls)->value, name, role,
                                           reinterpret_cast<ValueObject *>(member)->value);
  if (s != TEGULA_OK) return raiseStatus(s);
  Py_RETURN_NONE;
}
PyObject *valueFunction(PyObject *, PyObject *f) {
  TegulaFunction *handle = functionHandle(f);
  return handle ? wrapValue(tegula_value_function(handle)) : nullptr;
}
PyObject *valueModule(PyObject *, PyObject *x) {
  const char *s = textOf(x);
  return s ? wrapValue(tegula_value_module(s)) : nullptr;
}
PyObject *valueAttribute(PyObject *, PyObject *args) {
  PyObject *module;
  const char *name;
  if (!PyArg_ParseTuple(args, "O!s", &ValueType, &module, &name)) return nullptr;
  return wrapValue(tegula_value_attribute(reinterpret_cast<ValueObject *>(module)->value, name));
}
PyObject *moduleNames(PyObject *, PyObject *x) {
  const char *s = textOf(x);
  char *names;
  if (!s) return nullptr;
  if (TegulaStatus status = tegula_module_names(s, &names); status != TEGULA_OK) return raiseStatus(status);
  PyObject *text = PyUnicode_FromString(names);
  tegula_free(names);
  PyObject *list = text ? PyUnicode_Splitlines(text, 0) : nullptr;
  Py_XDECREF(text);
  return list;
}
PyObject *valueOpaque(PyObject *, PyObject *args) {
  const char *name;
  unsigned long long id;
  PyObject *attributes = nullptr;
  int bare = 0;
  if (!PyArg_ParseTuple(args, "sK|O!p", &name, &id, &PyDict_Type, &attributes, &bare)) return nullptr;
  std::vector<TegulaNamedValue> given;
  if (attributes && !namedValues(attributes, given)) return nullptr;
  std::vector<const char *> names;
  std::vector<TegulaValue *> values;
  for (const TegulaNamedValue &v : given) names.push_back(v.name), values.push_back(v.value);
  return wrapValue(tegula_value_object(name, id, names.data(), values.data(), names.size(), bare));
}

PyObject *valueMember(PyObject *, PyObject *args) {
  PyObject *value, *object;
  if (!PyArg_ParseTuple(args, "O!O!", &ValueType, &value, &ValueType, &object)) return nullptr;
  return wrapValue(tegula_value_member(reinterpret_cast<ValueObject *>(value)->value,
                                       reinterpret_cast<ValueObject *>(object)->value));
}

// A Python module as the compiler sees it: attributes are converted on demand. `user` is the Python resolver, f(name)
// -> Value or None.
TegulaValue *resolve(void *user, const char *attribute) {
  WithGil gil;
  if (!gil) return nullptr;
  TegulaValue *out = nullptr;
  PyObject *r = PyObject_CallFunction(static_cast<PyObject *>(user), "s", attribute);
  if (r && Py_TYPE(r) == &ValueType) {
    out = reinterpret_cast<ValueObject *>(r)->value;
    tegula_value_retain(out);
  }
  dropError();
  Py_XDECREF(r);
  return out;
}
void destroy(void *user) {
  if (WithGil gil; gil) Py_DECREF(static_cast<PyObject *>(user));
}
PyObject *valueDynamicModule(PyObject *, PyObject *args) {
  const char *name;
  PyObject *resolver;
  if (!PyArg_ParseTuple(args, "sO", &name, &resolver)) return nullptr;
  Py_INCREF(resolver);
  return wrapValue(tegula_value_dynamic_module(name, resolve, destroy, resolver));
}

} // namespace

PyTypeObject ValueType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Value";
  t.tp_basicsize = sizeof(ValueObject);
  t.tp_dealloc = dealloc;
  t.tp_repr = repr;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE; // tl.tensor is one
  t.tp_doc = "A compile-time object of the language.";
  return t;
}();

bool namedValues(PyObject *constants, std::vector<TegulaNamedValue> &out) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(constants, &at, &name, &value);) {
    const char *s = textOf(name);
    if (!s) return false;
    if (Py_TYPE(value) != &ValueType) return PyErr_SetString(PyExc_TypeError, "constants are Values"), false;
    out.push_back({s, reinterpret_cast<ValueObject *>(value)->value});
  }
  return true;
}

PyObject *wrapValue(TegulaValue *value) {
  if (!value) return PyErr_Occurred() ? nullptr : raiseStatus(tegula_last_status());
  ValueObject *o = PyObject_New(ValueObject, &ValueType);
  if (!o) {
    tegula_value_release(value);
    return nullptr;
  }
  o->value = value;
  return reinterpret_cast<PyObject *>(o);
}

PyMethodDef valueMethods[] = {
    {"value_none", valueNone, METH_NOARGS, nullptr},       {"value_bool", valueBool, METH_O, nullptr},
    {"value_int", valueInt, METH_O, nullptr},              {"value_float", valueFloat, METH_O, nullptr},
    {"value_str", valueStr, METH_O, nullptr},              {"value_dtype", valueDtype, METH_O, nullptr},
    {"value_tuple", valueTuple, METH_O, nullptr},          {"value_class", valueClass, METH_VARARGS, nullptr},
    {"value_dict", valueDict, METH_VARARGS, nullptr},      {"value_set", valueSet, METH_O, nullptr},
    {"value_record", valueRecord, METH_VARARGS, nullptr},  {"value_function", valueFunction, METH_O, nullptr},
    {"value_module", valueModule, METH_O, nullptr},        {"value_attribute", valueAttribute, METH_VARARGS, nullptr},
    {"value_aggregate", valueAggregate, METH_VARARGS, nullptr}, {"value_add_member", valueAddMember, METH_VARARGS, nullptr},
    {"value_opaque", valueOpaque, METH_VARARGS, nullptr},  {"value_dynamic_module", valueDynamicModule, METH_VARARGS, nullptr},
    {"value_member", valueMember, METH_VARARGS, nullptr},
    {"module_names", moduleNames, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
