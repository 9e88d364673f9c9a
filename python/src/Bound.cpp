// Launch handles: `handle = kernel.bind(x, y, n, BLOCK=64, grid=grid)`, then `handle(x, y, n)`.
//
// What a launch works out of names, options and constants is worked out once. A call converts its positional arguments
// and gives them to tegula_bound_launch, which compares each with its class (what the kernel was specialized on: type,
// whether 16 divides it, 1 or not, which pointers overlap) while it packs them. Of a call that is refused, what is
// wrong is looked for here, in Python's words; so it is before hooks and the interpreter run, which look at no classes.
#include "Function.h"
#include "structmember.h"
#include <cstddef>
#include <cstring>
#include <iterator>
#include <new>

namespace tegula_python {
namespace {

constexpr size_t mostParams = 64, mostPointers = 16; // of more pointers, which share memory is said by the library

/// What the argument of a run-time parameter must be.
struct Class {
  uint8_t kind = TEGULA_ARG_MISSING;
  TegulaDtype dtype = TEGULA_VOID;
  bool given = false;       // by position, and looked at in each call
  bool isConstexpr = false; // else given by position and compared as an object
  bool aligns = false;      // `divisible` must be right
  bool divisible = false;   // by 16
  bool sizes = false;       // an int whose width, and being 1, are its class
  bool isOne = false, isWide = false;
  bool isOneAnyway = false; // 1 is like other numbers
  uint16_t flags = 0; // of pointers: TEGULA_ARG_WIDE
};

struct BoundObject {
  PyObject_HEAD
      vectorcallfunc vectorcall;
  FunctionObject *function;
  TegulaFunction *handle; // retained: the function as it was bound
  TegulaBoundLaunch *bound; // null: not made yet, as for the interpreter
  PyObject *kernel;
  PyObject *grid; // callable; null: `extents`
  PyObject *args;   // tuple of the constants given by position
  PyObject *kwargs; // dict of all that was given by name
  PyObject *objects[mostParams]; // by parameter, borrowed from the two; null: the default
  int64_t extents[3];
  size_t positional;
  TegulaLaunchOptions options;
  bool infers; // the device is where the tensors are
  int gpu;     // of the sample's first tensor on one, -1
  bool debug;  // was it demanded of all launches?
  TegulaArg fixed[mostParams];   // of parameters that calls do not give
  Class classes[mostParams];
  uint64_t meets[mostPointers]; // bit k of row i: pointer arguments i and k < i overlap
  ArgPack *pack; // owns what `fixed` points to
};

BoundObject *of(PyObject *self) { return reinterpret_cast<BoundObject *>(self); }

Class classOf(const TegulaParam &p, const TegulaArg &a) {
  const uint32_t flags = p.flags;
  const bool isAnnotated = p.dtype != TEGULA_VOID;
  Class c;
  c.kind = a.kind;
  c.dtype = a.dtype;
  c.given = true;
  const bool aligns = !(flags & (TEGULA_PARAM_DO_NOT_SPECIALIZE | TEGULA_PARAM_DO_NOT_SPECIALIZE_ON_ALIGNMENT));
  const bool isWhole = a.kind == TEGULA_ARG_INT || a.kind == TEGULA_ARG_UINT;
  if (a.kind == TEGULA_ARG_POINTER || (isWhole && p.dtype != TEGULA_INT1)) { // 0 and 1 for a bool are one class
    c.aligns = aligns;
    c.divisible = a.u.u % 16 == 0;
  }
  if (a.kind == TEGULA_ARG_POINTER) c.flags = a.flags & TEGULA_ARG_WIDE;
  if (a.kind == TEGULA_ARG_INT && !isAnnotated && a.dtype == TEGULA_VOID) {
    c.sizes = true;
    c.isOne = a.u.i == 1 && !(flags & TEGULA_PARAM_DO_NOT_SPECIALIZE);
    c.isOneAnyway = flags & TEGULA_PARAM_DO_NOT_SPECIALIZE;
    c.isWide = a.u.i != static_cast<int32_t>(a.u.i);
  }
  return c;
}

const char *kindName(uint8_t kind) {
  static constexpr const char *names[] = {
      "nothing", "a tensor", "an int", "an int", "a float", "a bool", "None", "a compile-time object", "a tuple"};
  return kind < std::size(names) ? names[kind] : "an object";
}

bool refuse(BoundObject *h, size_t i, const char *what) {
  PyErr_Format(PyExc_ValueError, "%s(): argument `%s` %s; bind() it anew, or launch %s[grid](...)",
               tegula_function_name(h->handle), h->function->paramNames[i], what, tegula_function_name(h->handle));
  return false;
}

/// Is `a` of the class that the kernel was bound for? False with an exception set.
[[gnu::noinline]] bool fits(BoundObject *h, size_t i, const TegulaArg &a) {
  const Class &c = h->classes[i];
  char text[200];
  if (a.kind != c.kind) {
    PyOS_snprintf(text, sizeof text, "is %s; the handle was bound with %s", kindName(a.kind), kindName(c.kind));
    return refuse(h, i, text);
  }
  if (a.dtype != c.dtype) {
    PyOS_snprintf(text, sizeof text, "is of type %s; the handle was bound with %s", tegula_dtype_name(a.dtype),
                  tegula_dtype_name(c.dtype));
    return refuse(h, i, text);
  }
  if (c.aligns && (a.u.u % 16 == 0) != c.divisible) {
    const char *noun = a.kind == TEGULA_ARG_POINTER ? "an address that is" : "a number that is";
    PyOS_snprintf(text, sizeof text, "is %s %sdivisible by 16, and the handle was bound with one that is%s", noun,
                  c.divisible ? "not " : "", c.divisible ? "" : " not");
    return refuse(h, i, text);
  }
  if (a.kind == TEGULA_ARG_POINTER && (a.flags & TEGULA_ARG_WIDE) != c.flags)
    return refuse(h, i, "is of 2^30 elements or more, or was when the handle was bound");
  if (!c.sizes) return true;
  if (!c.isOneAnyway && c.isOne != (a.u.i == 1))
    return refuse(h, i,
                  c.isOne ? "is not 1, and the handle was bound with 1, which is a constant"
                          : "is 1, which would be a constant, and the handle was bound with another number");
  if (c.isWide != (a.u.i != static_cast<int32_t>(a.u.i)))
    return refuse(h, i,
                  c.isWide ? "fits 32 bits, and the handle was bound with a number that does not"
                           : "does not fit 32 bits, and the handle was bound with a number that does");
  return true;
}

/// Which pointers overlap. False with an exception set if they are others than when the handle was bound; `learn`: that
/// is now.
bool overlapsAsBound(BoundObject *h, const TegulaArg *packed, bool learn) {
  struct Range {
    uint64_t begin, end;
    size_t parameter;
  } seen[mostPointers];
  size_t count = 0;
  for (size_t i = 0, n = h->function->paramCount; i < n && count < mostPointers; ++i) {
    const TegulaArg &a = packed[i];
    if (a.kind != TEGULA_ARG_POINTER || h->classes[i].isConstexpr) continue;
    const uint64_t begin = a.u.u, end = begin + static_cast<uint64_t>(a.u2.extent > 0   ? a.u2.extent
                                                                      : a.u2.extent < 0 ? 1
                                                                                        : 0);
    seen[count] = {begin, end, i};
    uint64_t meets = 0;
    for (size_t k = 0; k < count; ++k)
      if (begin < seen[k].end && seen[k].begin < end) meets |= uint64_t(1) << k;
    if (learn) {
      h->meets[count] = meets;
    } else if (meets != h->meets[count]) {
      size_t k = 0;
      while (!((meets ^ h->meets[count]) >> k & 1)) ++k;
      PyErr_Format(PyExc_ValueError, "%s(): arguments `%s` and `%s` %s; bind() it anew, or launch %s[grid](...)",
                   tegula_function_name(h->handle), h->function->paramNames[seen[k].parameter],
                   h->function->paramNames[i],
                   meets >> k & 1 ? "share memory, and did not when the handle was bound"
                                  : "share no memory, and did when the handle was bound",
                   tegula_function_name(h->handle));
      return false;
    }
    ++count;
  }
  return true;
}

/// The same constant as when the handle was bound? False with an exception set.
bool sameConstant(BoundObject *h, size_t i, PyObject *object) {
  PyObject *before = h->objects[i];
  if (object == before) return true;
  int same = Py_TYPE(object) == Py_TYPE(before) ? PyObject_RichCompareBool(object, before, Py_EQ) : 0;
  if (same < 0) return false;
  // 0.0 and -0.0, and items of tuples, are equal and are not the same constant.
  if (same && !PyFloat_Check(object) && !PyTuple_Check(object)) return true;
  PyErr_Format(PyExc_ValueError, "%s(): constant `%s` is %R; the handle was bound with %R",
               tegula_function_name(h->handle), h->function->paramNames[i], object, before);
  return false;
}

/// Are the arguments, of which those are looked at that calls give, of the classes that the handle was bound with?
/// False with an exception set.
bool fitAll(BoundObject *h, const TegulaArg *packed) {
  for (size_t i = 0; i < h->function->paramCount; ++i)
    if (packed[i].kind != TEGULA_ARG_MISSING && !fits(h, i, packed[i])) return false;
  return overlapsAsBound(h, packed, false);
}

/// With hooks and in the interpreter: as the launch that the handle stands for. The classes were looked at.
PyObject *launchWatched(BoundObject *h, PyObject *const *args) {
  std::vector<PyObject *> stack(args, args + h->positional), names;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(h->kwargs, &at, &name, &value);) names.push_back(name), stack.push_back(value);
  PyObject *extents =
      h->grid ? Py_NewRef(h->grid) : Py_BuildValue("(LLL)", h->extents[0], h->extents[1], h->extents[2]);
  PyObject *result = extents ? launchFunction(reinterpret_cast<PyObject *>(h->function), extents, stack.data(),
                                              h->positional, {names.data(), names.size()})
                             : nullptr;
  Py_XDECREF(extents);
  if (!result) return nullptr;
  Py_DECREF(result);
  Py_RETURN_NONE;
}

/// The launch for the sample. False with an exception set.
bool makeLaunch(BoundObject *h) {
  TegulaLaunchOptions options = h->options;
  if (!chooseDevice(*h->pack, options)) return false;
  options.stream = nullptr; // each call has its own
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_bound_create(h->handle, h->extents, h->fixed, h->function->paramCount, &options, &h->bound);
  }
  if (status == TEGULA_OK && !PyErr_Occurred()) return true;
  return raiseStatus(status), false;
}

