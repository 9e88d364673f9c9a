// From Python objects to TegulaArg, fastest kinds first: int, numpy array, float, None, bool, tuple; the rest asks
// Python.
#include "Core.h"
#include <algorithm>
#include <cstring>

namespace tegula_python {
namespace {

PyObject *converter;   // f(object) -> Value, for compile-time objects
PyObject *toArgument;  // f(object, parameter name): what C++ does not know, see convertOther
PyObject *dtypeTable;  // dict: numpy dtype object -> dtype number, filled by Python on a miss
PyObject *dtypeMiss;   // f(dtype) -> dtype number or TypeError; extends the table
PyTypeObject *ndarray; // numpy.ndarray
PyTypeObject *descriptorClass;  // tegula.tools.tensor_descriptor.TensorDescriptor, once imported
PyObject *descriptorNames[6];   // its attributes, interned

// The head of numpy's array object, the same in all versions of its C API (numpy/ndarraytypes.h, PyArrayObject_fields).
struct ArrayFields {
  PyObject_HEAD
  char *data;
  int nd;
  Py_ssize_t *dimensions;
  Py_ssize_t *strides;
  PyObject *base;
  PyObject *descr;
  int flags;
};
enum { cContiguous = 1, fContiguous = 2, aligned = 0x100, writeable = 0x400 };

// The last few dtype objects seen, so that the common case is a pointer comparison.
struct DtypeEntry {
  PyObject *descr;
  TegulaDtype dtype;
};
DtypeEntry recent[8];
unsigned nextRecent;

int dtypeOf(PyObject *descr) {
  for (DtypeEntry &e : recent)
    if (e.descr == descr) return e.dtype;
  PyObject *number = PyDict_GetItemWithError(dtypeTable, descr);
  if (number) Py_INCREF(number);
  else if (PyErr_Occurred()) return -1;
  else number = PyObject_CallOneArg(dtypeMiss, descr);
  if (!number) return -1;
  long v = PyLong_AsLong(number);
  Py_DECREF(number);
  if (v < 0) return -1;
  Py_INCREF(descr); // kept for the process: there are few dtypes
  recent[nextRecent++ % 8] = {descr, static_cast<TegulaDtype>(v)};
  return static_cast<int>(v);
}

bool fail(const char *paramName, const char *what) {
  PyErr_Format(PyExc_TypeError, "argument `%s`: %s", paramName, what);
  return false;
}

// Where an array's elements begin, in bytes from the data pointer.
struct Reach {
  int64_t lowest = 0, highest = 0;
  bool empty = false;
  // Bytes up to the end of the last element; -1 if elements lie before the pointer.
  int64_t extent(int64_t itemBytes) const { return empty ? 0 : lowest < 0 ? -1 : highest + itemBytes; }
};

Reach reach(const ArrayFields *a) {
  Reach r;
  for (int i = 0; i < a->nd; ++i) {
    if (a->dimensions[i] == 0) r.empty = true;
    (a->strides[i] < 0 ? r.lowest : r.highest) += (a->dimensions[i] - 1) * a->strides[i];
  }
  return r;
}

// Kernels may go as far from a view as the memory behind it does.
bool isWide(const Reach &r, const ArrayFields *a, int64_t itemBytes) {
  int64_t bytes = r.highest - r.lowest;
  if (a->base && PyObject_TypeCheck(a->base, ndarray)) {
    Reach whole = reach(reinterpret_cast<ArrayFields *>(a->base));
    bytes = std::max(bytes, whole.highest - whole.lowest);
  }
  return bytes >= itemBytes * wideElements;
}

} // namespace

ArgPack::~ArgPack() {
  for (PyObject *o : owned_) Py_DECREF(o);
}

bool ArgPack::convertArray(PyObject *object, TegulaArg &out, const char *paramName) {
  auto *a = reinterpret_cast<ArrayFields *>(object);
  int dtype = dtypeOf(a->descr);
  if (dtype < 0) {
    // Another error, or Ctrl-C, is not about the dtype.
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "argument `%s`: arrays of dtype %S cannot be passed to a kernel", paramName,
                 a->descr);
    return false;
  }
  uint32_t bytes = tegula_dtype_bytes(static_cast<TegulaDtype>(dtype));
  host = true;
  if (!(a->flags & aligned)) return fail(paramName, "the array's elements are not aligned in memory");
  const Reach r = reach(a);
  out = tegula_ptr(a->data, static_cast<TegulaDtype>(dtype), r.extent(bytes));
  if ((r.lowest < 0 || a->base) && isWide(r, a, bytes)) out.flags = TEGULA_ARG_WIDE;
  if (!(a->flags & writeable)) out.flags |= TEGULA_ARG_READ_ONLY;
  if (a->flags & (cContiguous | fContiguous)) {
    out.flags |= TEGULA_ARG_DENSE;
  } else {
    out.flags |= TEGULA_ARG_READ_ONLY;
    nonContiguous = paramName;
  }
  return true;
}

