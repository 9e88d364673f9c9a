// Finds and calls libnvJitLink; its functions are declared here from its public reference.
#include "runtime/cuda/Assembler.h"
#include "abi/Multiprocessor.h"
#include "runtime/cuda/AssemblerProgram.h"
#include "runtime/cuda/AssemblyMemo.h"
#include "runtime/cuda/BlockRequest.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/InstalledFiles.h"
#include "support/BuildId.h"
#include "support/Hash.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>

namespace tegula::runtime::cuda {

namespace sm = abi::multiprocessor;

namespace {
using Handle = struct OpaqueLink *;
constexpr int inputPtx = 2;
} // namespace

/// Member, exported name (without a version suffix), parameters. All return 0 for success.
#define NVJITLINK_FUNCTIONS(F)                                                                                                           \
  F(create, nvJitLinkCreate, (Handle * handle, uint32_t count, const char **options))                                                    \
  F(destroy, nvJitLinkDestroy, (Handle * handle))                                                                                        \
  F(addData, nvJitLinkAddData, (Handle handle, int type, const void *data, size_t size, const char *name))                               \
  F(complete, nvJitLinkComplete, (Handle handle))                                                                                        \
  F(cubinSize, nvJitLinkGetLinkedCubinSize, (Handle handle, size_t * size))                                \
  F(cubin, nvJitLinkGetLinkedCubin, (Handle handle, void *cubin))                                                                        \
  F(errorLogSize, nvJitLinkGetErrorLogSize, (Handle handle, size_t * size))                                \
  F(errorLog, nvJitLinkGetErrorLog, (Handle handle, char *log))                                                                          \
  F(infoLogSize, nvJitLinkGetInfoLogSize, (Handle handle, size_t * size))                                  \
  F(infoLog, nvJitLinkGetInfoLog, (Handle handle, char *log))

struct Assembler::Library {
#define MEMBER(member, name, parameters) int(*member) parameters = nullptr;
  NVJITLINK_FUNCTIONS(MEMBER)
#undef MEMBER
};

/// Exported under a plain name, or (some releases) only with the version that introduced it.
static void *lookUp(void *library, const std::string &name) {
  for (const char *suffix : {"", "_13_0", "_12_0"})
    if (void *f = dlsym(library, (*suffix ? "__" + name + suffix : name).c_str())) return f;
  return nullptr;
}

/// With a driver installed, the library takes code from the driver's cache of compiled PTX (~/.nv/ComputeCache), and
/// then its log lacks registers and spills (H200, nvJitLink 13.0), which decisions here need. Releases before 12.3
/// reject the option.
static constexpr const char *withoutCache = "-no-cache";

/// Does the library support it?
static bool takesOption(int (*create)(Handle *, uint32_t, const char **), int (*destroy)(Handle *),
                        const char *option) {
  const char *options[] = {"-arch=sm_80", option};
  Handle h = nullptr;
  if (create(&h, 2, options) != 0) return false;
  destroy(&h);
  return true;
}

std::unique_ptr<const Assembler> Assembler::open(const std::string &path, Status &status) {
  return openLibrary(path, status);
}

std::unique_ptr<Assembler> Assembler::openLibrary(const std::string &path, Status &status) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    status = Status::error(TEGULA_NOT_FOUND, why ? why : path);
    return nullptr;
  }
  auto library = std::make_shared<Library>();
#define RESOLVE(member, name, parameters) library->member = reinterpret_cast<int(*) parameters>(lookUp(handle, #name));
  NVJITLINK_FUNCTIONS(RESOLVE)
#undef RESOLVE
#define CHECK(member, name, parameters) &&library->member
  bool complete = true NVJITLINK_FUNCTIONS(CHECK);
#undef CHECK
  unsigned major = 12, minor = 0;
  auto *getVersion = reinterpret_cast<int (*)(unsigned *, unsigned *)>(lookUp(handle, "nvJitLinkVersion"));
  if (!complete || (getVersion && getVersion(&major, &minor) != 0)) {
    status = Status::error(TEGULA_NOT_FOUND, path + " is no nvJitLink library");
    return nullptr;
  }
  std::unique_ptr<Assembler> a(new Assembler);
  a->knowsNoCache_ = takesOption(library->create, library->destroy, withoutCache);
  a->library_ = std::move(library);
  a->major_ = major;
  a->version_ = "nvJitLink " + std::to_string(major) + "." + std::to_string(minor);
  Dl_info where;
  a->path_ = dladdr(dlsym(handle, "nvJitLinkCreate"), &where) && where.dli_fname ? where.dli_fname : path;
  return a;
}

