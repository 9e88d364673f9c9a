// _core.Eager: one launch whose function Python itself runs, operation by operation (tegula/runtime/interpreter.py).
//
// Values come and go as Python objects: numbers, strings and tuples as themselves, tiles as objects of the class that
// Python gave (a subclass of _core.Value), everything else by way of two Python functions.
#include "Core.h"
#include <cstring>
#include <string>
#include <utility>

namespace tegula_python {
namespace {

PyTypeObject *tensorClass, *tupleClass;
PyObject *toValue, *fromValue; // f(object) -> _core.Value; f(_core.Value) -> object

struct EagerObject {
  PyObject_HEAD
      TegulaEager *eager;
};

/// Owns one reference to a value.
struct Handle {
  TegulaValue *value = nullptr;
  Handle() = default;
  Handle(Handle &&o) noexcept : value(std::exchange(o.value, nullptr)) {}
  Handle(const Handle &) = delete;
  ~Handle() { tegula_value_release(value); }
};

bool isValue(PyObject *x) { return PyObject_TypeCheck(x, &ValueType); }

bool convert(PyObject *x, Handle &out, unsigned depth = 0);

bool convertItems(PyObject *tuple, Handle &out, unsigned depth) {
  if (depth > 100) return PyErr_SetString(PyExc_ValueError, "tuples are nested more than 100 deep"), false;
  std::vector<Handle> items(PyTuple_GET_SIZE(tuple));
  std::vector<TegulaValue *> handles;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!convert(PyTuple_GET_ITEM(tuple, i), items[i], depth + 1)) return false;
    handles.push_back(items[i].value);
  }
  out.value = tegula_value_tuple(handles.data(), handles.size());
  return out.value || raiseStatus(tegula_last_status());
}

bool convert(PyObject *x, Handle &out, unsigned depth) {
  if (isValue(x)) {
    out.value = reinterpret_cast<ValueObject *>(x)->value;
    tegula_value_retain(out.value);
    return true;
  }
  if (x == Py_None) return out.value = tegula_value_none(), true;
  if (PyBool_Check(x)) return out.value = tegula_value_bool(x == Py_True), true;
  if (PyFloat_CheckExact(x)) return out.value = tegula_value_float(PyFloat_AS_DOUBLE(x)), true;
  if (PyLong_CheckExact(x)) {
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (!overflow) return out.value = tegula_value_int(v), true;
  }
  if (PySlice_Check(x)) {
    auto *slice = reinterpret_cast<PySliceObject *>(x);
    Handle parts[3];
    if (!convert(slice->start, parts[0]) || !convert(slice->stop, parts[1]) || !convert(slice->step, parts[2]))
      return false;
    out.value = tegula_value_slice(parts[0].value, parts[1].value, parts[2].value);
    return out.value || raiseStatus(tegula_last_status());
  }
  if (PyTuple_CheckExact(x) || Py_TYPE(x) == tupleClass) return convertItems(x, out, depth);
  if (PyList_CheckExact(x)) {
    PyObject *tuple = PyList_AsTuple(x);
    bool ok = tuple && convertItems(tuple, out, depth);
    Py_XDECREF(tuple);
    return ok;
  }
  PyObject *value = PyObject_CallOneArg(toValue, x);
  if (!value) return false;
  bool ok = isValue(value);
  if (ok) {
    out.value = reinterpret_cast<ValueObject *>(value)->value;
    tegula_value_retain(out.value);
  } else {
    PyErr_SetString(PyExc_TypeError, "the converter gave no value");
  }
  Py_DECREF(value);
  return ok;
}

PyObject *wrapTensor(TegulaValue *value) {
  PyObject *o = tensorClass->tp_alloc(tensorClass, 0);
  if (!o) return tegula_value_release(value), nullptr;
  reinterpret_cast<ValueObject *>(o)->value = value;
  return o;
}

