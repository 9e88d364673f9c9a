// Compiled kernels, launch options and grids.
#include "Core.h"
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <unordered_map>

namespace tegula_python {

struct KernelObject {
  PyObject_HEAD
      TegulaKernel *kernel;
  bool kept; // by the function that it was launched through
};

namespace {

// One live Python object per kernel, so that a launch allocates nothing after the first: borrowed, the object takes
// itself out. Guarded by the GIL.
std::unordered_map<TegulaKernel *, PyObject *> &wrappers() {
  static auto *map = new std::unordered_map<TegulaKernel *, PyObject *>;
  return *map;
}
TegulaKernel *lastKernel;
PyObject *lastWrapper;

void dealloc(PyObject *self) {
  auto *k = reinterpret_cast<KernelObject *>(self);
  if (auto it = wrappers().find(k->kernel); it != wrappers().end() && it->second == self) wrappers().erase(it);
  if (lastWrapper == self) lastKernel = nullptr, lastWrapper = nullptr;
  tegula_kernel_release(k->kernel);
  Py_TYPE(self)->tp_free(self);
}

/// The kernel of an object. One that came from another process by its attributes alone is loaded here, from the bytes
/// among them. Null with an exception set.
TegulaKernel *kernelOf(PyObject *self) {
  auto *k = reinterpret_cast<KernelObject *>(self);
  if (k->kernel) return k->kernel;
  PyObject *saved = PyObject_GetAttrString(self, "_saved");
  if (!saved || !PyBytes_Check(saved)) {
    Py_XDECREF(saved);
    PyErr_SetString(PyExc_ValueError, "the kernel was made from nothing: it has no code");
    return nullptr;
  }
  TegulaContext *c = context();
  TegulaKernel *kernel = nullptr;
  TegulaStatus status = TEGULA_OK;
  if (c) {
    WithoutGil others;
    status = tegula_kernel_load(c, PyBytes_AS_STRING(saved), static_cast<size_t>(PyBytes_GET_SIZE(saved)), -1, &kernel);
  }
  Py_DECREF(saved);
  if (!c) return nullptr;
  if (status != TEGULA_OK) return raiseStatus(status), nullptr;
  // Another thread may have been faster.
  if (k->kernel) tegula_kernel_release(kernel);
  else k->kernel = kernel;
  return k->kernel;
}

PyObject *stage(PyObject *self, PyObject *name) {
  const char *s = textOf(name);
  TegulaKernel *kernel = s ? kernelOf(self) : nullptr;
  if (!kernel) return nullptr;
  const char *text;
  size_t length;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_kernel_asm(kernel, s, &text, &length);
  }
  if (status == TEGULA_NOT_FOUND)
    return PyErr_Format(PyExc_KeyError, "Unknown key: '%s'; %s", s, tegula_last_error()), nullptr;
  if (status != TEGULA_OK) return raiseStatus(status);
  if (!std::strcmp(s, "obj") || !std::strcmp(s, "cubin")) return PyBytes_FromStringAndSize(text, length);
  return PyUnicode_DecodeUTF8(text, length, "replace");
}

PyObject *metadataJson(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  const char *text;
  {
    WithoutGil others;
    text = tegula_kernel_metadata_json(kernel);
  }
  return PyUnicode_FromString(text);
}

PyObject *info(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  TegulaKernelInfo i = {};
  i.size = sizeof i;
  TegulaStatus s = tegula_kernel_info(kernel, &i);
  if (s != TEGULA_OK) return raiseStatus(s);
  return Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:O,s:O,s:s,s:K,s:K,s:K,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "name",
                       i.name, "symbol", i.symbol, "hash", i.hash, "target", i.target, "signature", i.signature,
                       "num_warps", i.num_warps, "num_stages", i.num_stages, "num_ctas", i.num_ctas, "checked",
                       i.checked ? Py_True : Py_False, "debug", i.debug ? Py_True : Py_False, "origin",
                       i.origin == TEGULA_FROM_DISK_CACHE ? "disk"
                       : i.origin == TEGULA_FROM_BYTES    ? "bytes"
                                                          : "compiler",
                       "scratch_bytes", static_cast<unsigned long long>(i.scratch_bytes), "object_bytes",
                       static_cast<unsigned long long>(i.object_bytes), "code_bytes",
                       static_cast<unsigned long long>(i.code_bytes), "threads", i.threads, "cluster_ctas",
                       i.cluster_ctas, "n_regs", i.registers, "n_spills", i.spill_bytes / 4, "local_bytes",
                       i.local_bytes, "shared", i.shared_bytes, "blocks_per_core", i.blocks_per_core);
}

