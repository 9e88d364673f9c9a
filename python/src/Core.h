// The extension module tegula._core: CPython objects over the C interface tegula.h, and the launch path in plain C++.
//
// Raw C API instead of a binding generator: a launch has a budget of 3 us for 19 arguments, so arguments are read from
// their objects without intermediate Python objects. One file a type: Value.cpp, Function.cpp, Kernel.cpp; Args.cpp
// converts arguments, Errors.cpp turns statuses into exceptions, Module.cpp joins them. All functions follow CPython's
// convention: NULL or -1 with an exception set.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <tegula/tegula.h>
#include <memory>
#include <string>
#include <vector>

namespace tegula_python {

/// The process-wide context, made on first use. NULL with an exception set on failure.
TegulaContext *context();

/// The text of a string, which must hold no NUL character: what follows one would be lost. NULL with an exception set.
const char *textOf(PyObject *string);

// ---- Gil.cpp
/// Lets other threads run Python until the end of the scope; then has the GIL again, or never returns if the
/// interpreter has ended. What pollSignals() kept meanwhile is raised at the end of the scope: calls that poll
/// (launches, waits) look at PyErr_Occurred() even if the library says that all went well.
class WithoutGil {
public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil &) = delete;

private:
  void *state_;
};
/// Has the GIL until the end of the scope, from a thread that may not have it. False if the interpreter has ended:
/// nothing of Python may be touched then.
class WithGil {
public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil &) = delete;
  explicit operator bool() const { return has_; }

private:
  bool has_;
  int state_ = 0;
};
/// Has Python's signal handlers run, with the GIL. True: one of them raised; the exception is kept until this thread's
/// WithoutGil ends, as Python may run before.
bool pollSignals();
/// `begin_exit()`: called by atexit.
PyObject *beginExit(PyObject *self, PyObject *);
void forgetThreadsAfterFork();

// ---- Errors.cpp
/// Sets the Python exception for the thread's last error; returns NULL for convenience.
PyObject *raiseStatus(TegulaStatus status);

/// Python's UserWarnings for what the thread's last compilation warned of, each at its place in the kernel; once a
/// place by default. False: the program's filters made an exception of one, which is set.
bool warnOfCompilation();
/// The pending exception with its traceback, which is pending no more: a new reference. Null: there was none.
PyObject *takeException();
/// Makes it the pending exception again and takes over that reference; returns NULL for convenience.
PyObject *raiseAgain(PyObject *exception);
/// Forgets the pending exception, if there is one, on a way that goes on without it. A Ctrl-C among them comes again:
/// in the next Python code or poll.
void dropError();
/// `set_exceptions(compilation_error, device_error, out_of_resources, ptxas_error)`: classes made in Python; the first
/// takes (text, diagnostics list).
PyObject *setExceptions(PyObject *self, PyObject *args);

// ---- Value.cpp
struct ValueObject {
  PyObject_HEAD
      TegulaValue *value;
};
extern PyTypeObject ValueType;
/// Of a dict {name: Value}; the texts and values are the dict's. False with an exception.
bool namedValues(PyObject *constants, std::vector<TegulaNamedValue> &out);
/// Wraps a reference that is given over; NULL value: raises the last error.
PyObject *wrapValue(TegulaValue *value);
extern PyMethodDef valueMethods[];

// ---- Eager.cpp
extern PyTypeObject EagerType;
/// `set_eager(tensor class, tuple class, to_value, from_value)` and what looks at tensors.
extern PyMethodDef eagerMethods[];

