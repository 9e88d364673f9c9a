// Thread-local storage of the last error and diagnostics, and the functions of tegula.h that read it.
#include "api/Error.h"
#include "tegula/tegula.h"
#include <algorithm>

namespace tegula::api {

namespace {
struct StoredDiagnostic {
  int32_t severity;
  std::string kind, message, file, rendered;
  LineCol begin, end;
  std::vector<StoredDiagnostic> notes;
};
} // namespace

struct Report {
  TegulaStatus status = TEGULA_OK;
  std::string text, json = "[]";
  std::vector<StoredDiagnostic> diagnostics;
  bool hasFault = false;
  runtime::Shortage shortage{};
  TegulaCpuFault fault{};
  runtime::SiteInfo site;
  std::string kernel, argument;
};

static Report &current() {
  static thread_local Report r;
  return r;
}

static StoredDiagnostic store(int32_t severity, std::string kind, std::string message, Loc loc) {
  StoredDiagnostic d{severity, std::move(kind), std::move(message), {}, {}, {}, {}, {}};
  if (loc) {
    d.file = loc.file->name();
    d.begin = loc.file->lineCol(loc.begin);
    d.end = loc.file->lineCol(loc.end);
  }
  return d;
}


TegulaStatus fail(TegulaStatus code, std::string text) {
  Report &r = current();
  r.status = code;
  r.text = std::move(text);
  r.shortage = {};
  return code;
}

TegulaStatus fail(const runtime::Status &s) {
  fail(s.code, s.text);
  current().shortage = s.shortage;
  return s.code;
}

void clearDiagnostics() {
  Report &r = current();
  if (r.diagnostics.empty()) return;
  r.diagnostics.clear();
  r.json = "[]";
}

/// An error of the compiler, not of the source. The texts of such kinds begin with it.
static bool isInternal(const Diagnostic &d) { return std::string_view(d.kind->format).starts_with("internal error: "); }

TegulaStatus report(const DiagEngine &diag, TegulaStatus otherwise) {
  Report &r = current();
  r.diagnostics.clear();
  for (const Diagnostic &d : diag.all()) {
    if (d.kind->severity == Severity::Remark) continue; // remarks stay with the kernel
    StoredDiagnostic s = store(static_cast<int32_t>(d.kind->severity), d.kind->name, d.message(), d.loc);
    for (const auto *list : {&d.labels, &d.notes})
      for (const DiagNote &n : *list) s.notes.push_back(store(TEGULA_NOTE, "", n.text, n.loc));
    s.rendered = render(d);
    r.diagnostics.push_back(std::move(s));
  }
  r.json = r.diagnostics.empty() ? "[]" : renderJson(diag);
  if (!diag.hasErrors()) return otherwise;
  // only the errors: programs print an uncaught error last, so its last lines are read first
  std::string text;
  for (const StoredDiagnostic &d : r.diagnostics)
    if (d.severity == TEGULA_SEVERITY_ERROR) text += d.rendered;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  bool internal = std::any_of(diag.all().begin(), diag.all().end(), isInternal);
  return fail(internal ? TEGULA_INTERNAL_ERROR : TEGULA_COMPILE_ERROR, std::move(text));
}

TegulaStatus fault(const runtime::KernelInfo &info, const TegulaCpuFault &f, std::string text) {
  Report &r = current();
  r.hasFault = true;
  r.fault = f;
  r.kernel = info.name;
  bool known = f.site >= 0 && static_cast<size_t>(f.site) < info.sites.size();
  r.site = known ? info.sites[f.site] : runtime::SiteInfo();
  int32_t arg = r.site.arg;
  r.argument = arg >= 0 && static_cast<size_t>(arg) < info.args.size() ? info.args[arg].name : "";
  return fail(TEGULA_FAULT, std::move(text));
}

std::shared_ptr<const Report> snapshot() { return std::make_shared<const Report>(current()); }

TegulaStatus adopt(const std::shared_ptr<const Report> &report) {
  if (!report) return TEGULA_OK;
  current() = *report;
  return report->status;
}

std::string jsonString(std::string_view s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') out += '\\', out += static_cast<char>(c);
    else if (c == '\n') out += "\\n";
    else if (c < 0x20) {
      char buffer[8];
      snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else out += static_cast<char>(c);
  }
  return out + "\"";
}

static void expose(const StoredDiagnostic &d, TegulaDiagnostic *out) {
  *out = {d.severity, static_cast<int32_t>(d.notes.size()),
          d.kind.c_str(), d.message.c_str(),
          d.file.c_str(), d.begin.line,
          d.begin.col, d.end.line,
          d.end.col, d.rendered.c_str()};
}

} // namespace tegula::api

using namespace tegula::api;

const char *tegula_status_name(TegulaStatus status) {
  static constexpr const char *names[] = {"ok", "invalid argument", "compile error", "not found",
                                          "I/O error", "out of resources", "fault", "cancelled",
                                          "unsupported", "internal error", "assembler error", "not compiled"};
  return status >= 0 && status <= TEGULA_NOT_COMPILED ? names[status] : "unknown status";
}

const char *tegula_last_error(void) { return current().text.c_str(); }
TegulaStatus tegula_last_status(void) { return current().status; }
void tegula_clear_error(void) { current() = Report(); }
size_t tegula_diagnostic_count(void) { return current().diagnostics.size(); }
const char *tegula_diagnostics_json(void) { return current().json.c_str(); }

TegulaStatus tegula_diagnostic_get(size_t index, TegulaDiagnostic *out) {
  if (!out || index >= current().diagnostics.size()) return TEGULA_INVALID_ARGUMENT;
  expose(current().diagnostics[index], out);
  return TEGULA_OK;
}

TegulaStatus tegula_diagnostic_note(size_t index, size_t note, TegulaDiagnostic *out) {
  const auto &all = current().diagnostics;
  if (!out || index >= all.size() || note >= all[index].notes.size()) return TEGULA_INVALID_ARGUMENT;
  expose(all[index].notes[note], out);
  return TEGULA_OK;
}

TegulaStatus tegula_last_shortage(TegulaShortage *out) {
  const tegula::runtime::Shortage &s = current().shortage;
  if (!out) return TEGULA_INVALID_ARGUMENT;
  if (!s.name) return TEGULA_NOT_FOUND;
  *out = {s.name, s.required, s.limit};
  return TEGULA_OK;
}

TegulaStatus tegula_last_fault(TegulaFault *out) {
  const Report &r = current();
  if (!out) return TEGULA_INVALID_ARGUMENT;
  if (!r.hasFault) return TEGULA_NOT_FOUND;
  static constexpr const char *verbs[] = {"", "load", "store", "atomic", "", ""};
  bool isAssert = r.fault.code == TEGULA_FAULT_ASSERT;
  *out = {r.fault.code,
          {r.fault.pid[0], r.fault.pid[1], r.fault.pid[2]},
          r.kernel.c_str(),
          r.site.file.c_str(),
          r.site.line,
          r.site.column,
          r.site.function.c_str(),
          r.argument.c_str(),
          r.fault.index,
          r.fault.extent,
          isAssert ? r.site.text.c_str() : verbs[static_cast<int>(r.site.kind)]};
  return TEGULA_OK;
}
