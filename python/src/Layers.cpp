// What wraps a kernel, tuners and heuristics (tegula/runtime/autotuner.py), on the way from `wrapped[grid](...)` to the
// kernel's launch.
//
// Each layer's rule is that of its `run` in Python: this file does the same for launches that need no measurement, and
// leaves all others to `run`. Nothing is remembered from one launch to the next, so whatever a program assigns
// (`cache`, `configs`, `keys`, a configuration's values, `run` itself) counts at once.
#include "Core.h"
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

namespace tegula_python {
namespace {

// Set by set_layers(): the classes, and what their methods are unless somebody replaced them.
PyTypeObject *tunerType, *heuristicsType, *configType;
PyObject *tunerRun, *heuristicsRun, *functionRun, *configKwargs;
PyObject *dtypeText; // f(dtype) -> (its text, is that the text for good?)

struct {
  PyObject *run, *grid, *warmup, *fn, *argNames, *values, *configs, *cache, *keys, *bestConfig, *dtype;
  PyObject *ofConfig[8]; // attributes of a configuration, by ConfigName
} names;
enum ConfigName {
  OPTION,
  OPTIONS_END = 5 /* options of the launch, in the order of Config.all_kwargs() */,
  KWARGS = OPTIONS_END,
  PRE_HOOK,
  ALL_KWARGS,
  CONFIG_NAMES
};

bool sameName(PyObject *a, PyObject *b) {
  if (a == b) return true;
  if (!PyUnicode_CheckExact(a) || !PyUnicode_CheckExact(b)) return false;
  return !(PyUnicode_CHECK_INTERNED(a) && PyUnicode_CHECK_INTERNED(b)) && PyUnicode_Compare(a, b) == 0;
}

/// Index of a name among `count` of them; `count` if it is not there. Names are interned, so identity nearly always
/// decides.
size_t indexOf(PyObject *name, PyObject *const *among, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (among[i] == name) return i;
  size_t i = 0;
  while (i < count && !sameName(among[i], name)) ++i;
  return i;
}

PyObject **itemsOf(PyObject *list) { return reinterpret_cast<PyListObject *>(list)->ob_item; }

/// An empty dict with room for so many items, as far as this Python can make one: growing it costs as much as filling
/// it.
PyObject *newDict(size_t count) {
#if PY_VERSION_HEX < 0x030D0000
  return _PyDict_NewPresized(static_cast<Py_ssize_t>(count));
#else
  return (void)count, PyDict_New();
#endif
}

/// A reference until the end of the scope.
class Owned {
public:
  explicit Owned(PyObject *o) : object_(o) {}
  ~Owned() { Py_XDECREF(object_); }
  Owned(const Owned &) = delete;
  operator PyObject *() const { return object_; }
  void reset(PyObject *o) { Py_XSETREF(object_, o); }

private:
  PyObject *object_;
};

/// Pointers in a row, without an allocation for as many as nearly all launches have.
class Row {
public:
  Row() = default;
  Row(const Row &) = delete;
  PyObject *const *data() const { return data_; }
  size_t size() const { return size_; }
  PyObject *&operator[](size_t i) { return data_[i]; }
  PyObject *operator[](size_t i) const { return data_[i]; }
  void push(PyObject *o) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = o;
  }
  void append(PyObject *const *from, size_t n) {
    if (size_ + n > capacity_) grow(size_ + n);
    std::copy_n(from, n, data_ + size_);
    size_ += n;
  }

private:
  void grow(size_t least) {
    std::vector<PyObject *> more(std::max(least, 2 * capacity_));
    std::copy_n(data_, size_, more.data());
    heap_ = std::move(more);
    data_ = heap_.data();
    capacity_ = heap_.size();
  }
  PyObject *inline_[48];
  PyObject **data_ = inline_;
  size_t size_ = 0, capacity_ = std::size(inline_);
  std::vector<PyObject *> heap_; // all of them, once they are more
};

/// A row of references, until the end of the scope.
class Held : public Row {
public:
  ~Held() {
    for (size_t i = 0; i < size(); ++i) Py_DECREF((*this)[i]);
  }
};

/// A launch on its way.
class Call {
public:
  PyObject *grid;
  Row stack;    // positional arguments followed by the values of keywords, as a vectorcall has them
  Row keywords; // their names
  size_t positional;

  Call(PyObject *grid, PyObject *const *args, size_t positional, Names given) : grid(grid), positional(positional) {
    stack.append(args, positional + given.count);
    keywords.append(given.names, given.count);
  }
  Call(const Call &) = delete;

