// The partial evaluator: walks a function's statements, computes what is known at compile time, and builds IR for the
// rest.
//
// One Evaluator serves one instantiation. A Frame is one call of a function. Calls of jit functions are inlined: the
// callee's body is evaluated in a new frame at the call's insertion point. Functions that run at compile time
// (constexpr_function) use the same expression code in a frame with `python` set, in which names do not decay and
// Python's own statements are available (Python.cpp).
//
// Control flow is structured. A statement list ends in a Flow: it falls through, it has left (by return, break or
// continue), or, after a run-time `if`, it may have left; then a run-time flag guards the statements that follow.
// If.cpp and Loop.cpp have the details.
#pragma once
#include "lang/Hints.h"
#include "lang/Ops.h"
#include "sema/Diagnostics.h"
#include "sema/Frame.h"
#include "sema/Sema.h"
#include "sema/Values.h"
#include <unordered_set>

namespace tegula::sema {

class Evaluator final : public lang::Context {
public:
  Evaluator(ir::Builder &b, DiagEngine &d, const Options &o) : Context(b, d, o.target), options_(o) {}

  // lang::Context
  Value call(const Value &callee, std::span<const Value> args, Loc loc) override;
  Value libraryFunction(std::string_view name) override;
  void staticPrint(std::string text, Loc loc) override;
  std::optional<Value> objectAttribute(const Value &object, std::string_view name, Loc loc) override;
  std::string currentFunction() const override;
  bool isExact() const override;
  void hintCarried(ir::Value *value, ir::ListKey key, std::vector<int64_t> values) override {
    carriedHints_.add({value, key, std::move(values)});
  }

  /// Runs a function's body in a new frame whose parameters are already bound.
  Value runBody(Frame &frame);
  /// One value per parameter (the bare `*` has none).
  void bindParams(Frame &frame, std::span<const Value> values, std::span<const Loc> locs);
  /// Makes the module keep the function's file, which locations in the IR point into.
  void keepSource(const lang::Function &fn);
  Frame makeFrame(const std::shared_ptr<const lang::Function> &fn);
  /// Evaluates an expression at module level, at compile time only; unknown names give Error without a message.
  Value evaluateHost(const Expr &e, const lang::Scope &scope);

  const std::string &output() const { return output_; }
  /// noinline functions, callees before callers.
  const std::vector<ir::Function *> &emittedFunctions() const { return finished_; }
  std::string treeText() const;
  bool tensorsAllowed() const { return frame_ && !frame_->python; }

private:
  friend class FrameScope;
  friend class CallNote;
  friend class Eager;
  template <typename... Args> Value fail(const DiagKind &kind, Loc loc, Args &&...args) {
    diag().report(kind, loc, std::forward<Args>(args)...);
    return Value::error();
  }
  /// Counts a step; false if the instantiation has run for too long or nests too deeply (reported once).
  bool step(Loc loc);
  /// Counts the work that one step does for a value of this weight.
  bool charge(uint64_t weight, Loc loc);
  /// The value; Error and a report if it is too large or too deeply nested.
  Value bounded(Value v, Loc loc);
  Env &env() { return frame_->inner ? *frame_->inner : frame_->env; }

  // Names.cpp
  Value readName(const Expr &e);
  Value globalName(std::string_view name, Loc loc);
  Value undefinedName(std::string_view name, Loc loc);
  void assign(const Expr &target, const Value &v, bool decays = true); // `decays`: numbers become tensors
  void assignName(std::string_view name, const Value &v, Loc loc);
  Value decay(const Value &v, Loc loc);
  void nameValue(const Value &v, std::string_view name);
  void bindErrors(const NameSet &names, Loc loc);

