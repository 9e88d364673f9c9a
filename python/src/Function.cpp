// A jit function and the launch path: kernel[grid](*args, **kwargs) from the subscript to tegula_launch.
//
// The Python side (tegula/_function.py) makes the function from source text, binds captured variables before the first
// launch (`prepare`), and registers what must not change afterwards (`watch`). Everything per launch happens here.
#include "Function.h"
#include "Watch.h"
#include "structmember.h"
#include <cstddef>
#include <cstring>
#include <utility>

namespace tegula_python {

namespace {

// Hooks are Python's business (tegula/_launch.py); launches that have none do not come by here.
PyObject *interceptor; // f(function, grid, warmup, args, kwargs) in place of the launch
bool interceptAll;
bool debugDemanded; // of all launches, whatever their options say
PyObject *newKernel; // f(function, kernel, warmup, args, kwargs), once for each kernel
PyObject *explainer; // f(function, CompilationError, warmup, args, kwargs): may add to its text

} // namespace

bool isIntercepted(const FunctionObject *f) { return (interceptAll || f->intercepted) && interceptor; }
bool isDebugDemanded() { return debugDemanded; }

bool ready(FunctionObject *f) {
  // Each round but the last found something changed, and Python took it up; other threads may change things as fast.
  for (int round = 0; round < 100; ++round) {
    if (!f->ready) {
      if (!f->prepare) return PyErr_SetString(PyExc_RuntimeError, "the function is being destroyed"), false;
      PyObject *r = PyObject_CallNoArgs(f->prepare);
      if (!r) return false;
      Py_DECREF(r);
    }
    if (!f->watch) return true;
    int holds = f->watch->holds();
    if (holds) return holds > 0;
  }
  PyErr_Format(PyExc_RuntimeError, "what `%s` reads changes without end", tegula_function_name(f->handle));
  return false;
}

namespace {

// Parameter index of a keyword, -1 if it is none. Names are interned, so identity nearly always decides.
Py_ssize_t findParam(FunctionObject *f, PyObject *name) {
  for (size_t i = 0; i < f->paramCount; ++i)
    if (PyTuple_GET_ITEM(f->names, i) == name) return i;
  if (PyUnicode_CHECK_INTERNED(name)) return -1;
  for (size_t i = 0; i < f->paramCount; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(f->names, i), name) == 0) return i;
  return -1;
}

const char *nameOf(FunctionObject *f, size_t i) { return f->paramNames[i]; }

} // namespace

bool bindArguments(FunctionObject *f, PyObject *const *args, size_t nargs, Names keywords, PyObject **bound,
                   PyObject *&rest, TegulaLaunchOptions &options, bool partial) {
  size_t positional = f->variadic >= 0 ? static_cast<size_t>(f->variadic) : f->positional;
  const char *fname = tegula_function_name(f->handle);
  if (nargs > positional && f->variadic < 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zu %sarguments, %zu are given", fname, positional,
                 positional < f->paramCount ? "positional " : "", nargs);
    return false;
  }
  for (size_t i = 0; i < f->paramCount; ++i) bound[i] = i < nargs && i < positional ? args[i] : nullptr;
  if (f->variadic >= 0) {
    size_t extra = nargs > positional ? nargs - positional : 0;
    rest = PyTuple_New(extra);
    if (!rest) return false;
    for (size_t i = 0; i < extra; ++i) {
      Py_INCREF(args[positional + i]);
      PyTuple_SET_ITEM(rest, i, args[positional + i]);
    }
    bound[f->variadic] = rest;
  }
  for (size_t k = 0; k < keywords.count; ++k) {
    PyObject *name = keywords.names[k], *value = args[nargs + k];
    Py_ssize_t i = findParam(f, name);
    int option = i >= 0 && !f->isOption[i] ? 0 : setOption(options, name, value);
    if (option < 0 && i < 0) return false;
    if (option < 0) dropError(); // a parameter that is called like an option may hold anything
    if (i >= 0) {
      if (bound[i]) {
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", fname, name);
        return false;
      }
      bound[i] = value;
    } else if (!option) {
      PyErr_Format(PyExc_KeyError, "Keyword argument %U was specified but unrecognised", name);
      return false;
    }
  }
  for (size_t i = 0; i < f->paramCount; ++i) {
    if (bound[i] || PyTuple_GET_ITEM(f->defaults, i) != Py_Ellipsis ||
        (partial && f->paramFlags[i] & TEGULA_PARAM_CONSTEXPR))
      continue;
    PyErr_Format(PyExc_TypeError, "%s() missing argument '%s'", fname, nameOf(f, i));
    return false;
  }
  return true;
}