PyObject *plainDtype(PyObject *object) {
  return Py_TYPE(object) == ndarray ? reinterpret_cast<ArrayFields *>(object)->descr : nullptr;
}

// 1: the type has fields with names, as namedtuples do and torch.Size does not. -1 with an exception set.
static int isNamed(PyTypeObject *type) {
  if (type == &PyTuple_Type) return 0;
  PyObject *fields = PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "_fields");
  if (!fields && !PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
  PyErr_Clear();
  int named = fields && PyTuple_Check(fields);
  Py_XDECREF(fields);
  return named;
}

bool ArgPack::convertTuple(PyObject *object, TegulaArg &out, const char *paramName) {
  constexpr unsigned deepest = 32; // as in the library
  if (depth_ == deepest) {
    PyErr_Format(PyExc_ValueError, "argument `%s`: tuples are nested more than %u deep", paramName, deepest);
    return false;
  }
  Py_ssize_t n = PyTuple_GET_SIZE(object);
  std::vector<TegulaArg> items(n);
  ++depth_;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!convert(PyTuple_GET_ITEM(object, i), false, items[i], paramName)) return false;
  --depth_;
  tuples_.push_back(std::move(items));
  out = {TEGULA_ARG_TUPLE, TEGULA_VOID, 0, static_cast<uint32_t>(n), {nullptr}, {0}};
  out.u.items = tuples_.back().data();
  int named = isNamed(Py_TYPE(object));
  if (named < 0) return false;
  if (named) { // its class is a compile-time object
    PyObject *cls = PyObject_CallOneArg(converter, reinterpret_cast<PyObject *>(Py_TYPE(object)));
    if (!cls) return false;
    owned_.push_back(cls);
    out.u2.cls = reinterpret_cast<ValueObject *>(cls)->value;
  }
  return true;
}

// Objects that C++ does not know: Python gives (address, dtype number, bytes, 1 if it is read only + 2 if dense,
// ordinal of its GPU or -1, stream or 0) for tensors (-1 bytes: unknown; -1 - n: some of them lie before the address,
// on the whole n), a plain number for scalars of other libraries, a tuple with a class for aggregates, a Value for
// compile-time objects, or raises.
bool ArgPack::convertOther(PyObject *object, TegulaArg &out, const char *paramName) {
  PyObject *known = PyObject_CallFunction(toArgument, "Os", object, paramName);
  if (!known) return false;
  owned_.push_back(known);
  if (Py_TYPE(known) == &ValueType) {
    out = tegula_constant(reinterpret_cast<ValueObject *>(known)->value);
    return true;
  }
  if (!PyTuple_CheckExact(known)) return convert(known, false, out, paramName);
  unsigned long long address, onStream;
  int dtype, facts, ordinal;
  long long bytes;
  if (!PyArg_ParseTuple(known, "KiLiiK", &address, &dtype, &bytes, &facts, &ordinal, &onStream)) return false;
  if (ordinal < 0) host = true;
  else onGpu(ordinal, paramName);
  if (onStream) stream = reinterpret_cast<void *>(onStream);
  // no system maps memory below: a stand-in, which says only how it is aligned
  constexpr unsigned long long firstByte = 1 << 16;
  if (address < firstByte && bytes != 0) withoutMemory = paramName;
  out = tegula_ptr(reinterpret_cast<void *>(address), static_cast<TegulaDtype>(dtype), std::max(bytes, -1ll));
  if (bytes < -1 &&
      (bytes + 1) / -wideElements >= static_cast<long long>(tegula_dtype_bytes(static_cast<TegulaDtype>(dtype))))
    out.flags = TEGULA_ARG_WIDE;
  if (facts & 1) out.flags |= TEGULA_ARG_READ_ONLY;
  if (facts & 2) out.flags |= TEGULA_ARG_DENSE;
  return true;
}