// A number that no other kernel has as long as this one is there.
PyObject *handle(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  return kernel ? PyLong_FromVoidPtr(kernel) : nullptr;
}

// save() -> bytes, for the attribute `_saved` of an object without a kernel
PyObject *save(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  char *bytes;
  size_t length;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_kernel_save(kernel, &bytes, &length);
  }
  if (status != TEGULA_OK) return raiseStatus(status);
  PyObject *out = PyBytes_FromStringAndSize(bytes, static_cast<Py_ssize_t>(length));
  tegula_free(bytes);
  return out;
}

// [(kind, message, file, line, column), ...]
PyObject *remarks(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  PyObject *list = PyList_New(0);
  TegulaRemark r;
  for (size_t i = 0, n = tegula_kernel_remark_count(kernel); list && i < n; ++i) {
    if (tegula_kernel_remark(kernel, i, &r) != TEGULA_OK) continue;
    PyObject *row = Py_BuildValue("(sssII)", r.kind, r.message, r.file, r.line, r.column);
    if (row) PyList_Append(list, row);
    Py_XDECREF(row);
  }
  return list;
}

PyObject *timings(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  TegulaTimings t = {};
  t.size = sizeof t;
  TegulaStatus s = tegula_kernel_timings(kernel, &t);
  if (s != TEGULA_OK) return raiseStatus(s);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "parse", t.parse, "sema", t.sema, "passes",
                       t.passes, "plan", t.plan, "emit", t.emit, "optimize", t.optimize, "codegen", t.codegen, "load",
                       t.load, "total", t.total, "assemble", t.assemble);
}

bool streamOf(PyObject *value, void *&out);

/// The arguments for all parameters of a compiled kernel, which ignores those of its constants: what no parameter takes
/// at run time (a string, a type) is a compile-time value.
bool convertAll(ArgPack &pack, PyObject *const *items, size_t count, std::vector<TegulaArg> &out) {
  out.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (pack.convert(items[i], PyUnicode_Check(items[i]), out[i], "?")) continue;
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    if (!pack.convert(items[i], true, out[i], "?")) return false;
  }
  return true;
}

// None, or null with an exception. `items`: an argument for each parameter of the function, constants included;
// borrowed.
PyObject *launchWith(TegulaKernel *kernel, const int64_t extents[3], PyObject *const *items, size_t count,
                     PyObject *stream) {
  ArgPack pack;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  if (stream != Py_None && !streamOf(stream, options.stream)) return nullptr;
  std::vector<TegulaArg> packed;
  if (!convertAll(pack, items, count, packed) || !chooseDevice(pack, options)) return nullptr;
  MemoryQuery memory{items, packed.data(), packed.size()};
  memory.attach(options);
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_kernel_launch(kernel, extents, packed.data(), packed.size(), &options);
  }
  if (status != TEGULA_OK || PyErr_Occurred()) return raiseStatus(status);
  Py_RETURN_NONE;
}

// launch(grid, args, stream=None): every parameter of the function must be given, constants included.
PyObject *launchKernel(PyObject *self, PyObject *args) {
  PyObject *grid, *tuple, *stream = Py_None;
  if (!PyArg_ParseTuple(args, "OO!|O", &grid, &PyTuple_Type, &tuple, &stream)) return nullptr;
  int64_t extents[3];
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel || !readGrid(grid, extents)) return nullptr;
  return launchWith(kernel, extents, &PyTuple_GET_ITEM(tuple, 0), static_cast<size_t>(PyTuple_GET_SIZE(tuple)), stream);
}

