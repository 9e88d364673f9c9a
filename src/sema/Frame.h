// State of the partial evaluator in a function: names, how control leaves, the arms of a branch.
#pragma once
#include "lang/Value.h"
#include "sema/Module.h"
#include "sema/Syntactic.h"
#include "support/Diag.h"
#include <algorithm>
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

/// The names of a frame, or the names that an arm of a branch or the body of a loop changes. An Env over another one
/// shows the other's names and keeps changes to itself, so entering a branch costs nothing, and joining it costs only
/// the changes.
class Env {
public:
  Env() = default;
  /// An Env over `outer`, which must not move while this one is in use.
  explicit Env(const Env *outer) : outer_(outer) {}

  const Var *find(std::string_view name) const;
  /// The variable for a change: copied into this Env if it belongs to an outer one.
  Var *edit(std::string_view name);
  void set(std::string_view name, Var v);
  struct Entry {
    std::string_view name;
    Var var;
    size_t order; // of definition, among all names
  };
  /// The names set here and not in an outer Env.
  const std::vector<Entry> &changed() const { return entries_; }
  /// Every visible name; those that an arm changed may come twice.
  template <typename Fn> void forEach(Fn &&fn) const {
    for (const Env *e = this; e; e = e->outer_)
      for (const Entry &x : e->entries_)
        fn(x.name, x.var);
  }
  /// Greater than the `order` of every visible name.
  size_t count() const {
    size_t n = 0;
    for (const Env *e = this; e; e = e->outer_)
      n += e->entries_.size();
    return n;
  }

private:
  /// Up to this number of names, a linear search is faster.
  static constexpr size_t few = 16;

  const Entry *own(std::string_view name) const;
  Var &add(Entry e);
  const Env *outer_ = nullptr;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_; // of all entries once there are many
};

/// Whether control takes a path: known at compile time, or an i1.
struct Way {
  enum class Kind : uint8_t { Never, Always, Sometimes } kind = Kind::Never;
  ir::Value *flag = nullptr; // Sometimes
  bool never() const { return kind == Kind::Never; }
  bool always() const { return kind == Kind::Always; }
  static Way surely() { return {Kind::Always, nullptr}; }
  static Way sometimes(ir::Value *flag) { return {Kind::Sometimes, flag}; }
  bool operator==(const Way &) const = default;
};

/// How control leaves a statement list: it reaches the end (falls), or leaves by a `return`, or by a `break` or
/// `continue` of the innermost loop. If it leaves and neither returns nor breaks, it continues.
struct Flow {
  Way left, broke, returned;
  Value value;           // of `return`, unless `returned` is Never
  Loc at;                // the statement that leaves
  bool tookRest = false; // the statements after were evaluated too (in an arm of an `if`)

  bool falls() const { return left.never(); }
  /// The end is never reached.
  bool leaves() const { return left.always(); }
  static Flow returns(Value v, Loc at) { return {Way::surely(), {}, Way::surely(), std::move(v), at}; }
  static Flow breaks(Loc at) { return {Way::surely(), Way::surely(), {}, {}, at}; }
  static Flow continues(Loc at) { return {Way::surely(), {}, {}, {}, at}; }
  /// The flow after the loop: a `break` falls through there.
  Flow afterLoop() const { return {returned, {}, returned, value, at}; }
};

/// One side of a run-time branch while it is being built.
struct Arm {
  ir::Region *region = nullptr;
  Env env;
  Flow flow;
  std::optional<Value> value; // of a ternary
  Loc loc;
  ir::Block *block() const { return region->block; }
  /// Control does not reach its end.
  bool dead() const { return flow.leaves(); }
  /// It always returns: its names are not read again.
  bool returns() const { return flow.returned.always(); }
};

/// A loop-carried name of a run-time loop.
struct Carried {
  std::string_view name;
  Value initial;
  Loc at;
  size_t first = 0, count = 0; // among the values of the loop
};