  size_t count() const { return keywords.size(); }
  PyObject *value(size_t keyword) const { return stack[positional + keyword]; }
  /// Index of a keyword; count() if it was not given.
  size_t find(PyObject *name) const { return indexOf(name, keywords.data(), count()); }
  /// Gives the keyword at find(name) a value; takes over that reference.
  void set(size_t at, PyObject *name, PyObject *v) {
    kept_.push(v);
    if (at < count()) {
      stack[positional + at] = v;
      return;
    }
    kept_.push(Py_NewRef(name));
    keywords.push(name);
    stack.push(v);
  }
  /// How many of the positional arguments have a name.
  size_t named(PyObject *argNames) const {
    return std::min(positional, static_cast<size_t>(PyList_GET_SIZE(argNames)));
  }
  /// (*head, *names of the keywords)
  PyObject *keywordTuple(std::initializer_list<PyObject *> head) const {
    PyObject *tuple = PyTuple_New(static_cast<Py_ssize_t>(head.size() + count()));
    Py_ssize_t at = 0;
    if (!tuple) return nullptr;
    for (PyObject *name : head) PyTuple_SET_ITEM(tuple, at++, Py_NewRef(name));
    for (size_t i = 0; i < count(); ++i) PyTuple_SET_ITEM(tuple, at++, Py_NewRef(keywords[i]));
    return tuple;
  }
  /// All arguments by name, as `run` has them: a new dict.
  PyObject *bound(PyObject *argNames) const {
    PyObject *dict = newDict(named(argNames) + count() + 6); // the configuration or the heuristics add some
    bool ok = dict;
    for (size_t i = 0; ok && i < named(argNames); ++i)
      ok = !PyDict_SetItem(dict, PyList_GET_ITEM(argNames, static_cast<Py_ssize_t>(i)), stack[i]);
    ok = ok && !PyDict_SetItem(dict, names.grid, grid) && !PyDict_SetItem(dict, names.warmup, Py_False);
    for (size_t i = 0; ok && i < count(); ++i) ok = !PyDict_SetItem(dict, keywords[i], value(i));
    if (!ok) Py_CLEAR(dict);
    return dict;
  }

private:
  Held kept_;
};

enum Step { Next, LongWay, Failed };

/// Does `object`, with these attributes of its own, have `method` under `name`?
bool has(PyObject *object, PyObject *attributes, PyObject *name, PyObject *method) {
  return _PyType_Lookup(Py_TYPE(object), name) == method && !PyDict_Contains(attributes, name);
}

/// str(dtype); a new reference.
PyObject *textOfDtype(PyObject *dtype) {
  struct Known {
    PyObject *dtype, *text;
  };
  static Known recent[16];
  static unsigned next;
  for (const Known &r : recent)
    if (r.dtype == dtype) return Py_NewRef(r.text);
  Owned row(PyObject_CallOneArg(dtypeText, dtype));
  PyObject *text;
  int forGood;
  if (!row || !PyArg_ParseTuple(row, "Up", &text, &forGood)) return nullptr;
  if (forGood) {
    Known &r = recent[next++ % std::size(recent)];
    Py_XDECREF(r.dtype);
    Py_XDECREF(r.text);
    r = {Py_NewRef(dtype), Py_NewRef(text)};
  }
  return Py_NewRef(text);
}

bool hasNoDtype(PyObject *value) {
  PyTypeObject *t = Py_TYPE(value);
  return t == &PyLong_Type || t == &PyFloat_Type || t == &PyBool_Type || t == &PyUnicode_Type || t == &PyTuple_Type ||
         value == Py_None;
}

/// Adds the text of value.dtype, if it has one, to the parts of a key. False with an exception set.
bool addDtype(PyObject *value, Row &parts) {
  if (hasNoDtype(value)) return true;
  PyObject *dtype = plainDtype(value);
  Owned held(dtype ? nullptr : PyObject_GetAttr(value, names.dtype));
  if (!dtype && !(dtype = held)) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    return true;
  }
  PyObject *text = textOfDtype(dtype);
  if (text) parts.push(text);
  return text;
}

