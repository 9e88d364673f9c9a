// Bundles: loading them, no_jit, recording, and making them (tegula/_bundle.py is what users see).
#include "Core.h"

namespace tegula_python {

namespace {

constexpr const char *aotName = "tegula.aot";

/// NULL with an exception set.
TegulaAot *aotOf(PyObject *capsule) { return static_cast<TegulaAot *>(PyCapsule_GetPointer(capsule, aotName)); }

/// A key of `size` bytes, or None. False with an exception set.
bool keyOf(PyObject *object, Py_ssize_t size, const uint8_t *&key) {
  key = nullptr;
  if (object == Py_None) return true;
  char *bytes;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(object, &bytes, &length) != 0) return false;
  if (length != size)
    return PyErr_Format(PyExc_ValueError, "the key has %zd bytes, it must have %zd", length, size), false;
  key = reinterpret_cast<const uint8_t *>(bytes);
  return true;
}

/// The texts of a list. False with an exception set.
bool textsOf(PyObject *list, std::vector<const char *> &out) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char *s = textOf(PyList_GET_ITEM(list, i));
    if (!s) return false;
    out.push_back(s);
  }
  return true;
}

PyObject *done(TegulaStatus status) {
  if (status != TEGULA_OK) return raiseStatus(status);
  Py_RETURN_NONE;
}

/// Text that the library gave, as a str.
PyObject *takeText(char *text) {
  PyObject *s = PyUnicode_FromString(text);
  tegula_free(text);
  return s;
}

PyObject *loadBundle(PyObject *, PyObject *args) {
  const char *path;
  PyObject *given;
  const uint8_t *key;
  if (!PyArg_ParseTuple(args, "sO", &path, &given) || !keyOf(given, 32, key)) return nullptr;
  TegulaContext *c = context();
  return c ? done(tegula_context_load_bundle(c, path, key)) : nullptr;
}

PyObject *setNoJit(PyObject *, PyObject *args) {
  int mode;
  if (!PyArg_ParseTuple(args, "i", &mode)) return nullptr;
  TegulaContext *c = context();
  return c ? done(tegula_context_set_no_jit(c, mode)) : nullptr;
}

PyObject *noJit(PyObject *, PyObject *) {
  TegulaContext *c = context();
  return c ? PyLong_FromLong(tegula_context_no_jit(c)) : nullptr;
}

PyObject *record(PyObject *, PyObject *path) {
  const char *s = path == Py_None ? nullptr : textOf(path);
  TegulaContext *c = path == Py_None || s ? context() : nullptr;
  return c ? done(tegula_context_record(c, s)) : nullptr;
}

PyObject *compileCount(PyObject *, PyObject *) {
  TegulaContext *c = context();
  TegulaCacheStat s{};
  s.size = sizeof s;
  if (!c) return nullptr;
  TegulaStatus status = tegula_cache_stat(c, &s);
  return status == TEGULA_OK ? PyLong_FromUnsignedLongLong(s.compiles) : raiseStatus(status);
}

PyObject *aotNew(PyObject *, PyObject *) {
  TegulaContext *c = context();
  TegulaAot *a = nullptr;
  if (!c) return nullptr;
  if (TegulaStatus s = tegula_aot_create(c, &a); s != TEGULA_OK) return raiseStatus(s);
  return PyCapsule_New(a, aotName, [](PyObject *capsule) { tegula_aot_release(aotOf(capsule)); });
}

/// aot_add(aot, function handle, signature, {name: Value}, [target], {option: value}, grid, classes)
PyObject *aotAdd(PyObject *, PyObject *args) {
  PyObject *capsule, *function, *constants, *targets, *given;
  const char *signature, *grid;
  int classes;
  if (!PyArg_ParseTuple(args, "OOsO!O!O!si", &capsule, &function, &signature, &PyDict_Type, &constants, &PyList_Type,
                        &targets, &PyDict_Type, &given, &grid, &classes))
    return nullptr;
  TegulaAot *a = aotOf(capsule);
  auto *f = static_cast<TegulaFunction *>(PyCapsule_GetPointer(function, functionCapsule));
  std::vector<const char *> names;
  std::vector<TegulaNamedValue> named;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  options.device = TEGULA_DEVICE_INDEX_CPU;
  if (!a || !f || !textsOf(targets, names)) return nullptr;
  if (!namedValues(constants, named) || !setOptions(options, given)) return nullptr;
  return done(
      tegula_aot_add(a, f, signature, named.data(), named.size(), names.data(), names.size(), &options, grid, classes));
}

