// What the partial evaluator knows while it walks a function: names, how control leaves, the arms of a branch.
#pragma once
#include "lang/Value.h"
#include "sema/Module.h"
#include "sema/Syntactic.h"
#include <map>
#include <unordered_map>

namespace tegula::sema {

using lang::Value;
using syntax::Expr;
using syntax::ExprKind;
using syntax::Stmt;
using syntax::StmtKind;

/// A name of a frame.
struct Var {
  enum class State : uint8_t {
    Live,
    OneArm,    // defined in one arm of the run-time `if` at `why` only
    LoopLocal, // defined in the body of the loop at `why`
    AfterLoop, // induction variable after its loop
  };
  Value value;
  Loc at;  // last assignment
  Loc why; // see State
  State state = State::Live;
  bool isConstexpr = false; // annotated tl.constexpr
};

/// The names of a frame, or what an arm of a branch or the body of a loop changes of them: an Env over another one shows
/// the other's names and keeps what is set to itself, so entering a branch costs nothing and joining it costs what changed.
class Env {
public:
  Env() = default;
  /// Over `outer`, which must stay where it is as long as this one is in use.
  explicit Env(const Env *outer) : outer_(outer) {}

  const Var *find(std::string_view name) const {
    for (const Env *e = this; e; e = e->outer_)
      if (const Entry *own = e->own(name))
        return &own->var;
    return nullptr;
  }
  /// To change it: a copy of its own if it belongs to an outer one.
  Var *edit(std::string_view name) {
    if (Entry *mine = const_cast<Entry *>(own(name)))
      return &mine->var;
    for (const Env *e = outer_; e; e = e->outer_)
      if (const Entry *theirs = e->own(name))
        return &add(Entry(*theirs));
    return nullptr;
  }
  void set(std::string_view name, Var v) {
    if (Var *old = edit(name))
      *old = std::move(v);
    else
      add({name, std::move(v), count()});
  }
  struct Entry {
    std::string_view name;
    Var var;
    size_t order; // of definition, among all names
  };
  /// What was set here and not in an outer one.
  const std::vector<Entry> &changed() const { return entries_; }
  /// Every name that is visible; those that an arm changed may come twice.
  template <typename Fn> void forEach(Fn &&fn) const {
    for (const Env *e = this; e; e = e->outer_)
      for (const Entry &x : e->entries_)
        fn(x.name, x.var);
  }
  /// More than any `order` of a name that is visible now.
  size_t count() const {
    size_t n = 0;
    for (const Env *e = this; e; e = e->outer_)
      n += e->entries_.size();
    return n;
  }

private:
  /// Few names are found faster by looking at each.
  static constexpr size_t few = 16;

  const Entry *own(std::string_view name) const {
    if (!index_.empty()) {
      auto it = index_.find(name);
      return it == index_.end() ? nullptr : &entries_[it->second];
    }
    for (const Entry &e : entries_)
      if (e.name == name)
        return &e;
    return nullptr;
  }
  Var &add(Entry e) {
    entries_.push_back(std::move(e));
    if (entries_.size() == few + 1)
      for (size_t i = 0; i < entries_.size(); ++i)
        index_.emplace(entries_[i].name, i);
    else if (entries_.size() > few)
      index_.emplace(entries_.back().name, entries_.size() - 1);
    return entries_.back().var;
  }
  const Env *outer_ = nullptr;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_; // of all entries once there are many
};

/// How control leaves a statement list.
struct Flow {
  enum class Kind : uint8_t { Falls, Returns, Maybe, Break, Continue } kind = Kind::Falls;
  ir::Value *flag = nullptr; // Maybe: i1, has it returned?
  Value value;               // Returns, Maybe: what was returned
  Loc at;                    // the return statement
  bool tookRest = false;     // the statements behind were evaluated too (in an arm of an `if`)
  bool falls() const { return kind == Kind::Falls; }
  bool returns() const { return kind == Kind::Returns; }
};

/// One side of a run-time branch while it is being built.
struct Arm {
  ir::Region *region = nullptr;
  Env env;
  Flow flow;
  std::optional<Value> value; // of a ternary
  Loc loc;
  ir::Block *block() const { return region->block; }
  /// Control does not come out of it.
  bool dead() const { return flow.returns(); }
};

/// An aggregate whose `__init__` is running.
struct Construction {
  std::shared_ptr<const lang::RecordClass> cls;
  std::vector<std::optional<Value>> fields; // nullopt: not set yet
};

struct Frame {
  std::shared_ptr<const lang::Function> fn; // null while a module is loaded
  const lang::Scope *scope = nullptr;
  Env env;              // of the function's own level
  Env *inner = nullptr; // of the arm or loop that is being evaluated
  std::shared_ptr<const NameSet> locals; // names the function assigns anywhere; null: none
  NameSet declared; // `x: tl.constexpr` without a value
  unsigned loops = 0; // run-time loops around the current statement
  bool python = false;
  bool moduleLevel = false;
  bool handlesTensors = false; // with `python`: run-time values may be handed about
  Construction *construction = nullptr; // of what the first parameter stands for, in an `__init__`
  std::string_view self;                // that parameter
  std::shared_ptr<const lang::RecordClass> initOf; // the class whose `__init__` it is
  bool stopped = false; // a static_assert failed: what follows would only repeat the complaint
  /// Compile-time numbers that a loop turned out to change, see Loop.cpp.
  std::map<const Stmt *, NameSet> decayedByLoop;
};

struct CallArgs {
  struct Arg {
    Value value;
    Loc loc;
    std::string_view keyword; // empty: positional
    Loc keywordLoc;
  };
  std::vector<Arg> args;
  bool failed = false;
};

} // namespace tegula::sema
