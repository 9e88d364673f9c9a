// Functions, and the modules that resolve their names. Immutable once built; shared between threads.
//
// There are two sources: ModuleLoader reads .py files (C++ programs, the shell), and the Python binding builds
// Functions from live function objects with createFunction() and an explicit table of captured globals.
#pragma once
#include "lang/Circle.h"
#include "support/Diag.h"
#include "syntax/Ast.h"
#include <functional>
#include <optional>

namespace tegula::lang {

/// Where the free names of a function are looked up. lookup() is const and thread-safe (implementations lock inside).
class Scope {
public:
  virtual ~Scope() = default;
  /// The value of a global; nullopt if there is no such name. A global that exists but may not be used in a kernel (a
  /// plain int, a list...) gives a value with `allowed` false.
  struct Binding {
    Value value;
    bool allowed = true;
    Loc declared;
  };
  virtual std::optional<Binding> lookup(std::string_view name) const = 0;
  /// What `from m import *` binds, sorted; of the language's own modules only.
  virtual std::vector<std::string> publicNames() const { return {}; }
};

struct Function {
  /// Plain: undecorated, only called by constexpr code. Builtin: runs at compile time, but may handle run-time values
  /// (tl.core.builtin, and undecorated functions in a class of aggregates).
  enum class Kind : uint8_t { Jit, Constexpr, Plain, Builtin } kind = Kind::Jit;
  std::string name;
  std::shared_ptr<const syntax::Tree> tree;
  const syntax::Stmt *def = nullptr; // a FunctionDef in `tree`
  std::shared_ptr<const Scope> scope;
  bool noinline_ = false;
  /// Arithmetic is executed as written: no product is fused into a sum, and integers wrap without a check, in debug
  /// builds too.
  bool exact = false;
  bool mustUse = false;
  std::string mustUseHint;
  /// A nested function: its meaning depends on the call that made it, too.
  bool captures = false;
  /// Parallel to def->params: default values (Error payload = no default), as `node` stores them; read them through
  /// defaultOf().
  std::vector<Value> defaults;
  Value defaultOf(size_t i) const;
  /// Of a function that a binding makes (lang/Circle.h).
  Node *node = nullptr;
  /// Names in do_not_specialize / do_not_specialize_on_alignment.
  std::vector<std::string> doNotSpecialize, doNotSpecializeOnAlignment;
  /// Parallel to def->params: annotations that replace those of the text. Empty: the text's.
  std::vector<std::string> annotations;
  /// Is parameter i annotated tl.constexpr? annotatedDtype(): the dtype that its annotation declares, if any.
  bool isConstexprParam(size_t i) const;
  std::optional<Dtype> annotatedDtype(size_t i) const;
  /// Is it annotated tl.const, a pointer that must not be stored through, with the element type of the argument?
  bool isConstParam(size_t i) const;
  /// Hash of the source text, its place, and everything reachable from it (helpers, captured constants).
  const std::string &contentHash() const;
  /// The same without the place: identifies the function's meaning, independent of its file's location. Computed at
  /// each call.
  std::string sourceHash() const;

  mutable std::string hashCache; // guarded by hashMutex in Module.cpp
};

struct Module {
  std::string name; // dotted
  std::shared_ptr<const Scope> scope;
  std::shared_ptr<const syntax::Tree> tree; // null for built-in modules
  Node *node = nullptr; // of a module that a binding answers for (lang/Circle.h)
  std::optional<Value> attribute(std::string_view attr) const;
};

} // namespace tegula::lang

namespace tegula::sema {

/// Loads module files and the modules they import (siblings of the file; the language's own modules under the names
/// triton, triton.language, tegula, tegula.language and their submodules; math). Never runs host code: unknown imports
/// and statements give opaque names, which are an error only if a kernel uses them.
class ModuleLoader {
public:
  ModuleLoader();
  ~ModuleLoader();
  /// Parses and binds the text of the file `name`. Null if it cannot be parsed (reported).
  std::shared_ptr<const lang::Module> loadText(std::string name, std::string text, DiagEngine &diag);
  /// The same of a file with origins.
  std::shared_ptr<const lang::Module> load(std::shared_ptr<const SourceFile> file, DiagEngine &diag);
  /// Makes these texts, by path, the only files from now on.
  void provide(std::map<std::string, std::string> texts);
  /// The texts loaded by name, as provide() takes them.
  std::map<std::string, std::string> texts() const;
  /// All jit functions defined at the top level, in order.
  static std::vector<std::shared_ptr<const lang::Function>> jitFunctions(const lang::Module &m);
  /// A jit function of the module; null and a message with the nearest names if there is none.
  static std::shared_ptr<const lang::Function> kernel(const lang::Module &m, std::string_view name, DiagEngine &diag);
  /// Binds `name` in a loaded file to a function of another file, before the name's first use. False: the module is one
  /// of the language's own.
  static bool bind(const lang::Module &m, std::string_view name, std::shared_ptr<const lang::Function> function);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A built-in module by dotted name ("triton", "triton.language", "math", "triton.language.math", ...); null if
/// unknown.
std::shared_ptr<const lang::Module> builtinModule(std::string_view dotted);
/// A function of the library written in the language (src/lib/*.py); null if unknown.
std::shared_ptr<const lang::Function> libraryFunction(std::string_view name);

/// For bindings: a function from the text of its definition (with or without decorators) and its first line number;
/// null if it cannot be parsed (reported). The function is a node (lang/Circle.h); names, defaults and flags are set
/// before its first use.
std::shared_ptr<lang::Function> createFunction(std::string fileName, std::string text, uint32_t firstLine,
                                               DiagEngine &diag);
/// Binds a name in a function that createFunction made. Functions may refer to each other and to themselves.
void bindName(lang::Function &f, std::string name, lang::Scope::Binding b);
void setDefault(lang::Function &f, size_t parameter, const lang::Value &v);
/// An attribute that the function reads of a module that only a binding can resolve, as far as the text shows:
/// `module.name`, `package.module.name`; in the order of the text.
struct BoundAttribute {
  std::shared_ptr<const lang::Module> module;
  std::string name;
  lang::Value value;
};
std::vector<BoundAttribute> boundAttributes(const lang::Function &f);
/// Names that the function reads and that are not local to it: a binding must put them in the scope (builtins
/// included).
std::vector<std::string> freeNames(const lang::Function &f);

} // namespace tegula::sema
