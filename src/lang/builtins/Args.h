// Reads the arguments of a builtin: each getter reports an error and returns nullopt if the argument is wrong.
#pragma once
#include "lang/Emit.h"

namespace tegula::lang {

class Args {
public:
  /// `function` as the user wrote it, for messages.
  Args(BuiltinCall &call, const char *function) : call_(call), function_(function) {}

  Context &ctx() const { return call_.ctx; }
  ir::Builder &b() const { return call_.ctx.builder(); }
  const char *function() const { return function_; }
  const Value &operator[](size_t i) const { return call_.args[i]; }
  size_t size() const { return call_.args.size(); }
  /// The place of argument i, or of the call.
  Loc loc(size_t i) const { return i < call_.argLocs.size() && call_.argLocs[i] ? call_.argLocs[i] : call_.loc; }
  Loc loc() const { return call_.loc; }

  /// A compile-time integer.
  std::optional<int64_t> integer(size_t i, const char *name) const;
  /// A compile-time truth value.
  std::optional<bool> flag(size_t i, const char *name) const;
  std::optional<std::string> text(size_t i, const char *name) const;
  /// A scalar type; block types count as their element type.
  std::optional<Dtype> type(size_t i, const char *name) const;
  /// A number or tensor, as a tensor.
  std::optional<Tensor> tensor(size_t i) const;
  /// An axis in [-rank, rank), made non-negative.
  std::optional<unsigned> axis(size_t i, const char *name, unsigned rank) const;
  /// One of the strings in `allowed` (separated by blanks; the empty string is always allowed). A character `prefix`
  /// before them may be left out: "cg" is ".cg".
  std::optional<std::string> choice(size_t i, const char *name, std::string_view what, std::string_view allowed,
                                    char prefix = 0) const;

  template <typename... A> Value fail(const DiagKind &kind, Loc at, A &&...a) const {
    return lang::fail(call_.ctx, kind, at, std::forward<A>(a)...);
  }
  Value badArgument(size_t i, const char *name, const char *needed) const;

private:
  BuiltinCall &call_;
  const char *function_;
};

} // namespace tegula::lang