/// The Python object for a value that is given over.
PyObject *expose(TegulaValue *value) {
  int64_t i = 0;
  double d = 0;
  PyObject *result = nullptr;
  switch (tegula_value_kind(value)) {
  case TEGULA_VALUE_TENSOR: return wrapTensor(value);
  case TEGULA_VALUE_NONE: result = Py_NewRef(Py_None); break;
  case TEGULA_VALUE_BOOL: tegula_value_as_int(value, &i), result = PyBool_FromLong(i != 0); break;
  case TEGULA_VALUE_INT:
    result = tegula_value_as_int(value, &i) == TEGULA_OK ? PyLong_FromLongLong(i)
                                                         : PyLong_FromString(tegula_value_repr(value), nullptr, 10);
    break;
  case TEGULA_VALUE_FLOAT: tegula_value_as_float(value, &d), result = PyFloat_FromDouble(d); break;
  case TEGULA_VALUE_TUPLE: {
    Py_ssize_t n = tegula_value_item_count(value);
    result = PyTuple_New(n);
    for (Py_ssize_t k = 0; result && k < n; ++k) {
      PyObject *item = expose(tegula_value_item(value, k));
      if (!item) Py_CLEAR(result);
      else PyTuple_SET_ITEM(result, k, item);
    }
    if (result) Py_SETREF(result, PyObject_CallOneArg(reinterpret_cast<PyObject *>(tupleClass), result));
    break;
  }
  default: {
    PyObject *wrapped = wrapValue(value);
    result = wrapped ? PyObject_CallOneArg(fromValue, wrapped) : nullptr;
    Py_XDECREF(wrapped);
    return result;
  }
  }
  tegula_value_release(value);
  return result;
}

PyObject *answer(TegulaStatus status, TegulaValue *value) {
  return status == TEGULA_OK ? expose(value) : raiseStatus(status);
}

TegulaEager *eagerOf(PyObject *self) { return reinterpret_cast<EagerObject *>(self)->eager; }

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *given;
  if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &given)) return nullptr;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  if (!setOptions(options, given)) return nullptr;
  options.device = TEGULA_DEVICE_INDEX_CPU;
  TegulaContext *ctx = context();
  if (!ctx) return nullptr;
  TegulaEager *eager;
  if (TegulaStatus s = tegula_eager_create(ctx, &options, &eager); s != TEGULA_OK) return raiseStatus(s);
  auto *self = reinterpret_cast<EagerObject *>(type->tp_alloc(type, 0));
  if (!self) return tegula_eager_release(eager), nullptr;
  self->eager = eager;
  return reinterpret_cast<PyObject *>(self);
}

void dealloc(PyObject *self) {
  tegula_eager_release(eagerOf(self));
  Py_TYPE(self)->tp_free(self);
}

// set_program(x, y, z, columns, rows, layers)
PyObject *setProgram(PyObject *self, PyObject *args) {
  int n[6];
  if (!PyArg_ParseTuple(args, "iiiiii", n, n + 1, n + 2, n + 3, n + 4, n + 5)) return nullptr;
  const int32_t id[3] = {n[0], n[1], n[2]}, grid[3] = {n[3], n[4], n[5]};
  TegulaStatus s = tegula_eager_set_program(eagerOf(self), id, grid);
  return s == TEGULA_OK ? Py_NewRef(Py_None) : raiseStatus(s);
}

// add_buffer(name, address, bytes (-1: unknown), writable)
PyObject *addBuffer(PyObject *self, PyObject *args) {
  const char *name;
  unsigned long long address;
  long long bytes;
  int writable;
  if (!PyArg_ParseTuple(args, "sKLp", &name, &address, &bytes, &writable)) return nullptr;
  TegulaStatus s = tegula_eager_add_buffer(eagerOf(self), name, reinterpret_cast<void *>(address), bytes, writable);
  return s == TEGULA_OK ? Py_NewRef(Py_None) : raiseStatus(s);
}

// call(callee: Value, args: tuple, kwargs: dict)
PyObject *call(PyObject *self, PyObject *args) {
  PyObject *callee, *positional, *keywords;
  if (!PyArg_ParseTuple(args, "O!O!O!", &ValueType, &callee, &PyTuple_Type, &positional, &PyDict_Type, &keywords))
    return nullptr;
  std::vector<Handle> handles(PyTuple_GET_SIZE(positional) + PyDict_GET_SIZE(keywords));
  std::vector<TegulaEagerArg> list;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i) {
    if (!convert(PyTuple_GET_ITEM(positional, i), handles[list.size()])) return nullptr;
    list.push_back({handles[list.size()].value, nullptr});
  }
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value);) {
    const char *keyword = textOf(name);
    if (!keyword || !convert(value, handles[list.size()])) return nullptr;
    list.push_back({handles[list.size()].value, keyword});
  }
  TegulaValue *out = nullptr;
  TegulaStatus s =
      tegula_eager_call(eagerOf(self), reinterpret_cast<ValueObject *>(callee)->value, list.data(), list.size(), &out);
  return answer(s, out);
}

