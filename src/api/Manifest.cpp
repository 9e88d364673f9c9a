// Manifests: lists of kernels to compile, written by hand or by a recorded program (docs/bundle.md has the format).
#include "api/Aot.h"
#include "api/OptionNames.h"
#include "api/Specialize.h"
#include "support/Npy.h"
#include <cerrno>

namespace tegula::api {

using nlohmann::json;

namespace {

struct Reader {
  TegulaAot &aot;
  const std::string &path;
  const std::vector<Target> &targets; // instead of those in the manifest
  int32_t classes;
  std::vector<Target> usual; // for kernels that name none
  std::map<std::string, Ref<TegulaModule>> files;

  bool wrong(const std::string &where, const std::string &what) {
    fail(TEGULA_INVALID_ARGUMENT, path + ": " + (where.empty() ? "" : where + ": ") + what);
    return false;
  }
  /// The last error, with its location, unless it begins with it.
  bool failed(const std::string &where) {
    TegulaStatus status = tegula_last_status();
    std::string text = tegula_last_error();
    fail(status, path + ": " + (text.starts_with(where + ":") ? "" : where + ": ") + text);
    return false;
  }
  static const json *member(const json &j, const char *name) {
    auto it = j.find(name);
    return it == j.end() ? nullptr : &*it;
  }
  /// "" if it is missing; false: it is not text.
  bool text(const json &j, const char *name, const std::string &where, std::string &out) {
    const json *m = member(j, name);
    if (m && !m->is_string()) return wrong(where, std::string("`") + name + "` must be a text");
    out = m ? m->get<std::string>() : "";
    return true;
  }
  bool texts(const json &j, const char *name, const std::string &where, std::vector<std::string> &out) {
    const json *m = member(j, name);
    if (!m) return true;
    if (!m->is_array()) return wrong(where, std::string("`") + name + "` must be a list of texts");
    for (const json &item : *m) {
      if (!item.is_string()) return wrong(where, std::string("`") + name + "` must be a list of texts");
      out.push_back(item.get<std::string>());
    }
    return true;
  }
  bool named(const std::vector<std::string> &names, const std::string &where, std::vector<Target> &out) {
    std::vector<const char *> p;
    for (const std::string &n : names) p.push_back(n.c_str());
    return targetsNamed(*aot.context, p.data(), p.size(), out) || failed(where);
  }
  /// The requested targets of the kinds that a program ran on: CPUs or GPUs. A kernel is written for one kind, and so
  /// are its constants, which the program chose.
  std::vector<Target> ofKinds(const std::vector<Target> &recorded) const {
    if (aot.flags & TEGULA_AOT_ANY_TARGET || recorded.empty()) return targets;
    std::vector<Target> out;
    for (const Target &t : targets)
      if (std::ranges::any_of(recorded, [&](const Target &r) { return r.isCpu() == t.isCpu(); })) out.push_back(t);
    return out;
  }
  bool onlyKnown(const json &j, std::initializer_list<std::string_view> names, const std::string &where) {
    for (auto it = j.begin(); it != j.end(); ++it)
      if (std::find(names.begin(), names.end(), it.key()) == names.end())
        return wrong(where, "there is no key `" + it.key() + "`");
    return true;
  }

  std::string beside(const std::string &file) const {
    size_t slash = path.rfind('/');
    return file.starts_with("/") || slash == path.npos ? file : path.substr(0, slash + 1) + file;
  }

  /// The kernel of a file, or of a text in the manifest.
  bool fromModule(const json &j, const std::string &source, const std::string &kernel, const std::string &where,
                  ClosureReader *closure, AotJob &job) {
    std::string content, file, table, why;
    const json *inside = member(j, "text");
    if ((inside && (!text(j, "text", where, content) || !text(j, "file", where, file))) ||
        !text(j, "files", where, table))
      return false;
    std::map<std::string, std::string> texts;
    if (!table.empty() && (!closure || !closure->files(table, texts, why)))
      return wrong(where, closure ? why : "`files` are for recorded programs");
    std::string key = inside ? "text:" + file + ":" + content : beside(source);
    if (!texts.empty()) {
      key = "files:" + source;
      for (const auto &[path, of] : texts)
        key += std::to_string(path.size()) + ":" + path + std::to_string(of.size()) + ":" + of;
    }
    auto it = files.find(key);
    if (it == files.end()) {
      TegulaModule *m = nullptr;
      TegulaStatus s = !texts.empty() ? moduleFromTexts(*aot.context, source, std::move(texts), &m)
                       : inside
                           ? tegula_module_from_text(aot.context.get(), file.empty() ? "manifest.py" : file.c_str(),
                                                     content.data(), content.size(), &m)
                           : tegula_module_from_file(aot.context.get(), key.c_str(), &m);
      if (s != TEGULA_OK) return failed(where);
      it = files.emplace(key, Ref(m)).first;
      tegula_module_release(m);
    }
    TegulaFunction *f = nullptr;
    if (tegula_module_function(it->second.get(), kernel.c_str(), &f) != TEGULA_OK) return failed(where);
    job.function = Ref(f);
    tegula_function_release(f);
    return true;
  }