bool readGridOf(FunctionObject *f, PyObject *grid, PyObject *const *bound, int64_t out[3]) {
  if (!PyCallable_Check(grid)) return tegula_python::readGrid(grid, out);
  PyObject *dict = PyDict_New();
  if (!dict) return false;
  for (size_t i = 0; i < f->paramCount; ++i)
    PyDict_SetItem(dict, PyTuple_GET_ITEM(f->names, i), bound[i] ? bound[i] : PyTuple_GET_ITEM(f->defaults, i));
  PyObject *result = PyObject_CallOneArg(grid, dict);
  Py_DECREF(dict);
  bool ok = result && tegula_python::readGrid(result, out);
  Py_XDECREF(result);
  return ok;
}

namespace {

// f(function, *head, args, kwargs) with the arguments of a vectorcall.
PyObject *passOn(PyObject *f, LauncherObject *self, PyObject *head, PyObject *const *args, size_t nargs,
                 Names keywords) {
  PyObject *tuple = PyTuple_New(nargs), *dict = PyDict_New(), *result = nullptr;
  for (size_t i = 0; tuple && i < nargs; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  bool ok = tuple && dict;
  for (size_t k = 0; ok && k < keywords.count; ++k) ok = PyDict_SetItem(dict, keywords.names[k], args[nargs + k]) == 0;
  if (ok)
    result =
        PyObject_CallFunctionObjArgs(f, self->object, head, self->warmup ? Py_True : Py_False, tuple, dict, nullptr);
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  return result;
}

// Shows the pending exception to `explainer`, and leaves it pending.
void explain(LauncherObject *self, PyObject *const *args, size_t nargs, Names keywords) {
  PyObject *error = explainer ? takeException() : nullptr;
  if (!error) return;
  Py_XDECREF(passOn(explainer, self, error, args, nargs, keywords));
  dropError(); // a mistake of the explainer's is not the user's
  raiseAgain(error);
}

PyObject *launch(LauncherObject *self, PyObject *const *args, size_t nargs, Names keywords) {
  auto *f = reinterpret_cast<FunctionObject *>(self->object);
  if (!ready(f)) return nullptr;
  TegulaFunction *handle = f->handle; // another thread may renew it
  constexpr size_t inlineParams = 64;
  PyObject *boundInline[inlineParams];
  TegulaArg argsInline[inlineParams];
  std::vector<PyObject *> boundHeap;
  std::vector<TegulaArg> argsHeap;
  PyObject **bound = boundInline;
  TegulaArg *packed = argsInline;
  if (f->paramCount > inlineParams) {
    boundHeap.resize(f->paramCount);
    argsHeap.resize(f->paramCount);
    bound = boundHeap.data();
    packed = argsHeap.data();
  }
  TegulaLaunchOptions options = f->options;
  PyObject *rest = nullptr;
  ArgPack pack;
  int64_t grid[3] = {1, 1, 1};
  TegulaKernel *kernel = nullptr;
  bool ok = bindArguments(f, args, nargs, keywords, bound, rest, options);
  if (debugDemanded) options.debug = 1;
  for (size_t i = 0; ok && i < f->paramCount; ++i) {
    if (bound[i]) ok = pack.convert(bound[i], f->paramFlags[i] & TEGULA_PARAM_CONSTEXPR, packed[i], nameOf(f, i));
    else packed[i].kind = TEGULA_ARG_MISSING;
  }
  if (ok && pack.withoutMemory && !self->warmup) {
    PyErr_Format(PyExc_ValueError, "argument `%s` stands for a tensor and has no memory; warmup() takes it",
                 pack.withoutMemory);
    ok = false;
  }
  if (ok && self->grid && !self->warmup) ok = readGridOf(f, self->grid, bound, grid);
  // Of a compilation the grid is a hint, where it is one: programs say (1,) for the sake of saying something, and
  // functions may want to know what types stand for.
  if (ok && self->grid && self->warmup && !PyCallable_Check(self->grid)) {
    int64_t plane, programs;
    if (!readGridOf(f, self->grid, bound, grid)) PyErr_Clear();
    else if (grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && !__builtin_mul_overflow(grid[0], grid[1], &plane) &&
             !__builtin_mul_overflow(plane, grid[2], &programs) && programs > 1)
      options.programs = programs;
  }
  if (ok) ok = chooseDevice(pack, options);
  MemoryQuery memory{bound, packed, f->paramCount};
  memory.attach(options);
  PyObject *result = nullptr;
  if (ok) {
    TegulaStatus status;
    bool compiled = false;
    {
      WithoutGil others;
      status = self->warmup ? tegula_compile(handle, packed, f->paramCount, &options, &kernel)
                            : tegula_launch(handle, grid, packed, f->paramCount, &options, &kernel);
    }
    compiled = self->warmup && status == TEGULA_OK;
    bool isNew = false;
    if (status == TEGULA_OK && !PyErr_Occurred()) result = wrapKernel(kernel, &isNew, f->kernels);
    else if (status == TEGULA_INVALID_ARGUMENT && pack.nonContiguous)
      PyErr_Format(PyExc_ValueError, "%s (the array given for `%s` is not contiguous; the kernel stores through it)",
                   tegula_last_error(), pack.nonContiguous);
    else raiseStatus(status);
    if (status == TEGULA_COMPILE_ERROR) explain(self, args, nargs, keywords);
    if (compiled) tegula_kernel_release(kernel);
    if (result && isNew) {
      // First, as hooks may compile. A warning that is an error: the kernel is there all the same.
      PyObject *error = warnOfCompilation() ? nullptr : takeException();
      PyObject *told = newKernel ? passOn(newKernel, self, result, args, nargs, keywords) : Py_NewRef(Py_None);
      if (!told || error) Py_CLEAR(result);
      Py_XDECREF(told);
      if (error) raiseAgain(error);
    }
  }
  Py_XDECREF(rest);
  return result;
}

PyObject *interceptOrLaunch(LauncherObject *l, PyObject *const *args, size_t nargs, Names keywords) {
  if (isIntercepted(reinterpret_cast<FunctionObject *>(l->object)) && !l->direct)
    return passOn(interceptor, l, l->grid ? l->grid : Py_None, args, nargs, keywords);
  return launch(l, args, nargs, keywords);
}

PyObject *vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  return interceptOrLaunch(reinterpret_cast<LauncherObject *>(self), args,
                           static_cast<size_t>(PyVectorcall_NARGS(nargsf)), namesOf(kwnames));
}

PyObject *subscript(PyObject *self, PyObject *grid) { return makeLauncher(self, grid, vectorcall); }
PyObject *warmupLauncher(PyObject *self, PyObject *grid) {
  return makeLauncher(self, grid == Py_None ? nullptr : grid, vectorcall, true);
}

// direct(grid): launches without hooks; with None for a grid only compiles.
PyObject *directLauncher(PyObject *self, PyObject *grid) {
  bool warmup = grid == Py_None;
  return makeLauncher(self, warmup ? nullptr : grid, vectorcall, warmup, true);
}

// The arguments of one call that compiles and launches nothing.
struct QuietCall {
  FunctionObject *f;
  std::vector<PyObject *> objects, names, bound; // borrowed
  PyObject *grid = nullptr; // borrowed
  PyObject *rest = nullptr;
  std::vector<TegulaArg> packed;
  TegulaLaunchOptions options;
  ArgPack pack;

