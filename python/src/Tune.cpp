// tune(): the tuner of the library, with Python callables for the configurations.
#include "Core.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace tegula_python {
namespace {

/// Keeps the pending exception, which ends what the callback belongs to and comes out of it.
TegulaStatus raised(PyObject *&error) {
  Py_XSETREF(error, takeException());
  return tegula_fail(TEGULA_CANCELLED, "a Python callable raised");
}

/// What the callbacks of one tuning need. They run on the thread of the tuning, which has given up the GIL.
struct Tuning {
  PyObject *prepare, *compile, *run, *measure, *sketch, *record; // borrowed
  int32_t device = -1;
  PyObject *codeOwner = nullptr;               // bytes that a TegulaTuneCode points into
  std::vector<PyObject *> names;               // that its buffers point into
  std::vector<TegulaTuneBuffer> buffers;
  PyObject *error = nullptr; // raised by a callback: ends the tuning

  ~Tuning() {
    forgetCode();
    Py_XDECREF(error);
  }
  void forgetCode() {
    Py_CLEAR(codeOwner);
    for (PyObject *n : names) Py_DECREF(n);
    names.clear();
    buffers.clear();
  }
  TegulaStatus raised() { return tegula_python::raised(error); }
  /// A callable that gives (status, text) says why this configuration takes no part; anything else is success.
  TegulaStatus outcome(PyObject *r) {
    if (!r) return raised();
    if (!PyTuple_Check(r) || PyTuple_GET_SIZE(r) != 2 || !PyLong_Check(PyTuple_GET_ITEM(r, 0))) return TEGULA_OK;
    const char *text = PyUnicode_Check(PyTuple_GET_ITEM(r, 1)) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(r, 1)) : nullptr;
    dropError();
    return tegula_fail(static_cast<TegulaStatus>(PyLong_AsLong(PyTuple_GET_ITEM(r, 0))), text ? text : "failed");
  }
};

/// The pending exception as an error of the library's, "ValueError: ...".
TegulaStatus failAsException() {
  PyObject *e = takeException();
  PyObject *text = e ? PyUnicode_FromFormat("%s: %S", Py_TYPE(e)->tp_name, e) : nullptr;
  const char *utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  dropError();
  TegulaStatus s = tegula_fail(TEGULA_UNSUPPORTED, utf8 ? utf8 : "a Python callable raised");
  Py_XDECREF(text);
  Py_XDECREF(e);
  return s;
}

TegulaStatus ended() { return tegula_fail(TEGULA_CANCELLED, "the interpreter has ended"); }

void prepareThem(void *user, const size_t *configs, size_t count) {
  auto &t = *static_cast<Tuning *>(user);
  WithGil gil;
  if (!gil) return;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; ++i) {
    PyObject *n = PyLong_FromSize_t(configs[i]);
    if (!n || PyList_Append(list, n) < 0) Py_CLEAR(list);
    Py_XDECREF(n);
  }
  PyObject *r = list ? PyObject_CallOneArg(t.prepare, list) : nullptr;
  if (!r) t.raised(); // the first compilation says so
  Py_XDECREF(r);
  Py_XDECREF(list);
}

/// sketch(indices) -> nanoseconds of each
void sketchThem(void *user, const size_t *configs, size_t count, double *ns) {
  auto &t = *static_cast<Tuning *>(user);
  WithGil gil;
  if (!gil || t.error) return;
  PyObject *list = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; list && i < count; ++i)
    PyTuple_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyLong_FromSize_t(configs[i]));
  PyObject *r = list ? PyObject_CallOneArg(t.sketch, list) : nullptr;
  for (size_t i = 0; r && PyList_Check(r) && i < count && static_cast<Py_ssize_t>(i) < PyList_GET_SIZE(r); ++i)
    ns[i] = PyFloat_AsDouble(PyList_GET_ITEM(r, static_cast<Py_ssize_t>(i)));
  if (!r || PyErr_Occurred()) t.raised(); // the first compilation says so
  Py_XDECREF(r);
  Py_XDECREF(list);
}

