// From TegulaStatus to exceptions. The classes live in Python (tegula/errors.py) and are handed over once.
#include "Core.h"

namespace tegula_python {
namespace {
PyObject *compilationError, *deviceError, *outOfResources, *ptxasError;

// The diagnostics of the failed call as a list of dicts, notes included.
PyObject *diagnosticDict(const TegulaDiagnostic &d, PyObject *notes) {
  static const char *names[] = {"remark", "warning", "error", "note"};
  return Py_BuildValue("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:s,s:N}", "severity", names[d.severity & 3], "kind", d.kind,
                       "message", d.message, "file", d.file, "line", d.line, "column", d.column, "end_line", d.end_line,
                       "end_column", d.end_column, "rendered", d.rendered, "notes", notes);
}

PyObject *diagnostics() {
  PyObject *list = PyList_New(0);
  for (size_t i = 0, n = tegula_diagnostic_count(); list && i < n; ++i) {
    TegulaDiagnostic d, note;
    if (tegula_diagnostic_get(i, &d) != TEGULA_OK) continue;
    PyObject *notes = PyList_New(0);
    for (int32_t k = 0; notes && k < d.note_count; ++k) {
      if (tegula_diagnostic_note(i, k, &note) != TEGULA_OK) continue;
      PyObject *item = diagnosticDict(note, PyList_New(0));
      if (item) PyList_Append(notes, item);
      Py_XDECREF(item);
    }
    PyObject *item = diagnosticDict(d, notes);
    if (item) PyList_Append(list, item);
    Py_XDECREF(item);
  }
  return list;
}

void raiseWith(PyObject *cls, PyObject *args) {
  PyObject *e = args ? PyObject_CallObject(cls, args) : nullptr;
  if (e) PyErr_SetObject(cls, e);
  Py_XDECREF(e);
  Py_XDECREF(args);
}
} // namespace

bool warnOfCompilation() {
  struct Warning {
    std::string message, file;
    int line;
  };
  std::vector<Warning> warnings; // copies: a filter of the program's may compile
  for (size_t i = 0, n = tegula_diagnostic_count(); i < n; ++i) {
    TegulaDiagnostic d;
    if (tegula_diagnostic_get(i, &d) != TEGULA_OK) continue;
    if (d.severity == TEGULA_SEVERITY_ERROR) return true; // they are of an earlier call
    if (d.severity == TEGULA_WARNING) warnings.push_back({d.message, d.file, static_cast<int>(d.line)});
  }
  if (warnings.empty()) return true;
  tegula_clear_error();
  // of each file: what was said, so that Python says it once unless the program wants more
  static PyObject *registries = PyDict_New();
  for (const Warning &w : warnings) {
    PyObject *registry = registries ? PyDict_GetItemString(registries, w.file.c_str()) : nullptr;
    if (registry) Py_INCREF(registry);
    else if (!(registry = PyDict_New()) || PyDict_SetItemString(registries, w.file.c_str(), registry) < 0)
      return Py_XDECREF(registry), false;
    int status = PyErr_WarnExplicit(PyExc_UserWarning, w.message.c_str(), w.file.c_str(), w.line, nullptr, registry);
    Py_DECREF(registry);
    if (status < 0) return false;
  }
  return true;
}

PyObject *takeException() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

PyObject *raiseAgain(PyObject *exception) {
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(exception))), exception,
                PyException_GetTraceback(exception));
  return nullptr;
}

void dropError() {
  // Whatever is being called swallows Python's errors; the user's wish to stop is none.
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
  PyErr_Clear();
}

PyObject *setExceptions(PyObject *, PyObject *args) {
  if (!PyArg_ParseTuple(args, "OOOO", &compilationError, &deviceError, &outOfResources, &ptxasError)) return nullptr;
  for (PyObject *cls : {compilationError, deviceError, outOfResources, ptxasError}) Py_INCREF(cls);
  Py_RETURN_NONE;
}

PyObject *raiseStatus(TegulaStatus status) {
  if (PyErr_Occurred()) return nullptr; // a signal handler raised while the launch was under way
  const char *text = tegula_last_error();
  switch (status) {
  case TEGULA_COMPILE_ERROR:
    raiseWith(compilationError, Py_BuildValue("(sN)", text, diagnostics()));
    break;
  case TEGULA_FAULT: {
    TegulaFault f = {};
    tegula_last_fault(&f);
    raiseWith(deviceError,
              Py_BuildValue("(s{s:s,s:s,s:I,s:I,s:s,s:L,s:L,s:(iii),s:s})", text, "kernel", f.kernel ? f.kernel : "",
                            "file", f.file ? f.file : "", "line", f.line, "column", f.column, "argument",
                            f.argument ? f.argument : "", "index", static_cast<long long>(f.index), "extent",
                            static_cast<long long>(f.extent), "program_id", f.program_id[0], f.program_id[1],
                            f.program_id[2], "message", f.message ? f.message : ""));
    break;
  }
  case TEGULA_OUT_OF_RESOURCES: {
    TegulaShortage what = {};
    bool known = tegula_last_shortage(&what) == TEGULA_OK;
    raiseWith(outOfResources, known ? Py_BuildValue("(KKss)", static_cast<unsigned long long>(what.required),
                                                    static_cast<unsigned long long>(what.limit), what.name, text)
                                    : Py_BuildValue("(OOss)", Py_None, Py_None, "memory", text));
    break;
  }
  case TEGULA_ASSEMBLER_ERROR:
    raiseWith(ptxasError, Py_BuildValue("(s)", text));
    break;
  case TEGULA_CANCELLED:
    PyErr_SetString(PyExc_KeyboardInterrupt, text);
    break;
  case TEGULA_INVALID_ARGUMENT:
    PyErr_SetString(PyExc_ValueError, text);
    break;
  case TEGULA_NOT_FOUND:
    PyErr_SetString(PyExc_LookupError, text);
    break;
  case TEGULA_IO_ERROR:
    PyErr_SetString(PyExc_OSError, text);
    break;
  case TEGULA_UNSUPPORTED:
    PyErr_SetString(PyExc_NotImplementedError, text);
    break;
  default:
    PyErr_Format(PyExc_RuntimeError, "%s: %s", tegula_status_name(status), text);
  }
  return nullptr;
}

} // namespace tegula_python