// Calls a launch hook with the metadata of a launch. A chain (knobs.HookChain) that is empty is not worth a call.
bool callHook(PyObject *hook, PyObject *metadata) {
  static PyObject *name = PyUnicode_InternFromString("calls");
  if (hook == Py_None) return true;
  PyObject *calls = PyObject_GetAttr(hook, name);
  bool empty = calls && PyList_Check(calls) && PyList_GET_SIZE(calls) == 0;
  if (!calls) dropError();
  Py_XDECREF(calls);
  if (empty) return true;
  PyObject *result = PyObject_CallOneArg(hook, metadata);
  Py_XDECREF(result);
  return result;
}

// run(grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, launch_enter_hook, launch_exit_hook,
// *arguments)
PyObject *runKernel(PyObject *self, PyObject *const *args, Py_ssize_t count) {
  enum { GRID = 0, STREAM = 3, METADATA = 6, ENTER = 7, EXIT = 8, FIRST = 9 };
  if (count < FIRST)
    return PyErr_Format(PyExc_TypeError, "run() takes %d arguments and those of the kernel, %zd are given", int(FIRST),
                        count),
           nullptr;
  PyObject *grid = PyTuple_Pack(3, args[GRID], args[GRID + 1], args[GRID + 2]);
  if (!grid) return nullptr;
  int64_t extents[3];
  TegulaKernel *kernel = kernelOf(self);
  bool ok = kernel && readGrid(grid, extents);
  Py_DECREF(grid);
  if (!ok || !callHook(args[ENTER], args[METADATA])) return nullptr;
  int isStream = PyObject_IsTrue(args[STREAM]);  // 0: the default stream, as without one
  if (isStream < 0) return nullptr;
  PyObject *done =
      launchWith(kernel, extents, args + FIRST, static_cast<size_t>(count - FIRST), isStream ? args[STREAM] : Py_None);
  if (done && !callHook(args[EXIT], args[METADATA])) Py_CLEAR(done);
  return done;
}

// estimate_launch(grid, args, num_threads) -> (nanoseconds, text): every parameter of the function must be given,
// constants included.
PyObject *estimateLaunch(PyObject *self, PyObject *args) {
  PyObject *grid, *tuple;
  int threads;
  if (!PyArg_ParseTuple(args, "OO!i", &grid, &PyTuple_Type, &tuple, &threads)) return nullptr;
  int64_t extents[3];
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel || !readGrid(grid, extents)) return nullptr;
  ArgPack pack;
  std::vector<TegulaArg> packed;
  if (!convertAll(pack, &PyTuple_GET_ITEM(tuple, 0), static_cast<size_t>(PyTuple_GET_SIZE(tuple)), packed))
    return nullptr;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  options.num_threads = threads;
  options.device = TEGULA_DEVICE_INDEX_CPU; // nothing is asked of it; else one would be looked for
  double ns;
  const char *why;
  TegulaStatus status = tegula_kernel_estimate(kernel, extents, packed.data(), packed.size(), &options, &ns, &why);
  if (status != TEGULA_OK) return raiseStatus(status);
  return Py_BuildValue("ds", ns, why);
}

PyObject *stageNames(PyObject *self, PyObject *) {
  TegulaKernel *kernel = kernelOf(self);
  if (!kernel) return nullptr;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && tegula_kernel_stage_name(kernel, i); ++i) {
    PyObject *s = PyUnicode_FromString(tegula_kernel_stage_name(kernel, i));
    if (s) PyList_Append(list, s);
    Py_XDECREF(s);
  }
  return list;
}

// compile_for(target) -> kernel
PyObject *compileFor(PyObject *self, PyObject *target) {
  const char *name = textOf(target);
  TegulaKernel *from = name ? kernelOf(self) : nullptr, *kernel = nullptr;
  if (!from) return nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_kernel_compile_for(from, name, &kernel);
  }
  if (status != TEGULA_OK) return raiseStatus(status);
  PyTypeObject *type = Py_TYPE(self);
  PyObject *made = type->tp_alloc(type, 0);
  if (made) reinterpret_cast<KernelObject *>(made)->kernel = kernel;
  else tegula_kernel_release(kernel);
  return made;
}

