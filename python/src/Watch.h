// Whether Python's variables still hold what a function was compiled with, asked on every launch.
//
// In the usual case, where no variable of the module was assigned since the last launch, this takes a few comparisons:
// one a module (where CPython numbers the states of a dict), one a variable of an enclosing function, one a constexpr,
// whose value may be assigned in place.
#pragma once
#include "Core.h"

namespace tegula_python {

class Watch {
public:
  /// Null with an exception set. `rows`: list of (place, name, found, value, holds, held): the dict or cell of a
  /// variable, its name, whether it had a value and which; `holds`: it is a constexpr that cannot be changed but by
  /// assigning its value, which is `held`. `always`: `changed` is to be called on every launch, as something can change
  /// unnoticed. `changed`: callable without arguments, see holds().
  static Watch *make(PyObject *rows, bool always, PyObject *changed);
  ~Watch();
  Watch(const Watch &) = delete;

  /// 1: all is as it was. Else calls `changed`, which raises (-1), or makes a new watch or says that the function must
  /// be prepared again (0, and this watch may be gone); with `always` it may also return True if there was no change
  /// (1).
  int holds();
  int traverse(visitproc visit, void *arg) const;

private:
  struct Variable {
    PyObject *name, *expected; // expected null: it had no value
  };
  struct Module {
    PyObject *dict;
    uint64_t version; // of the dict when all of these held
    std::vector<Variable> variables;
  };
  struct Pair {
    PyObject *object, *expected; // a cell or a constexpr, and what was in it
  };
  Watch() = default;
  bool add(PyObject *row);
  static bool same(Module &m);
  bool same();

  std::vector<Module> modules_;
  std::vector<Pair> cells_, constants_;
  std::vector<PyObject *> kept_; // objects whose pointers are compared
  PyObject *changed_ = nullptr;
  bool always_ = false;
  unsigned long bindings_ = 0;
};

} // namespace tegula_python
