// How a C++ kernel becomes a kernel of the language: its operations are written down, as text, while it is called. Included by tegula/tile.hpp.
//
// Each operation adds a statement `vN = ...` to the block that is open. A value that the next operation takes as a temporary (an rvalue that nobody
// has used) goes into it, so `load(p + i) + 1` becomes one expression, and its parts are evaluated from left to right whatever order the C++
// compiler calls them in. A variable of the kernel is a variable of the text: what is assigned in the body of a loop is carried around it because
// the language says so. Each piece of text has the place in the C++ file that wrote it (TegulaOrigin), which all messages, remarks and debuggers show.
#pragma once
#include "tegula/tegula.h"
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <deque>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tegula {
inline namespace v0 {
namespace tile {
namespace detail {

/// Text with the places that wrote it; those of an expression come before those of its parts.
struct Text {
  std::string text;
  std::vector<TegulaOrigin> origins;

  Text &operator+=(std::string_view s) { text += s; return *this; }
  Text &operator+=(const Text &other) {
    for (TegulaOrigin o : other.origins) {
      o.begin += static_cast<uint32_t>(text.size()), o.end += static_cast<uint32_t>(text.size());
      origins.push_back(o);
    }
    text += other.text;
    return *this;
  }
  /// All of it was written at `at`.
  Text from(const std::source_location &at) && {
    origins.insert(origins.begin(), {0, static_cast<uint32_t>(text.size()), at.file_name(), at.line(), at.column()});
    return std::move(*this);
  }
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

/// `target = value`, or `value` alone (target -1), or the arms of a compound statement ("if c", "else", "for i in ...").
struct Statement {
  struct Arm {
    Text head;
    Block body;
  };
  int target = -1;
  Text value;
  std::vector<Arm> arms;
};

/// One operand of an operation: text, or a variable.
struct Part {
  std::string text;
  int variable = -1;
  bool temporary = false;  // an rvalue
  bool unassigned = false; // a variable that nothing has been assigned to
};

inline std::string literal(bool b) { return b ? "True" : "False"; }
inline std::string literal(double d) {
  if (std::isnan(d)) return "float(\"nan\")";
  if (std::isinf(d)) return d < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  char digits[40];
  std::string s(digits, std::to_chars(digits, digits + sizeof digits, d).ptr);
  if (s.find_first_of(".e") == s.npos) s += ".0";
  return s[0] == '-' ? "(" + s + ")" : s;
}
template <std::integral I> std::string literal(I i) {
  std::string s = std::to_string(i);
  return s[0] == '-' ? "(" + s + ")" : s;
}
inline std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n') s += "\\n";
    else s += c;
  }
  return s + '"';
}

/// A function of a .py file that a kernel calls by `name`.
struct Extern {
  std::string name;     // in the text
  std::string function; // "helpers.py::gelu", or "gelu" of a module of the context
  std::string file;     // of the C++ file that names it
  /// As Context::kernel takes it: a file that is no absolute path lies beside the C++ file, or else where the program runs.
  std::string place() const {
    size_t folder = file.rfind('/');
    if (folder == file.npos || function.empty() || function[0] == '/' || function.find("::") == function.npos) return function;
    std::string beside = file.substr(0, folder + 1) + function;
    std::FILE *f = std::fopen(beside.substr(0, beside.rfind("::")).c_str(), "r");
    if (!f) return function;
    std::fclose(f);
    return beside;
  }
};

/// One kernel being written down. There is one at a time in a thread.
class Trace {
public:
  Trace() : outer_(current_) { current_ = this; }
  ~Trace() { current_ = outer_; }
  Trace(const Trace &) = delete;
  /// Null outside of kernels, where tiles mean nothing.
  static Trace *current() { return current_; }

  /// Also write down what C++ takes for the types of values, for the compiler to check (tests do).
  bool checkTypes = false;
  /// What made-up names begin with: no parameter's name begins so. (The library replaces them by those of the C++ file.)
  std::string prefix = "_";

  /// A new variable that is `format`, with the parts in place of each `$` outside of quotes.
  int make(const std::source_location &at, std::string_view format, std::vector<Part> parts) {
    last_ = at;
    Text value = compose(at, format, parts);
    return declare(std::move(value));
  }
  /// A statement that has no value.
  void effect(const std::source_location &at, std::string_view format, std::vector<Part> parts) {
    last_ = at;
    Text value = compose(at, format, parts);
    add().value = std::move(value);
  }
  /// `variable = part`; a variable of no name yet gets one.
  void assign(int &variable, Part part) {
    if (variable < 0) variable = newVariable();
    variables_[static_cast<size_t>(variable)].fixed = true;
    Text value;
    if (part.temporary && isLast(part.variable)) {
      value = std::move(block().back()->value);
      block().pop_back();
    } else {
      value = Text(compose(last_, "$", {part}));
    }
    Statement &s = add();
    s.target = variable, s.value = std::move(value);
  }
  /// May the object that held a variable give it to another one? Only if nobody has read it, in the block where it was made.
  bool canMove(int variable) const { return variable >= 0 && isFresh(variable) && variables_[static_cast<size_t>(variable)].block == &block(); }
  /// The compiler must find that `condition` holds of the variable.
  void check(const std::source_location &at, int variable, const std::string &condition) {
    effect(at, "tl.static_assert(" + condition + ", \"the element type that C++ takes this for\")", {{{}, variable, false}});
  }
  /// Of the last operation: for those of C++ that cannot know their own.
  const std::source_location &place() const { return last_; }
  void fail(const std::source_location &at, std::string_view message) { effect(at, "tl.static_assert(False, " + quoted(message) + ")", {}); }

  /// The head of a compound statement around what `body` does.
  template <typename F> Statement &compound(const std::source_location &at, std::string_view format, const std::vector<Part> &parts, F &&body) {
    last_ = at;
    Text head = compose(at, format, parts);
    Statement &s = add();
    arm(s, std::move(head), std::forward<F>(body));
    return s;
  }
  template <typename F> void compound(const std::source_location &at, Text head, F &&body) {
    last_ = at;
    arm(add(), std::move(head), std::forward<F>(body));
  }
  template <typename F> void arm(Statement &s, Text head, F &&body) {
    s.arms.push_back({std::move(head), {}});
    // Arms move when another is added, which is after the body of this one.
    functions_.back().open.push_back(&s.arms.back().body);
    std::forward<F>(body)();
    functions_.back().open.pop_back();
  }
  /// Is `s` what the block ends with?
  bool isLast(const Statement *s) const { return !block().empty() && block().back().get() == s; }
  /// The expression that `condition` writes down; whatever else it does cannot stand in the head of a loop.
  template <typename F> Text expression(const std::source_location &at, F &&condition) {
    Block apart;
    functions_.back().open.push_back(&apart);
    bool checks = std::exchange(checkTypes, false); // they are statements
    Text value = compose(at, "$", {std::forward<F>(condition)()});
    checkTypes = checks;
    functions_.back().open.pop_back();
    if (!apart.empty()) fail(at, "the condition of while_ must be one expression: what needs a name or has an effect belongs in the body");
    return value;
  }

  /// A function of the language beside the kernel: `write` gets the variables of its parameters and gives its results.
  template <typename F> std::string helper(const std::source_location &at, size_t parameters, F &&write) {
    functions_.emplace_back();
    functions_.back().id = ++lastFunction_;
    std::string name = prefix + "f" + std::to_string(++helpers_), list;
    std::vector<int> variables;
    for (size_t i = 0; i < parameters; ++i) {
      variables.push_back(parameter("a" + std::to_string(i)));
      list += (i ? ", a" : "a") + std::to_string(i);
    }
    std::vector<Part> results = write(variables);
    std::string format = "return $";
    for (size_t i = 1; i < results.size(); ++i) format += ", $";
    effect(at, format, results);
    Text text;
    text += "@triton.jit\n";
    Text body;
    body += "def " + name + "(" + list + "):\n";
    print(body, functions_.back().root, 1);
    text += std::move(body).from(at);
    functions_.pop_back();
    before_ += text;
    return name;
  }
  /// The name by which the text calls a function of a .py file.
  std::string external(std::string_view function, const std::source_location &at) {
    for (const Extern &e : externs_)
      if (e.function == function) return e.name;
    return externs_.emplace_back(Extern{prefix + "x" + std::to_string(externs_.size() + 1), std::string(function), at.file_name()}).name;
  }
  const std::vector<Extern> &externs() const { return externs_; }
  /// A parameter of the function that is open.
  int parameter(std::string name) {
    int v = newVariable();
    variables_[static_cast<size_t>(v)].name = std::move(name);
    variables_[static_cast<size_t>(v)].fixed = true;
    return v;
  }

  /// The whole file, of one kernel.
  Text file(const std::source_location &at, std::string_view name, std::string_view parameters) {
    Text out;
    out += "import triton\nimport triton.language as tl\n\n";
    out += before_;
    out += "@triton.jit\n";
    Text def;
    def += "def " + std::string(name) + "(" + std::string(parameters) + "):\n";
    print(def, functions_.back().root, 1);
    out += std::move(def).from(at);
    return out;
  }

  /// A name that no variable has.
  std::string newName() const { return prefix + "v" + std::to_string(variables_.size()); }
  const std::string &nameOf(int variable) const { return variables_[static_cast<size_t>(variable)].name; }

private:
  struct Variable {
    std::string name;
    int function = 0;
    const Block *block = nullptr; // where it was made
    unsigned uses = 0;
    bool fixed = false; // a parameter, or assigned: it stays a variable
  };
  struct Function {
    int id = 0;
    Block root;
    std::vector<Block *> open;
  };

  Block &block() const { return functions_.back().open.empty() ? const_cast<Block &>(functions_.back().root) : *functions_.back().open.back(); }
  Statement &add() { return *block().emplace_back(std::make_unique<Statement>()); }
  int newVariable() {
    variables_.push_back({newName(), functions_.back().id, &block(), 0, false});
    return static_cast<int>(variables_.size() - 1);
  }
  int declare(Text value) {
    int v = newVariable();
    Statement &s = add();
    s.target = v, s.value = std::move(value);
    return v;
  }
  bool isFresh(int variable) const {
    const Variable &v = variables_[static_cast<size_t>(variable)];
    return v.uses == 0 && !v.fixed;
  }
  bool isLast(int variable) const { return variable >= 0 && isFresh(variable) && !block().empty() && block().back()->target == variable; }

  Text compose(const std::source_location &at, std::string_view format, const std::vector<Part> &parts) {
    for (const Part &p : parts)
      if (p.unassigned) fail(at, "a tile is read before it has been assigned");
    // Temporaries that stand together at the end of the block, in whatever order, become part of the expression.
    std::vector<Text> inlined(parts.size());
    std::vector<bool> isInlined(parts.size());
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < parts.size() && !found; ++i)
        if (parts[i].temporary && !isInlined[i] && isLast(parts[i].variable)) {
          inlined[i] = std::move(block().back()->value);
          block().pop_back();
          isInlined[i] = found = true;
        }
    }
    Text out;
    size_t next = 0;
    bool isQuoted = false; // texts of users may have a `$`
    for (size_t i = 0; i < format.size(); ++i) {
      if (isQuoted && format[i] == '\\') {
        out += format.substr(i++, 2);
        continue;
      }
      isQuoted ^= format[i] == '"';
      if (format[i] != '$' || isQuoted) {
        out += format.substr(i, 1);
        continue;
      }
      const Part &p = parts[next];
      if (isInlined[next]) out += inlined[next];
      else out += p.variable < 0 ? p.text : read(p.variable, at);
      ++next;
    }
    return std::move(out).from(at);
  }
  const std::string &read(int variable, const std::source_location &at) {
    Variable &v = variables_[static_cast<size_t>(variable)];
    ++v.uses;
    if (v.function != functions_.back().id) fail(at, "a function that combines elements can use its parameters only, not the tiles of the kernel around it");
    return v.name;
  }
  void print(Text &out, const Block &b, size_t depth) {
    std::string indent(2 * depth, ' ');
    if (b.empty()) out += indent + "pass\n";
    for (const auto &s : b) {
      if (s->arms.empty()) {
        out += indent;
        if (s->target >= 0) {
          Text line;
          line += variables_[static_cast<size_t>(s->target)].name + " = ";
          TegulaOrigin at = s->value.origins.front();
          line += s->value;
          line.origins.insert(line.origins.begin(), {0, static_cast<uint32_t>(line.text.size()), at.file, at.line, at.column});
          out += line;
        } else {
          out += s->value;
        }
        out += "\n";
      }
      for (const Statement::Arm &a : s->arms) {
        out += indent;
        out += a.head;
        out += ":\n";
        print(out, a.body, depth + 1);
      }
    }
  }

  static inline thread_local Trace *current_ = nullptr;
  Trace *outer_;
  std::deque<Variable> variables_;
  std::deque<Function> functions_ = std::deque<Function>(1); // the kernel, and helpers inside it; blocks stay where they are
  int lastFunction_ = 0, helpers_ = 0;
  Text before_; // helpers
  std::vector<Extern> externs_;
  std::source_location last_ = std::source_location::current();
};

} // namespace detail
} // namespace tile
} // inline namespace v0
} // namespace tegula
