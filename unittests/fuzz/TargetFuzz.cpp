// Kernels from text to machine code, PTX and code for the simulator, by the library as it is shipped: LLVM is not
// instrumented, so this is no libFuzzer target but a driver of its own.
//
//   target-fuzz [--seconds N] [--first N] [--cases N] [--seed N] [--findings FOLDER] SEED.py|FOLDER ...
//   target-fuzz --replay FILE
//
// Cases are seeds (KernelMutator.h) after a few changes, compiled for one of the targets with some options; seed and
// number of a case make it, whatever ran before. They run in children, a batch each: one that dies, that needs more
// than its budget of processor time or memory, or that ends with an internal error is a finding, saved to the folder as
// a file that --replay takes. Exit code 1 if there are any.
#include "KernelMutator.h"
#include "LanguageNames.h"
#include "tegula/tegula.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

constexpr unsigned batch = 50;
constexpr unsigned cpuSeconds = 20, wallSeconds = 300; // of one case
constexpr rlim_t memoryBytes = rlim_t(4) << 30;
constexpr const char *targets[] = {"cpu", "cpu:x86-64", "cpu:avx2", "cpu:avx512bf16",
                                   "sm_80", "sm_90a", "sim", "sim:sm_80"};
constexpr const char *mark = "\n# target: ";

/// What a child is doing, in memory that the parent sees.
struct Shared {
  uint64_t next; // number of the case under way
  uint64_t compiled, refused;
  bool internalError;
  size_t length;
  char text[1 << 16]; // of the case, its target included
};

struct Settings {
  double seconds = 0;
  uint64_t first = 0, cases = UINT64_MAX, seed = 0;
  std::string findings = ".";
  std::vector<std::string> inputs;
  std::string replay;
};

