// The one diagnostic engine: data first, text last.
//
// A layer lists its messages in Diagnostics.def (see support/Diagnostics.def.h for how a .def is expanded) and emits
// them with typed arguments. render() makes the text at the very end, so Python gets the same data as an exception with
// fields, and editors get JSON. Wording rules: lower-case start, no final stop, code in backticks; say what was found;
// add the rule after a semicolon only if it is not obvious.
//
// One thread at a time uses a DiagEngine (one engine per compilation); there is no global state.
#pragma once
#include "support/Source.h"
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tegula {

enum class Severity : uint8_t { Remark, Warning, Error };

/// One kind of message. Objects are constants with static lifetime; identity is the address, `name` is stable text
/// shown in brackets and used by JSON and tests. `format` holds {0}, {1}, ... for the arguments.
struct DiagKind {
  const char *name;
  Severity severity;
  const char *format;
};

/// A message argument, already in the user's spelling.
struct DiagArg {
  std::string text;
  DiagArg(std::string s);
  DiagArg(std::string_view s);
  DiagArg(const char *s);
  DiagArg(int64_t v);
  DiagArg(int v);
  DiagArg(unsigned v);
  DiagArg(uint64_t v);
};

/// Text at a further location: a note ("declared here") or a label on the primary line ("this is *fp16").
struct DiagNote {
  Loc loc;
  std::string text;
};

struct FixIt {
  /// Replaces the range (empty range = insertion).
  Loc loc;
  std::string replacement;
};

struct Diagnostic {
  const DiagKind *kind = nullptr;
  Loc loc;
  std::vector<DiagArg> args;
  /// Secondary ranges shown under the same snippet, each with its text.
  std::vector<DiagNote> labels;
  /// Attached notes, in order; the "while instantiating" chain comes last.
  std::vector<DiagNote> notes;
  std::vector<FixIt> fixIts;

  // Defined in Diag.cpp only: many files construct diagnostics.
  Diagnostic();
  Diagnostic(const Diagnostic &);
  Diagnostic(Diagnostic &&) noexcept;
  Diagnostic &operator=(const Diagnostic &);
  Diagnostic &operator=(Diagnostic &&) noexcept;
  ~Diagnostic();

  /// The message with its arguments filled in, without position or kind.
  std::string message() const;
};

class DiagEngine;

/// A fluent builder that emits when destroyed: diag.report(diag::undefinedName, loc, name).note(...).fixIt(...);
class DiagBuilder {
public:
  DiagBuilder(DiagEngine &engine, const DiagKind &kind, Loc loc, std::initializer_list<DiagArg> args);
  DiagBuilder(const DiagBuilder &) = delete;
  ~DiagBuilder();
  DiagBuilder &label(Loc loc, std::string text) &;
  DiagBuilder &note(Loc loc, std::string text) &;
  DiagBuilder &fixIt(Loc loc, std::string text) &;
  DiagBuilder &&label(Loc l, std::string t) && { label(l, std::move(t)); return std::move(*this); }
  DiagBuilder &&note(Loc l, std::string t) && { note(l, std::move(t)); return std::move(*this); }
  DiagBuilder &&fixIt(Loc l, std::string t) && { fixIt(l, std::move(t)); return std::move(*this); }

private:
  DiagEngine &engine_;
  Diagnostic d_;
};

class DiagEngine {
public:
  template <typename... Args> DiagBuilder report(const DiagKind &kind, Loc loc, Args &&...args) {
    return DiagBuilder(*this, kind, loc, {DiagArg(std::forward<Args>(args))...});
  }
  DiagEngine();
  DiagEngine(const DiagEngine &);
  DiagEngine(DiagEngine &&) noexcept;
  DiagEngine &operator=(const DiagEngine &);
  DiagEngine &operator=(DiagEngine &&) noexcept;
  ~DiagEngine();
  bool hasErrors() const { return errors_ != 0; }
  unsigned errorCount() const { return errors_; }
  const std::vector<Diagnostic> &all() const { return all_; }

  /// Keeps a source alive as long as the engine: for text that was rejected, to which only diagnostics still refer.
  void keep(std::shared_ptr<const SourceFile> file);

  /// Adds "while doing X" to every diagnostic emitted until the matching popContext (innermost first).
  void pushContext(DiagNote note);
  void popContext();

  /// Takes a finished diagnostic. Duplicates (same kind, place and text) are kept once; after 100 errors, further ones
  /// are only counted.
  void emit(Diagnostic d);

private:
  std::vector<Diagnostic> all_;
  std::vector<DiagNote> context_;
  unsigned errors_ = 0;
  std::vector<std::shared_ptr<const SourceFile>> kept_;
};

/// RAII for pushContext/popContext.
class DiagContext {
public:
  DiagContext(DiagEngine &e, Loc loc, std::string text);
  ~DiagContext();
  DiagContext(const DiagContext &) = delete;

private:
  DiagEngine &e_;
};

/// clang-like text: `file:line:col: severity: message [kind]`, the source line, `^~~~` under the range, labels,
/// fix-its, notes in the same form. Ends with a newline.
std::string render(const Diagnostic &d, bool colour = false);
std::string renderAll(const DiagEngine &engine, bool colour = false);
/// One JSON array of objects: kind, severity, message, file, line, column, endLine, endColumn, notes[], fixIts[].
std::string renderJson(const DiagEngine &engine);

} // namespace tegula