// operate(name, *operands)
PyObject *operate(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  const char *name = n ? textOf(args[0]) : nullptr;
  if (!name) return PyErr_Occurred() ? nullptr : (PyErr_SetString(PyExc_TypeError, "operate() needs a name"), nullptr);
  std::vector<Handle> handles(n - 1);
  std::vector<TegulaValue *> operands;
  for (Handle &h : handles) {
    if (!convert(args[1 + operands.size()], h)) return nullptr;
    operands.push_back(h.value);
  }
  TegulaValue *out = nullptr;
  TegulaStatus s = tegula_eager_operate(eagerOf(self), name, operands.data(), operands.size(), &out);
  return answer(s, out);
}

// attribute(object, name); methods come as the Value of their function.
PyObject *attribute(PyObject *self, PyObject *args) {
  PyObject *object;
  const char *name;
  if (!PyArg_ParseTuple(args, "Os", &object, &name)) return nullptr;
  Handle handle;
  if (!convert(object, handle)) return nullptr;
  TegulaValue *out = nullptr;
  TegulaStatus s = tegula_eager_attribute(eagerOf(self), handle.value, name, &out);
  if (s != TEGULA_OK || tegula_value_kind(out) != TEGULA_VALUE_METHOD) return answer(s, out);
  PyObject *method = wrapValue(tegula_value_method(out));
  tegula_value_release(out);
  return method;
}

PyMethodDef methods[] = {{"set_program", setProgram, METH_VARARGS, nullptr},
                         {"add_buffer", addBuffer, METH_VARARGS, nullptr},
                         {"call", call, METH_VARARGS, nullptr},
                         {"operate", reinterpret_cast<PyCFunction>(operate), METH_FASTCALL, nullptr},
                         {"attribute", attribute, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

// ---- tensors

bool infoOf(PyObject *x, TegulaTensorInfo &info) {
  info.size = sizeof info;
  if (!isValue(x)) return PyErr_SetString(PyExc_TypeError, "no tensor"), false;
  TegulaStatus s = tegula_value_tensor(reinterpret_cast<ValueObject *>(x)->value, &info);
  return s == TEGULA_OK || raiseStatus(s);
}

bool isFloat(TegulaDtype d) { return d >= TEGULA_FP8E5; }
bool isSigned(TegulaDtype d) { return d >= TEGULA_INT8 && d <= TEGULA_INT64; }

PyObject *element(const TegulaTensorInfo &info, uint64_t bits) {
  if (info.flags & TEGULA_TENSOR_POINTER) return PyLong_FromUnsignedLongLong(bits);
  if (isFloat(info.dtype)) return PyFloat_FromDouble(tegula_float_from_bits(info.dtype, bits));
  if (info.dtype == TEGULA_INT1) return PyBool_FromLong(bits & 1);
  if (!isSigned(info.dtype)) return PyLong_FromUnsignedLongLong(bits);
  unsigned shift = 64 - 8 * tegula_dtype_bytes(info.dtype);
  return PyLong_FromLongLong(static_cast<int64_t>(bits << shift) >> shift);
}

// tensor_info(x) -> (name of the element type, is it a pointer to const or else a pointer: "k", "*" or "", shape)
PyObject *tensorInfo(PyObject *, PyObject *x) {
  TegulaTensorInfo info;
  if (!infoOf(x, info)) return nullptr;
  PyObject *shape = PyTuple_New(info.rank);
  for (uint32_t i = 0; shape && i < info.rank; ++i) PyTuple_SET_ITEM(shape, i, PyLong_FromLong(info.shape[i]));
  const char *pointer = info.flags & TEGULA_TENSOR_CONST ? "k" : info.flags & TEGULA_TENSOR_POINTER ? "*" : "";
  return shape ? Py_BuildValue("(ssN)", tegula_dtype_name(info.dtype), pointer, shape) : nullptr;
}

// tensor_item(x) -> the number of a tensor of one element
PyObject *tensorItem(PyObject *, PyObject *x) {
  TegulaTensorInfo info;
  if (!infoOf(x, info)) return nullptr;
  if (info.count != 1) return PyErr_SetString(PyExc_ValueError, "only a tensor of one element is a number"), nullptr;
  return element(info, info.bits[0]);
}

// tensor_list(x) -> numbers, row-major
PyObject *tensorList(PyObject *, PyObject *x) {
  TegulaTensorInfo info;
  if (!infoOf(x, info)) return nullptr;
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(info.count));
  for (uint64_t i = 0; list && i < info.count; ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), element(info, info.bits[i]));
  return list;
}