  // Expr.cpp
  Value eval(const Expr &e);
  Value checkedKind(const Expr &e);
  Value evalKind(const Expr &e);
  Value number(const Expr &e);
  Value unary(const Expr &e);
  Value binary(const Expr &e);
  Value compare(const Expr &e);
  Value compareOne(syntax::CmpOp op, const Value &a, const Value &b, const Expr &e, const Expr &ea, const Expr &eb);
  Value boolOp(const Expr &e);
  Value ternary(const Expr &e);
  Value sequence(const Expr &e);
  /// The items of the operand of a `*`; nullopt and a report if it has none.
  std::optional<std::vector<Value>> spread(const Expr &starred);
  std::optional<std::vector<Value>> itemsOf(const Expr &e);
  Value dict(const Expr &e);
  Value attribute(const Expr &e);
  Value fstring(const Expr &e);
  Value unsupported(const Expr &e);
  std::optional<bool> staticCondition(const Value &v, Loc loc);

  // Subscript.cpp
  Value subscript(const Expr &e);
  Value slice(const Expr &e);
  Value comprehension(const Expr &e);
  bool comprehend(const Expr &e, size_t generator, const std::function<void()> &each);
  Value itemOf(const Value &object, const Value &index, Loc loc, Loc indexLoc);

  // Stmt.cpp
  Flow execBlock(Stmts body);
  Flow exec(const Stmt &s, Stmts rest);
  Flow execReturn(const Stmt &s);
  void execAssign(const Stmt &s);
  void execAugAssign(const Stmt &s);
  void execAnnAssign(const Stmt &s);
  void execExpr(const Stmt &s);
  void execAssert(const Stmt &s);
  Flow execWith(const Stmt &s);
  Flow execUnsupported(const Stmt &s);
  Flow deadTail(Flow taken, Stmts rest);

  // Aggregate.cpp
  Value constructAggregate(const std::shared_ptr<const lang::RecordClass> &cls, const CallArgs &args, Loc loc);
  bool runInit(Construction &c, const std::shared_ptr<const lang::RecordClass> &at, const CallArgs &args, Loc loc);
  std::optional<Value> initOfBase(const Expr &call);
  bool setField(Construction &c, std::string_view name, const Value &v, Loc loc);
  Value selfSoFar() const;
  bool isSelf(const Expr &e) const;
  std::optional<Value> callMember(const Value &object, std::string_view name, std::span<const Value> args, Loc loc);
  Value binaryOf(syntax::BinaryOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc);
  std::optional<Value> aggregateOperator(const char *spelling, const char *forward, const char *reflected,
                                         const Value &a, const Value &b, Loc loc);
  Value aggregateUnary(const char *method, const Value &v, Loc loc);
  Value aggregateLogic(bool isAnd, const Value &a, const Value &b, Loc loc);

  // If.cpp
  Flow execIf(const Stmt &s, Stmts rest);
  Flow runtimeIf(ir::Value *condition, const Stmt &s, Stmts rest);
  Flow guardRest(const Flow &maybe, const std::function<Flow()> &rest, Loc loc);
  Flow guard(ir::Value *flag, const Flow &taken, const std::function<Flow()> &rest, Loc loc);
  ir::Value *flagOf(const Way &way);
  Arm runArm(Loc loc, const std::function<void(Arm &)> &body);
  void continueArm(Arm &arm, const std::function<Flow()> &body);
  bool unify(Value &a, ir::Block *aBlock, Value &b, ir::Block *bBlock, Loc loc);
  void mergeReturns(Arm &t, Arm &e);
  bool joinVar(std::string_view name, Var &a, Var &b, Arm &t, Arm &e, Loc loc, bool silent = false);
  bool enterRegion(Loc loc);
  struct Pending;
  std::optional<Pending> joinName(std::string_view name, Arm &t, Arm &e, Loc loc, class Joiner &joiner);
  std::optional<Pending> joinLeaving(std::string_view name, Arm &t, Arm &e, Loc loc, class Joiner &joiner);
  Pending joinBoth(std::string_view name, Arm &t, Arm &e, Loc loc, class Joiner &joiner, bool silent);
  Flow joinArms(ir::Value *condition, Arm &t, Arm &e, Loc loc, Value *joined = nullptr);
  friend class Joiner;