  explicit QuietCall(FunctionObject *f) : f(f), bound(f->paramCount), packed(f->paramCount), options(f->options) {}
  ~QuietCall() { Py_XDECREF(rest); }
  // Of (grid, args, kwargs). False with an exception set.
  bool read(PyObject *given, bool partial) {
    PyObject *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &grid, &PyTuple_Type, &args, &PyDict_Type, &kwargs) || !ready(f))
      return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) objects.push_back(PyTuple_GET_ITEM(args, i));
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) names.push_back(name), objects.push_back(value);
    if (!bindArguments(f, objects.data(), static_cast<size_t>(PyTuple_GET_SIZE(args)), {names.data(), names.size()},
                       bound.data(), rest, options, partial))
      return false;
    for (size_t i = 0; i < f->paramCount; ++i) {
      packed[i].kind = TEGULA_ARG_MISSING;
      if (bound[i] && !pack.convert(bound[i], f->paramFlags[i] & TEGULA_PARAM_CONSTEXPR, packed[i], nameOf(f, i)))
        return false;
    }
    return chooseDevice(pack, options);
  }
};

// sketched(grid, args, kwargs) -> nanoseconds of a launch by the cost model, without compiling; 0.0 if it does not say.
PyObject *sketched(PyObject *self, PyObject *args) {
  QuietCall call(reinterpret_cast<FunctionObject *>(self));
  int64_t extents[3] = {1, 1, 1};
  if (!call.read(args, false) || !readGridOf(call.f, call.grid, call.bound.data(), extents)) return nullptr;
  TegulaStatus status;
  double ns = 0;
  {
    WithoutGil others;
    TegulaKernel *sketch = nullptr;
    status = tegula_sketch(call.f->handle, call.packed.data(), call.packed.size(), &call.options, &sketch);
    if (status == TEGULA_OK && tegula_kernel_estimate(sketch, extents, call.packed.data(), call.packed.size(),
                                                      &call.options, &ns, nullptr) != TEGULA_OK)
      ns = 0;
    if (sketch) tegula_kernel_release(sketch);
  }
  return status == TEGULA_OK ? PyFloat_FromDouble(ns) : raiseStatus(status);
}

