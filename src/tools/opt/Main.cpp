// tegula-opt: reads textual IR, runs passes by name, and prints the result. For pass developers and tests.
//
//   tegula-opt [option ...] [file]     without a file: standard input
#include "gpu/Passes.h"
#include "gpu/loops/HoldRows.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"
#include "support/LineDiff.h"
#include "targets/Target.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tegula;

namespace {

constexpr const char *usageText = R"(usage: tegula-opt [option ...] [file]
  --passes=A,B          passes of either level, in this order (--list shows all); `gpu` is all those of the GPU level
  --target=NAME         for passes of the GPU level, a GPU (--list shows all; default: the last one)
  --num-warps=N         of a program (default 4)
  --num-stages=N        of loops that say nothing else (default 3)
  --num-ctas=N          of a cluster (default 1)
  --clusters=WHEN       clusters for programs of one CTA: never (default), cost (long rows), 2, 4 or 8 (wherever the work can be shared)
  --held-blocks=N       rows that loops read again stay in shared memory, which N blocks share (default: they do not)
  --held-ctas=N         and N CTAs of a cluster share the iterations of these loops (default 1)
  --stages-rows         rows that are live across reductions stay in shared memory
  --no-verify           the module is not verified after every pass
  --verify-each         it is (default)
  --print-after-all     the module after every pass, to standard error
  --print-changed       the lines that each pass changes, to standard error
  --time-passes         milliseconds of each pass, to standard error
  --list                names and what they do
  --help                this text
)";

struct Options {
  std::string passes, file = "-";
  targets::TargetRef target; // with a GPU level
  gpu::Options gpu;
  gpu::LoopRows rows;
  bool verify = true, printAll = false, printChanged = false, time = false;
};

/// 0, or 1 with a message if not all output was written.
int written() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return 0;
  std::fprintf(stderr, "tegula-opt: cannot write to standard output%s%s\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return 1;
}

/// Null: there is no such target, or it does not use the GPU level.
targets::TargetRef gpuNamed(std::string_view name) {
  for (const targets::Family *f : targets::families())
    if (targets::TargetRef t = f->parse(name); t && t->gpuInfo())
      return t;
  return nullptr;
}

std::vector<std::string> gpuNames() {
  std::vector<std::string> names;
  for (const targets::Family *f : targets::families())
    for (std::string &name : f->names())
      if (targets::TargetRef t = gpuNamed(name); t && t->machine() == targets::Machine::Gpu)
        names.push_back(std::move(name));
  return names;
}

int list() {
  for (const PassEntry &p : allPasses())
    std::printf("%-24s %s\n", p.name, p.summary);
  std::printf("\nGPU level:\n");
  for (const gpu::GpuPass &p : gpu::gpuPasses())
    std::printf("%-24s %s\n", p.name, p.summary);
  std::printf("\nTargets with a GPU level:");
  for (const std::string &name : gpuNames())
    std::printf(" %s", name.c_str());
  std::printf("\n");
  return written();
}

bool readText(const std::string &file, std::string &text) {
  std::ostringstream s;
  if (file == "-") {
    s << std::cin.rdbuf();
  } else {
    std::ifstream in(file, std::ios::binary);
    if (!in)
      return false;
    s << in.rdbuf();
  }
  text = s.str();
  return true;
}

/// Names of the passes to run; `gpu` stands for several.
std::vector<std::string> passNames(const std::string &text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string n; std::getline(in, n, ',');) {
    if (n != "gpu") {
      names.push_back(n);
      continue;
    }
    for (const gpu::GpuPass &p : gpu::gpuPasses())
      names.push_back(p.name);
  }
  return names;
}

/// Verifies the module. False, with a message: the pass violated a rule of the level that it works on.
bool verified(const ir::Module &m, const std::string &pass, ir::Level level) {
  std::string why;
  if (ir::verify(m, &why, nullptr, level))
    return true;
  std::fprintf(stderr, "tegula-opt: after %s: %s\n%s", pass.c_str(), why.c_str(), ir::print(m).c_str());
  return false;
}

/// False: there is no such pass, or it cannot run on this module. Passes of both levels may share a name (remove-dead)
/// if they do the same.
bool runPass(std::unique_ptr<ir::Module> &m, const std::string &name, const gpu::PassInput &in) {
  if (const PassEntry *p = findPass(name)) {
    p->run(*m);
  } else if (const gpu::GpuPass *g = gpu::findGpuPass(name)) {
    if (const char *missing = g->missing(*m)) {
      std::fprintf(stderr, "tegula-opt: pass `%s` of the GPU level needs %s\n", name.c_str(), missing);
      return false;
    }
    g->run(m, in);
  } else {
    std::fprintf(stderr, "tegula-opt: no pass `%s`; --list shows all\n", name.c_str());
    return false;
  }
  return true;
}