// ---- where it is

static std::mutex foldersMutex;
static std::vector<std::string> &folders() {
  static auto &f = *new std::vector<std::string>;
  return f;
}

void addAssemblerFolder(std::string folder) {
  std::lock_guard lock(foldersMutex);
  for (const std::string &f : folders())
    if (f == folder) return;
  folders().push_back(std::move(folder));
}

static void inPackages(const std::string &packages, Places &out) {
  for (const char *wheel : {"/nvidia/nvjitlink/lib", "/nvidia/cu13/lib", "/nvidia/cu14/lib"})
    out.addPattern(packages + wheel + "/libnvJitLink.so.[0-9]*");
}

static std::string environment(const char *name) {
  const char *v = std::getenv(name);
  return v ? v : "";
}

/// The folders of addAssemblerFolder.
static std::vector<std::string> givenFolders() {
  std::lock_guard lock(foldersMutex);
  return folders();
}

/// Patterns of the folders where Python environments have their packages.
static std::vector<std::string> environmentFolders() {
  std::vector<std::string> out;
  for (const std::string &root : {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"), std::string("/usr/local"),
                                  std::string("/usr"), std::string("/opt/*")})
    if (!root.empty())
      for (const char *lib : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages"}) out.push_back(root + lib);
  return out;
}

/// The places of the library: $TEGULA_NVJITLINK (a file; then no others), folders given by addAssemblerFolder, the
/// dynamic linker's search path, the CUDA toolkit's usual places, Python environments.
static Places libraryPlaces() {
  Places out;
  if (std::string own = environment("TEGULA_NVJITLINK"); !own.empty()) {
    out.add(own);
    return out;
  }
  for (const std::string &f : givenFolders()) inPackages(f, out);
  for (const char *name : {"libnvJitLink.so.13", "libnvJitLink.so.12"}) out.add(name);
  for (const std::string &root : {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda"),
                                  std::string("/usr/local/cuda-*")})
    if (!root.empty())
      for (const char *lib : {"/lib64", "/lib", "/targets/*/lib"})
        out.addPattern(root + lib + "/libnvJitLink.so.[0-9]*");
  for (const std::string &f : environmentFolders()) inPackages(f, out);
  return out;
}

/// All folders of packages, the given ones first.
static std::vector<std::string> packageFolders() {
  std::vector<std::string> out = givenFolders();
  for (std::string &f : environmentFolders()) out.push_back(std::move(f));
  return out;
}

std::string Assembler::version() const { return program_ ? version_ + ", " + program_->identity() : version_; }

static std::atomic<bool> wasSought = false; // Assembler::get has its result

const Assembler *Assembler::get(Status &status) {
  struct Found {
    std::unique_ptr<Assembler> assembler;
    Status status = Status::error(TEGULA_NOT_FOUND, "no libnvJitLink found; set TEGULA_NVJITLINK to its path");
  };
  static const Found &found = *[] {
    auto *f = new Found;
    int driverVersion = installedDriverVersion();
    libraryPlaces().search([&](const std::string &path) {
      Status why;
      std::unique_ptr<Assembler> a = openLibrary(path, why);
      if (!a) {
        if (std::getenv("TEGULA_NVJITLINK"))
          f->status = Status::error(TEGULA_NOT_FOUND, "TEGULA_NVJITLINK: " + why.text);
        return false;
      }
      if (driverVersion && a->major() > static_cast<unsigned>(driverVersion) / 1000) {
        f->status = Status::error(TEGULA_NOT_FOUND, a->path() + " is newer than the driver can load");
        return false;
      }
      a->program_ = AssemblerProgram::find(programPlaces(a->path_, packageFolders()));
      f->assembler = std::move(a);
      return true;
    });
    wasSought = true;
    return f;
  }();
  if (!found.assembler) status = found.status;
  return found.assembler.get();
}

/// The number after "libnvJitLink.so." in a path, which is the library's major version; 0: it has another name.
static unsigned majorInName(std::string_view path) {
  constexpr std::string_view before = "/libnvJitLink.so.";
  const size_t at = path.rfind(before);
  return at == path.npos
             ? 0
             : static_cast<unsigned>(std::strtoul(std::string(path.substr(at + before.size())).c_str(), nullptr, 10));
}

const std::string &Assembler::identity() {
  static const std::string &identity = *new std::string([]() -> std::string {
    const int driverVersion = installedDriverVersion();
    std::string found;
    libraryPlaces().search([&](const std::string &path) {
      const unsigned major = majorInName(path);
      // found by the dynamic linker, or under another name: must be opened
      if (!major) return path.find('/') == path.npos || access(path.c_str(), F_OK) == 0;
      std::string id = buildIdOf(path);
      if (id.empty()) return access(path.c_str(), F_OK) == 0;
      if (driverVersion && major > static_cast<unsigned>(driverVersion) / 1000) return false;
      found = "nvJitLink " + std::to_string(major) + " " + Hasher().field(id).hex();
      if (auto program = AssemblerProgram::find(programPlaces(path, packageFolders())))
        found += ", " + program->identityFor(driverVersion);
      return true;
    });
    if (!found.empty()) return found;
    Status why;
    const Assembler *a = get(why);
    return !a ? "" : a->program_ ? a->version_ + ", " + a->program_->identityFor(driverVersion) : a->version_;
  }());
  return identity;
}

AssemblerOpening::AssemblerOpening(bool wanted) {
  if (!wanted || wasSought) return;
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  runs_ = pthread_create(&thread_, nullptr, [](void *) -> void * {
    Status unused;
    Assembler::get(unused);
    return nullptr;
  }, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

AssemblerOpening::~AssemblerOpening() {
  if (runs_) pthread_join(thread_, nullptr);
}

// ---- assembling

template <typename Size, typename Get> static std::string readLog(Handle h, Size size, Get get) {
  size_t n = 0;
  if (size(h, &n) != 0 || n == 0) return {};
  std::string text(n + 1, '\0');
  if (get(h, text.data()) != 0) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

static constexpr size_t mostKept = 8 << 20; // bytes

Assembler::Assembler() : memo_(std::make_unique<AssemblyMemo>(mostKept)) {}
Assembler::~Assembler() = default;

Status Assembler::assemble(std::string_view ptx, const std::string &kernel, const AssembleOptions &o,
                           Assembly &out) const {
  std::string key = AssemblyMemo::key(ptx, o);
  if (std::shared_ptr<const Assembly> known = memo_->find(key)) {
    out = *known;
    return Status::ok();
  }
  while (!ptx.empty() && ptx.back() == '\0') ptx.remove_suffix(1);
  std::string text(ptx); // with the final NUL that the library requires
  if (Status s = keepingRequest(text, kernel, o, out); !s) return s;
  if (o.sharedBytes && !o.maxRegisters && !out.stats.spillStoreBytes)
    if (std::string more = withOneBlockMore(text, out.stats.registers, *o.sharedBytes); !more.empty()) {
      constexpr uint32_t spillsOfSecondBlock = 16; // bytes, where it does not take more than a third of the registers
      Assembly other;
      const bool made = static_cast<bool>(assembleNow(more, kernel, o, other));
      out.attempts = other.attempts += out.attempts;
      const uint32_t allowed =
          BlockRequest::of(more).blocks == 2 && 3 * other.stats.registers >= 2 * out.stats.registers
              ? spillsOfSecondBlock
              : 0;
      if (made && other.stats.spillStoreBytes <= allowed && other.stats.serialized == out.stats.serialized)
        out = std::move(other);
    }
  memo_->keep(key, std::make_shared<const Assembly>(out));
  return Status::ok();
}

/// Does ptxas stop right below a bound on registers, with code that spills less than its code for that number? For
/// architectures before sm_90: layer norm of 8192 columns by 8 warps, 13.0: 64 registers and 4 bytes with a request for
/// four blocks, 64 and none with a bound of 65; for sm_90 and sm_100 both have none. In 26 kernels for sm_90a that
/// spilled at a request it took all registers of such a bound, one too many.
static bool keepsBelowBounds(const std::string &arch) {
  constexpr unsigned long takesAll = 90;
  constexpr std::string_view prefix = "sm_";
  return arch.starts_with(prefix) && std::strtoul(arch.c_str() + prefix.size(), nullptr, 10) < takesAll;
}

Status Assembler::keepingRequest(std::string text, const std::string &kernel, const AssembleOptions &o,
                                 Assembly &out) const {
  // A few bytes cost less than a quarter of the blocks, but not after the request was lowered, nor than one step of
  // registers.
  uint32_t spillsAllowed = BlockRequest::of(text).spillsWorth();
  if (Status s = assembleNow(text, kernel, o, out); !s) return s;
  while (out.stats.spillStoreBytes > spillsAllowed && BlockRequest::of(text).registers()) {
    text = withFewerBlocks(text, out.stats.spillStoreBytes);
    spillsAllowed = isOfCluster(text) ? BlockRequest::of(text).spillsWorth() : 0;
    if (Status s = assembleNow(text, kernel, o, out); !s) return s;
  }
  const uint32_t limit = BlockRequest::of(text).registers();
  if (!out.stats.spillStoreBytes || !limit) return Status::ok();
  auto fits = [&](const std::string &with, uint32_t most) {
    if (with.empty()) return false;
    Assembly other;
    const bool made = static_cast<bool>(assembleNow(with, kernel, o, other));
    other.attempts += out.attempts;
    if (made && !other.stats.spillStoreBytes && other.stats.registers <= most) {
      out = std::move(other);
      return true;
    }
    out.attempts = other.attempts;
    return false;
  };
  // Layer norm of 1024 floats, H200: 32 registers and three spilled 74.4 us, 40 registers 70.6; cross entropy backward
  // of 50257 floats: 40 and three 1097, 48 registers 957.
  constexpr uint32_t spillsOfBound = 8; // bytes, a register or two: a bound saved no larger spills in 15 kernels
  const bool isSecondOfProducts =
      BlockRequest::of(text).blocks == 2 && hasAsyncProducts(text) && out.stats.serialized.empty();
  if (keepsBelowBounds(o.arch) && out.stats.spillStoreBytes <= spillsOfBound && fits(withRegisterBound(text), limit))
    return Status::ok();
  if (!isOfCluster(text) && !isSecondOfProducts) fits(withMoreRegisters(text), sm::mostRegisters);
  return Status::ok();
}

Status Assembler::assembleNow(const std::string &text, const std::string &kernel, const AssembleOptions &o,
                              Assembly &out) const {
  std::vector<std::string> options = {"-arch=" + o.arch, "-O" + std::to_string(o.optLevel)};
  if (o.maxRegisters) options.push_back("-maxrregcount=" + std::to_string(o.maxRegisters));
  if (o.lineInfo) options.push_back("-lineinfo");
  if (hasProgramFor(text) && program_->assemble(text, options, out.cubin, out.log)) {
    out.stats = parseAssemblerLog(out.log);
    ++out.attempts;
    return Status::ok();
  }
  options.emplace_back("-verbose");
  if (knowsNoCache_) options.emplace_back(withoutCache);
  std::vector<const char *> pointers;
  for (const std::string &s : options) pointers.push_back(s.c_str());
  Handle h = nullptr;
  if (int r = library_->create(&h, static_cast<uint32_t>(pointers.size()), pointers.data()); r != 0)
    return Status::error(TEGULA_UNSUPPORTED,
                         version_ + " cannot assemble for " + o.arch + " (error " + std::to_string(r) + ")");
  int r = library_->addData(h, inputPtx, text.c_str(), text.size() + 1, (kernel + ".ptx").c_str());
  if (r == 0) r = library_->complete(h);
  size_t size = 0;
  if (r == 0) r = library_->cubinSize(h, &size);
  if (r == 0) {
    out.cubin.resize(size);
    r = library_->cubin(h, out.cubin.data());
  }
  std::string errors = readLog(h, library_->errorLogSize, library_->errorLog);
  out.log = readLog(h, library_->infoLogSize, library_->infoLog);
  library_->destroy(&h);
  if (r != 0)
    return Status::error(TEGULA_ASSEMBLER_ERROR, version_ + " refused the code of `" + kernel + "` for " + o.arch +
                                                     ":\n" + explainAssemblerLog(errors, text));
  out.stats = parseAssemblerLog(out.log);
  ++out.attempts;
  return Status::ok();
}

bool isForWholeProgram(std::string_view ptx) { return ptx.find("setmaxnreg") != ptx.npos; }

bool Assembler::hasProgramFor(std::string_view ptx) const {
  if (!program_ || !isForWholeProgram(ptx)) return false;
  const int driver = installedDriverVersion();
  return !driver || program_->serves(driver);
}

bool Assembler::leavesToDriver(std::string_view ptx) const {
  constexpr int readsOurPtx = 12040; // PTX 8.4 (targets/nvidia/Codegen.cpp)
  return isForWholeProgram(ptx) && installedDriverVersion() >= readsOurPtx && !hasProgramFor(ptx);
}

// ---- its log

/// The number that ends right before `at`, 0 if there is none.
static uint32_t numberBefore(std::string_view text, size_t at) {
  uint32_t n = 0, unit = 1;
  while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') n += unit * (text[--at] - '0'), unit *= 10;
  return n;
}

AssemblyStats parseAssemblerLog(std::string_view log) {
  AssemblyStats s;
  auto each = [&](std::string_view unit, auto &&use) {
    for (size_t at = log.find(unit); at != log.npos; at = log.find(unit, at + 1)) use(numberBefore(log, at));
  };
  auto most = [](uint32_t &to) { return [&to](uint32_t n) { to = n > to ? n : to; }; };
  auto sum = [](uint32_t &to) { return [&to](uint32_t n) { to += n; }; };
  each(" registers", most(s.registers));
  each(" barriers", most(s.barriers));
  each(" bytes stack frame", sum(s.stackBytes));
  each(" bytes spill stores", sum(s.spillStoreBytes));
  each(" bytes spill loads", sum(s.spillLoadBytes));
  constexpr std::string_view advisory = "wgmma.mma_async instructions are serialized due to ";
  if (size_t at = log.find(advisory); at != log.npos) {
    std::string_view why = log.substr(at + advisory.size());
    why = why.substr(0, why.find('\n'));
    for (std::string_view end : {" for the function", " in the function", " in function"})
      why = why.substr(0, why.find(end));
    s.serialized = why;
  }
  return s;
}

/// `.loc file line column` above PTX line `at`, and the `.file` it names: "kernel.py:12", or "".
static std::string sourceOf(const std::vector<std::string_view> &lines, size_t at) {
  unsigned file = 0, line = 0, column = 0;
  for (size_t i = std::min(at, lines.size()); i-- > 0 && !line;) {
    std::string l(lines[i].substr(std::min(lines[i].find_first_not_of(" \t"), lines[i].size())));
    if (sscanf(l.c_str(), ".loc %u %u %u", &file, &line, &column) < 2) line = 0;
    if (l.starts_with("{") && !line) break; // the function's beginning
  }
  if (!line) return {};
  for (std::string_view v : lines) {
    std::string l(v.substr(std::min(v.find_first_not_of(" \t"), v.size())));
    unsigned n;
    char name[1024];
    if (sscanf(l.c_str(), ".file %u \"%1023[^\"]\"", &n, name) == 2 && n == file)
      return std::string(name) + ":" + std::to_string(line);
  }
  return {};
}

static std::vector<std::string_view> splitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t n = text.find('\n');
    lines.push_back(text.substr(0, n));
    text.remove_prefix(n == text.npos ? text.size() : n + 1);
  }
  return lines;
}

std::string explainAssemblerLog(std::string_view log, std::string_view ptx) {
  std::vector<std::string_view> lines = splitLines(ptx);
  std::string out;
  size_t shown = 0;
  for (std::string_view entry : splitLines(log)) {
    out += "  " + std::string(entry) + "\n";
    size_t at = entry.find(" line ");
    size_t n = at == entry.npos ? 0 : std::strtoul(std::string(entry.substr(at + 6, 12)).c_str(), nullptr, 10);
    if (n == 0 || n > lines.size() || n == shown) continue;
    shown = n;
    out += "    " + std::to_string(n) + " | " + std::string(lines[n - 1]) + "\n";
    if (std::string source = sourceOf(lines, n); !source.empty()) out += "    from " + source + "\n";
  }
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out.empty() ? "  (no log)" : out;
}

} // namespace tegula::runtime::cuda
