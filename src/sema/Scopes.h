// RAII scopes for the state of an Evaluator. Included by Evaluator.h.
#pragma once
#include "sema/Evaluator.h"

namespace tegula::sema {

/// Makes a frame current for the life of the scope.
class FrameScope {
public:
  FrameScope(Evaluator &e, Frame &f) : e_(e), outer_(e.frame_) { e_.frame_ = &f; }
  ~FrameScope() { e_.frame_ = outer_; }
  FrameScope(const FrameScope &) = delete;

private:
  Evaluator &e_;
  Frame *outer_;
};

/// Redirects changes of names to the Env of an arm or a loop for the life of the scope.
class EnvScope {
public:
  EnvScope(Frame &f, Env &env) : f_(f), outer_(f.inner) { f_.inner = &env; }
  ~EnvScope() { f_.inner = outer_; }
  EnvScope(const EnvScope &) = delete;

private:
  Frame &f_;
  Env *outer_;
};

/// Adds "in `f`, called from here" to every message of the scope. A call from the same place as the enclosing one
/// (recursion) adds nothing, and a chain ends after a dozen.
class CallNote {
public:
  CallNote(Evaluator &e, const lang::Function &fn, Loc loc) : e_(e) {
    auto &notes = e.callNotes_;
    bool again = !notes.empty() && notes.back().file == loc.file && notes.back().begin == loc.begin;
    if (again || notes.size() >= 12)
      return;
    notes.push_back(loc);
    e.diag().pushContext({loc, "in `" + fn.name + "`, called from here"});
    pushed_ = true;
  }
  ~CallNote() {
    if (!pushed_)
      return;
    e_.callNotes_.pop_back();
    e_.diag().popContext();
  }
  CallNote(const CallNote &) = delete;

private:
  Evaluator &e_;
  bool pushed_ = false;
};

} // namespace tegula::sema