// rehearse(grid, args, kwargs) -> what the launch's first program does wrong on the simulator, or None: as
// tegula_rehearse.
PyObject *rehearse(PyObject *self, PyObject *args) {
  QuietCall call(reinterpret_cast<FunctionObject *>(self));
  int64_t extents[3] = {1, 1, 1};
  if (!call.read(args, false) || !readGridOf(call.f, call.grid, call.bound.data(), extents)) return nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_rehearse(call.f->handle, extents, call.packed.data(), call.packed.size(), &call.options);
  }
  if (PyErr_Occurred() || (status != TEGULA_OK && status != TEGULA_FAULT)) return raiseStatus(status);
  return status == TEGULA_OK ? Py_NewRef(Py_None) : PyUnicode_FromString(tegula_last_error());
}

// verify(grid, args, kwargs) -> what tegula_verify says of the launch on the CPU and on the first GPU, or the simulator
// where there is none; None: it fails on both.
PyObject *verify(PyObject *self, PyObject *args) {
  QuietCall call(reinterpret_cast<FunctionObject *>(self));
  int64_t extents[3] = {1, 1, 1};
  if (!call.read(args, false) || !readGridOf(call.f, call.grid, call.bound.data(), extents)) return nullptr;
  int32_t other = std::max<int32_t>(tegula_device_default(context()), TEGULA_DEVICE_INDEX_SIM);
  char *text = nullptr;
  TegulaStatus status;
  {
    WithoutGil others; // what kernels print is printed by Python, on threads of the runtime
    status = tegula_verify(call.f->handle, extents, call.packed.data(), call.packed.size(), &call.options,
                           TEGULA_DEVICE_INDEX_CPU, other, -1, &text);
  }
  PyObject *result = PyErr_Occurred() || (status != TEGULA_OK && status != TEGULA_FAULT) ? raiseStatus(status)
                     : text                                                              ? PyUnicode_FromString(text)
                                                                                         : Py_NewRef(Py_None);
  return tegula_free(text), result;
}

// What a proposal asks the grid of.
struct ProposedGrid {
  QuietCall &call;
  PyObject *error = nullptr; // raised by the grid
};

int32_t gridOfProposal(void *user, const TegulaConfig *config, int64_t out[3]) {
  auto &p = *static_cast<ProposedGrid *>(user);
  WithGil gil;
  if (!gil) return 1;
  std::vector<PyObject *> bound = p.call.bound, made;
  bool ok = true;
  for (size_t v = 0; ok && v < config->value_count; ++v) {
    int64_t n = 0;
    PyObject *number = tegula_value_as_int(config->values[v].value, &n) == TEGULA_OK ? PyLong_FromLongLong(n) : nullptr;
    ok = number;
    made.push_back(number);
    for (size_t i = 0; i < bound.size(); ++i)
      if (!std::strcmp(p.call.f->paramNames[i], config->values[v].name)) bound[i] = number;
  }
  ok = ok && readGridOf(p.call.f, p.call.grid, bound.data(), out);
  for (PyObject *o : made) Py_XDECREF(o);
  if (ok) return 0;
  Py_XSETREF(p.error, takeException());
  return 1;
}

// propose(grid, args, kwargs) -> JSON: as tegula_propose.
PyObject *proposeSpace(PyObject *self, PyObject *args) {
  QuietCall call(reinterpret_cast<FunctionObject *>(self));
  if (!call.read(args, true)) return nullptr;
  ProposedGrid proposed{call};
  char *json = nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_propose(call.f->handle, gridOfProposal, &proposed, call.packed.data(), call.packed.size(),
                            &call.options, &json);
  }
  if (status == TEGULA_OK) {
    // Mistakes are of values that were not taken.
    if (proposed.error && !PyErr_GivenExceptionMatches(proposed.error, PyExc_Exception)) {
      tegula_free(json);
      return raiseAgain(proposed.error);
    }
    Py_XDECREF(proposed.error);
    PyObject *text = PyUnicode_FromString(json);
    tegula_free(json);
    return text;
  }
  return proposed.error ? raiseAgain(proposed.error) : raiseStatus(status);
}

// set_positional(n): the parameters after the first n are given by name only.
PyObject *setPositional(PyObject *self, PyObject *count) {
  size_t n = PyLong_AsSize_t(count);
  if (PyErr_Occurred()) return nullptr;
  auto *f = reinterpret_cast<FunctionObject *>(self);
  f->positional = n < f->paramCount ? n : f->paramCount;
  Py_RETURN_NONE;
}