  bool options(const json &j, const std::string &where, CompileOptions &o) {
    CallOptions call;
    TegulaLaunchOptions cpu = TEGULA_LAUNCH_OPTIONS_INIT;
    cpu.device = DeviceIndex::cpu;
    if (!aot.context->resolve(&cpu, call)) return failed(where);
    o = call.compile;
    std::string why;
    const json *m = member(j, "options");
    if (m && !m->is_object()) return wrong(where, "`options` must be an object");
    return !m || readOptionsJson(*m, o, why) || wrong(where, why);
  }

  bool constants(const json &j, const std::string &where, std::vector<std::pair<std::string, Ref<TegulaValue>>> &out) {
    const json *m = member(j, "constants");
    if (!m) return true;
    if (!m->is_object()) return wrong(where, "`constants` must be an object");
    for (auto it = m->begin(); it != m->end(); ++it) {
      TegulaValue *v = it->is_boolean()          ? tegula_value_bool(it->get<bool>())
                       : it->is_number_integer() ? tegula_value_int(it->get<int64_t>())
                       : it->is_number()         ? tegula_value_float(it->get<double>())
                       : it->is_null()           ? tegula_value_none()
                       : it->is_string()         ? tegula_value_parse(it->get<std::string>().c_str())
                                                 : nullptr;
      if (!v)
        return wrong(
            where,
            "constant `" + it.key() +
                "` is no constant; texts are read as `tegula compile -c` reads them ('quoted' strings, data types)");
      out.emplace_back(it.key(), Ref(v));
      tegula_value_release(v);
    }
    return true;
  }

  bool classesOf(const json &j, const std::string &where, int32_t &out) {
    std::string name;
    if (!text(j, "classes", where, name)) return false;
    out = name.empty() || name == "generic" ? TEGULA_CLASSES_GENERIC
          : name == "given"                 ? TEGULA_CLASSES_GIVEN
          : name == "all"                   ? TEGULA_CLASSES_ALL
          : name == "distinct"              ? TEGULA_CLASSES_DISTINCT
                                            : -1;
    if (out < 0) return wrong(where, "`classes` is `" + name + "`; it must be generic, given, all or distinct");
    if (classes >= 0) out = classes;
    return true;
  }