PyMethodDef methods[] = {{"compile_for", compileFor, METH_O, "compile_for(target): the same kernel for another target, to look at."},
                         {"stage", stage, METH_O, nullptr},
                         {"metadata_json", metadataJson, METH_NOARGS, nullptr},
                         {"info", info, METH_NOARGS, nullptr},
                         {"remark_rows", remarks, METH_NOARGS, nullptr},
                         {"timings_ns", timings, METH_NOARGS, nullptr},
                         {"launch", launchKernel, METH_VARARGS, nullptr},
                         {"run_all", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(runKernel)), METH_FASTCALL, nullptr},
                         {"estimate_launch", estimateLaunch, METH_VARARGS, nullptr},
                         {"handle", handle, METH_NOARGS, nullptr},
                         {"save", save, METH_NOARGS, "save(): the kernel as bytes."},
                         {"stage_names", stageNames, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

// compile_tile(name, text, target or None, {option: value}) -> kernel: as tegula_compile_tile.
PyObject *compileTile(PyObject *, PyObject *args) {
  const char *name, *text, *target;
  Py_ssize_t length;
  PyObject *given;
  if (!PyArg_ParseTuple(args, "ss#zO!", &name, &text, &length, &target, &PyDict_Type, &given)) return nullptr;
  TegulaLaunchOptions options = TEGULA_LAUNCH_OPTIONS_INIT;
  if (!setOptions(options, given)) return nullptr;
  TegulaContext *c = context();
  if (!c) return nullptr;
  TegulaKernel *kernel = nullptr;
  TegulaStatus status;
  {
    WithoutGil others;
    status = tegula_compile_tile(c, name, text, static_cast<size_t>(length), target, &options, &kernel);
  }
  if (status != TEGULA_OK) return raiseStatus(status);
  PyObject *result = wrapKernel(kernel);
  tegula_kernel_release(kernel);
  return result;
}

PyObject *kernelClass; // Python's CompiledKernel, a subclass of KernelType

PyObject *setKernelClass(PyObject *, PyObject *cls) {
  Py_INCREF(cls);
  kernelClass = cls;
  Py_RETURN_NONE;
}

struct OptionRow {
  const char *name;
  enum { Int, Flag, NotFlag, YesOrNo, Number, Device, Stream, Libraries, Arch, Ignored, Refused } kind;
  size_t offset;
};
#define INT_OPTION(name, field) {name, OptionRow::Int, offsetof(TegulaLaunchOptions, field)}
#define FLAG_OPTION(name, field) {name, OptionRow::Flag, offsetof(TegulaLaunchOptions, field)}
// What kernel[grid](..., name=value) takes beside the parameters; the language's names (docs/language.md §4.3) and our
// own.
const OptionRow optionTable[] = {
    INT_OPTION("num_warps", num_warps),
    INT_OPTION("num_stages", num_stages),
    INT_OPTION("num_ctas", num_ctas),
    INT_OPTION("maxnreg", maxnreg),
    INT_OPTION("num_threads", num_threads),
    INT_OPTION("num_cpu_threads", num_threads),
    INT_OPTION("language_level", language_level),
    {"hang_s", OptionRow::Number, offsetof(TegulaLaunchOptions, hang_s)},
    FLAG_OPTION("strict", strict),
    FLAG_OPTION("wide_offsets", wide_offsets),
    FLAG_OPTION("debug", debug),
    FLAG_OPTION("check", checked),
    FLAG_OPTION("checked", checked),
    FLAG_OPTION("debug_info", debug_info),
    FLAG_OPTION("enable_fp_fusion", fp_fusion),
    FLAG_OPTION("sanitize_overflow", sanitize_overflow),
    {"enable_reflect_ftz", OptionRow::NotFlag, offsetof(TegulaLaunchOptions, keep_subnormals)},
    {"clusters", OptionRow::YesOrNo, offsetof(TegulaLaunchOptions, clusters)},
    FLAG_OPTION("launch_cooperative_grid", cooperative),
    FLAG_OPTION("launch_pdl", programmatic_launch),
    {"device", OptionRow::Device, 0},
    {"stream", OptionRow::Stream, 0},
    {"extern_libs", OptionRow::Libraries, 0},
    {"arch", OptionRow::Arch, 0}, // warmup() compiles for it (jit.py); launches are of what the device has
    {"assume_in_bounds", OptionRow::Ignored, 0}, // a promise that nobody has to use
    {"warp_size", OptionRow::Ignored, 0},
    {"enable_fast_math", OptionRow::Ignored, 0},
    {"vec_lib", OptionRow::Ignored, 0},
    {"ukernels", OptionRow::Ignored, 0},
    {"clc", OptionRow::Ignored, 0},
    {"sched4reg", OptionRow::Ignored, 0},
    {"min_shared_mem", OptionRow::Ignored, 0},
    {"ptx_version", OptionRow::Ignored, 0},
    {"ptx_options", OptionRow::Ignored, 0},
    {"backend_name", OptionRow::Ignored, 0},
    {"instrumentation_mode", OptionRow::Ignored, 0},
    {"supported_fp8_dtypes", OptionRow::Ignored, 0},
    {"deprecated_fp8_dot_operand_dtypes", OptionRow::Ignored, 0},
    {"allowed_dot_input_precisions", OptionRow::Ignored, 0},
    {"max_num_imprecise_acc_default", OptionRow::Ignored, 0},
    // What would make another kernel, and cannot: better no launch than one that is not meant.
    {"ir_override", OptionRow::Refused, 0},
    {"default_dot_input_precision", OptionRow::Refused, 0},
};

// A stream: its address, or a stream object of PyTorch (cuda_stream), CuPy (ptr) or cuda.core (__cuda_stream__).
bool streamOf(PyObject *value, void *&out) {
  PyObject *number = nullptr;
  if (PyLong_Check(value)) number = Py_NewRef(value);
  for (const char *name : {"cuda_stream", "ptr"})
    if (!number && !(number = PyObject_GetAttrString(value, name))) dropError();
  if (!number) {
    PyObject *pair = PyObject_CallMethod(value, "__cuda_stream__", nullptr); // (version, address)
    if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) number = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    Py_XDECREF(pair);
  }
  if (!number) {
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError))
      PyErr_Format(PyExc_TypeError, "stream: a CUDA stream or its address is needed, found %s",
                   Py_TYPE(value)->tp_name);
    return false;
  }
  out = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

} // namespace

