// Collects diagnostics and renders them as text or JSON.
#include "support/Diag.h"
#include <algorithm>

namespace tegula {
namespace {

constexpr unsigned maxErrors = 100;
// Warnings and remarks beyond this number are dropped, as each new one is compared with all others.
constexpr size_t maxDiagnostics = 1000;

const char *word(Severity s) {
  switch (s) {
  case Severity::Remark: return "remark";
  case Severity::Warning: return "warning";
  case Severity::Error: return "error";
  }
  return "error";
}

struct Colours {
  const char *bold, *severity, *caret, *reset;
};
Colours coloursFor(bool on, const char *severity) {
  return on ? Colours{"\033[1m", severity, "\033[1;32m", "\033[0m"} : Colours{"", "", "", ""};
}

// First and one-past-last display column (1-based) of the part of `loc` that lies on its first line.
std::pair<uint32_t, uint32_t> columnsOnLine(Loc loc) {
  uint32_t lineEnd =
      loc.begin - loc.file->byteColumn(loc.begin) + static_cast<uint32_t>(loc.file->lineText(loc.begin).size());
  uint32_t end = std::min(loc.end, std::max(lineEnd, loc.begin));
  uint32_t first = loc.file->lineCol(loc.begin).col;
  uint32_t last = loc.file->lineCol(end).col;
  return {first, std::max(last, first + 1)};
}

// `   ^~~~` under the snippet, with `----` under labels on the same line.
std::string underline(const Diagnostic &d) {
  std::string marks;
  auto put = [&](Loc loc, char head, char tail) {
    auto [first, last] = columnsOnLine(loc);
    if (marks.size() < last - 1) marks.resize(last - 1, ' ');
    for (uint32_t c = first; c < last; ++c)
      if (marks[c - 1] == ' ') marks[c - 1] = c == first ? head : tail;
  };
  put(d.loc, '^', '~');
  for (auto &l : d.labels)
    if (l.loc.file == d.loc.file && l.loc.file->lineCol(l.loc.begin).line == d.loc.file->lineCol(d.loc.begin).line)
      put(l.loc, '-', '-');
  return marks;
}

void renderPlace(std::string &out, Loc loc, const char *severity, const std::string &message, const char *kind,
                 const Colours &c) {
  if (loc) {
    LineCol p = loc.file->lineCol(loc.begin);
    out += c.bold + loc.file->name() + ":" + std::to_string(p.line) + ":" + std::to_string(p.col) + ": " + c.reset;
  }
  out += std::string(c.severity) + severity + ": " + c.reset + c.bold + message + c.reset;
  if (kind) out += std::string(" [") + kind + "]";
  out += '\n';
}

void renderSnippet(std::string &out, Loc loc, const std::string &marks, const Colours &c) {
  std::string line = std::to_string(loc.file->lineCol(loc.begin).line);
  std::string gutter(std::max<size_t>(line.size(), 4), ' ');
  std::copy(line.rbegin(), line.rend(), gutter.rbegin());
  out += gutter + " | " + loc.file->displayLine(loc.begin) + "\n";
  out += std::string(gutter.size(), ' ') + " | " + c.caret + marks + c.reset + "\n";
}

void jsonString(std::string &out, std::string_view s) {
  static const char *hex = "0123456789abcdef";
  out += '"';
  for (char ch : s) {
    unsigned char c = static_cast<unsigned char>(ch);
    if (c == '"' || c == '\\') (out += '\\') += ch;
    else if (c == '\n') out += "\\n";
    else if (c < 0x20) ((out += "\\u00") += hex[c >> 4]) += hex[c & 15];
    else out += ch;
  }
  out += '"';
}

void jsonPlace(std::string &out, Loc loc) {
  LineCol a, b;
  if (loc) {
    a = loc.file->lineCol(loc.begin);
    b = loc.file->lineCol(loc.end);
  }
  out += "\"file\":";
  jsonString(out, loc ? loc.file->name() : "");
  out += ",\"line\":" + std::to_string(a.line) + ",\"column\":" + std::to_string(a.col) +
         ",\"endLine\":" + std::to_string(b.line) + ",\"endColumn\":" + std::to_string(b.col);
}

} // namespace

std::string Diagnostic::message() const {
  std::string out;
  for (const char *p = kind->format; *p; ++p) {
    if (p[0] == '{' && p[1] >= '0' && p[1] <= '9' && p[2] == '}') {
      size_t i = p[1] - '0';
      out += i < args.size() ? args[i].text : "?";
      p += 2;
    } else {
      out += *p;
    }
  }
  return out;
}

DiagArg::DiagArg(std::string s) : text(std::move(s)) {}
DiagArg::DiagArg(std::string_view s) : text(s) {}
DiagArg::DiagArg(const char *s) : text(s) {}
DiagArg::DiagArg(int64_t v) : text(std::to_string(v)) {}
DiagArg::DiagArg(int v) : text(std::to_string(v)) {}
DiagArg::DiagArg(unsigned v) : text(std::to_string(v)) {}
DiagArg::DiagArg(uint64_t v) : text(std::to_string(v)) {}

Diagnostic::Diagnostic() = default;
Diagnostic::Diagnostic(const Diagnostic &) = default;
Diagnostic::Diagnostic(Diagnostic &&) noexcept = default;
Diagnostic &Diagnostic::operator=(const Diagnostic &) = default;
Diagnostic &Diagnostic::operator=(Diagnostic &&) noexcept = default;
Diagnostic::~Diagnostic() = default;

DiagBuilder::DiagBuilder(DiagEngine &engine, const DiagKind &kind, Loc loc, std::initializer_list<DiagArg> args)
    : engine_(engine) {
  d_.kind = &kind;
  d_.loc = loc;
  d_.args.assign(args);
}
DiagBuilder::~DiagBuilder() { engine_.emit(std::move(d_)); }
DiagBuilder &DiagBuilder::label(Loc loc, std::string text) & {
  d_.labels.push_back({loc, std::move(text)});
  return *this;
}
DiagBuilder &DiagBuilder::note(Loc loc, std::string text) & {
  d_.notes.push_back({loc, std::move(text)});
  return *this;
}
DiagBuilder &DiagBuilder::fixIt(Loc loc, std::string text) & {
  d_.fixIts.push_back({loc, std::move(text)});
  return *this;
}

DiagContext::DiagContext(DiagEngine &e, Loc loc, std::string text) : e_(e) { e_.pushContext({loc, std::move(text)}); }
DiagContext::~DiagContext() { e_.popContext(); }

DiagEngine::DiagEngine() = default;
DiagEngine::DiagEngine(const DiagEngine &) = default;
DiagEngine::DiagEngine(DiagEngine &&) noexcept = default;
DiagEngine &DiagEngine::operator=(const DiagEngine &) = default;
DiagEngine &DiagEngine::operator=(DiagEngine &&) noexcept = default;
DiagEngine::~DiagEngine() = default;

void DiagEngine::keep(std::shared_ptr<const SourceFile> file) { kept_.push_back(std::move(file)); }
void DiagEngine::pushContext(DiagNote note) { context_.push_back(std::move(note)); }
void DiagEngine::popContext() { context_.pop_back(); }

void DiagEngine::emit(Diagnostic d) {
  for (auto &seen : all_)
    if (seen.kind == d.kind && seen.loc.file == d.loc.file && seen.loc.begin == d.loc.begin &&
        seen.loc.end == d.loc.end && seen.message() == d.message())
      return;
  if (d.kind->severity == Severity::Error ? ++errors_ > maxErrors : all_.size() >= maxDiagnostics) return;
  for (size_t i = context_.size(); i-- > 0;) d.notes.push_back(context_[i]);
  all_.push_back(std::move(d));
}

std::string render(const Diagnostic &d, bool colour) {
  std::string out;
  Colours c = coloursFor(colour, d.kind->severity == Severity::Error ? "\033[1;31m" : "\033[1;35m");
  renderPlace(out, d.loc, word(d.kind->severity), d.message(), d.kind->name, c);
  if (d.loc) {
    renderSnippet(out, d.loc, underline(d), c);
    for (auto &f : d.fixIts) {
      if (f.loc.file != d.loc.file || f.loc.file->lineCol(f.loc.begin).line != d.loc.file->lineCol(d.loc.begin).line)
        continue;
      out += "     | " + std::string(f.loc.file->lineCol(f.loc.begin).col - 1, ' ') + f.replacement + "\n";
    }
  }
  auto note = [&](Loc loc, const std::string &text) {
    Colours n = coloursFor(colour, "\033[1;36m");
    renderPlace(out, loc, "note", text, nullptr, n);
    if (!loc) return;
    auto [first, last] = columnsOnLine(loc);
    renderSnippet(out, loc, std::string(first - 1, ' ') + "^" + std::string(last - first - 1, '~'), n);
  };
  for (auto &l : d.labels) {
    // Labels on the primary line share its snippet; their texts follow, one line each.
    if (d.loc && l.loc.file == d.loc.file &&
        l.loc.file->lineCol(l.loc.begin).line == d.loc.file->lineCol(d.loc.begin).line)
      out += "     | " + std::string(l.loc.file->lineCol(l.loc.begin).col - 1, ' ') + l.text + "\n";
    else
      note(l.loc, l.text);
  }
  for (auto &n : d.notes) note(n.loc, n.text);
  return out;
}

std::string renderAll(const DiagEngine &engine, bool colour) {
  std::string out;
  for (auto &d : engine.all()) out += render(d, colour);
  if (engine.errorCount() > maxErrors)
    out += std::to_string(engine.errorCount() - maxErrors) + " further errors are not shown\n";
  return out;
}

std::string renderJson(const DiagEngine &engine) {
  std::string out = "[";
  for (auto &d : engine.all()) {
    if (out.size() > 1) out += ",\n ";
    out +=
        std::string("{\"kind\":\"") + d.kind->name + "\",\"severity\":\"" + word(d.kind->severity) + "\",\"message\":";
    jsonString(out, d.message());
    out += ',';
    jsonPlace(out, d.loc);
    out += ",\"notes\":[";
    bool first = true;
    auto note = [&](const DiagNote &n) {
      out += first ? "{\"message\":" : ",{\"message\":";
      first = false;
      jsonString(out, n.text);
      out += ',';
      jsonPlace(out, n.loc);
      out += '}';
    };
    for (auto &l : d.labels) note(l);
    for (auto &n : d.notes) note(n);
    out += "],\"fixIts\":[";
    first = true;
    for (auto &f : d.fixIts) {
      out += first ? "{\"replacement\":" : ",{\"replacement\":";
      first = false;
      jsonString(out, f.replacement);
      out += ',';
      jsonPlace(out, f.loc);
      out += '}';
    }
    out += "]}";
  }
  return out + "]\n";
}

} // namespace tegula