std::string readAll(const fs::path &p) {
  std::ifstream in(p, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

/// Text, target and options of a case, as one file: the last line says how it is compiled.
std::string makeCase(const std::vector<std::string> &seeds, uint64_t seed, uint64_t number) {
  tegula::fuzz::KernelMutator m(seed * 0x9E3779B97F4A7C15u + number, tegula::fuzz::languageNames());
  std::string text = seeds[m.below(seeds.size())];
  if (size_t at = text.rfind(mark); at != text.npos)
    text.resize(at + 1);
  if (m.below(16) == 0)
    text = m.splice(text, seeds[m.below(seeds.size())]);
  text = m.mutate(text, 1 + static_cast<unsigned>(m.below(3) * m.below(2)));
  std::string options;
  for (unsigned bound : {6u, 5u, 2u, 3u, 3u, 4u, 4u}) // warps, stages, ctas, checked, debug, overflow, debug info
    options += " " + std::to_string(m.below(bound));
  return text + (mark + 1) + targets[m.below(std::size(targets))] + options + "\n";
}

/// False: an internal error.
bool compile(TegulaContext *context, const std::string &text, Shared *shared) {
  std::optional<tegula::fuzz::CompileLine> line = tegula::fuzz::compileLine(text);
  size_t at = text.rfind(mark);
  if (!line || at == text.npos)
    return ++shared->refused, true;
  std::istringstream how(text.substr(at + std::strlen(mark)));
  std::string target;
  int warps = 2, stages = 3, ctas = 0, checked = 0, debug = 0, overflow = 0, info = 0;
  how >> target >> warps >> stages >> ctas >> checked >> debug >> overflow >> info;
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  o.num_warps = 1 << warps;
  o.num_stages = stages + 1;
  o.num_ctas = 1 << ctas;
  o.checked = checked == 1;
  o.debug = debug == 1;
  o.sanitize_overflow = overflow == 1;
  o.debug_info = info == 1;
  TegulaModule *m = nullptr;
  TegulaFunction *f = nullptr;
  char *made = nullptr;
  size_t length = 0;
  const char *stage = target.starts_with("sm_") ? "ptx" : "obj";
  bool done =
      tegula_module_from_text(context, "case.py", text.data(), text.size(), &m) == TEGULA_OK &&
      tegula_module_function(m, line->kernel.c_str(), &f) == TEGULA_OK &&
      tegula_emit(f, line->signature.c_str(), nullptr, 0, target.c_str(), &o, stage, &made, &length) == TEGULA_OK;
  bool internal = !done && tegula_last_status() == TEGULA_INTERNAL_ERROR;
  if (internal)
    std::fprintf(stderr, "%s\n", tegula_last_error());
  ++(done ? shared->compiled : shared->refused);
  tegula_free(made);
  tegula_function_release(f);
  tegula_module_release(m);
  return !internal;
}

/// A child's part: cases from shared->next on. Never returns.
[[noreturn]] void child(const std::vector<std::string> &cases, uint64_t last, const Settings &s, Shared *shared) {
  rlimit memory{memoryBytes, memoryBytes}, core{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &core);
  TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  o.cache_dir = "";
  o.num_threads = 1;
  TegulaContext *context = nullptr;
  if (tegula_context_create(&o, &context) != TEGULA_OK)
    _exit(3);
  tegula_context_set_output(
      context, [](void *, int32_t, const char *, size_t) {}, nullptr);
  for (; shared->next < last; ++shared->next) {
    std::string text = s.replay.empty() ? makeCase(cases, s.seed, shared->next) : cases[shared->next];
    shared->length = std::min(text.size(), sizeof shared->text);
    std::memcpy(shared->text, text.data(), shared->length);
    itimerval budget{{0, 0}, {cpuSeconds, 0}};
    setitimer(ITIMER_PROF, &budget, nullptr);
    alarm(wallSeconds);
    shared->internalError = !compile(context, text, shared);
    if (shared->internalError)
      _exit(2);
  }
  _exit(0);
}

/// Why a child ended before its batch did; empty: it did not.
std::string reason(int status, const Shared &shared) {
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    if (signal == SIGPROF)
      return "more than " + std::to_string(cpuSeconds) + " s of processor time";
    if (signal == SIGALRM)
      return "hangs";
    return strsignal(signal);
  }
  return shared.internalError  ? "internal error"
         : WEXITSTATUS(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                               : "";
}

/// Runs the cases [first, last); gives the number of findings.
unsigned runBatch(const std::vector<std::string> &cases, uint64_t first, uint64_t last, const Settings &s,
                  Shared *shared) {
  unsigned findings = 0;
  for (shared->next = first; shared->next < last; ++shared->next) {
    shared->internalError = false;
    pid_t pid = fork();
    if (pid == 0)
      child(cases, last, s, shared);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
      std::perror("fork");
      std::exit(3);
    }
    std::string why = reason(status, *shared);
    if (why.empty())
      break;
    ++findings;
    std::string name = s.replay.empty()
                           ? "target-" + std::to_string(s.seed) + "-" + std::to_string(shared->next) + ".py"
                           : s.inputs[shared->next];
    std::printf("FOUND %s: %s\n", name.c_str(), why.c_str());
    std::fflush(stdout);
    if (s.replay.empty())
      std::ofstream(fs::path(s.findings) / name, std::ios::binary)
          .write(shared->text, static_cast<std::streamsize>(shared->length));
  }
  return findings;
}

bool parse(int argc, char **argv, Settings &s) {
  s.seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count() / 1000000 % 1000000000);
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    const char *v = i + 1 < argc ? argv[i + 1] : nullptr;
    if (a[0] != '-') {
      s.inputs.push_back(a);
      continue;
    }
    if (!v)
      return false;
    ++i;
    if (a == "--seconds")
      s.seconds = std::atof(v);
    else if (a == "--first")
      s.first = std::strtoull(v, nullptr, 10);
    else if (a == "--cases")
      s.cases = std::strtoull(v, nullptr, 10);
    else if (a == "--seed")
      s.seed = std::strtoull(v, nullptr, 10);
    else if (a == "--findings")
      s.findings = v;
    else if (a == "--replay")
      s.replay = v, s.inputs.push_back(v);
    else
      return false;
  }
  return !s.inputs.empty();
}

} // namespace

int main(int argc, char **argv) {
  Settings s;
  if (!parse(argc, argv, s)) {
    std::fprintf(
        stderr,
        "usage: target-fuzz [--seconds N] [--first N] [--cases N] [--seed N] [--findings FOLDER] SEED.py|FOLDER "
        "... | --replay FILE ...\n");
    return 2;
  }
  std::vector<fs::path> files;
  for (const std::string &input : s.inputs) {
    if (!fs::is_directory(input))
      files.emplace_back(input);
    else
      for (const auto &e : fs::directory_iterator(input))
        files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> cases;
  for (const fs::path &f : files)
    cases.push_back(readAll(f));
  if (cases.empty()) {
    std::fprintf(stderr, "target-fuzz: no seeds\n");
    return 2;
  }
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return 3;
  Shared *shared = new (memory) Shared{};
  if (!s.replay.empty())
    return runBatch(cases, 0, cases.size(), s, shared) != 0;
  auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  unsigned findings = 0;
  uint64_t done = 0;
  for (; done < s.cases && (s.seconds <= 0 || elapsed() < s.seconds) && findings < 1000;
       done += std::min<uint64_t>(batch, s.cases - done))
    findings += runBatch(cases, s.first + done, s.first + done + std::min<uint64_t>(batch, s.cases - done), s, shared);
  std::printf("number_of_executed_units: %llu (seed %llu: %llu compiled, %llu refused), %u findings in %.0f s\n",
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(s.seed),
              static_cast<unsigned long long>(shared->compiled), static_cast<unsigned long long>(shared->refused),
              findings, elapsed());
  return findings != 0;
}