/// The tuning key of a launch, as Autotuner._key_of makes it. Null, perhaps with an exception set: `run` is to make it.
PyObject *tuningKey(const Call &call, PyObject *argNames, PyObject *keys) {
  const size_t named = call.named(argNames), known = static_cast<size_t>(PyList_GET_SIZE(argNames));
  Row given, theirNames; // what is given to parameters, positional first
  Row parts;             // owned
  given.append(call.stack.data(), named);
  theirNames.append(itemsOf(argNames), named);
  for (size_t k = 0; k < call.count(); ++k) {
    size_t i = indexOf(call.keywords[k], itemsOf(argNames), known);
    if (i < named) return nullptr; // given twice
    if (i == known) continue;
    given.push(call.value(k));
    theirNames.push(call.keywords[k]);
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(keys); ++k) {
    size_t i = indexOf(PyList_GET_ITEM(keys, k), theirNames.data(), theirNames.size());
    if (i < given.size()) parts.push(Py_NewRef(given[i]));
  }
  bool ok = true;
  for (size_t i = 0; ok && i < given.size(); ++i) ok = addDtype(given[i], parts);
  PyObject *key = ok ? PyTuple_New(static_cast<Py_ssize_t>(parts.size())) : nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (key) PyTuple_SET_ITEM(key, static_cast<Py_ssize_t>(i), parts[i]);
    else Py_DECREF(parts[i]);
  }
  return key;
}

/// What a configuration of the class itself has of its own, read in one go: it has a few attributes, and looking for
/// each costs more.
class ConfigParts {
public:
  explicit ConfigParts(PyObject *config)
      : attributes_(Py_TYPE(config) == configType ? PyObject_GenericGetDict(config, nullptr) : nullptr) {
    PyObject *name, *value;
    if (!attributes_) PyErr_Clear();
    for (Py_ssize_t at = 0; attributes_ && PyDict_Next(attributes_, &at, &name, &value);)
      if (size_t i = indexOf(name, names.ofConfig, CONFIG_NAMES); i < CONFIG_NAMES) parts_[i] = value;
  }
  /// Borrowed; null: it has none.
  PyObject *&operator[](size_t name) { return parts_[name]; }
  /// all_kwargs() does what eachOption does.
  bool isPlain() const {
    return parts_[KWARGS] && PyDict_CheckExact(parts_[KWARGS]) && !parts_[ALL_KWARGS] &&
           _PyType_Lookup(configType, names.ofConfig[ALL_KWARGS]) == configKwargs;
  }
  bool hasNoHook() const {
    return parts_[PRE_HOOK] == Py_None && !_PyType_Lookup(configType, names.ofConfig[PRE_HOOK]);
  }

private:
  Owned attributes_;
  PyObject *parts_[CONFIG_NAMES] = {};
};

/// Has f(name, value) called for each of config.all_kwargs(), both borrowed, until it returns false. False with an
/// exception set.
template <typename F> bool eachOption(PyObject *config, ConfigParts &parts, F &&f) {
  PyObject *name, *value;
  if (parts.isPlain()) {
    for (size_t i = OPTION; i < OPTIONS_END; ++i) {
      if (!parts[i]) return PyErr_SetObject(PyExc_AttributeError, names.ofConfig[i]), false;
      if (parts[i] == Py_None) parts[i] = nullptr;
    }
    for (Py_ssize_t at = 0; PyDict_Next(parts[KWARGS], &at, &name, &value);) {
      // An option that is in both has the option's value, in the place of the other.
      if (size_t i = indexOf(name, names.ofConfig, OPTIONS_END); i < OPTIONS_END && parts[i])
        value = std::exchange(parts[i], nullptr);
      if (!f(name, value)) return false;
    }
    for (size_t i = OPTION; i < OPTIONS_END; ++i)
      if (parts[i] && !f(names.ofConfig[i], parts[i])) return false;
    return true;
  }
  Owned all(PyObject_CallMethodNoArgs(config, names.ofConfig[ALL_KWARGS]));
  if (!all) return false;
  if (!PyDict_Check(all))
    return PyErr_SetString(PyExc_TypeError, "all_kwargs() of a configuration gives a dict"), false;
  for (Py_ssize_t at = 0; PyDict_Next(all, &at, &name, &value);)
    if (!f(name, value)) return false;
  return true;
}

/// config.pre_hook({**arguments, **config.all_kwargs()}), if there is one.
bool callHook(PyObject *config, const Call &call, PyObject *argNames) {
  Owned hook(PyObject_GetAttr(config, names.ofConfig[PRE_HOOK]));
  int there = hook ? hook == Py_None ? 0 : PyObject_IsTrue(hook) : -1;
  if (there <= 0) return there == 0;
  Owned all(call.bound(argNames));
  ConfigParts parts(config);
  if (!all || !eachOption(config, parts,
                          [&](PyObject *name, PyObject *value) { return PyDict_SetItem(all, name, value) == 0; }))
    return false;
  Owned done(PyObject_CallOneArg(hook, all));
  return done != nullptr;
}