// The row of a name; keywords are interned strings, so that identity decides about those seen before.
static const OptionRow *findOption(PyObject *name) {
  static PyObject *seen[std::size(optionTable)];
  for (size_t i = 0; i < std::size(optionTable); ++i)
    if (seen[i] == name) return &optionTable[i];
  const char *s = textOf(name);
  if (!s) return dropError(), nullptr; // a lone surrogate or a NUL is in no option
  for (size_t i = 0; i < std::size(optionTable); ++i) {
    if (std::strcmp(s, optionTable[i].name) != 0) continue;
    if (!seen[i] && PyUnicode_CHECK_INTERNED(name)) seen[i] = Py_NewRef(name);
    return &optionTable[i];
  }
  return nullptr;
}

bool isOption(PyObject *name) { return findOption(name) != nullptr; }

/// Without an exception. A number beyond 64 bits is read as the largest or smallest, of which there can be too many of
/// anything: messages show the object.
static bool readInteger(PyObject *object, long long &out) {
  PyObject *i = PyLong_CheckExact(object) ? Py_NewRef(object) : PyNumber_Index(object);
  if (!i) return dropError(), false;
  int overflow;
  out = PyLong_AsLongLongAndOverflow(i, &overflow);
  if (overflow) out = overflow > 0 ? std::numeric_limits<long long>::max() : std::numeric_limits<long long>::min();
  Py_DECREF(i);
  return true;
}