/// (name, address, bytes, number of the dtype, is read, is written, is reset by the caller)
bool readBuffer(Tuning &t, PyObject *item) {
  const char *name;
  unsigned long long address;
  long long bytes;
  int dtype, read, written, reset;
  if (!PyArg_ParseTuple(item, "sKLippp", &name, &address, &bytes, &dtype, &read, &written, &reset)) return false;
  t.names.push_back(Py_NewRef(PyTuple_GET_ITEM(item, 0)));
  t.buffers.push_back({name,
                       reinterpret_cast<void *>(static_cast<uintptr_t>(address)),
                       bytes,
                       static_cast<TegulaDtype>(dtype),
                       static_cast<uint8_t>(read),
                       static_cast<uint8_t>(written),
                       static_cast<uint8_t>(reset),
                       {}});
  return true;
}

TegulaStatus compileOne(void *user, size_t config, TegulaTuneCode *out) {
  auto &t = *static_cast<Tuning *>(user);
  WithGil gil;
  if (!gil) return ended();
  if (t.error) return tegula_fail(TEGULA_CANCELLED, "a Python callable raised");
  t.forgetCode();
  PyObject *r = PyObject_CallFunction(t.compile, "n", static_cast<Py_ssize_t>(config));
  TegulaStatus s = t.outcome(r);
  PyObject *buffers, *code;
  double estimate;
  if (s == TEGULA_OK && PyArg_ParseTuple(r, "O!Od", &PyTuple_Type, &buffers, &code, &estimate)) {
    for (Py_ssize_t i = 0; s == TEGULA_OK && i < PyTuple_GET_SIZE(buffers); ++i)
      if (!readBuffer(t, PyTuple_GET_ITEM(buffers, i))) s = t.raised();
    out->buffers = t.buffers.data();
    out->buffer_count = t.buffers.size();
    out->estimate_ns = estimate;
    if (PyBytes_Check(code)) {
      t.codeOwner = Py_NewRef(code);
      out->code = PyBytes_AS_STRING(code);
      out->code_length = static_cast<size_t>(PyBytes_GET_SIZE(code));
    }
  } else if (s == TEGULA_OK) {
    s = t.raised();
  }
  Py_XDECREF(r);
  return s;
}

TegulaStatus runOne(void *user, size_t config) {
  auto &t = *static_cast<Tuning *>(user);
  WithGil gil;
  if (!gil) return ended();
  PyObject *r = PyObject_CallFunction(t.run, "n", static_cast<Py_ssize_t>(config));
  TegulaStatus s = t.outcome(r);
  Py_XDECREF(r);
  return s;
}

/// Launches by call(), recorded on the stream: what it raises says that they cannot be; but Ctrl-C, kept in `error`,
/// ends it all.
template <typename F> TegulaStatus record(int32_t device, void *stream, PyObject *&error, F &&call) {
  WithGil gil;
  if (!gil) return ended();
  OnStream redirected(device, stream);
  PyObject *done = call();
  TegulaStatus s = done ? TEGULA_OK : PyErr_ExceptionMatches(PyExc_Exception) ? failAsException() : raised(error);
  Py_XDECREF(done);
  return s;
}

TegulaStatus recordOne(void *user, size_t config, void *stream) {
  auto &t = *static_cast<Tuning *>(user);
  return record(t.device, stream, t.error,
                [&] { return PyObject_CallFunction(t.record, "n", static_cast<Py_ssize_t>(config)); });
}

PyObject *restoreMemory(PyObject *capsule, PyObject *) {
  auto *tuning = static_cast<TegulaTuning *>(PyCapsule_GetPointer(capsule, "tegula.tuning"));
  if (!tuning) return nullptr;
  // A benchmark may have made another stream current, to capture what is called there.
  int32_t device = static_cast<Tuning *>(PyCapsule_GetContext(capsule))->device;
  void *stream = nullptr;
  if (isGpu(device) && !streamNow(device, stream)) return nullptr;
  TegulaStatus s;
  {
    WithoutGil others;
    s = isGpu(device) ? tegula_tuning_restore_on(tuning, stream) : tegula_tuning_restore(tuning);
  }
  if (s != TEGULA_OK) return raiseStatus(s);
  Py_RETURN_NONE;
}
PyMethodDef restoreMethod = {"restore", restoreMemory, METH_NOARGS, nullptr};