bool asBound(BoundObject *h) {
  if (!ready(h->function)) return false;
  if (h->function->handle == h->handle && h->debug == isDebugDemanded()) return true;
  PyErr_Format(PyExc_RuntimeError,
               "what `%s` reads, or knobs.runtime.debug, has changed since the handle was bound; bind() it anew",
               tegula_function_name(h->handle));
  return false;
}

PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  BoundObject *h = of(self);
  FunctionObject *f = h->function;
  const size_t nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (nargs != h->positional || (kwnames && PyTuple_GET_SIZE(kwnames))) {
    PyErr_Format(
        PyExc_TypeError,
        "%s(): the handle takes %zu positional arguments, those that bind() was given, and none by name; %zu are given%s",
        tegula_function_name(h->handle), h->positional, nargs,
        kwnames && PyTuple_GET_SIZE(kwnames) ? ", and some by name" : "");
    return nullptr;
  }
  if (!asBound(h)) return nullptr;
  PyObject *objects[mostParams];
  TegulaArg packed[mostParams];
  ArgPack pack;
  const size_t count = f->paramCount;
  for (size_t i = 0; i < count; ++i) {
    const Class &c = h->classes[i];
    objects[i] = c.given ? args[i] : h->objects[i];
    if (c.isConstexpr || !objects[i]) {
      if (c.given && !sameConstant(h, i, objects[i])) return nullptr;
      packed[i].kind = TEGULA_ARG_MISSING; // as it was bound
    } else if (!pack.convert(objects[i], false, packed[i], f->paramNames[i])) {
      return nullptr;
    }
  }
  if (pack.withoutMemory)
    return PyErr_Format(PyExc_ValueError, "argument `%s` stands for a tensor and has no memory", pack.withoutMemory),
           nullptr;
  if (h->infers && pack.gpu != h->gpu) {
    PyErr_Format(PyExc_ValueError, "%s(): the tensors are on another device than those that the handle was bound with",
                 tegula_function_name(h->handle));
    return nullptr;
  }
  if (isIntercepted(f)) return fitAll(h, packed) ? launchWatched(h, args) : nullptr;
  int64_t computed[3] = {1, 1, 1};
  if (h->grid && !readGridOf(f, h->grid, objects, computed)) return nullptr;
  TegulaLaunchOptions options = h->options;
  if (!chooseDevice(pack, options) || !(h->bound || makeLaunch(h))) return nullptr;
  MemoryQuery memory{objects, packed, count};
  memory.attach(options);
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_bound_launch(h->bound, h->grid ? computed : nullptr, packed, count, &options);
  }
  if (status == TEGULA_OK && !PyErr_Occurred()) Py_RETURN_NONE;
  // A class that the library refuses and Python's words do not know is said in the library's.
  if (status == TEGULA_INVALID_ARGUMENT && !PyErr_Occurred() && !fitAll(h, packed)) return nullptr;
  return raiseStatus(status);
}