// Libraries of bitcode, as a dict or pairs of names and paths. libdevice's functions are the language's own here,
// whatever file is named for them; others cannot be linked.
static bool onlyLibdevice(PyObject *value) {
  PyObject *pairs = PyMapping_Keys(value);
  if (!pairs) dropError();
  PyObject *fast = PySequence_Fast(pairs ? pairs : value, "extern_libs: a dict of names and paths is needed");
  Py_XDECREF(pairs);
  bool ok = fast;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(fast); ++i) {
    PyObject *item = PySequence_Fast_GET_ITEM(fast, i);
    PyObject *name = PyTuple_Check(item) && PyTuple_GET_SIZE(item) ? PyTuple_GET_ITEM(item, 0) : item;
    ok = PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "libdevice") == 0;
    if (!ok)
      PyErr_Format(PyExc_NotImplementedError, "extern_libs: %R cannot be linked; only libdevice is there, built in",
                   name);
  }
  Py_XDECREF(fast);
  return ok;
}

// "sm80", as Triton spells it.
static bool isArch(PyObject *value) {
  const char *s = PyUnicode_Check(value) ? textOf(value) : nullptr;
  if (s && s[0] == 's' && s[1] == 'm' && s[2] && s[2 + std::strspn(s + 2, "0123456789")] == 0) return true;
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "arch is %R; it must have the form sm80", value);
  return false;
}

int setOption(TegulaLaunchOptions &options, PyObject *name, PyObject *value) {
  if (const OptionRow *found = findOption(name)) {
    const OptionRow &row = *found;
    char *field = reinterpret_cast<char *>(&options) + row.offset;
    if (row.kind == OptionRow::Ignored || value == Py_None) return 1;
    if (row.kind == OptionRow::Refused)
      return PyErr_Format(PyExc_NotImplementedError,
                          "option %s=%R has no equivalent here; launches take it only as None", row.name, value),
             -1;
    if (row.kind == OptionRow::Device) return deviceIndex(value, options.device) ? 1 : -1;
    if (row.kind == OptionRow::Arch) return isArch(value) ? 1 : -1;
    if (row.kind == OptionRow::Libraries) return onlyLibdevice(value) ? 1 : -1;
    if (row.kind == OptionRow::Stream) return streamOf(value, options.stream) ? 1 : -1;
    if (row.kind == OptionRow::YesOrNo) { // 0 is what nobody gave; numbers above 1 are passed on
      if (PyLong_Check(value) && !PyBool_Check(value)) {
        const long number = PyLong_AsLong(value);
        *reinterpret_cast<int8_t *>(field) = number == 0 ? -1 : static_cast<int8_t>(std::clamp(number, -1l, 127l));
        return PyErr_Occurred() ? -1 : 1;
      }
      int truth = PyObject_IsTrue(value);
      if (truth < 0) return -1;
      *reinterpret_cast<int8_t *>(field) = truth ? 1 : -1;
      return 1;
    }
    if (row.kind == OptionRow::Flag || row.kind == OptionRow::NotFlag) {
      int truth = PyObject_IsTrue(value);
      if (truth < 0) return -1;
      *reinterpret_cast<int8_t *>(field) = static_cast<int8_t>((row.kind == OptionRow::Flag) == (truth != 0));
      return 1;
    }
    if (row.kind == OptionRow::Number) {
      double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred()) return -1;
      *reinterpret_cast<double *>(field) = number;
      return 1;
    }
    long long v;
    if (!readInteger(value, v))
      return PyErr_Format(PyExc_TypeError, "%s: an int is needed, found %s", row.name, Py_TYPE(value)->tp_name), -1;
    // 0 is what options that nobody gave are.
    bool isSize =
        row.offset == offsetof(TegulaLaunchOptions, num_warps) || row.offset == offsetof(TegulaLaunchOptions, num_ctas);
    if (v > std::numeric_limits<int32_t>::max() || v < std::numeric_limits<int32_t>::min() || (v == 0 && isSize))
      return PyErr_Format(PyExc_ValueError, "%s is %S; no launch takes that many", row.name, value), -1;
    if (row.offset == offsetof(TegulaLaunchOptions, num_warps) && (v & (v - 1)))
      // as Triton asserts it
      return PyErr_Format(PyExc_AssertionError, "num_warps is %S; it must be a power of 2, at most 64", value), -1;
    *reinterpret_cast<int32_t *>(field) = static_cast<int32_t>(v);
    return 1;
  }
  return 0;
}