TegulaStatus measureOne(void *user, size_t config, TegulaTuning *tuning, double ns[3]) {
  auto &t = *static_cast<Tuning *>(user);
  WithGil gil;
  if (!gil) return ended();
  PyObject *capsule = PyCapsule_New(tuning, "tegula.tuning", nullptr);
  if (capsule && PyCapsule_SetContext(capsule, &t) != 0) Py_CLEAR(capsule);
  PyObject *restore = capsule ? PyCFunction_New(&restoreMethod, capsule) : nullptr;
  PyObject *r = restore ? PyObject_CallFunction(t.measure, "nO", static_cast<Py_ssize_t>(config), restore) : nullptr;
  TegulaStatus s = t.outcome(r);
  if (s == TEGULA_OK && !PyArg_ParseTuple(r, "ddd", &ns[0], &ns[1], &ns[2])) s = t.raised();
  Py_XDECREF(r);
  Py_XDECREF(restore);
  Py_XDECREF(capsule);
  return s;
}

/// A tuple of tuples of numbers, all of one length.
bool readPoints(PyObject *points, size_t count, std::vector<uint32_t> &out, size_t &axes) {
  bool ok = PyTuple_Check(points) && static_cast<size_t>(PyTuple_GET_SIZE(points)) == count && count;
  for (size_t i = 0; ok && i < count; ++i) {
    PyObject *p = PyTuple_GET_ITEM(points, static_cast<Py_ssize_t>(i));
    ok = PyTuple_Check(p) && (i == 0 || static_cast<size_t>(PyTuple_GET_SIZE(p)) == axes);
    if (ok) axes = static_cast<size_t>(PyTuple_GET_SIZE(p));
    for (size_t a = 0; ok && a < axes; ++a) {
      out.push_back(static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(p, static_cast<Py_ssize_t>(a)))));
      ok = !PyErr_Occurred();
    }
  }
  if (!ok && !PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "points are a tuple of numbers for each configuration");
  return ok;
}