  // Loop.cpp
  Flow execFor(const Stmt &s);
  Flow staticFor(const Stmt &s, const lang::RangeValue &r);
  Flow runtimeFor(const Stmt &s, const lang::RangeValue &r);
  Flow execExit(const Stmt &s);
  void checkElse(const Stmt &s, const char *kind);
  ir::Value *either(const Way &a, const Way &b);
  struct Bounds;
  bool bounds(const Stmt &s, const lang::RangeValue &r, Bounds &out);
  std::optional<ir::Op *> tryFor(const Stmt &s, const Bounds &b, Loop &loop);
  std::optional<ir::Op *> tryEarlyFor(const Stmt &s, const Bounds &b, Loop &loop);
  void carryExits(Loop &loop, const Bounds *b);
  bool learnExits(Loop &loop, const Flow &f);
  void closeExits(Loop &loop, const Flow &f, std::vector<ir::Value *> &yields);
  Flow afterLoop(const Loop &loop, std::span<ir::Value *const> results, bool endless = false);
  Value settle(Loop &loop, const Carried &c);
  void settleAll(Loop &loop);
  Value condition(const Stmt &s, const Value &test);
  /// Iterations of a range between compile-time numbers; nullopt and a report if there are more than the steps left.
  std::optional<uint64_t> tripCount(const lang::RangeValue &r, Loc loc);
  Flow valuesFor(const Stmt &s, const Value &values);
  Flow unrolled(const Stmt &s, Stmts body, uint64_t k, uint64_t trips, const std::function<Value(uint64_t)> &item);
  std::vector<ir::Attr> loopAttrs(const lang::RangeValue &r);
  Flow execWhile(const Stmt &s);
  std::optional<ir::Op *> tryWhile(const Stmt &s, Loop &loop, bool &endless);
  std::vector<ir::Value *> carriedNow(const Loop &loop);
  Loop openLoop(const Stmt &s, const Bounds *b = nullptr);
  void bindCarried(const Loop &loop, std::span<ir::Value *const> values);
  /// The values to yield; nullopt if the body must be evaluated again with more names carried.
  std::optional<std::vector<ir::Value *>> closeLoop(Loop &loop, const Flow &f);
  /// Evaluates the body of a run-time loop and closes it; if the body must be evaluated again, restores the state at
  /// `here`.
  std::optional<std::vector<ir::Value *>> loopBody(const Stmt &s, Loop &loop, ir::Block *here);
  void leaveLoop(const Loop &loop, std::span<ir::Value *const> results);
  void checkFixed(Loop &loop);

  // Call.cpp
  Value callExpr(const Expr &e);
  CallArgs evalArgs(const Expr &e);
  Value callValue(const Value &callee, CallArgs args, Loc loc, Loc selfLoc);
  Value callBuiltin(const lang::Builtin &b, const CallArgs &args, Loc loc);
  Value construct(const std::shared_ptr<const lang::RecordClass> &cls, const CallArgs &args, Loc loc);
  /// A parameter as binding sees it.
  struct ParamInfo {
    std::string name;
    bool variadic = false, keywordOnly = false, keywords = false, hasDefault = false;
    Value defaultValue;
  };
  Value defaultOf(const std::string &name, const ParamInfo &p, Loc loc);
  bool bindArgs(const std::string &name, const std::vector<ParamInfo> &params, const CallArgs &args, Loc loc,
                std::vector<Value> &values, std::vector<Loc> &locs);
  void checkDiscarded(const Value &callee, Loc loc);
  std::optional<std::vector<ParamInfo>> paramsOf(const lang::Function &fn);

  // Function.cpp
  Value callFunction(const std::shared_ptr<const lang::Function> &fn, const CallArgs &args, Loc loc);
  Value inlineCall(const std::shared_ptr<const lang::Function> &fn, std::span<const Value> values,
                   std::span<const Loc> locs, Loc loc);
  Value realCall(const std::shared_ptr<const lang::Function> &fn, std::span<const Value> values,
                 std::span<const Loc> locs, Loc loc);
  bool enterCall(const lang::Function &fn, Loc loc);
  static std::string typeKey(const Value &v);
  struct Emitted {
    ir::Function *function = nullptr;
    Value result;
    bool done = false;
  };
  Emitted emitFunction(const std::shared_ptr<const lang::Function> &fn, std::span<const Value> values,
                       std::span<const Loc> locs, Loc loc, size_t number);