PyObject *aotManifest(PyObject *, PyObject *args) {
  PyObject *capsule, *targets;
  const char *path;
  int classes;
  if (!PyArg_ParseTuple(args, "OsO!i", &capsule, &path, &PyList_Type, &targets, &classes)) return nullptr;
  TegulaAot *a = aotOf(capsule);
  std::vector<const char *> names;
  if (!a || !textsOf(targets, names)) return nullptr;
  TegulaStatus s;
  {
    WithoutGil others;
    s = tegula_aot_add_manifest(a, path, names.data(), names.size(), classes);
  }
  return done(s);
}

/// aot_write(aot, path, secret key or None) -> number of entries
PyObject *aotWrite(PyObject *, PyObject *args) {
  PyObject *capsule, *given;
  const char *path;
  const uint8_t *key;
  if (!PyArg_ParseTuple(args, "OsO", &capsule, &path, &given) || !keyOf(given, 64, key)) return nullptr;
  TegulaAot *a = aotOf(capsule);
  if (!a) return nullptr;
  size_t entries = 0;
  TegulaStatus s;
  {
    WithoutGil others;
    s = tegula_aot_compile(a, &entries);
    if (s == TEGULA_OK) s = tegula_aot_write(a, path, key);
  }
  return s == TEGULA_OK ? PyLong_FromSize_t(entries) : raiseStatus(s);
}

PyObject *aotHeader(PyObject *, PyObject *args) {
  PyObject *capsule;
  const char *name;
  if (!PyArg_ParseTuple(args, "Os", &capsule, &name)) return nullptr;
  TegulaAot *a = aotOf(capsule);
  char *text = nullptr;
  if (!a) return nullptr;
  TegulaStatus s = tegula_aot_header(a, name, &text);
  return s == TEGULA_OK ? takeText(text) : raiseStatus(s);
}

/// aot_set_flags(aot, TEGULA_AOT_...)
PyObject *aotSetFlags(PyObject *, PyObject *args) {
  PyObject *capsule;
  unsigned flags;
  if (!PyArg_ParseTuple(args, "OI", &capsule, &flags)) return nullptr;
  TegulaAot *a = aotOf(capsule);
  return a ? done(tegula_aot_set_flags(a, flags)) : nullptr;
}

/// aot_left_out(aot) -> text
PyObject *aotLeftOut(PyObject *, PyObject *capsule) {
  TegulaAot *a = aotOf(capsule);
  char *text = nullptr;
  size_t count;
  if (!a) return nullptr;
  TegulaStatus s = tegula_aot_left_out(a, &text, &count);
  return s == TEGULA_OK ? takeText(text) : raiseStatus(s);
}

/// aot_gaps(aot, bundle, public key or None) -> text
PyObject *aotGaps(PyObject *, PyObject *args) {
  PyObject *capsule, *given;
  const char *path;
  const uint8_t *key;
  if (!PyArg_ParseTuple(args, "OsO", &capsule, &path, &given) || !keyOf(given, 32, key)) return nullptr;
  TegulaAot *a = aotOf(capsule);
  char *text = nullptr;
  size_t count;
  if (!a) return nullptr;
  TegulaStatus s = tegula_aot_gaps(a, path, key, &text, &count);
  return s == TEGULA_OK ? takeText(text) : raiseStatus(s);
}

} // namespace

const char *const functionCapsule = "tegula.function";

PyMethodDef bundleMethods[] = {{"load_bundle", loadBundle, METH_VARARGS, nullptr},
                               {"set_no_jit", setNoJit, METH_VARARGS, nullptr},
                               {"no_jit", noJit, METH_NOARGS, nullptr},
                               {"record", record, METH_O, nullptr},
                               {"compile_count", compileCount, METH_NOARGS, "Kernels that this process compiled."},
                               {"aot_new", aotNew, METH_NOARGS, nullptr},
                               {"aot_add", aotAdd, METH_VARARGS, nullptr},
                               {"aot_manifest", aotManifest, METH_VARARGS, nullptr},
                               {"aot_write", aotWrite, METH_VARARGS, nullptr},
                               {"aot_header", aotHeader, METH_VARARGS, nullptr},
                               {"aot_gaps", aotGaps, METH_VARARGS, nullptr},
                               {"aot_set_flags", aotSetFlags, METH_VARARGS, nullptr},
                               {"aot_left_out", aotLeftOut, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
