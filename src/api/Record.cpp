#include "api/Record.h"
#include "api/Bundles.h"
#include "api/OptionNames.h"
#include "api/Specialize.h"
#include "runtime/OwnFiles.h"
#include "support/Clock.h"
#include "support/Npy.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/file.h>
#include <unistd.h>

namespace tegula::api {

using nlohmann::json;

struct Recorder::State {
  std::string path, id;
  int pid = 0;
  std::mutex mutex; // only in a GateSection, or when the process ends
  ClosureWriter closure;
  json kernels = json::array();
  std::set<std::string> known;
  uint64_t written = 0, cost = 0; // ns: when the file was last written, and how long that took
  bool isNew = false;
};

namespace {
/// The recorders to write when the process ends; never destroyed, as a recorder may end later than any static object.
struct Living {
  std::mutex mutex;
  std::set<Recorder *> all;
};
struct AtExit {
  Living &living;
  ~AtExit() {
    for (Recorder *r : living.all) {
      std::string error;
      if (!r->write(error)) std::fprintf(stderr, "tegula: warning: %s\n", error.c_str());
    }
  }
};
Living &living() {
  static Living &it = *new Living;
  static AtExit atExit{it};
  return it;
}
} // namespace

Recorder::Recorder(std::string path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  std::lock_guard lock(living().mutex);
  living().all.insert(this);
}

Recorder::~Recorder() {
  std::string error;
  if (!write(error)) std::fprintf(stderr, "tegula: warning: %s\n", error.c_str());
  std::lock_guard lock(living().mutex);
  living().all.erase(this);
}

/// The kernel's source: its function in the table, or its file with everything that the file imports.
static bool describeSource(const TegulaFunction &f, ClosureWriter &closure, json &j, std::string &why) {
  const lang::Function &fn = *f.fn;
  if (fn.node) {
    std::string number = closure.add(f.fn, why);
    if (number.empty()) return false;
    j["function"] = number;
    return true;
  }
  if (f.callsOthers) return why = "its file calls functions of other modules", false;
  std::map<std::string, std::string> texts = f.loader ? f.loader->texts() : std::map<std::string, std::string>();
  const SourceFile &file = fn.tree->file();
  texts[file.name()] = std::string(file.text());
  j["source"] = file.name(), j["files"] = closure.addFiles(texts);
  return true;
}

void Recorder::add(const CompileRequest &r, const TegulaKernel &k) {
  if (!r.device || !r.function->fn) return;
  CompileRequest asked = r;
  asked.name = k.name;
  const std::string key = hexOf(classKeyOf(asked)), target = portable(r.target).name;
  std::lock_guard lock(state_->mutex);
  if (!state_->known.insert(key + target).second) return;
  const lang::Function &fn = *r.function->fn;
  json j = {{"kernel", fn.name},        {"class", key},        {"hash", fn.sourceHash()},
            {"signature", k.signature}, {"targets", {target}}, {"options", optionsJson(r.options)}};
  if (k.name != fn.name) j["name"] = k.name;
  std::string why;
  bool ok = describeSource(*r.function, state_->closure, j, why);
  json specs = json::array();
  for (const sema::ParamSpec &s : r.specs) {
    json one;
    ok = ok && state_->closure.add(s, one, why);
    specs.push_back(std::move(one));
  }
  if (ok) j["specs"] = std::move(specs);
  else j["problem"] = why;
  state_->kernels.push_back(std::move(j));
  state_->isNew = true;
  // The file is written as a whole: a program that compiles much spends at most a twentieth of its time on it.
  constexpr uint64_t second = 1'000'000'000;
  if (steadyNs() - state_->written < std::max(second, 20 * state_->cost)) return;
  std::string error;
  if (!write(error)) r.function->context->warn(error);
}

/// The present content of the file, without this recorder's part. An empty object: there is none yet.
static bool readManifest(const std::string &path, json &out, std::string &error) {
  std::string text;
  out = json::object();
  errno = 0;
  if (!readFile(path, text, error)) return errno == ENOENT;
  out = json::parse(text, nullptr, false);
  if (out.is_object()) return true;
  error = path + " is there, and is no manifest";
  return false;
}

bool Recorder::write(std::string &error) {
  State &s = *state_;
  if (!s.isNew) return true;
  s.isNew = false;
  const uint64_t begin = steadyNs();
  if (s.pid != getpid())
    s.pid = getpid(), s.id = runtime::temporaryName(0).substr(std::strlen(runtime::temporaryPrefix));
  // One process at a time; the lock file stays.
  int lock = ::open((s.path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock >= 0) (void)!flock(lock, LOCK_EX);
  json all, programs = json::array();
  bool ok = readManifest(s.path, all, error);
  if (ok) {
    std::set<std::string> others;
    if (auto it = all.find("programs"); it != all.end() && it->is_array())
      for (json &p : *it) {
        if (!p.is_object() || p.value("id", json()) == json(s.id)) continue;
        if (auto kernels = p.find("kernels"); kernels != p.end() && kernels->is_array())
          for (const json &k : *kernels)
            if (k.is_object()) others.insert(k.value("class", json()).dump() + k.value("targets", json()).dump());
        programs.push_back(std::move(p));
      }
    json mine = json::array();
    for (const json &k : s.kernels)
      if (!others.contains(k["class"].dump() + k["targets"].dump())) mine.push_back(k);
    if (!mine.empty())
      programs.push_back({{"id", s.id}, {"objects", s.closure.objects()}, {"kernels", std::move(mine)}});
    all["tegula_manifest"] = 1;
    all["programs"] = std::move(programs);
    std::string text = all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    runtime::Status status = runtime::writeBundle(s.path, text);
    if (ok = static_cast<bool>(status); !ok) error = status.text;
  }
  if (lock >= 0) close(lock);
  s.written = steadyNs(), s.cost = s.written - begin;
  if (!ok) error = "TEGULA_RECORD: " + error;
  return ok;
}

} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_context_record(TegulaContext *c, const char *path) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_record: null context");
  GateSection section;
  std::string error;
  if (c->recorder && !c->recorder->write(error)) return fail(TEGULA_IO_ERROR, error);
  c->recorder = path && *path ? std::make_shared<Recorder>(path) : nullptr;
  return TEGULA_OK;
}
