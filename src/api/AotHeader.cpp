// The header of a bundle: one typed function for each kernel, in C and, with overloads by element type, in C++. It
// selects no entry: the launch does, by the facts of the arguments and the machine (runtime/BundleApi.cpp).
#include "api/Aot.h"
#include "runtime/Dtype.h"
#include <algorithm>
#include <set>

namespace tegula::api {

using runtime::BundleParam;
using runtime::NewBundleEntry;

namespace {

struct CType {
  const char *type;   // of a value, or the pointee of a pointer
  const char *dtype;  // TEGULA_...
};
constexpr CType ctypes[] = {{"void", "TEGULA_VOID"},
                            {"uint8_t", "TEGULA_INT1"},
                            {"int8_t", "TEGULA_INT8"},
                            {"int16_t", "TEGULA_INT16"},
                            {"int32_t", "TEGULA_INT32"},
                            {"int64_t", "TEGULA_INT64"},
                            {"uint8_t", "TEGULA_UINT8"},
                            {"uint16_t", "TEGULA_UINT16"},
                            {"uint32_t", "TEGULA_UINT32"},
                            {"uint64_t", "TEGULA_UINT64"},
                            {"TegulaFp8e5", "TEGULA_FP8E5"},
                            {"TegulaFp8e4", "TEGULA_FP8E4NV"},
                            {"TegulaFp8e4b15", "TEGULA_FP8E4B15"},
                            {"TegulaFp8e4b8", "TEGULA_FP8E4B8"},
                            {"TegulaFp8e5b16", "TEGULA_FP8E5B16"},
                            {"TegulaHalf", "TEGULA_FP16"},
                            {"TegulaBfloat16", "TEGULA_BF16"},
                            {"float", "TEGULA_FP32"},
                            {"double", "TEGULA_FP64"}};
static_assert(std::size(ctypes) == TEGULA_FP64 + 1);

/// A parameter's form in the function.
struct Shown {
  std::string name, type; // type "": not a parameter, `argument` is a constant
  std::string argument;   // of the launch
};

std::string cName(const std::string &name) {
  static const std::set<std::string_view> &taken = *new std::set<std::string_view>{
      "auto", "break", "case", "char", "const", "continue", "default", "do", "double",
      "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int",
      "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct",
      "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool", "true",
      "false", "class", "new", "delete", "this", "template", "typename", "operator", "private",
      "public", "protected", "namespace", "using", "friend", "virtual", "try", "catch", "throw",
      "and", "or", "not", "xor", "asm", "app", "options", "grid", "args"};
  return taken.contains(name) ? name + "_" : name;
}

/// A parameter in all entries of a group.
struct Column {
  std::vector<const BundleParam *> rows;
  bool written = false;

  template <typename F> bool any(F &&f) const {
    return std::any_of(rows.begin(), rows.end(), [&](const BundleParam *p) { return f(*p); });
  }
  const BundleParam *runtime() const {
    for (const BundleParam *p : rows)
      if (p->kind == BundleParam::Kind::Runtime) return p;
    return nullptr;
  }