// The fields are read anew at each launch: they may have been edited.
bool ArgPack::convertDescriptor(PyObject *object, TegulaArg &out, const char *paramName) {
  constexpr Py_ssize_t maxRank = 5;
  int64_t numbers[3][maxRank];
  Py_ssize_t rank = -1;
  for (int i = 0; i < 3; ++i) {
    PyObject *list = PyObject_GetAttr(object, descriptorNames[1 + i]);
    PyObject *fast = list ? PySequence_Fast(list, "shape, strides and block_shape are lists of ints") : nullptr;
    Py_XDECREF(list);
    if (!fast) return false;
    owned_.push_back(fast);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    if (n > maxRank || n == 0 || (i && n != rank)) {
      PyErr_Format(
          PyExc_ValueError,
          "argument `%s`: a tensor descriptor has 1 to 5 dimensions, as many in shape, strides and block_shape",
          paramName);
      return false;
    }
    rank = n;
    for (Py_ssize_t d = 0; d < n; ++d) {
      numbers[i][d] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, d));
      if (numbers[i][d] != -1 || !PyErr_Occurred()) continue;
      if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
      PyErr_Format(PyExc_TypeError, "argument `%s`: %U[%zd] of the tensor descriptor is no int of 64 bits", paramName,
                   descriptorNames[1 + i], d);
      return false;
    }
  }
  PyObject *base = PyObject_GetAttr(object, descriptorNames[0]);
  if (!base) return false;
  owned_.push_back(base);
  TegulaArg pointer;
  if (!convert(base, false, pointer, paramName)) return false;
  nonContiguous = nullptr; // strides are what descriptors are for
  pointer.flags &= TEGULA_ARG_WIDE;
  if (Py_TYPE(base) == ndarray && !(reinterpret_cast<ArrayFields *>(base)->flags & writeable))
    pointer.flags |= TEGULA_ARG_READ_ONLY;
  PyObject *padding = PyObject_GetAttr(object, descriptorNames[4]);
  if (!padding) return false;
  bool nan = PyUnicode_Check(padding) && PyUnicode_CompareWithASCIIString(padding, "nan") == 0;
  Py_DECREF(padding);
  PyObject *round = PyObject_GetAttr(object, descriptorNames[5]);
  int isRounded = round ? PyObject_IsTrue(round) : -1;
  Py_XDECREF(round);
  if (isRounded < 0) return false;
  descriptors_.push_back(std::make_unique<TegulaTensorDescriptor>());
  TegulaStatus s = tegula_tensor_descriptor(
      descriptors_.back().get(), pointer, static_cast<size_t>(rank), numbers[0], numbers[1], numbers[2],
      (nan ? TEGULA_PADDING_NAN : TEGULA_PADDING_ZERO) | (isRounded ? TEGULA_ROUND_TF32 : 0), &out);
  if (s == TEGULA_OK) return true;
  PyErr_Format(PyExc_ValueError, "argument `%s`: %s", paramName, tegula_last_error());
  return false;
}

namespace {
/// A tuple of numbers, strings, None and such tuples as a value, as the converter would have it; null without an error
/// if something else is in it, or if it is so deep or large that the converter has something to say.
TegulaValue *plainTuple(PyObject *tuple, unsigned depth, size_t &budget) {
  constexpr unsigned deepest = 32; // as for the converter
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  if (depth == deepest || budget < static_cast<size_t>(n)) return nullptr;
  budget -= static_cast<size_t>(n);
  std::vector<TegulaValue *> items;
  bool isPlain = true;
  for (Py_ssize_t i = 0; isPlain && i < n; ++i) {
    PyObject *item = PyTuple_GET_ITEM(tuple, i);
    PyTypeObject *type = Py_TYPE(item);
    TegulaValue *value = nullptr;
    if (type == &PyLong_Type) {
      int overflow = 0;
      long long v = PyLong_AsLongLongAndOverflow(item, &overflow);
      value = overflow ? nullptr : tegula_value_int(v);
    } else if (type == &PyBool_Type) {
      value = tegula_value_bool(item == Py_True);
    } else if (type == &PyFloat_Type) {
      value = tegula_value_float(PyFloat_AS_DOUBLE(item));
    } else if (item == Py_None) {
      value = tegula_value_none();
    } else if (type == &PyUnicode_Type) {
      Py_ssize_t length;
      const char *text = PyUnicode_AsUTF8AndSize(item, &length);
      PyErr_Clear(); // of lone surrogates
      value = text ? tegula_value_str(text, static_cast<size_t>(length)) : nullptr;
    } else if (type == &PyTuple_Type) {
      value = plainTuple(item, depth + 1, budget);
    }
    if (value) items.push_back(value);
    isPlain = value;
  }
  TegulaValue *result = isPlain ? tegula_value_tuple(items.data(), items.size()) : nullptr;
  for (TegulaValue *v : items) tegula_value_release(v);
  return result;
}
} // namespace

