// The module object: joins the method tables, owns the process-wide context.
#include "Core.h"
#include <cstdio>
#include <cstring>

namespace tegula_python {
namespace {

PyObject *outputHook; // f(stream number, text) set by Python, so that sys.stdout is honoured

void output(void *, int32_t stream, const char *text, size_t length) {
  WithGil gil;
  if (!gil) {
    std::fwrite(text, 1, length, stdout);
    return;
  }
  PyObject *r = PyObject_CallFunction(outputHook, "iN", stream, PyUnicode_DecodeUTF8(text, length, "replace"));
  if (!r && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) dropError();
  else if (!r) PyErr_WriteUnraisable(outputHook);
  Py_XDECREF(r);
}

// Ctrl-C: Python's handlers run here, on the launching thread; an exception they raise cancels the launch.
int32_t interrupted(void *) {
  WithGil gil;
  return !gil || pollSignals();
}

PyObject *setOutput(PyObject *, PyObject *hook) {
  Py_INCREF(hook);
  Py_XSETREF(outputHook, hook);
  Py_RETURN_NONE;
}

PyObject *dtypeNumber(PyObject *, PyObject *text) {
  const char *s = textOf(text);
  TegulaDtype d;
  if (!s) return nullptr;
  TegulaStatus status = tegula_dtype_parse(s, &d, nullptr);
  return status == TEGULA_OK ? PyLong_FromLong(d) : raiseStatus(status);
}

PyMethodDef moduleMethods[] = {{"set_exceptions", setExceptions, METH_VARARGS, nullptr},
                               {"set_converters", setConverters, METH_VARARGS, nullptr},
                               {"set_memory_finder", setMemoryFinder, METH_O, nullptr},
                               {"tensor_types", tensorTypes, METH_NOARGS, nullptr},
                               {"set_descriptor_class", setDescriptorClass, METH_O, nullptr},
                               {"set_output", setOutput, METH_O, nullptr},
                               {"set_constexpr_class", setConstexprClass, METH_O, nullptr},
                               {"bindings_changed", bindingsChanged, METH_NOARGS, nullptr},
                               {"begin_exit", beginExit, METH_NOARGS, nullptr},
                               {"dtype_number", dtypeNumber, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tegula._core",
                          "CPython objects over libtegula.",
                          -1,
                          moduleMethods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};
} // namespace

const char *textOf(PyObject *string) {
  Py_ssize_t length;
  const char *s = PyUnicode_AsUTF8AndSize(string, &length);
  if (s && std::strlen(s) != static_cast<size_t>(length))
    return PyErr_Format(PyExc_ValueError, "%R holds a NUL character", string), nullptr;
  return s;
}

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
    PyErr_Format(PyExc_ImportError, "libtegula.so has interface %d, this extension was built for %d",
                 tegula_abi_version(), TEGULA_ABI_VERSION);
    return nullptr;
  }
  PyObject *m = PyModule_Create(&definition);
  if (!m) return nullptr;
  for (PyTypeObject *t : {&ValueType, &FunctionType, &LauncherType, &BoundType, &KernelType, &EagerType, &LayerType}) {
    if (PyType_Ready(t) < 0) return nullptr;
    Py_INCREF(t);
    PyModule_AddObject(m, std::strrchr(t->tp_name, '.') + 1, reinterpret_cast<PyObject *>(t));
  }
  for (PyMethodDef *table : {valueMethods, kernelMethods, deviceMethods, functionMethods, boundMethods, layerMethods,
                             eagerMethods, layoutMethods, tuneMethods, bundleMethods})
    if (PyModule_AddFunctions(m, table) < 0) return nullptr;
  forgetThreadsAfterFork();
  PyModule_AddStringConstant(m, "version", tegula_version());
  return m;
}