// ---- Args.cpp
/// From that many elements on TEGULA_ARG_WIDE is said of pointers whose extent does not say it.
constexpr int64_t wideElements = int64_t(1) << 30;
/// The arguments of one launch. Owns the temporaries that the TegulaArgs point to.
class ArgPack {
public:
  ~ArgPack();
  /// Converts `object` into `out`; `constexprParam`: the parameter is annotated tl.constexpr. False with an exception
  /// set.
  bool convert(PyObject *object, bool constexprParam, TegulaArg &out, const char *paramName);
  /// Index of the first argument given by a non-contiguous array, or -1 (for the message if the kernel stores through
  /// it).
  const char *nonContiguous = nullptr;
  /// Ordinal of the GPU that the first tensor on a GPU is on, -1 if there is none; and whether there was one in CPU
  /// memory.
  int gpu = -1;
  const char *gpuName = ""; // its parameter
  bool host = false;
  /// Parameter of the first argument that only stands for a tensor: good for compiling.
  const char *withoutMemory = nullptr;
  /// The stream that a library without a current one to ask (CuPy and others) says its data is ready on.
  void *stream = nullptr;

private:
  bool convertTuple(PyObject *object, TegulaArg &out, const char *paramName);
  bool convertArray(PyObject *object, TegulaArg &out, const char *paramName);
  bool convertTensor(PyObject *object, TegulaArg &out, const char *paramName);
  /// Objects of this type were converted by convertTensor before.
  static bool knownTensor(PyTypeObject *type);
  void onGpu(int ordinal, const char *paramName) {
    if (gpu < 0) gpu = ordinal, gpuName = paramName;
  }
  bool convertOther(PyObject *object, TegulaArg &out, const char *paramName);
  bool convertConstant(PyObject *object, TegulaArg &out);
  bool convertDescriptor(PyObject *object, TegulaArg &out, const char *paramName);
  unsigned depth_ = 0; // of tuples around the object at hand
  std::vector<PyObject *> owned_;
  std::vector<std::vector<TegulaArg>> tuples_;
  std::vector<std::unique_ptr<TegulaTensorDescriptor>> descriptors_;
};
/// `set_converter(f)`: f(object) -> _core.Value for everything C++ does not know, or TypeError.
/// Also takes a table of dtype names: numpy/torch dtype object -> name.
PyObject *setConverters(PyObject *self, PyObject *args);
/// `set_descriptor_class(cls)`: objects of it, with base, shape, strides, block_shape, padding and round_f32_to_tf32,
/// are tensor descriptors.
PyObject *setDescriptorClass(PyObject *self, PyObject *cls);

/// The dtype of a numpy array, borrowed; null for whatever is none, or of a class of its own.
PyObject *plainDtype(PyObject *object);

// ---- Memory.cpp
/// `memory` and `memory_user` of launch options: what memory the arguments are views of. Costs nothing unless the
/// library asks.
struct MemoryQuery {
  PyObject *const *objects; // null: not given
  const TegulaArg *args;    // made of them
  size_t count;
  static int32_t answer(void *user, const TegulaArg *arg, TegulaMemory *out);
  void attach(TegulaLaunchOptions &options) {
    options.memory = answer;
    options.memory_user = this;
  }
};
/// `set_memory_finder(f)`: f(tensor) -> (address, bytes) or None.
PyObject *setMemoryFinder(PyObject *self, PyObject *f);

// ---- Tensors.cpp
/// `tensor_types()`: which types of tensors are known, and how they are read.
PyObject *tensorTypes(PyObject *self, PyObject *);
/// The stream that other code of this process launches on at the moment on that GPU; null, the default stream, if
/// nobody can be asked. False with an exception set.
bool currentStream(int ordinal, void *&stream);

