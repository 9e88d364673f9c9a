// What calls come to: Status, Result, and why something failed as data. Included by tegula/tegula.hpp.
#pragma once
#include "tegula/tegula.h"
#include <array>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#ifdef __cpp_exceptions
#include <stdexcept>
#endif

/// A function that must not be called, and why: compilers show this line.
#if defined __cpp_deleted_function && __cplusplus > 202302L
#define TEGULA_DELETED(why) = delete(why)
#else
#define TEGULA_DELETED(why) = delete
#endif

namespace tegula {
inline namespace v0 {

/// One message of the compiler, owning its text. Lines and columns are 1-based; 0: no place.
struct Message {
  int severity = TEGULA_SEVERITY_ERROR;
  std::string kind, text, file, rendered;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0;
  /// What it says of other places: severity TEGULA_NOTE; the "while instantiating" chain comes last.
  std::vector<Message> notes{};
};

/// Why a program of a launch failed, owning its text (TegulaFault).
struct Fault {
  int32_t kind = 0; // TEGULA_FAULT_KIND_*
  std::array<int32_t, 3> program{};
  std::string kernel, file;
  uint32_t line = 0, column = 0;
  std::string function, argument;   // that the line belongs to; that the access went through, "" if unknown
  int64_t index = 0, extent = 0;    // bytes from the start of the buffer, bytes in it (-1: `index` is an address)
  std::string message;              // of the assert, or "load", "store", "atomic"
};

/// Outcome of a call: true when it worked. Keeps what the thread's last error said, so it can be stored and passed on; copies share it.
class [[nodiscard]] Status {
public:
  Status() = default;
  /// What the C call that just returned `code` on this thread said.
  static Status from(TegulaStatus code) {
    Status s;
    if (code != TEGULA_OK) [[unlikely]] s.why_ = std::make_shared<const Details>(read(code));
    return s;
  }
  /// A failure of the caller's own, for functions that give a Status.
  static Status error(TegulaStatus code, std::string text) {
    Status s;
    Details d;
    d.code = code == TEGULA_OK ? +TEGULA_INTERNAL_ERROR : code;
    d.message = std::move(text);
    s.why_ = std::make_shared<const Details>(std::move(d));
    return s;
  }
  explicit operator bool() const { return !why_; }
  TegulaStatus code() const { return why_ ? why_->code : +TEGULA_OK; }
  /// For people; several lines for compile errors. Empty when it worked.
  const std::string &message() const { return details().message; }
  /// The diagnostics of a compile error, with their notes.
  const std::vector<Message> &diagnostics() const { return details().messages; }
  /// Of a TEGULA_FAULT: which program failed where, as far as it is known.
  const std::optional<Fault> &fault() const { return details().fault; }
  /// The numbers of a TEGULA_OUT_OF_RESOURCES, where there are any.
  const std::optional<TegulaShortage> &shortage() const { return details().shortage; }

private:
  struct Details {
    TegulaStatus code = TEGULA_OK;
    std::string message;
    std::vector<Message> messages;
    std::optional<Fault> fault;
    std::optional<TegulaShortage> shortage;
  };
  static Message owned(const TegulaDiagnostic &d) {
    return {d.severity, d.kind, d.message, d.file, d.rendered, d.line, d.column, d.end_line, d.end_column};
  }
  static Details read(TegulaStatus code) {
    Details d;
    d.code = code;
    d.message = tegula_last_error();
    if (TegulaShortage what; tegula_last_shortage(&what) == TEGULA_OK) d.shortage = what;
    if (TegulaFault f; code == TEGULA_FAULT && tegula_last_fault(&f) == TEGULA_OK)
      d.fault = Fault{f.kind, {f.program_id[0], f.program_id[1], f.program_id[2]}, f.kernel, f.file, f.line, f.column, f.function, f.argument, f.index, f.extent, f.message};
    for (size_t i = 0, n = code == TEGULA_COMPILE_ERROR ? tegula_diagnostic_count() : 0; i < n; ++i) {
      TegulaDiagnostic one, note;
      if (tegula_diagnostic_get(i, &one) != TEGULA_OK) continue;
      d.messages.push_back(owned(one));
      for (int32_t k = 0; k < one.note_count; ++k)
        if (tegula_diagnostic_note(i, static_cast<size_t>(k), &note) == TEGULA_OK) d.messages.back().notes.push_back(owned(note));
    }
    return d;
  }
  const Details &details() const {
    static const Details none;
    return why_ ? *why_ : none;
  }
  std::shared_ptr<const Details> why_; // null: it worked
};

#ifdef __cpp_exceptions
/// What Result::value() throws where there is no value.
class Error : public std::runtime_error {
public:
  explicit Error(Status why) : std::runtime_error(why.message()), status_(std::move(why)) {}
  const Status &status() const { return status_; }

private:
  Status status_;
};
#endif

template <typename T> class Result;
namespace detail {
template <typename T> struct IsResult : std::false_type {};
template <typename T> struct IsResult<Result<T>> : std::true_type {};
} // namespace detail

/// A value, or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : v_(std::move(value)) {}
  Result(Status why) : v_(std::move(why)) {}
  explicit operator bool() const { return v_.index() == 0; }
  bool has_value() const { return v_.index() == 0; }
  /// The value. If there is none: throws Error; where there are no exceptions, prints the message to stderr and aborts.
  T &value() & { check(); return *std::get_if<0>(&v_); }
  const T &value() const & { check(); return *std::get_if<0>(&v_); }
  T value() && { check(); return std::move(*std::get_if<0>(&v_)); }
  template <typename U> T value_or(U &&other) const & { return *this ? **this : static_cast<T>(std::forward<U>(other)); }
  template <typename U> T value_or(U &&other) && { return *this ? std::move(**this) : static_cast<T>(std::forward<U>(other)); }
  /// There must be one.
  T &operator*() & { return *std::get_if<0>(&v_); }
  const T &operator*() const & { return *std::get_if<0>(&v_); }
  T operator*() && { return std::move(*std::get_if<0>(&v_)); }
  T *operator->() { return std::get_if<0>(&v_); }
  const T *operator->() const { return std::get_if<0>(&v_); }
  /// `f` of the value, or what was wrong so far: `f` gives a Result or a Status.
  ///   context.load("kernels.py").and_then([](const Module &m) { return m.kernel("add"); })
  template <typename F> auto and_then(F &&f) const & { return then(*this, std::forward<F>(f)); }
  template <typename F> auto and_then(F &&f) && { return then(std::move(*this), std::forward<F>(f)); }
  /// A Result of what `f` gives for the value; without one, what was wrong.
  ///   context.device("cuda").transform([](const Device &d) { return d.name(); })
  template <typename F> auto transform(F &&f) const & { return and_then([&](const T &v) { return Result<std::remove_cvref_t<decltype(f(v))>>(f(v)); }); }
  template <typename F> auto transform(F &&f) && {
    return std::move(*this).and_then([&](T &&v) { return Result<std::remove_cvref_t<decltype(f(std::move(v)))>>(f(std::move(v))); });
  }
  /// This, or what `f` of the Status gives in its place.
  template <typename F> Result or_else(F &&f) const & { return *this ? *this : Result(std::forward<F>(f)(status())); }
  template <typename F> Result or_else(F &&f) && { return *this ? std::move(*this) : Result(std::forward<F>(f)(status())); }
  /// OK if there is a value.
  Status status() const { return v_.index() == 0 ? Status() : *std::get_if<1>(&v_); }

private:
  template <typename Self, typename F> static auto then(Self &&self, F &&f) {
    using R = std::remove_cvref_t<decltype(std::forward<F>(f)(*std::forward<Self>(self)))>;
    static_assert(detail::IsResult<R>::value || std::same_as<R, Status>, "and_then: the function must return a Result or a Status");
    return self ? R(std::forward<F>(f)(*std::forward<Self>(self))) : R(self.status());
  }
  void check() const {
    if (v_.index() == 0) return;
#ifdef __cpp_exceptions
    throw Error(*std::get_if<1>(&v_));
#else
    std::fprintf(stderr, "%s\n", std::get_if<1>(&v_)->message().c_str());
    std::abort();
#endif
  }
  std::variant<T, Status> v_;
};

} // inline namespace v0
} // namespace tegula