/// The configuration that Autotuner.run would choose without measuring; a new reference. Null, perhaps with an
/// exception set: `run` is to choose.
PyObject *choice(const Call &call, PyObject *attributes, PyObject *argNames) {
  PyObject *configs = PyDict_GetItemWithError(attributes, names.configs),
           *keys = PyDict_GetItemWithError(attributes, names.keys),
           *cache = PyDict_GetItemWithError(attributes, names.cache);
  if (!configs || !keys || !cache || !PyList_CheckExact(configs) || !PyList_CheckExact(keys) ||
      !PyDict_CheckExact(cache))
    return nullptr;
  if (PyList_GET_SIZE(configs) == 1) return Py_NewRef(PyList_GET_ITEM(configs, 0));
  Owned held(Py_NewRef(cache)); // comparing keys may run Python
  Owned key(tuningKey(call, argNames, keys));
  return key ? Py_XNewRef(PyDict_GetItemWithError(cache, key)) : nullptr;
}

Step throughTuner(PyObject *tuner, PyObject *attributes, PyObject *argNames, Call &call) {
  if (!has(tuner, attributes, names.run, tunerRun)) return LongWay;
  Owned config(choice(call, attributes, argNames));
  if (!config && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return Failed; // Ctrl-C comes once
  if (!config) return PyErr_Clear(), LongWay; // which raises it again
  if (PyDict_GetItemWithError(attributes, names.bestConfig) != config &&
      PyDict_SetItem(attributes, names.bestConfig, config) != 0)
    return Failed;
  std::optional<ConfigParts> parts(config);
  if (!parts->hasNoHook()) {
    if (!callHook(config, call, argNames)) return Failed;
    parts.emplace(config); // which it may have changed
  }
  auto add = [&](PyObject *name, PyObject *value) {
    if (call.find(name) == call.count()) return call.set(call.count(), name, Py_NewRef(value)), true;
    PyErr_Format(PyExc_ValueError,
                 "Conflicting meta-parameters: %U. Make sure that you don't re-define auto-tuned symbols.", name);
    return false;
  };
  return eachOption(config, *parts, add) ? Next : Failed;
}

Step throughHeuristics(PyObject *heuristics, PyObject *attributes, PyObject *argNames, Call &call) {
  PyObject *values = PyDict_GetItemWithError(attributes, names.values), *name, *f;
  if (!values || !PyDict_CheckExact(values) || !has(heuristics, attributes, names.run, heuristicsRun)) return LongWay;
  Held items; // names and functions by turns: what is called may change the values
  for (Py_ssize_t at = 0; PyDict_Next(values, &at, &name, &f);) {
    if (!PyUnicode_CheckExact(name) || sameName(name, names.grid) || sameName(name, names.warmup)) return LongWay;
    items.push(Py_NewRef(name)), items.push(Py_NewRef(f));
  }
  Owned bound(call.bound(argNames));
  if (!bound) return Failed;
  for (size_t i = 0; i < items.size(); i += 2) {
    name = items[i];
    PyObject *value = PyObject_CallOneArg(items[i + 1], bound);
    if (!value) return Failed;
    call.set(call.find(name), name, value);
    if (PyDict_SetItem(bound, name, value) != 0) return Failed;
  }
  return Next;
}

/// object.run(*args, grid=grid, warmup=False, **keywords)
PyObject *longWay(PyObject *object, const Call &call) {
  Owned run(PyObject_GetAttr(object, names.run)), keywords(call.keywordTuple({names.grid, names.warmup}));
  if (!run || !keywords) return nullptr;
  Row all;
  all.append(call.stack.data(), call.positional);
  all.push(call.grid);
  all.push(Py_False);
  all.append(call.stack.data() + call.positional, call.count());
  return PyObject_Vectorcall(run, all.data(), call.positional, keywords);
}

PyObject *launch(PyObject *outermost, Call &call) {
  for (Owned object(Py_NewRef(outermost));;) {
    Owned attributes(PyObject_GenericGetDict(object, nullptr));
    if (!attributes) return nullptr;
    if (isPlainFunction(object) && has(object, attributes, names.run, functionRun))
      return launchFunction(object, call.grid, call.stack.data(), call.positional,
                            {call.keywords.data(), call.count()});
    PyTypeObject *type = Py_TYPE(object);
    if (type != tunerType && type != heuristicsType) return longWay(object, call);
    Owned argNames(Py_XNewRef(PyDict_GetItemWithError(attributes, names.argNames)));
    if (!argNames || !PyList_CheckExact(argNames)) return longWay(object, call);
    Step step = type == tunerType ? throughTuner(object, attributes, argNames, call)
                                  : throughHeuristics(object, attributes, argNames, call);
    if (step == Failed) return nullptr;
    if (step == LongWay) return longWay(object, call);
    PyObject *fn = PyDict_GetItemWithError(attributes, names.fn); // after what was called, as in `run`
    if (!fn) return PyErr_SetObject(PyExc_AttributeError, names.fn), nullptr;
    object.reset(Py_NewRef(fn));
  }
}

PyObject *vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
  auto *l = reinterpret_cast<LauncherObject *>(self);
  Call call(l->grid, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), namesOf(kwnames));
  for (PyObject *name : {names.grid, names.warmup})
    if (call.find(name) < call.count())
      return PyErr_Format(PyExc_TypeError, "run() got multiple values for keyword argument '%U'", name), nullptr;
  return launch(l->object, call);
}