PyObject *setIntercepted(PyObject *self, PyObject *on) {
  reinterpret_cast<FunctionObject *>(self)->intercepted = on == Py_True;
  Py_RETURN_NONE;
}

// set_launch_hooks(interceptor, new_kernel)
PyObject *setLaunchHooks(PyObject *, PyObject *args) {
  PyObject *f, *g;
  if (!PyArg_ParseTuple(args, "OO", &f, &g)) return nullptr;
  Py_XSETREF(interceptor, Py_NewRef(f));
  Py_XSETREF(newKernel, Py_NewRef(g));
  Py_RETURN_NONE;
}

PyObject *setExplainer(PyObject *, PyObject *f) {
  Py_XSETREF(explainer, Py_NewRef(f));
  Py_RETURN_NONE;
}

PyObject *setDebugDemanded(PyObject *, PyObject *on) {
  debugDemanded = on == Py_True;
  Py_RETURN_NONE;
}

PyObject *setInterceptAll(PyObject *, PyObject *on) {
  interceptAll = on == Py_True;
  Py_RETURN_NONE;
}

// The arguments of Function(), which are those of renew(). NULL with an exception set.
TegulaFunction *makeHandle(PyObject *args, PyObject *kwargs, PyObject *&prepare) {
  static const char *keywords[] = {"file", "text", "first_line", "kind", "noinline", "must_use", "do_not_specialize",
                                   "do_not_specialize_on_alignment", "exact", "annotations", "prepare", nullptr};
  const char *file, *text, *mustUse;
  Py_ssize_t length;
  unsigned firstLine;
  int kind, noinline, exact;
  PyObject *dns, *dnsa, *annotations;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss#IipzO!O!pO!O", const_cast<char **>(keywords), &file, &text,
                                   &length, &firstLine, &kind, &noinline, &mustUse, &PyTuple_Type, &dns, &PyTuple_Type,
                                   &dnsa, &exact, &PyTuple_Type, &annotations, &prepare))
    return nullptr;
  auto names = [](PyObject *tuple, std::vector<const char *> &out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      const char *s = textOf(PyTuple_GET_ITEM(tuple, i));
      if (!s) return false;
      out.push_back(s);
    }
    return true;
  };
  std::vector<const char *> dnsNames, dnsaNames, annotationTexts;
  if (!names(dns, dnsNames) || !names(dnsa, dnsaNames) || !names(annotations, annotationTexts)) return nullptr;
  TegulaContext *ctx = context();
  if (!ctx) return nullptr;
  TegulaFunctionSource source = {};
  source.size = sizeof source;
  source.file = file;
  source.text = text;
  source.length = length;
  source.first_line = firstLine;
  source.kind = kind;
  source.noinline_ = noinline;
  source.exact = exact;
  source.must_use = mustUse;
  source.do_not_specialize = dnsNames.data();
  source.do_not_specialize_count = dnsNames.size();
  source.do_not_specialize_on_alignment = dnsaNames.data();
  source.do_not_specialize_on_alignment_count = dnsaNames.size();
  source.annotations = annotationTexts.data();
  source.annotation_count = annotationTexts.size();
  TegulaFunction *handle = nullptr;
  TegulaStatus status = tegula_function_create(ctx, &source, &handle);
  if (status != TEGULA_OK) raiseStatus(status);
  return handle;
}

int init(PyObject *self, PyObject *args, PyObject *kwargs) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  PyObject *prepare;
  f->handle = makeHandle(args, kwargs, prepare);
  if (!f->handle) return -1;
  f->paramCount = tegula_function_param_count(f->handle);
  f->paramFlags = static_cast<uint8_t *>(PyMem_Calloc(f->paramCount + 1, 1));
  f->paramNames = static_cast<const char **>(PyMem_Calloc(f->paramCount + 1, sizeof(char *)));
  f->isOption = static_cast<bool *>(PyMem_Calloc(f->paramCount + 1, sizeof(bool)));
  f->names = PyTuple_New(f->paramCount);
  f->defaults = PyTuple_New(f->paramCount);
  f->variadic = -1;
  f->positional = f->paramCount;
  if (!f->paramFlags || !f->paramNames || !f->isOption || !f->names || !f->defaults) return -1;
  for (size_t i = 0; i < f->paramCount; ++i) {
    TegulaParam p = {};
    tegula_function_param(f->handle, i, &p);
    f->paramFlags[i] = static_cast<uint8_t>(p.flags);
    if (p.flags & TEGULA_PARAM_VARIADIC) f->variadic = static_cast<int>(i);
    PyObject *name = PyUnicode_InternFromString(p.name);
    if (!name) return -1;
    PyTuple_SET_ITEM(f->names, i, name);
    f->paramNames[i] = PyUnicode_AsUTF8(name); // kept by the string
    if (!f->paramNames[i]) return -1;
    f->isOption[i] = isOption(name);
    Py_INCREF(Py_Ellipsis);
    PyTuple_SET_ITEM(f->defaults, i, Py_Ellipsis);
  }
  f->options = TEGULA_LAUNCH_OPTIONS_INIT;
  f->retired = new std::vector<TegulaFunction *>;
  f->kernels = new std::vector<PyObject *>;
  f->prepare = Py_NewRef(prepare);
  return 0;
}

