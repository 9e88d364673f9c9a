// Internal to the module loader: the bindings of a file's top level.
#pragma once
#include "sema/Module.h"
#include "sema/Syntactic.h"
#include <mutex>

namespace tegula::sema {

/// Reads the decorators of a definition into the flags of its function.
void applyDecorators(lang::Function &f);
/// The names that src/lib defines for users.
std::vector<std::string> libraryNames();

/// The names of a file. Functions refer to their scope, and the scope does not own functions, so there is no reference
/// cycle: the scope holds what is needed to make a function, and a weak reference to the function. Values that contain
/// functions of the file (defaults, tuples) are stored with functions that do not own the scope; reading a value
/// replaces these with the real functions.
class FileScope final : public lang::Scope, public std::enable_shared_from_this<FileScope> {
public:
  using Value = lang::Value;
  std::optional<Binding> lookup(std::string_view name) const override;
  void bind(std::string_view name, Binding b);
  void bindFunction(std::string_view name, const syntax::Stmt *def, lang::Function::Kind kind,
                    std::vector<lang::Value> defaults);
  /// The contents of the class statement of an aggregate. Types and bases are looked up when the class is first used.
  struct MethodDef {
    const syntax::Stmt *def = nullptr;
    lang::Function::Kind kind = lang::Function::Kind::Plain;
    lang::Aggregate::Member::Role role = lang::Aggregate::Member::Role::Plain;
    std::vector<Value> defaults;
  };
  struct ClassDef {
    const syntax::Stmt *def = nullptr;
    std::vector<const syntax::Expr *> bases;
    std::vector<std::pair<std::string, const syntax::Expr *>> fields; // with their annotations
    std::vector<Value> defaults;                                      // of the fields, Error where there is none
    std::vector<MethodDef> methods;
    std::vector<std::pair<std::string, Value>> constants;
    mutable std::weak_ptr<const lang::RecordClass> made;
    mutable bool isBeingMade = false; // a field of the class's own type has none
  };
  void bindClass(std::string_view name, ClassDef c);
  /// `f = triton.jit(g)`, aliases: another name for a function of this file.
  void bindAlias(std::string_view name, std::string_view target) { aliases_[std::string(name)] = std::string(target); }
  /// Is `name` a function of this file (or an alias of one)?
  const syntax::Stmt *functionDef(std::string_view name) const;
  /// Is it a class of aggregates of this file (or an alias of one)?
  bool isClass(std::string_view name) const;
  void setJit(std::string_view name);

  std::shared_ptr<const syntax::Tree> tree;
  /// Keeps modules and functions of other files alive.
  std::vector<std::shared_ptr<const lang::Module>> imports;

private:
  struct Def {
    const syntax::Stmt *def = nullptr;
    lang::Function::Kind kind = lang::Function::Kind::Plain;
    std::vector<Value> defaults;
    mutable std::weak_ptr<const lang::Function> made;
  };
  using FunctionPtr = std::shared_ptr<const lang::Function>;
  bool isOurs(const FunctionPtr &f) const { return f->scope.get() == this; }
  /// The function of a definition. Requires the mutex.
  FunctionPtr make(const Def &d) const;
  /// `v` with functions of this file that do not own the scope, and the reverse. Both require the mutex.
  Value detached(Value v) const;
  Value attached(Value v) const;
  FunctionPtr attached(const FunctionPtr &f) const;
  using ClassPtr = std::shared_ptr<const lang::RecordClass>;
  /// The class of a definition. Requires the mutex, as it looks names up again.
  ClassPtr makeClass(const ClassDef &d) const;
  Value typeOf(const syntax::Expr &annotation) const;
  void addBases(const ClassDef &d, lang::RecordClass &cls) const;
  ClassPtr attached(const ClassPtr &c) const;
  std::map<std::string, Binding, std::less<>> names_;
  std::map<std::string, Def, std::less<>> functions_;
  std::map<std::string, ClassDef, std::less<>> classes_; // fixed before the first lookup by another thread
  std::map<std::string, std::string, std::less<>> aliases_;
  mutable std::recursive_mutex mutex_; // imports are acyclic, so these locks cannot deadlock
};

/// The module at a path without its suffix (".py", "/__init__.py"); null if there is none. Errors in it are reported;
/// at `import` if the file cannot be read.
using FindFile = std::function<std::shared_ptr<const lang::Module>(const std::string &stem, Loc import)>;
/// Binds the names of the top level of `scope.tree` (TopLevel.cpp). `folder`: where relative imports start.
void bindTopLevel(FileScope &scope, std::string folder, const FindFile &load);

} // namespace tegula::sema