PyObject *subscript(PyObject *self, PyObject *grid) { return makeLauncher(self, grid, vectorcall); }

PyMappingMethods mapping = {nullptr, subscript, nullptr};

// set_layers(Autotuner, Heuristics, JITFunction, Config, text of a dtype): once, when the classes are as they are
// written.
PyObject *setLayers(PyObject *, PyObject *args) {
  PyObject *tuner, *heuristics, *function, *config;
  if (tunerType) return PyErr_SetString(PyExc_RuntimeError, "the layers are set"), nullptr;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O", &PyType_Type, &tuner, &PyType_Type, &heuristics, &PyType_Type, &function,
                        &PyType_Type, &config, &dtypeText))
    return nullptr;
  struct Text {
    PyObject **to;
    const char *text;
  };
  for (const Text &r : {Text{&names.run, "run"},
                        {&names.grid, "grid"},
                        {&names.warmup, "warmup"},
                        {&names.fn, "fn"},
                        {&names.argNames, "arg_names"},
                        {&names.values, "values"},
                        {&names.configs, "configs"},
                        {&names.cache, "cache"},
                        {&names.keys, "keys"},
                        {&names.bestConfig, "best_config"},
                        {&names.dtype, "dtype"},
                        {&names.ofConfig[0], "num_warps"},
                        {&names.ofConfig[1], "num_ctas"},
                        {&names.ofConfig[2], "num_stages"},
                        {&names.ofConfig[3], "maxnreg"},
                        {&names.ofConfig[4], "ir_override"},
                        {&names.ofConfig[KWARGS], "kwargs"},
                        {&names.ofConfig[PRE_HOOK], "pre_hook"},
                        {&names.ofConfig[ALL_KWARGS], "all_kwargs"}})
    if (!(*r.to = PyUnicode_InternFromString(r.text))) return nullptr;
  auto method = [](PyObject *type, PyObject *name, PyObject *&to) {
    to = Py_XNewRef(_PyType_Lookup(reinterpret_cast<PyTypeObject *>(type), name));
    return to != nullptr;
  };
  if (!method(tuner, names.run, tunerRun) || !method(heuristics, names.run, heuristicsRun) ||
      !method(function, names.run, functionRun) || !method(config, names.ofConfig[ALL_KWARGS], configKwargs))
    return PyErr_SetString(PyExc_TypeError, "a class lacks `run` or `all_kwargs`"), nullptr;
  for (PyObject *o : {tuner, heuristics, config, dtypeText}) Py_INCREF(o);
  heuristicsType = reinterpret_cast<PyTypeObject *>(heuristics);
  configType = reinterpret_cast<PyTypeObject *>(config);
  tunerType = reinterpret_cast<PyTypeObject *>(tuner);
  Py_RETURN_NONE;
}

} // namespace

PyMethodDef layerMethods[] = {{"set_layers", setLayers, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyTypeObject LayerType = [] {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = "tegula._core.Layer";
  t.tp_basicsize = sizeof(PyObject);
  t.tp_as_mapping = &mapping;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  t.tp_doc = "What wraps a kernel; base class of Autotuner and Heuristics.";
  t.tp_new = PyType_GenericNew;
  return t;
}();

} // namespace tegula_python