bool setOptions(TegulaLaunchOptions &options, PyObject *given) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &name, &value);)
    if (int known = setOption(options, name, value); known <= 0) {
      if (!known) PyErr_Format(PyExc_KeyError, "Keyword argument %U was specified but unrecognised", name);
      return false;
    }
  return true;
}

// Extent `i` of a grid.
static bool readExtent(PyObject *item, Py_ssize_t i, int64_t &out) {
  long long n;
  if (!readInteger(item, n))
    return PyErr_Format(PyExc_TypeError, "a grid has extents that are ints, found %s", Py_TYPE(item)->tp_name), false;
  if (n == std::numeric_limits<long long>::max())
    return PyErr_Format(PyExc_ValueError, "grid dimension %zd is %S; at most 2147483647 programs fit in one dimension",
                        i, item),
           false;
  if (n == std::numeric_limits<long long>::min())
    return PyErr_Format(PyExc_ValueError, "grid dimension %zd is negative (%S)", i, item), false;
  out = n;
  return true;
}

bool readGrid(PyObject *grid, int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  if (PyTuple_Check(grid) && PyTuple_GET_SIZE(grid) >= 1 && PyTuple_GET_SIZE(grid) <= 3) {
    for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(grid); i < n; ++i)
      if (!readExtent(PyTuple_GET_ITEM(grid, i), i, out[i])) return false;
    return true;
  }
  Py_ssize_t n = PySequence_Size(grid);
  if (n < 0) {
    PyErr_Format(PyExc_TypeError, "a grid is a tuple of 1 to 3 ints or a function that returns one, found %s",
                 Py_TYPE(grid)->tp_name);
    return false;
  }
  if (n < 1) return PyErr_Format(PyExc_ValueError, "a grid has 1 to 3 extents, found %zd", n), false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    int64_t more = 1; // published launches have further ones
    PyObject *item = PySequence_GetItem(grid, i);
    bool ok = item && readExtent(item, i, i < 3 ? out[i] : more);
    Py_XDECREF(item);
    if (!ok) return false;
    if (more != 1) return PyErr_Format(PyExc_ValueError, "a grid has 1 to 3 extents, found %zd", n), false;
  }
  return true;
}

PyTypeObject KernelType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Kernel";
  t.tp_basicsize = sizeof(KernelObject);
  t.tp_dealloc = dealloc;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  t.tp_doc = "A compiled kernel.";
  t.tp_methods = methods;
  t.tp_new = PyType_GenericNew; // without a kernel until it is asked something, see kernelOf
  return t;
}();

PyObject *wrapKernel(TegulaKernel *kernel, bool *isNew, std::vector<PyObject *> *keeper) {
  if (isNew) *isNew = false;
  if (!kernel) Py_RETURN_NONE;
  PyObject *result = kernel == lastKernel ? lastWrapper : nullptr;
  if (auto it = result ? wrappers().end() : wrappers().find(kernel); it != wrappers().end()) result = it->second;
  if (result && Py_REFCNT(result) > 0) { // 0: it is about to take itself out
    Py_INCREF(result);
  } else {
    auto *type = reinterpret_cast<PyTypeObject *>(kernelClass);
    result = type->tp_alloc(type, 0);
    if (!result) return nullptr;
    tegula_kernel_retain(kernel);
    reinterpret_cast<KernelObject *>(result)->kernel = kernel;
    wrappers()[kernel] = result;
    if (isNew) *isNew = true;
  }
  lastKernel = kernel;
  lastWrapper = result;
  if (auto *k = reinterpret_cast<KernelObject *>(result); keeper && !k->kept) {
    keeper->push_back(Py_NewRef(result));
    k->kept = true;
  }
  return result;
}

PyMethodDef kernelMethods[] = {{"compile_tile", compileTile, METH_VARARGS, nullptr},
                               {"set_kernel_class", setKernelClass, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

} // namespace tegula_python