// ---- Device.cpp
/// Index of a device given as "cuda:1", as an index of a GPU, or as an object whose str() is such a name
/// (torch.device); -1 for None. False with an exception set.
bool deviceIndex(PyObject *object, int32_t &out);
/// Fills in what the caller left open: the device from where the tensors are, and the stream. False with an exception
/// set.
bool chooseDevice(const ArgPack &pack, TegulaLaunchOptions &options);
/// Until the end of the scope this thread's launches on that GPU that name no stream go to this one.
class OnStream {
public:
  OnStream(int32_t device, void *stream);
  ~OnStream();
  OnStream(const OnStream &) = delete;

private:
  int32_t device_;
  void *stream_;
};
/// Is that index of a device one of a GPU?
inline bool isGpu(int32_t device) { return device >= TEGULA_DEVICE_INDEX_CUDA && device < TEGULA_DEVICE_INDEX_END; }
/// The stream that launches on that GPU which name none go to: OnStream's, or the current one. False with an exception
/// set.
bool streamNow(int32_t device, void *&stream);
/// Index of the GPU that the last launch was for, -1: none since it was set so. Guarded by the GIL.
extern int32_t lastGpu;
extern PyMethodDef deviceMethods[];

// ---- Function.cpp
extern PyTypeObject FunctionType;
extern PyTypeObject LauncherType;
/// `wrapped[grid]`: calling it launches.
struct LauncherObject {
  PyObject_HEAD
      vectorcallfunc vectorcall; // of what launches the object
  PyObject *object;          // a Function or a Layer
  PyObject *grid;            // null: none
  bool warmup;               // compiles only
  bool direct;               // never by hooks
};
/// A new reference; `grid` may be null.
PyObject *makeLauncher(PyObject *object, PyObject *grid, vectorcallfunc call, bool warmup = false, bool direct = false);
struct FunctionObject;
/// `set_constexpr_class(cls)`: tl.constexpr, whose slot `value` says what an object of it holds.
PyObject *setConstexprClass(PyObject *self, PyObject *cls);
/// `bindings_changed()`: some function has read a variable since its watch was made.
PyObject *bindingsChanged(PyObject *self, PyObject *);
TegulaFunction *functionHandle(PyObject *function);
/// Is it a function whose `[grid]` is the launch below?
bool isPlainFunction(PyObject *object);
/// Names of the keywords of a call, borrowed.
struct Names {
  PyObject *const *names;
  size_t count;
};
/// Those of a vectorcall, which may be null.
inline Names namesOf(PyObject *kwnames) {
  return {kwnames ? reinterpret_cast<PyTupleObject *>(kwnames)->ob_item : nullptr,
          kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0};
}
/// function[grid](*args, **keywords), hooks included; arguments as in a vectorcall.
PyObject *launchFunction(PyObject *function, PyObject *grid, PyObject *const *args, size_t positional, Names keywords);
extern PyMethodDef functionMethods[];

// ---- Bound.cpp
extern PyTypeObject BoundType;
extern PyMethodDef boundMethods[];

// ---- Layers.cpp
extern PyTypeObject LayerType;
extern PyMethodDef layerMethods[];

// ---- Kernel.cpp
extern PyTypeObject KernelType;
/// A Python object for a kernel; takes a new reference of its own. As long as somebody has the object, the same kernel
/// gives the same one; `isNew`, if given: it had none. `keeper`, if given, gets a reference too, unless another did.
PyObject *wrapKernel(TegulaKernel *kernel, bool *isNew = nullptr, std::vector<PyObject *> *keeper = nullptr);
extern PyMethodDef kernelMethods[];

// ---- Tune.cpp
extern PyMethodDef tuneMethods[];

// ---- Layout.cpp
extern PyMethodDef layoutMethods[];

/// Reads launch options from keywords. Returns 1 if `name` is one (and sets it), 0 if not, -1 with an exception.
int setOption(TegulaLaunchOptions &options, PyObject *name, PyObject *value);
/// All of a dict {name: value}; false with an exception, a KeyError for what is no option.
bool setOptions(TegulaLaunchOptions &options, PyObject *given);

// ---- Bundle.cpp
extern PyMethodDef bundleMethods[];
extern const char *const functionCapsule; // what Function.handle() gives: a TegulaFunction
bool isOption(PyObject *name);
/// A grid: sequence of 1 to 3 ints.
bool readGrid(PyObject *grid, int64_t out[3]);

} // namespace tegula_python