/// The values before the names in a loop that may end early. The first one, 0, says whether the loop continues.
struct EarlyValues {
  std::optional<size_t> broke, returned;
  std::optional<size_t> iv, last;   // of `for`: the number of this iteration, and of the one before
  size_t value = 0, count = 0;      // of the results of `return`, from `value` on
};

/// One attempt at a run-time loop, see Loop.cpp.
struct Loop {
  const Stmt *stmt = nullptr;
  NameSet assigned; // by body and condition
  std::vector<Carried> carried;
  std::vector<ir::Value *> inits; // of all values of the loop
  std::vector<ir::Type> types;
  std::vector<std::pair<std::string_view, Value>> fixed; // compile-time values that each iteration must leave unchanged
  Env *before = nullptr; // of the code around the loop
  Env inside;            // what the body changes
  bool again = false;    // the body must be evaluated again with more names carried
  NameSet spoilt;        // names reported as impossible to carry
  DiagEngine diagBefore;
  bool stoppedBefore = false;
  size_t outputBefore = 0, treeBefore = 0;
  std::optional<EarlyValues> early; // of a loop that may end early
  /// The number of values before the names.
  size_t ahead() const {
    return early ? 1 + early->broke.has_value() + early->returned.has_value() + early->count + 2 * early->iv.has_value()
                 : 0;
  }
  bool targetKept = true; // the target of `for` has the type of the range's numbers at every end of an iteration

  /// Is the name read after the iteration?
  bool keeps(std::string_view name) const {
    auto is = [&](const auto &x) { return x.name == name; };
    auto isFixed = [&](const auto &x) { return x.first == name; };
    return std::any_of(carried.begin(), carried.end(), is) || std::any_of(fixed.begin(), fixed.end(), isFixed) ||
           (early && early->last && stmt->targets[0]->name == name);
  }
};

/// The exits of a loop that an attempt has found before its end.
struct LoopExits {
  bool breaks = false, returns = false;
  Value like; // of the type that it returns
};

/// An aggregate whose `__init__` is running.
struct Construction {
  std::shared_ptr<const lang::RecordClass> cls;
  std::vector<std::optional<Value>> fields; // nullopt: not set yet
};

/// The Env in which nested functions find this function's names while it runs.
struct LiveNames {
  const Env *env = nullptr;
  std::vector<std::weak_ptr<lang::Function>> readers;
  /// The function returns: nested functions that outlive it keep the compile-time values of the names they read.
  void end();
};

struct Frame {
  std::shared_ptr<const lang::Function> fn; // null while a module is loaded
  const lang::Scope *scope = nullptr;
  Env env;              // of the function's own level
  Env *inner = nullptr; // of the arm or loop that is being evaluated
  std::shared_ptr<const NameSet> locals; // names the function assigns anywhere; null: none
  NameSet declared; // `x: tl.constexpr` without a value
  std::vector<Loop *> loops; // around the current statement; null: unrolled
  bool python = false;
  std::shared_ptr<LiveNames> names; // of nested functions, once there are any
  std::optional<std::vector<Value>> yielded; // of a generator, which runs to its end when it is called
  bool moduleLevel = false;
  bool handlesTensors = false; // with `python`: run-time values may be passed around
  Construction *construction = nullptr; // in an `__init__`: the object that the first parameter stands for
  std::string_view self;                // that parameter
  std::shared_ptr<const lang::RecordClass> initOf; // the class whose `__init__` it is
  bool stopped = false; // a static_assert failed: further messages would only repeat it
  /// Compile-time numbers that turned out to change in a loop, see Loop.cpp.
  std::map<const Stmt *, NameSet> decayedByLoop;
  /// Loops that end early.
  std::map<const Stmt *, LoopExits> exitsOfLoop;

  bool inRuntimeLoop() const {
    return std::any_of(loops.begin(), loops.end(), [](const Loop *l) { return l != nullptr; });
  }
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