void unwatch(FunctionObject *f) {
  f->ready = false;
  delete std::exchange(f->watch, nullptr);
}

// renew(arguments of Function()): the function as if nothing had been bound yet, from a text with the same parameters.
PyObject *renew(PyObject *self, PyObject *args, PyObject *kwargs) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  PyObject *prepare;
  TegulaFunction *fresh = makeHandle(args, kwargs, prepare);
  if (!fresh) return nullptr;
  bool same = tegula_function_param_count(fresh) == f->paramCount;
  for (size_t i = 0; same && i < f->paramCount; ++i) {
    TegulaParam p = {};
    same = tegula_function_param(fresh, i, &p) == TEGULA_OK && !std::strcmp(p.name, f->paramNames[i]) &&
           f->paramFlags[i] == static_cast<uint8_t>(p.flags);
  }
  if (!same)
    return tegula_function_release(fresh), PyErr_SetString(PyExc_ValueError, "the new text has other parameters"),
           nullptr;
  f->retired->push_back(std::exchange(f->handle, fresh));
  unwatch(f);
  Py_RETURN_NONE;
}

int traverse(PyObject *self, visitproc visit, void *arg) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  Py_VISIT(f->prepare);
  Py_VISIT(f->defaults);
  if (f->kernels)
    for (PyObject *k : *f->kernels) Py_VISIT(k);
  return f->watch ? f->watch->traverse(visit, arg) : 0;
}

int clear(PyObject *self) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  Py_CLEAR(f->prepare);
  unwatch(f);
  Py_CLEAR(f->defaults);
  if (f->kernels)
    for (PyObject *k : std::exchange(*f->kernels, {})) Py_DECREF(k);
  return 0;
}

void dealloc(PyObject *self) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_CLEAR(f->names);
  PyMem_Free(f->paramFlags);
  PyMem_Free(f->paramNames);
  PyMem_Free(f->isOption);
  tegula_function_release(f->handle);
  if (f->retired)
    for (TegulaFunction *old : *f->retired) tegula_function_release(old);
  delete f->retired;
  delete f->kernels;
  Py_TYPE(self)->tp_free(self);
}

PyObject *freeNames(PyObject *self, PyObject *) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  size_t n = tegula_function_free_name_count(f->handle);
  PyObject *out = PyTuple_New(n);
  for (size_t i = 0; out && i < n; ++i)
    PyTuple_SET_ITEM(out, i, PyUnicode_FromString(tegula_function_free_name(f->handle, i)));
  return out;
}

PyObject *bindName(PyObject *self, PyObject *args) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  const char *name;
  PyObject *value;
  int allowed;
  if (!PyArg_ParseTuple(args, "sO!p", &name, &ValueType, &value, &allowed)) return nullptr;
  TegulaStatus s = tegula_function_bind(f->handle, name, reinterpret_cast<ValueObject *>(value)->value, allowed);
  if (s != TEGULA_OK) return raiseStatus(s);
  Py_RETURN_NONE;
}

// set_default(index, value or None, object): the Value for the compiler, the object for grid callables.
PyObject *setDefault(PyObject *self, PyObject *args) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  Py_ssize_t index;
  PyObject *value, *object;
  if (!PyArg_ParseTuple(args, "nOO", &index, &value, &object)) return nullptr;
  if (index < 0 || static_cast<size_t>(index) >= f->paramCount)
    return PyErr_SetString(PyExc_IndexError, "no such parameter"), nullptr;
  if (value != Py_None) {
    TegulaStatus s = tegula_function_set_default(f->handle, index, reinterpret_cast<ValueObject *>(value)->value);
    if (s != TEGULA_OK) return raiseStatus(s);
  }
  Py_INCREF(object);
  PyObject *old = PyTuple_GET_ITEM(f->defaults, index);
  PyTuple_SET_ITEM(f->defaults, index, object);
  Py_DECREF(old);
  Py_RETURN_NONE;
}

