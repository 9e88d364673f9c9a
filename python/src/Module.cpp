// The module object: joins the method tables, owns the process-wide context.
#include "Core.h"
#include <cstring>

namespace tegula_python {
namespace {

PyObject *outputHook; // f(stream number, text) set by Python, so that sys.stdout is honoured

void output(void *, int32_t stream, const char *text, size_t length) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *r = PyObject_CallFunction(outputHook, "iN", stream, PyUnicode_DecodeUTF8(text, length, "replace"));
  if (!r) PyErr_WriteUnraisable(outputHook);
  Py_XDECREF(r);
  PyGILState_Release(gil);
}

// Ctrl-C: Python's handlers run here, on the launching thread; an exception they raise cancels the launch.
int32_t interrupted(void *) {
  PyGILState_STATE gil = PyGILState_Ensure();
  int r = PyErr_CheckSignals();
  PyGILState_Release(gil);
  return r != 0;
}

PyObject *setOutput(PyObject *, PyObject *hook) {
  Py_INCREF(hook);
  Py_XSETREF(outputHook, hook);
  Py_RETURN_NONE;
}

PyObject *dtypeNumber(PyObject *, PyObject *text) {
  const char *s = PyUnicode_AsUTF8(text);
  TegulaDtype d;
  if (!s) return nullptr;
  TegulaStatus status = tegula_dtype_parse(s, &d, nullptr);
  return status == TEGULA_OK ? PyLong_FromLong(d) : raiseStatus(status);
}

PyMethodDef moduleMethods[] = {{"set_exceptions", setExceptions, METH_VARARGS, nullptr},
                               {"set_converters", setConverters, METH_VARARGS, nullptr},
                               {"set_descriptor_class", setDescriptorClass, METH_O, nullptr},
                               {"set_output", setOutput, METH_O, nullptr},
                               {"dtype_number", dtypeNumber, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tegula._core", "CPython objects over libtegula.", -1, moduleMethods, nullptr, nullptr, nullptr,
                          nullptr};
} // namespace

TegulaContext *context() {
  static TegulaContext *ctx;
  if (!ctx) {
    TegulaStatus s = tegula_context_create(nullptr, &ctx);
    if (s != TEGULA_OK) {
      raiseStatus(s);
      return nullptr;
    }
    tegula_context_set_interrupt(ctx, interrupted, nullptr);
    if (outputHook) tegula_context_set_output(ctx, output, nullptr);
  }
  return ctx;
}

} // namespace tegula_python

PyMODINIT_FUNC PyInit__core() {
  using namespace tegula_python;
  if (tegula_abi_version() != TEGULA_ABI_VERSION) {
    PyErr_Format(PyExc_ImportError, "libtegula.so has interface %d, this extension was built for %d", tegula_abi_version(), TEGULA_ABI_VERSION);
    return nullptr;
  }
  PyObject *m = PyModule_Create(&definition);
  if (!m) return nullptr;
  for (PyTypeObject *t : {&ValueType, &FunctionType, &LauncherType, &KernelType}) {
    if (PyType_Ready(t) < 0) return nullptr;
    Py_INCREF(t);
    PyModule_AddObject(m, std::strrchr(t->tp_name, '.') + 1, reinterpret_cast<PyObject *>(t));
  }
  for (PyMethodDef *table : {valueMethods, kernelMethods, deviceMethods})
    if (PyModule_AddFunctions(m, table) < 0) return nullptr;
  PyModule_AddStringConstant(m, "version", tegula_version());
  return m;
}