int runPasses(std::unique_ptr<ir::Module> &m, Options &o) {
  DiagEngine remarks;
  std::string before = o.printChanged ? ir::print(*m) : std::string();
  const gpu::TargetInfo &target = *o.target->gpuInfo();
  // Passes of tile IR accept text of the GPU level, too.
  ir::Level level = ir::verify(*m, nullptr, nullptr, ir::Level::Tile) ? ir::Level::Tile : ir::Level::Gpu;
  for (const std::string &name : passNames(o.passes)) {
    auto start = std::chrono::steady_clock::now();
    if (!runPass(m, name, {target, o.gpu, &remarks, &o.rows}))
      return 2;
    if (o.time)
      std::fprintf(stderr, "%9.3f ms  %s\n",
                   std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(),
                   name.c_str());
    if (o.printAll)
      std::fprintf(stderr, "// after %s\n%s", name.c_str(), ir::print(*m).c_str());
    if (o.printChanged) {
      std::string after = ir::print(*m);
      std::fprintf(stderr, "// %s%s\n%s", name.c_str(), after == before ? ": nothing changed" : "",
                   lineDiff(before, after).c_str());
      before = std::move(after);
    }
    if (o.verify && !verified(*m, name, level = findPass(name) ? level : ir::Level::Gpu))
      return 3;
  }
  std::fputs(renderAll(remarks).c_str(), stderr);
  return 0;
}

bool number(std::string_view text, unsigned &out) {
  auto r = std::from_chars(text.data(), text.data() + text.size(), out);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

bool readOption(std::string_view a, Options &o) {
  auto value = [&](std::string_view key) {
    return a.substr(0, key.size()) == key ? std::optional(a.substr(key.size())) : std::nullopt;
  };
  if (auto v = value("--passes="))
    return o.passes = *v, true;
  if (auto v = value("--target=")) {
    o.target = gpuNamed(*v);
    return o.target != nullptr;
  }
  const std::pair<std::string_view, unsigned *> numbers[] = {{"--num-warps=", &o.gpu.numWarps},
                                                             {"--num-stages=", &o.gpu.numStages},
                                                             {"--num-ctas=", &o.gpu.numCtas},
                                                             {"--held-blocks=", &o.rows.blocks},
                                                             {"--held-ctas=", &o.rows.ctas}};
  for (auto [name, out] : numbers)
    if (auto v = value(name))
      return number(*v, *out) && o.gpu.valid();
  if (auto v = value("--clusters=")) {
    o.gpu.clusters = *v == "cost"     ? gpu::Clusters::ByCost
                     : v->size() == 1 ? gpu::clustersOf((*v)[0] - '0')
                                      : gpu::Clusters::Never;
    return o.gpu.clusters != gpu::Clusters::Never || *v == "never";
  }
  const std::pair<std::string_view, bool *> flags[] = {{"--verify-each", &o.verify},
                                                       {"--print-after-all", &o.printAll},
                                                       {"--print-changed", &o.printChanged},
                                                       {"--time-passes", &o.time},
                                                       {"--stages-rows", &o.gpu.stagesRows}};
  for (auto [name, flag] : flags)
    if (a == name)
      return *flag = true;
  return a == "--no-verify" && (o.verify = false, true);
}

} // namespace

int main(int argc, char **argv) {
  Options o;
  o.target = gpuNamed(gpuNames().back());
  for (int i = 1; i < argc; ++i) {
    std::string_view a = argv[i];
    if (a == "--list")
      return list();
    if (a == "--help")
      return std::fputs(usageText, stdout), written();
    if (a.size() <= 1 || a[0] != '-') {
      o.file = a;
    } else if (!readOption(a, o)) {
      std::fprintf(stderr, "tegula-opt: `%s` is no option, or has no such value\n%s", argv[i], usageText);
      return 2;
    }
  }
  std::string text;
  if (!readText(o.file, text)) {
    std::fprintf(stderr, "tegula-opt: cannot read %s: %s\n", o.file.c_str(), std::strerror(errno));
    return 2;
  }
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>(o.file, std::move(text));
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  std::fputs(renderAll(diag).c_str(), stderr);
  if (!m)
    return 1;
  int status = runPasses(m, o);
  if (status == 0)
    std::fputs(ir::print(*m).c_str(), stdout);
  return status ? status : written();
}