// watch(rows, always, changed): as Watch::make. The function is ready.
PyObject *watch(PyObject *self, PyObject *args) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  PyObject *rows, *changed;
  int always;
  if (!PyArg_ParseTuple(args, "O!pO", &PyList_Type, &rows, &always, &changed)) return nullptr;
  Watch *w = Watch::make(rows, always, changed);
  if (!w) return nullptr;
  delete std::exchange(f->watch, w);
  f->ready = true;
  Py_RETURN_NONE;
}

// unprepare(): the next use calls `prepare` again.
PyObject *unprepare(PyObject *self, PyObject *) {
  unwatch(reinterpret_cast<FunctionObject *>(self));
  Py_RETURN_NONE;
}

PyObject *setDefaultOption(PyObject *self, PyObject *args) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  PyObject *name, *value;
  if (!PyArg_ParseTuple(args, "UO", &name, &value)) return nullptr;
  int r = setOption(f->options, name, value);
  if (r < 0) return nullptr;
  if (r == 0) return PyErr_Format(PyExc_KeyError, "no option `%U`", name), nullptr;
  Py_RETURN_NONE;
}

// Without the GIL, as it may ask Python for attributes of modules while another thread does and waits for the GIL.
PyObject *contentOf(TegulaFunction *handle) {
  const char *text;
  {
    WithoutGil others;
    text = tegula_function_hash(handle);
  }
  return PyUnicode_FromString(text);
}

PyObject *boundHash(PyObject *self, PyObject *) { return contentOf(reinterpret_cast<FunctionObject *>(self)->handle); }

PyObject *hashOf(PyObject *self, PyObject *) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  if (!ready(f)) return nullptr;
  return contentOf(f->handle);
}

// The name of a kernel, from a Python function that takes its signature; an exception stays the thread's. `user`: a
// weak reference to it.
int32_t callNamer(void *user, const char *signature, char *name, size_t size) {
  WithGil gil;
  if (!gil) return 0;
  PyObject *namer = PyObject_CallNoArgs(static_cast<PyObject *>(user));
  if (namer == Py_None) return Py_DECREF(namer), -1;
  PyObject *text = namer ? PyObject_CallFunction(namer, "s", signature) : nullptr;
  const char *s = text ? textOf(text) : nullptr;
  if (s) PyOS_snprintf(name, size, "%s", s);
  Py_XDECREF(text);
  Py_XDECREF(namer);
  return s != nullptr;
}

void dropNamer(void *user) {
  if (WithGil gil; gil) Py_DECREF(static_cast<PyObject *>(user));
}

// set_namer(callable): the caller keeps it as long as the function is there. It may refer to the function, so the
// function's handle, whose references Python's collector does not see, has a weak one.
PyObject *setNamer(PyObject *self, PyObject *callable) {
  TegulaFunction *handle = reinterpret_cast<FunctionObject *>(self)->handle;
  PyObject *weak = PyWeakref_NewRef(callable, nullptr);
  if (!weak) return nullptr;
  TegulaStatus s = tegula_function_at_end(handle, dropNamer, weak);
  if (s != TEGULA_OK) return Py_DECREF(weak), raiseStatus(s);
  s = tegula_function_set_namer(handle, callNamer, weak);
  if (s != TEGULA_OK) return raiseStatus(s);
  Py_RETURN_NONE;
}

// compile_signature(signature, {name: Value}, target or None, {option: value}) -> kernel: as tegula_compile_signature.
PyObject *compileSignature(PyObject *self, PyObject *args) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  const char *signature, *target;
  PyObject *constants, *given;
  if (!PyArg_ParseTuple(args, "sO!zO!", &signature, &PyDict_Type, &constants, &target, &PyDict_Type, &given))
    return nullptr;
  std::vector<TegulaNamedValue> named;
  TegulaLaunchOptions options = f->options;
  if (!namedValues(constants, named) || !setOptions(options, given)) return nullptr;
  if (!ready(f)) return nullptr;
  TegulaKernel *kernel = nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_compile_signature(f->handle, signature, named.data(), named.size(), target, &options, &kernel);
  }
  if (status != TEGULA_OK) return raiseStatus(status);
  PyObject *result = wrapKernel(kernel);
  tegula_kernel_release(kernel);
  if (result && !warnOfCompilation()) Py_CLEAR(result);
  return result;
}