bool ArgPack::convertConstant(PyObject *object, TegulaArg &out) {
  size_t budget = 1 << 10;
  TegulaValue *plain = PyTuple_CheckExact(object) ? plainTuple(object, 0, budget) : nullptr;
  PyObject *value = plain ? wrapValue(plain) : PyObject_CallOneArg(converter, object);
  if (!value) return false;
  owned_.push_back(value);
  out = tegula_constant(reinterpret_cast<ValueObject *>(value)->value);
  return true;
}

bool ArgPack::convert(PyObject *object, bool constexprParam, TegulaArg &out, const char *paramName) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == &PyLong_Type) {
#if PY_VERSION_HEX >= 0x030C0000
    if (PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject *>(object))) {
      out = tegula_int(PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject *>(object)));
      return true;
    }
#endif
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) {
      out = tegula_int(v);
      return true;
    }
    if (constexprParam) return convertConstant(object, out); // wider than any runtime int
    unsigned long long u = PyLong_AsUnsignedLongLong(object);
    if (u == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
      PyErr_Format(PyExc_OverflowError, "argument `%s`: integer does not fit 64 bits", paramName);
      return false;
    }
    out = {TEGULA_ARG_UINT, TEGULA_VOID, 0, 0, {nullptr}, {0}};
    out.u.u = u;
    return true;
  }
  if (type == ndarray) return convertArray(object, out, paramName);
  if (type == &PyFloat_Type) {
    out = tegula_float(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (object == Py_None) {
    out = {TEGULA_ARG_NONE, TEGULA_VOID, 0, 0, {nullptr}, {0}};
    return true;
  }
  if (type == &PyBool_Type) {
    out = tegula_bool(object == Py_True);
    return true;
  }
  if (constexprParam) return convertConstant(object, out);
  if (knownTensor(type) && convertTensor(object, out, paramName)) return true;
  if (PyTuple_Check(object)) return convertTuple(object, out, paramName);
  if (descriptorClass && PyObject_TypeCheck(object, descriptorClass)) return convertDescriptor(object, out, paramName);
  if (ndarray && PyObject_TypeCheck(object, ndarray)) return convertArray(object, out, paramName);
  if (PyFloat_Check(object)) { // numpy.float64 is a float
    out = tegula_float(PyFloat_AsDouble(object));
    return true;
  }
  return convertTensor(object, out, paramName) || convertOther(object, out, paramName);
}

PyObject *setDescriptorClass(PyObject *, PyObject *cls) {
  if (!PyType_Check(cls)) return PyErr_SetString(PyExc_TypeError, "a class is needed"), nullptr;
  static const char *const names[] = {"base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"};
  for (int i = 0; i < 6; ++i)
    if (!descriptorNames[i] && !(descriptorNames[i] = PyUnicode_InternFromString(names[i]))) return nullptr;
  Py_INCREF(cls);
  descriptorClass = reinterpret_cast<PyTypeObject *>(cls);
  Py_RETURN_NONE;
}

PyObject *setConverters(PyObject *, PyObject *args) {
  PyObject *array;
  if (!PyArg_ParseTuple(args, "OOO!OO", &converter, &toArgument, &PyDict_Type, &dtypeTable, &dtypeMiss, &array))
    return nullptr;
  for (PyObject *o : {converter, toArgument, dtypeTable, dtypeMiss, array}) Py_INCREF(o);
  ndarray = array == Py_None ? nullptr : reinterpret_cast<PyTypeObject *>(array);
  Py_RETURN_NONE;
}

} // namespace tegula_python