  Shown shown() const {
    const BundleParam &first = *rows[0];
    Shown s{cName(first.name), "", ""};
    if (any([](const BundleParam &p) { return p.kind == BundleParam::Kind::Tuple; })) {
      s.type = "const TegulaArg *";
      s.argument = "*" + s.name;
      return s;
    }
    if (const BundleParam *r = runtime()) {
      if (r->isPtr) {
        s.type = std::string(written ? "" : "const ") + ctypes[r->dtype].type + " *";
        s.argument = std::string(written ? "tegula_ptr" : "tegula_const_ptr") + "(" + s.name + ", " +
                     ctypes[r->dtype].dtype + ", -1)";
        return s;
      }
      TegulaDtype widest = r->dtype;
      for (const BundleParam *p : rows)
        if (p->kind == BundleParam::Kind::Runtime &&
            runtime::dtypeInfo(p->dtype).bytes > runtime::dtypeInfo(widest).bytes)
          widest = p->dtype;
      bool isFloat = runtime::dtypeInfo(widest).kind == runtime::DtypeInfo::Float;
      s.type = isFloat ? (widest == TEGULA_FP64 ? "double " : "float ") : std::string(ctypes[widest].type) + " ";
      s.argument = isFloat                   ? "tegula_float(" + s.name + ")"
                   : widest == TEGULA_INT1   ? "tegula_bool(" + s.name + ")"
                   : widest == TEGULA_UINT64 ? "tegula_aot_u64(" + s.name + ")"
                                             : "tegula_int(" + s.name + ")";
      return s;
    }
    bool same = !any([&](const BundleParam &p) { return p.constant != first.constant || p.text != first.text; });
    using Constant = BundleParam::Constant;
    if (!same || (!first.isConstexpr && first.constant == Constant::Int)) {
      bool isNumber =
          !any([](const BundleParam &p) { return p.constant != Constant::Int && p.constant != Constant::Bool; });
      bool isFloat = !any([](const BundleParam &p) { return p.constant != Constant::Float; });
      s.type = isNumber ? "int64_t " : isFloat ? "double " : "const char *";
      s.argument = isNumber  ? "tegula_int(" + s.name + ")"
                   : isFloat ? "tegula_float(" + s.name + ")"
                             : "tegula_text(" + s.name + ")";
      return s;
    }
    // One value only, or a None pointer.
    s.argument = first.constant == Constant::None && !first.isConstexpr ? "tegula_aot_none" : "tegula_aot_missing";
    return s;
  }
};

struct Function {
  std::string kernel, suffix; // suffix: of the name in C, if there are several element types
  std::vector<const NewBundleEntry *> entries;
};

/// Entries of one kernel with the same element types and numbers of parameters.
std::vector<Function> functionsOf(const std::vector<NewBundleEntry> &entries) {
  std::vector<Function> out;
  std::map<std::string, std::map<std::string, size_t>> groups;
  std::vector<std::string> order;
  for (const NewBundleEntry &e : entries) {
    std::string types = std::to_string(e.record.params.size());
    for (const BundleParam &p : e.record.params)
      if (p.kind == BundleParam::Kind::Runtime && p.isPtr) types += "_" + std::string(runtime::dtypeInfo(p.dtype).name);
    auto [it, isNew] = groups[e.kernel].try_emplace(types, out.size());
    if (isNew)
      out.push_back({e.kernel, types.substr(types.find('_') == types.npos ? types.size() : types.find('_')), {}});
    out[it->second].entries.push_back(&e);
  }
  for (Function &f : out)
    if (groups[f.kernel].size() == 1) f.suffix.clear();
  // "_fp32_fp32_fp32" as "_fp32", if no other function has that name.
  auto shortened = [](const Function &f) {
    size_t second = f.suffix.find('_', 1);
    std::string one = f.suffix.substr(0, second);
    for (size_t at = 0; at < f.suffix.size(); at += one.size())
      if (f.suffix.compare(at, one.size(), one) != 0) return f.suffix;
    return one;
  };
  std::map<std::string, int> uses;
  for (const Function &f : out) ++uses[f.kernel + shortened(f)];
  for (Function &f : out)
    if (!f.suffix.empty() && uses[f.kernel + shortened(f)] == 1) f.suffix = shortened(f);
  return out;
}

std::string targetsOf(const Function &f) {
  std::set<std::string> names;
  for (const NewBundleEntry *e : f.entries) names.insert(e->target);
  std::string text;
  for (const std::string &n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

constexpr const char *top = R"(/* The kernels of %%.tgb. Made by `tegula aot --header`; C and C++, with libtegula-runtime alone.
 *
 *   %%_kernels app;
 *   if (%%_open(&app, "%%.tgb", NULL) != TEGULA_OK) fputs(tegula_bundle_error(), stderr);
 *
 * Each function gives TEGULA_OK, or a status whose text tegula_bundle_error() has. Of a kernel's entries it runs the one for the machine, the types and the facts of the
 * arguments (divisibility, 1) by itself. `options` may be NULL; its `device` and `stream` are those of tegula_bundle_launch. */
#ifndef TEGULA_BUNDLE_HEADER_%%
#define TEGULA_BUNDLE_HEADER_%%
#include <tegula/bundle.h>

typedef struct %%_kernels {
  TegulaBundle *bundle;
)";

constexpr const char *opening = R"(} %%_kernels;

static inline void %%_close(%%_kernels *app) {
  tegula_bundle_close(app->bundle);
  app->bundle = NULL;
}
static inline TegulaStatus %%_find(%%_kernels *app, TegulaStatus status) {
)";

constexpr const char *closing = R"(  if (status != TEGULA_OK && app->bundle) %%_close(app);
  return status;
}
/* Kernels that the bundle has for other machines only are an error here, not when they are launched. `options` may be NULL. */
static inline TegulaStatus %%_open(%%_kernels *app, const char *path, const TegulaBundleOptions *options) {
  app->bundle = NULL;
  return %%_find(app, tegula_bundle_open(path, options, &app->bundle));
}
static inline TegulaStatus %%_open_memory(%%_kernels *app, const void *bytes, size_t length, const TegulaBundleOptions *options) {
  app->bundle = NULL;
  return %%_find(app, tegula_bundle_open_memory(bytes, length, options, &app->bundle));
}
/* The bundle that is linked into the program: what --object or --source wrote. */
#ifdef __cplusplus
extern "C" {
#endif
extern const unsigned char %%_tgb[];
extern const size_t %%_tgb_size;
#ifdef __cplusplus
}
#endif
static inline TegulaStatus %%_open_linked(%%_kernels *app, const TegulaBundleOptions *options) { return %%_open_memory(app, %%_tgb, %%_tgb_size, options); }
)";

} // namespace

std::string headerOf(const std::vector<NewBundleEntry> &entries, const std::string &name) {
  std::vector<Function> functions = functionsOf(entries);
  std::set<std::string> kernels;
  std::string text = replaced(top, "%%", name), body, plusplus, find;
  for (const Function &f : functions)
    if (kernels.insert(f.kernel).second) {
      text += "  const TegulaBundleKernel *" + cName(f.kernel) + ";\n";
      find += "  if (status == TEGULA_OK) status = tegula_bundle_kernel(app->bundle, \"" + f.kernel + "\", &app->" +
              cName(f.kernel) + ");\n";
    }
  text += replaced(opening, "%%", name) + find + replaced(closing, "%%", name);
  bool usesUnsigned = false;
  for (const Function &f : functions) {
    const NewBundleEntry &first = *f.entries[0];
    std::string parameters = "const " + name + "_kernels *app", names = "app", arguments, comment;
    for (size_t i = 0; i < first.record.params.size(); ++i) {
      Column column;
      for (const NewBundleEntry *e : f.entries) {
        column.rows.push_back(&e->record.params[i]);
        for (const runtime::ArgInfo &a : e->record.info.args)
          column.written = column.written || (a.name == first.record.params[i].name && a.written);
      }
      Shown s = column.shown();
      if (!s.type.empty()) parameters += ", " + s.type + s.name, names += ", " + s.name;
      else if (column.rows[0]->isConstexpr)
        comment += (comment.empty() ? "" : ", ") + column.rows[0]->name + "=" + column.rows[0]->text;
      usesUnsigned = usesUnsigned || s.argument.starts_with("tegula_aot_u64");
      arguments += (i ? ", " : "") + s.argument;
    }
    const bool hasGrid = std::all_of(f.entries.begin(), f.entries.end(),
                                     [](const NewBundleEntry *e) { return !e->record.grid.empty(); });
    if (!hasGrid) parameters += ", const int64_t grid[3]", names += ", grid";
    parameters += ", const TegulaLaunchOptions *options", names += ", options";
    std::string note = replaced("/* " + f.kernel + " for " + targetsOf(f) + (comment.empty() ? "" : "; " + comment) +
                                    (hasGrid ? "; grid " + first.record.grid : ""),
                                "*/", "* /") +
                       " */\n";
    std::string function = name + "_" + f.kernel + f.suffix;
    body +=
        note + "static inline TegulaStatus " + function + "(" + parameters +
        ") {\n  const TegulaArg tegula_aot_missing = {0, 0, 0, 0, {NULL}, {0}}, tegula_aot_none = {TEGULA_ARG_NONE, 0, 0, 0, {NULL}, {0}};\n" +
        "  const TegulaArg args[] = {" + (arguments.empty() ? "tegula_aot_missing" : arguments) +
        "};\n  (void)tegula_aot_missing, (void)tegula_aot_none;\n" + "  return tegula_bundle_launch(app->" +
        cName(f.kernel) + ", " + (hasGrid ? "NULL" : "grid") + ", args, " + std::to_string(first.record.params.size()) +
        ", options);\n}\n";
    std::string withDefault =
        replaced(parameters, "const TegulaLaunchOptions *options", "const TegulaLaunchOptions *options = nullptr");
    withDefault = replaced(withDefault, "const " + name + "_kernels *app", "const " + name + "_kernels &app");
    plusplus += "inline TegulaStatus " + cName(f.kernel) + "(" + withDefault + ") { return " + function + "(&" + names +
                "); }\n";
  }
  if (usesUnsigned)
    text +=
        "static inline TegulaArg tegula_aot_u64(uint64_t v) {\n  TegulaArg a = tegula_int((int64_t)v);\n  a.kind = TEGULA_ARG_UINT;\n  return a;\n}\n";
  return text + body + "\n#ifdef __cplusplus\n/* The same with overloads. */\nnamespace " + name + " {\n" + plusplus +
         "} // namespace " + name + "\n#endif\n#endif\n";
}

} // namespace tegula::api
