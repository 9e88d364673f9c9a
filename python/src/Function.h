// What a jit function is to the launch path (Function.cpp) and to launch handles (Bound.cpp).
#pragma once
#include "Core.h"

namespace tegula_python {

class Watch;

struct FunctionObject {
  PyObject_HEAD
      TegulaFunction *handle;
  PyObject *prepare;    // callable without arguments: binds what the function reads, and calls watch()
  bool ready;           // it did, and nothing is known to have changed since
  Watch *watch;
  PyObject *names;      // tuple of interned parameter names
  size_t paramCount;
  uint8_t *paramFlags;  // TEGULA_PARAM_* per parameter
  const char **paramNames; // text of `names`
  bool *isOption;          // of each parameter: is it called like an option of launches?
  int variadic;         // index of *args, -1
  PyObject *defaults;   // tuple parallel to names of default objects, for grid callables; NULL where none
  TegulaLaunchOptions options; // defaults of the decorator
  std::vector<TegulaFunction *> *retired; // earlier handles: launches under way may still use them
  std::vector<PyObject *> *kernels;       // that were launched through it
  bool intercepted; // its launches go by `interceptor`
  size_t positional; // parameters that may be given by position, *args not counted
};

/// Prepared, and all that it reads as it was. False with an exception set.
bool ready(FunctionObject *f);
/// Binds the call's objects to parameters as Python would. `bound[i]` is borrowed; the *args tuple is new and kept in
/// `rest`. `partial`: constexpr parameters may be missing.
bool bindArguments(FunctionObject *f, PyObject *const *args, size_t nargs, Names keywords, PyObject **bound,
                   PyObject *&rest, TegulaLaunchOptions &options, bool partial = false);
/// The extents of a grid. What a callable one sees: every bound parameter by name, defaults included.
bool readGridOf(FunctionObject *f, PyObject *grid, PyObject *const *bound, int64_t out[3]);
/// Do launches of it come by Python's hooks?
bool isIntercepted(const FunctionObject *f);
/// Do all launches have the option `debug`, whatever they say?
bool isDebugDemanded();

} // namespace tegula_python