PyObject *ensurePrepared(PyObject *self, PyObject *) {
  if (!ready(reinterpret_cast<FunctionObject *>(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject *handleOf(PyObject *self, PyObject *) {
  auto *f = reinterpret_cast<FunctionObject *>(self);
  if (!ready(f)) return nullptr;
  tegula_function_retain(f->handle);
  return PyCapsule_New(f->handle, functionCapsule, [](PyObject *c) {
    tegula_function_release(static_cast<TegulaFunction *>(PyCapsule_GetPointer(c, functionCapsule)));
  });
}

PyMethodDef methods[] = {{"handle", handleOf, METH_NOARGS, nullptr},
                         {"free_names", freeNames, METH_NOARGS, nullptr},
                         {"bind_name", bindName, METH_VARARGS, nullptr},
                         {"set_default", setDefault, METH_VARARGS, nullptr},
                         {"watch", watch, METH_VARARGS, nullptr},
                         {"set_option", setDefaultOption, METH_VARARGS, nullptr},
                         {"set_namer", setNamer, METH_O, nullptr},
                         {"renew", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(renew)), METH_VARARGS | METH_KEYWORDS, nullptr},
                         {"unprepare", unprepare, METH_NOARGS, nullptr},
                         {"content_hash", hashOf, METH_NOARGS, nullptr},
                         {"bound_hash", boundHash, METH_NOARGS, "The hash with the names bound as they are, without looking for changes."},
                         {"ensure_prepared", ensurePrepared, METH_NOARGS, nullptr},
                         {"warmup_launcher", warmupLauncher, METH_O, nullptr},
                         {"direct", directLauncher, METH_O, nullptr},
                         {"sketched", sketched, METH_VARARGS, nullptr},
                         {"rehearse", rehearse, METH_VARARGS, nullptr}, {"verify", verify, METH_VARARGS, nullptr},
                         {"propose", proposeSpace, METH_VARARGS, nullptr},
                         {"set_positional", setPositional, METH_O, nullptr},
                         {"set_intercepted", setIntercepted, METH_O, nullptr},
                         {"compile_signature", compileSignature, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {{"param_names", T_OBJECT, offsetof(FunctionObject, names), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};
PyMappingMethods mapping = {nullptr, subscript, nullptr};

} // namespace

PyMethodDef functionMethods[] = {{"set_launch_hooks", setLaunchHooks, METH_VARARGS, nullptr},
                                 {"set_explainer", setExplainer, METH_O, nullptr},
                                 {"set_intercept_all", setInterceptAll, METH_O, nullptr},
                                 {"set_debug_demanded", setDebugDemanded, METH_O, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

TegulaFunction *functionHandle(PyObject *function) {
  if (!PyObject_TypeCheck(function, &FunctionType)) {
    PyErr_SetString(PyExc_TypeError, "a jit function is needed");
    return nullptr;
  }
  return reinterpret_cast<FunctionObject *>(function)->handle;
}

bool isPlainFunction(PyObject *object) {
  return PyObject_TypeCheck(object, &FunctionType) && Py_TYPE(object)->tp_as_mapping &&
         Py_TYPE(object)->tp_as_mapping->mp_subscript == subscript;
}

PyObject *launchFunction(PyObject *function, PyObject *grid, PyObject *const *args, size_t positional, Names keywords) {
  LauncherObject launcher{}; // seen by nobody
  launcher.object = function;
  launcher.grid = grid;
  return interceptOrLaunch(&launcher, args, positional, keywords);
}

PyTypeObject FunctionType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Function";
  t.tp_basicsize = sizeof(FunctionObject);
  t.tp_dealloc = dealloc;
  t.tp_as_mapping = &mapping;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  t.tp_doc = "A function of the language; base class of JITFunction.";
  t.tp_traverse = traverse;
  t.tp_clear = clear;
  t.tp_methods = methods;
  t.tp_members = members;
  t.tp_init = init;
  t.tp_new = PyType_GenericNew;
  return t;
}();

PyObject *makeLauncher(PyObject *object, PyObject *grid, vectorcallfunc call, bool warmup, bool direct) {
  auto *l = PyObject_New(LauncherObject, &LauncherType);
  if (!l) return nullptr;
  l->vectorcall = call;
  l->object = Py_NewRef(object);
  l->grid = Py_XNewRef(grid);
  l->warmup = warmup;
  l->direct = direct;
  return reinterpret_cast<PyObject *>(l);
}

static void launcherDealloc(PyObject *self) {
  auto *l = reinterpret_cast<LauncherObject *>(self);
  Py_DECREF(l->object);
  Py_XDECREF(l->grid);
  PyObject_Free(self);
}

PyTypeObject LauncherType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Launcher";
  t.tp_basicsize = sizeof(LauncherObject);
  t.tp_dealloc = launcherDealloc;
  t.tp_vectorcall_offset = offsetof(LauncherObject, vectorcall);
  t.tp_call = PyVectorcall_Call;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  t.tp_doc = "kernel[grid]: call it with the kernel's arguments.";
  return t;
}();

} // namespace tegula_python
