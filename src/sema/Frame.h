// What the partial evaluator knows while it walks a function: names, how control leaves, the arms of a branch.
#pragma once
#include "lang/Value.h"
#include "sema/Module.h"
#include "sema/Syntactic.h"
#include <map>

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

/// The names of a frame. Few enough for a linear search; copied at branches.
class Env {
public:
  Var *find(std::string_view name) {
    for (auto &[n, v] : vars_)
      if (n == name)
        return &v;
    return nullptr;
  }
  void set(std::string_view name, Var v) {
    if (Var *old = find(name))
      *old = std::move(v);
    else
      vars_.emplace_back(name, std::move(v));
  }
  auto begin() { return vars_.begin(); }
  auto end() { return vars_.end(); }

private:
  std::vector<std::pair<std::string_view, Var>> vars_;
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

struct Frame {
  std::shared_ptr<const lang::Function> fn; // null while a module is loaded
  const lang::Scope *scope = nullptr;
  Env env;
  NameSet locals;   // names the function assigns anywhere
  NameSet declared; // `x: tl.constexpr` without a value
  unsigned loops = 0; // run-time loops around the current statement
  bool python = false;
  bool moduleLevel = false;
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