  /// One kernel with its signatures. `objects`: those of a recorded program, with its reader, or null.
  bool kernel(const json &j, const std::string &number, ClosureReader *closure) {
    std::string name, source, function, one, hash;
    if (!j.is_object()) return wrong("", number + " is no object");
    if (!text(j, "kernel", number, name)) return false;
    const std::string where = name.empty() ? number : "`" + name + "`";
    static constexpr std::initializer_list<std::string_view> keys = {
        "kernel", "source", "function", "text", "file", "files", "signature", "signatures", "specs",
        "constants", "options", "targets", "grid", "classes", "class", "hash", "name", "problem"};
    AotJob job;
    int32_t which;
    std::vector<std::string> signatures, targetNames;
    if (!onlyKnown(j, keys, where) || !text(j, "source", where, source) || !text(j, "function", where, function) ||
        !text(j, "signature", where, one) || !text(j, "hash", where, hash) ||
        !texts(j, "signatures", where, signatures) || !texts(j, "targets", where, targetNames) ||
        !text(j, "grid", where, job.grid) || !text(j, "name", where, job.name) || !options(j, where, job.options) ||
        !classesOf(j, where, which))
      return false;
    if (const json *problem = member(j, "problem")) {
      // A program used it, and it could not be recorded: the user who compiles the rest must be told.
      aot.context->warn(path + ": " + where + " is left out: " +
                        (problem->is_string() ? problem->get<std::string>() : "it could not be recorded"));
      return true;
    }
    if (name.empty()) return wrong(where, "`kernel` is missing");
    std::string why;
    if (!function.empty()) {
      TegulaFunction *f = closure ? closure->function(function, why) : nullptr;
      if (!f) return wrong(where, closure ? why : "`function` is for recorded programs");
      job.function = Ref(f);
    } else if (source.empty() && !member(j, "text")) {
      return wrong(where, "`source` is missing: the file that the kernel is in");
    } else if (!fromModule(j, source, name, where, closure, job)) {
      return false;
    }
    if (!hash.empty() && job.function->fn->sourceHash() != hash)
      return wrong(where, source.empty() || member(j, "files")
                              ? "what the manifest holds does not give the kernel that was recorded"
                              : source + " has changed since the program was recorded");
    std::vector<Target> mine;
    if (!targetNames.empty() && !named(targetNames, where, mine)) return false;
    job.targets = targets.empty() ? targetNames.empty() ? usual : mine : closure ? ofKinds(mine) : targets;
    job.where = where;
    // A recorded kernel without a requested target is not an error, but is reported.
    if (job.targets.empty()) ++aot.ofOtherKinds[mine.front().name];
    std::vector<std::pair<std::string, Ref<TegulaValue>>> values;
    if (!constants(j, where, values)) return false;
    if (const json *specs = member(j, "specs")) {
      if (!specs->is_array() || specs->size() != job.function->params().size())
        return wrong(where, "`specs` has other parameters than the kernel");
      for (const json &s : *specs)
        if (!closure || !closure->spec(s, job.specs.emplace_back(), why))
          return wrong(where, closure ? why : "`specs` are for recorded programs");
      if (!sema::sameAsFits(job.specs)) return wrong(where, "`specs` name a buffer twice that is none of its type");
      return aot.add(std::move(job), which) || failed(where);
    }
    if (!one.empty() || signatures.empty()) signatures.push_back(one);
    std::vector<TegulaNamedValue> list;
    for (auto &[n, v] : values) list.push_back({n.c_str(), v.get()});
    for (const std::string &s : signatures) {
      AotJob mine = job;
      if (!parseSignature(*job.function, s, list.data(), list.size(), mine.specs)) return failed(where);
      if (!aot.add(std::move(mine), which)) return failed(where);
    }
    return true;
  }

  bool kernels(const json *list, ClosureReader *closure) {
    if (!list) return true;
    if (!list->is_array()) return wrong("", "`kernels` must be a list");
    for (size_t i = 0; i < list->size(); ++i)
      if (!kernel((*list)[i], "kernel " + std::to_string(i + 1), closure)) return false;
    return true;
  }

  bool read(const std::shared_ptr<const json> &all) {
    std::vector<std::string> names;
    if (!onlyKnown(*all, {"tegula_manifest", "targets", "kernels", "programs"}, "")) return false;
    const json *version = member(*all, "tegula_manifest");
    if (!version || !version->is_number_integer())
      return wrong("", "it is no manifest: `\"tegula_manifest\": 1` is missing");
    if (*version != 1) return wrong("", "it is a manifest of format " + version->dump() + "; this version reads 1");
    if (!texts(*all, "targets", "", names) || !named(names, "targets", usual)) return false;
    if (!kernels(member(*all, "kernels"), nullptr)) return false;
    const json *programs = member(*all, "programs");
    if (programs && !programs->is_array()) return wrong("", "`programs` must be a list");
    for (size_t i = 0; programs && i < programs->size(); ++i) {
      const json &p = (*programs)[i];
      const json *objects = p.is_object() ? member(p, "objects") : nullptr;
      if (!objects || !objects->is_object()) return wrong("", "program " + std::to_string(i + 1) + " has no objects");
      auto closure = std::make_shared<ClosureReader>(*aot.context, *objects);
      aot.keep.push_back(closure);
      if (!kernels(member(p, "kernels"), closure.get())) return false;
    }
    return true;
  }
};

} // namespace

bool readManifest(TegulaAot &aot, const std::string &path, const std::vector<Target> &targets, int32_t classes) {
  std::string text, error;
  errno = 0;
  if (!readFile(path, text, error)) return fail(errno == ENOENT ? TEGULA_NOT_FOUND : TEGULA_IO_ERROR, error), false;
  return readManifestText(aot, path, text, targets, classes);
}

bool readManifestText(TegulaAot &aot, const std::string &path, std::string_view text,
                      const std::vector<Target> &targets, int32_t classes) {
  auto all = std::make_shared<const json>(json::parse(text, nullptr, false));
  if (!all->is_object())
    return fail(TEGULA_INVALID_ARGUMENT, path + " is no manifest: it is not JSON, or no object"), false;
  aot.keep.push_back(all);
  return Reader{aot, path, targets, classes, {}, {}}.read(all);
}

} // namespace tegula::api