// scalar(dtype name, pointer: "", "*" or "k", number)
PyObject *scalar(PyObject *, PyObject *args) {
  const char *name, *pointer;
  PyObject *number;
  if (!PyArg_ParseTuple(args, "ssO", &name, &pointer, &number)) return nullptr;
  TegulaDtype d;
  if (TegulaStatus s = tegula_dtype_parse(name, &d, nullptr); s != TEGULA_OK) return raiseStatus(s);
  uint32_t flags = *pointer ? TEGULA_TENSOR_POINTER | (*pointer == 'k' ? TEGULA_TENSOR_CONST : 0) : 0;
  uint64_t bits;
  if (!flags && isFloat(d)) {
    double v = PyFloat_AsDouble(number);
    if (v == -1 && PyErr_Occurred()) return nullptr;
    if (d < TEGULA_FP16) return PyErr_Format(PyExc_TypeError, "no argument is a scalar of %s", name), nullptr;
    bits = tegula_float_to_bits(d, v);
  } else {
    bits = PyLong_AsUnsignedLongLongMask(number);
    if (PyErr_Occurred()) return nullptr;
  }
  TegulaValue *v = tegula_eager_scalar(d, flags, bits);
  return v ? wrapTensor(v) : raiseStatus(tegula_last_status());
}

// value_parts(x) -> (class: Value, [fields]) of a record
PyObject *valueParts(PyObject *, PyObject *x) {
  if (!isValue(x)) return PyErr_SetString(PyExc_TypeError, "no value"), nullptr;
  TegulaValue *v = reinterpret_cast<ValueObject *>(x)->value;
  TegulaValue *cls = tegula_value_record_class(v);
  if (!cls) return Py_NewRef(Py_None);
  PyObject *fields = PyList_New(0);
  for (size_t i = 0; fields && i < tegula_value_item_count(v); ++i) {
    PyObject *item = expose(tegula_value_item(v, i));
    if (!item || PyList_Append(fields, item) < 0) Py_CLEAR(fields);
    Py_XDECREF(item);
  }
  PyObject *wrapped = wrapValue(cls);
  return fields && wrapped ? Py_BuildValue("(NN)", wrapped, fields) : nullptr;
}

PyObject *valueKind(PyObject *, PyObject *x) {
  if (!isValue(x)) return PyErr_SetString(PyExc_TypeError, "no value"), nullptr;
  return PyLong_FromLong(tegula_value_kind(reinterpret_cast<ValueObject *>(x)->value));
}

PyObject *valueSame(PyObject *, PyObject *args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "O!O!", &ValueType, &a, &ValueType, &b)) return nullptr;
  return PyBool_FromLong(
      tegula_value_same(reinterpret_cast<ValueObject *>(a)->value, reinterpret_cast<ValueObject *>(b)->value));
}

PyObject *setEager(PyObject *, PyObject *args) {
  PyObject *cls, *tuple, *to, *from;
  if (!PyArg_ParseTuple(args, "O!O!OO", &PyType_Type, &cls, &PyType_Type, &tuple, &to, &from)) return nullptr;
  for (PyObject *o : {cls, tuple, to, from}) Py_INCREF(o);
  tupleClass = reinterpret_cast<PyTypeObject *>(tuple);
  tensorClass = reinterpret_cast<PyTypeObject *>(cls);
  toValue = to, fromValue = from;
  Py_RETURN_NONE;
}

} // namespace

PyTypeObject EagerType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Eager";
  t.tp_basicsize = sizeof(EagerObject);
  t.tp_new = create;
  t.tp_dealloc = dealloc;
  t.tp_methods = methods;
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_doc = "Eager(options: dict): a launch whose operations are evaluated one at a time.";
  return t;
}();

PyMethodDef eagerMethods[] = {{"set_eager", setEager, METH_VARARGS, nullptr},
                              {"tensor_info", tensorInfo, METH_O, nullptr},
                              {"tensor_item", tensorItem, METH_O, nullptr},
                              {"tensor_list", tensorList, METH_O, nullptr},
                              {"eager_scalar", scalar, METH_VARARGS, nullptr},
                              {"value_parts", valueParts, METH_O, nullptr},
                              {"value_kind", valueKind, METH_O, nullptr},
                              {"value_same", valueSame, METH_VARARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