// tune(configs, name, function or None, arguments text, sample arguments, prepare, compile, run, measure or None,
// (deterministic, validate, progress, top_k, budget in ms, bytes for copies or 0, search: 1, 0 or -1, in CUDA graphs),
// points of a space (a tuple of numbers for each configuration) or None, sketch, record) -> (report as JSON or None,
// text of the error or None)
PyObject *tuneThem(PyObject *, PyObject *args) {
  PyObject *configs, *function, *samples, *measure, *points;
  const char *name, *arguments;
  int deterministic, validate, progress, search, inGraphs;
  unsigned topK;
  double budget;
  unsigned long long copyBytes;
  Tuning t{};
  if (!PyArg_ParseTuple(args, "O!sOsO!OOOO(ppiIdKip)OOO", &PyTuple_Type, &configs, &name, &function, &arguments,
                        &PyTuple_Type, &samples, &t.prepare, &t.compile, &t.run, &measure, &deterministic, &validate,
                        &progress, &topK, &budget, &copyBytes, &search, &inGraphs, &points, &t.sketch, &t.record))
    return nullptr;
  t.measure = measure;
  TegulaContext *c = context();
  TegulaTuneRequest r{};
  r.size = sizeof r;
  std::vector<const char *> texts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(configs); ++i) {
    texts.push_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(configs, i)));
    if (!texts.back()) return nullptr;
  }
  // Where the arguments are says where the kernel runs, as in a launch; what is no argument of a kernel says nothing.
  ArgPack pack;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); ++i)
    if (TegulaArg a; !pack.convert(PyTuple_GET_ITEM(samples, i), false, a, "?")) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
      PyErr_Clear();
    }
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  if (!c || !chooseDevice(pack, options)) return nullptr;
  if (options.device < 0) options.device = tegula_device_default(c);
  TegulaTunerOptions how = TEGULA_TUNER_OPTIONS_INIT;
  how.deterministic = static_cast<int8_t>(deterministic);
  how.validate = static_cast<int8_t>(validate);
  how.progress = static_cast<int8_t>(progress);
  how.top_k = topK;
  how.budget_ms = budget;
  how.copy_bytes = copyBytes;
  how.search = static_cast<int8_t>(search);
  how.cuda_graph = static_cast<uint8_t>(inGraphs);
  std::vector<uint32_t> coordinates;
  if (points != Py_None) {
    if (!readPoints(points, texts.size(), coordinates, r.axis_count)) return nullptr;
    r.coordinates = coordinates.data();
  }
  r.sketch = sketchThem;
  r.configs = texts.data();
  r.count = texts.size();
  r.function = function == Py_None ? nullptr : functionHandle(function);
  if (function != Py_None && !r.function) return nullptr;
  r.name = name;
  r.arguments = arguments;
  r.device = t.device = options.device;
  r.stream = options.stream;
  r.options = &how;
  r.user = &t;
  r.prepare = prepareThem;
  r.compile = compileOne;
  r.run = runOne;
  r.run_on = recordOne;
  r.measure = measure == Py_None ? nullptr : measureOne;
  char *report = nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_tune(c, &r, &report);
  }
  if (t.error) {
    tegula_free(report);
    return raiseAgain(std::exchange(t.error, nullptr));
  }
  if (PyErr_Occurred() || (status != TEGULA_OK && !report)) {
    tegula_free(report);
    return raiseStatus(status);
  }
  PyObject *result = Py_BuildValue("zz", report, status == TEGULA_OK ? nullptr : tegula_last_error());
  tegula_free(report);
  return result;
}

struct Recorded {
  PyObject *call;
  int32_t device;
  PyObject *error = nullptr; // that ends it: Ctrl-C
};

TegulaStatus recordCall(void *user, void *stream) {
  auto &r = *static_cast<Recorded *>(user);
  return record(r.device, stream, r.error, [&] { return PyObject_CallNoArgs(r.call); });
}

// graph_times(f, milliseconds, rows) -> nanoseconds of f() in each of the rows, in CUDA graphs, as tegula_graph_times;
// None: f() launches on no GPU; a text: why it cannot be recorded
PyObject *graphTimes(PyObject *, PyObject *args) {
  Recorded r{};
  double ms;
  Py_ssize_t rows;
  if (!PyArg_ParseTuple(args, "Odn", &r.call, &ms, &rows)) return nullptr;
  if (rows < 1 || rows > 20) return PyErr_SetString(PyExc_ValueError, "1 to 20 rows"), nullptr;
  lastGpu = -1;
  PyObject *once = PyObject_CallNoArgs(r.call);
  if (!once) return nullptr;
  Py_DECREF(once);
  if (lastGpu < 0) Py_RETURN_NONE;
  r.device = lastGpu;
  double ns[20];
  TegulaStatus s;
  {
    WithoutGil others;
    s = tegula_graph_times(context(), r.device, recordCall, &r, ms, ns, static_cast<size_t>(rows));
  }
  if (r.error) return raiseAgain(r.error);
  if (PyErr_Occurred()) return nullptr;
  if (s == TEGULA_FAULT || s == TEGULA_CANCELLED) return raiseStatus(s);
  if (s != TEGULA_OK) return PyUnicode_FromString(tegula_last_error());
  PyObject *list = PyList_New(rows);
  for (Py_ssize_t i = 0; list && i < rows; ++i) PyList_SET_ITEM(list, i, PyFloat_FromDouble(ns[i]));
  return list;
}

} // namespace

PyMethodDef tuneMethods[] = {{"tune", tuneThem, METH_VARARGS, nullptr},
                             {"graph_times", graphTimes, METH_VARARGS, nullptr},
                             {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
