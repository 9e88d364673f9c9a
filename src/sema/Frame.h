// What the partial evaluator knows while it walks a function: names, how control leaves, the arms of a branch.
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

/// The names of a frame, or what an arm of a branch or the body of a loop changes of them: an Env over another one
/// shows the other's names and keeps what is set to itself, so entering a branch costs nothing and joining it costs
/// what changed.
class Env {
public:
  Env() = default;
  /// Over `outer`, which must stay where it is as long as this one is in use.
  explicit Env(const Env *outer) : outer_(outer) {}

  const Var *find(std::string_view name) const;
  /// To change it: a copy of its own if it belongs to an outer one.
  Var *edit(std::string_view name);
  void set(std::string_view name, Var v);
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

  const Entry *own(std::string_view name) const;
  Var &add(Entry e);
  const Env *outer_ = nullptr;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_; // of all entries once there are many
};

/// Whether control goes some way: known at compile time, or an i1.
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
/// `continue` of the innermost loop. Where it leaves and neither returns nor breaks, it continues.
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
  /// As it is after the loop: what broke goes on there.
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
  /// Control does not come out of it.
  bool dead() const { return flow.leaves(); }
  /// It returns for good: nobody reads its names again.
  bool returns() const { return flow.returned.always(); }
};

/// A name that a run-time loop carries around.
struct Carried {
  std::string_view name;
  Value initial;
  Loc at;
  size_t first = 0, count = 0; // among the values of the loop
};

/// Which values of a loop that may end early stand ahead of the names. The first one, 0, is whether it goes on.
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
  std::vector<std::pair<std::string_view, Value>> fixed; // compile-time values that must come out as they went in
  Env *before = nullptr; // of the code around the loop
  Env inside;            // what the body changes
  bool again = false;    // the body needs a loop that carries more
  NameSet spoilt;        // names that a report says cannot be carried
  DiagEngine diagBefore;
  bool stoppedBefore = false;
  size_t outputBefore = 0, treeBefore = 0;
  std::optional<EarlyValues> early; // of a loop that may end before its time
  /// Values ahead of the names.
  size_t ahead() const {
    return early ? 1 + early->broke.has_value() + early->returned.has_value() + early->count + 2 * early->iv.has_value()
                 : 0;
  }
  bool targetKept = true; // the target of `for` has the type of a number of the range, wherever an iteration ends

  /// Is the name read again after the iteration?
  bool keeps(std::string_view name) const {
    auto is = [&](const auto &x) { return x.name == name; };
    auto isFixed = [&](const auto &x) { return x.first == name; };
    return std::any_of(carried.begin(), carried.end(), is) || std::any_of(fixed.begin(), fixed.end(), isFixed) ||
           (early && early->last && stmt->targets[0]->name == name);
  }
};

/// What an attempt at a loop has learnt of the ways out of it, before its end.
struct LoopExits {
  bool breaks = false, returns = false;
  Value like; // of the type that it returns
};

/// An aggregate whose `__init__` is running.
struct Construction {
  std::shared_ptr<const lang::RecordClass> cls;
  std::vector<std::optional<Value>> fields; // nullopt: not set yet
};

/// Where functions in a function find its names, as long as it runs.
struct LiveNames {
  const Env *env = nullptr;
  std::vector<std::weak_ptr<lang::Function>> readers;
  /// It returns: functions that outlive it keep the compile-time values of the names they read.
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
  std::shared_ptr<LiveNames> names; // of functions in it, once there are some
  std::optional<std::vector<Value>> yielded; // of a generator, which runs to its end when it is called
  bool moduleLevel = false;
  bool handlesTensors = false; // with `python`: run-time values may be handed about
  Construction *construction = nullptr; // of what the first parameter stands for, in an `__init__`
  std::string_view self;                // that parameter
  std::shared_ptr<const lang::RecordClass> initOf; // the class whose `__init__` it is
  bool stopped = false; // a static_assert failed: what follows would only repeat the complaint
  /// Compile-time numbers that a loop turned out to change, see Loop.cpp.
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