int traverse(PyObject *self, visitproc visit, void *arg) {
  BoundObject *h = of(self);
  Py_VISIT(reinterpret_cast<PyObject *>(h->function));
  Py_VISIT(h->kernel);
  Py_VISIT(h->grid);
  Py_VISIT(h->args);
  Py_VISIT(h->kwargs);
  return 0;
}

void dealloc(PyObject *self) {
  BoundObject *h = of(self);
  PyObject_GC_UnTrack(self);
  delete h->pack;
  tegula_bound_release(h->bound);
  tegula_function_release(h->handle);
  Py_XDECREF(reinterpret_cast<PyObject *>(h->function));
  Py_XDECREF(h->kernel);
  Py_XDECREF(h->grid);
  Py_XDECREF(h->args);
  Py_XDECREF(h->kwargs);
  Py_TYPE(self)->tp_free(self);
}

/// Fills `h` in from its function, `args` and `kwargs`. False with an exception set.
bool set(BoundObject *h, PyObject *grid) {
  FunctionObject *f = h->function;
  const char *name = tegula_function_name(f->handle);
  if (f->variadic >= 0 || f->paramCount > mostParams) {
    PyErr_Format(PyExc_TypeError,
                 "%s(): a kernel with *args or more than %zu parameters cannot be bound; launch %s[grid](...)", name,
                 mostParams, name);
    return false;
  }
  if (!ready(f)) return false;
  tegula_function_retain(f->handle);
  h->handle = f->handle;
  h->options = f->options;
  h->positional = static_cast<size_t>(PyTuple_GET_SIZE(h->args));
  std::vector<PyObject *> stack, names;
  for (size_t i = 0; i < h->positional; ++i) stack.push_back(PyTuple_GET_ITEM(h->args, i));
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(h->kwargs, &at, &key, &value);) names.push_back(key), stack.push_back(value);
  PyObject *rest = nullptr;
  if (!bindArguments(f, stack.data(), h->positional, {names.data(), names.size()}, h->objects, rest, h->options))
    return false;
  h->debug = isDebugDemanded();
  if (h->debug) h->options.debug = 1;
  h->infers = h->options.device < 0;
  if (PyCallable_Check(grid)) h->grid = Py_NewRef(grid);
  h->extents[0] = h->extents[1] = h->extents[2] = 1;
  for (size_t i = 0; i < f->paramCount; ++i) {
    const bool isConstexpr = f->paramFlags[i] & TEGULA_PARAM_CONSTEXPR;
    h->fixed[i].kind = TEGULA_ARG_MISSING;
    if (h->objects[i] && !h->pack->convert(h->objects[i], isConstexpr, h->fixed[i], f->paramNames[i])) return false;
    TegulaParam p = {};
    tegula_function_param(f->handle, i, &p);
    h->classes[i] = classOf(p, h->fixed[i]);
    h->classes[i].given = i < h->positional;
    const uint8_t kind = h->fixed[i].kind;
    // An object that is a constant wherever it stands is compared as one.
    h->classes[i].isConstexpr = isConstexpr || kind == TEGULA_ARG_VALUE;
  }
  overlapsAsBound(h, h->fixed, true);
  h->gpu = h->pack->gpu;
  if (!readGridOf(f, grid, h->objects, h->extents) || (h->kernel != Py_None && !makeLaunch(h))) return false;
  // The sample's tensors are not kept: their memory may be large, and calls bring others.
  PyObject *kept = PyTuple_New(PyTuple_GET_SIZE(h->args));
  for (size_t i = 0; kept && i < h->positional; ++i)
    PyTuple_SET_ITEM(kept, i, Py_NewRef(h->classes[i].isConstexpr ? h->objects[i] : Py_None));
  if (kept) Py_SETREF(h->args, kept);
  return kept;
}