  // Python.cpp, PythonBuiltins.cpp
  Value callPython(const std::shared_ptr<const lang::Function> &fn, std::span<const Value> values, Loc loc);
  Flow execPython(const Stmt &s);
  /// Python's truth of a condition; nullopt and a report if it is a run-time value.
  std::optional<bool> pythonTruth(const Expr &e);
  Flow pythonFor(const Stmt &s);
  Flow pythonWhile(const Stmt &s);
  Value yield(const Expr &e);
  // PythonMatch.cpp
  Flow pythonMatch(const Stmt &s);
  Flow pythonTry(const Stmt &s);
  Flow untilMistake(Stmts body, bool &mistaken);
  std::optional<bool> matches(const Expr &pattern, const Value &v,
                              std::vector<std::pair<const Expr *, Value>> &captures);
  // PythonChanges.cpp
  /// The result of a method that changes a local list, dict or set; nullopt if it is none.
  std::optional<Value> pythonMutation(const Expr &e);
  Value appendTo(std::string_view name, const Expr &item, bool all, Loc loc);
  bool assignItem(const Expr &target, const Value *v);
  /// Does nothing else refer to the list, dict or set of that name? Reported.
  bool mayChange(std::string_view name, Loc loc);
  // Closures.cpp: of a `def` or a lambda
  Value closure(std::string name, const Stmt *def, const Expr *lambda, Loc loc);
  std::optional<std::vector<Value>> iterate(const Value &v, Loc loc);
  /// The members of one of the host's enumerations, in order; nullopt if `cls` is none.
  std::optional<std::vector<Value>> enumMembers(const Value &cls);
  /// Python's Kind(value); nullopt if `cls` is no enumeration.
  std::optional<Value> enumMember(const Value &cls, const CallArgs &args, Loc loc);
  Value pythonBuiltin(std::string_view name, const CallArgs &args, Loc loc);

  // TreeDump.cpp
  size_t beginNode(const Expr &e);
  void endNode(size_t node, const Value &v);
  void dumpStmt(const Stmt &s);

  const Options &options_;
  Frame *frame_ = nullptr;
  unsigned depth_ = 0;
  unsigned regionDepth_ = 0;
  static constexpr unsigned maxRegionDepth = 256;
  std::vector<Loc> callNotes_; // of the notes "called from here" that stand now
  const Expr *discarded_ = nullptr; // the call whose result is discarded
  uint64_t steps_ = 0;
  uint64_t hostSteps_ = 0, hostCalls_ = 0; // of evaluateHost
  bool aborted_ = false;
  const char *stackBase_ = nullptr;
  std::string output_;
  std::map<std::string, Emitted> emitted_;
  std::unordered_map<const Stmt *, std::shared_ptr<const NameSet>> localsOf_; // by definition
  std::unordered_set<const SourceFile *> kept_;
  std::vector<ir::Function *> finished_;
  lang::CarriedHints carriedHints_;
  struct TreeLine {
    unsigned indent;
    std::string text;
  };
  std::vector<TreeLine> tree_;
  unsigned treeIndent_ = 0;
};

void reportGlobal(std::string_view name, const lang::Scope::Binding &b, Loc loc, DiagEngine &diag);
/// Something imported from a module that the language does not know.
bool isHostImport(const Value &v);
/// Reports a form that Python has and kernels do not; false if it is none.
bool reportUnsupported(const Stmt &s, Loc loc, DiagEngine &diag);
bool reportUnsupported(const Expr &e, DiagEngine &diag);
/// The names that src/lib defines for users.
std::vector<std::string> libraryNames();
lang::BinOp toLang(syntax::BinaryOp op);
/// Names that begin with `python.` in the table of PythonBuiltins.cpp.
bool isPythonBuiltin(std::string_view name);

} // namespace tegula::sema

#include "sema/Scopes.h"