// bind(function, kernel or None, grid, args, kwargs) -> a handle
PyObject *makeBound(PyObject *, PyObject *given) {
  PyObject *function, *kernel, *grid, *args, *kwargs;
  if (!PyArg_ParseTuple(given, "O!OOO!O!", &FunctionType, &function, &kernel, &grid, &PyTuple_Type, &args, &PyDict_Type,
                        &kwargs))
    return nullptr;
  PyObject *self = BoundType.tp_alloc(&BoundType, 0);
  if (!self) return nullptr;
  BoundObject *h = of(self);
  h->vectorcall = call;
  h->function = reinterpret_cast<FunctionObject *>(Py_NewRef(function));
  h->kernel = Py_NewRef(kernel);
  h->args = Py_NewRef(args);
  h->kwargs = PyDict_Copy(kwargs);
  h->pack = new (std::nothrow) ArgPack;
  if (!h->kwargs || !h->pack || !set(h, grid)) Py_CLEAR(self);
  return self;
}

PyMemberDef members[] = {
    {"kernel", T_OBJECT, offsetof(BoundObject, kernel), READONLY, "The compiled kernel; None in the interpreter."},
    {nullptr, 0, 0, 0, nullptr}};

} // namespace

PyMethodDef boundMethods[] = {{"bind", makeBound, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyTypeObject BoundType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Bound";
  t.tp_basicsize = sizeof(BoundObject);
  t.tp_dealloc = dealloc;
  t.tp_traverse = traverse;
  t.tp_vectorcall_offset = offsetof(BoundObject, vectorcall);
  t.tp_call = PyVectorcall_Call;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  t.tp_members = members;
  t.tp_doc = "A launch handle, see JITFunction.bind().";
  return t;
}();

} // namespace tegula_python
