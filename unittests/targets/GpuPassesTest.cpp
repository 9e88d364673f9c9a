// The cases of test/gpu-passes/*.ir. `# RUN: pass, pass, ... [--num-warps=N] [--num-stages=N] [--num-ctas=N]
// [--held-blocks=N] [--held-ctas=N] [--stages-rows] [--target=NAME]`: what comes out is what the last pass changes, and
// what it remarks; the passes before it make its input.
#include "../Sections.h"
#include "RandomKernel.h"
#include "gpu/Passes.h"
#include "gpu/loops/HoldRows.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"
#include "support/LineDiff.h"
#include "targets/nvidia/TargetInfo.h"
#include <fstream>
#include <unistd.h>

using namespace tegula;

namespace {

struct PassRun {
  std::vector<std::string> passes;
  nvidia::NvTarget target;
  gpu::Options options;
  gpu::LoopRows rows;
  std::string wrong;

  explicit PassRun(const std::string &text) {
    std::istringstream words(text);
    for (std::string w; words >> w;) {
      size_t equals = w.find('=');
      std::string value = equals == std::string::npos ? "" : w.substr(equals + 1);
      if (w.starts_with("--num-warps="))
        options.numWarps = static_cast<unsigned>(std::stoi(value));
      else if (w.starts_with("--num-stages="))
        options.numStages = static_cast<unsigned>(std::stoi(value));
      else if (w.starts_with("--clusters="))
        options.clusters = w.ends_with("cost") ? gpu::Clusters::ByCost : gpu::clustersOf(w.back() - '0');
      else if (w == "--stages-rows")
        options.stagesRows = true;
      else if (w.starts_with("--held-blocks="))
        rows.blocks = static_cast<unsigned>(std::stoi(value));
      else if (w.starts_with("--held-ctas="))
        rows.ctas = static_cast<unsigned>(std::stoi(value));
      else if (w.starts_with("--num-ctas="))
        options.numCtas = static_cast<unsigned>(std::stoi(value));
      else if (w.starts_with("--target=") && nvidia::parseTarget(value))
        target = *nvidia::parseTarget(value);
      else if (w[0] == '-')
        wrong = "no option " + w;
      else
        passes.push_back(w.back() == ',' ? w.substr(0, w.size() - 1) : w);
    }
  }
};

/// Reads the text again: the module that comes from it prints as the same text.
std::string roundTrip(const ir::Module &m) {
  DiagEngine diag;
  const std::string text = ir::print(m);
  auto file = std::make_shared<SourceFile>("printed", text);
  std::unique_ptr<ir::Module> again = ir::parse(file, diag);
  if (!again)
    return renderAll(diag);
  return ir::print(*again) == text ? "" : "another text comes back:\n" + lineDiff(text, ir::print(*again));
}

std::string runCase(const test::Section &c) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("case", c.input);
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  if (!m)
    return renderAll(diag);
  PassRun run(c.run);
  if (!run.wrong.empty())
    return run.wrong;
  std::string before;
  for (const std::string &name : run.passes) {
    before = ir::print(*m);
    DiagEngine remarks;
    if (const PassEntry *p = findPass(name)) {
      p->run(*m);
    } else if (const gpu::GpuPass *g = gpu::findGpuPass(name)) {
      g->run(m, {nvidia::NvTargetInfo(run.target), run.options, &remarks, &run.rows});
    } else {
      return "no pass " + name;
    }
    std::string why;
    if (!ir::verify(*m, &why))
      return "after " + name + ": " + why + "\n" + ir::print(*m);
    if (std::string wrong = roundTrip(*m); !wrong.empty())
      return "after " + name + ": " + wrong;
    if (&name == &run.passes.back())
      return lineDiff(before, ir::print(*m)) + renderAll(remarks);
  }
  return "no passes";
}

TEST(Golden, GpuPasses) { test::checkSections("gpu-passes", 20, runCase); }

// Every pass leaves what the verifier takes and the text keeps.
TEST(GpuPasses, RandomKernelsThroughText) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto m = std::make_unique<ir::Module>();
    test::RandomKernel generate(*m, seed);
    PassRun run("--num-warps=" + std::to_string(1u << seed % 4) + (seed % 2 ? " --stages-rows" : "") +
                (seed % 3 ? " --held-blocks=2" : "") + (seed % 5 == 1 ? " --held-ctas=2" : ""));
    for (const gpu::GpuPass &pass : gpu::gpuPasses()) {
      pass.run(m, {nvidia::NvTargetInfo(run.target), run.options, nullptr, &run.rows});
      std::string why;
      ASSERT_TRUE(ir::verify(*m, &why)) << "seed " << seed << " after " << pass.name << "\n" << why;
      ASSERT_EQ(roundTrip(*m), "") << "seed " << seed << " after " << pass.name;
    }
  }
}

// There is a case for each of them.
TEST(GpuPasses, EachHasGoldens) {
  for (const gpu::GpuPass &pass : gpu::gpuPasses()) {
    std::filesystem::path path = std::string(testSourceDir) + "/test/gpu-passes/" + pass.name + ".ir";
    EXPECT_TRUE(std::filesystem::exists(path) && !test::readSections(path).sections.empty()) << path;
  }
}

// A pass that breaks a rule leaves a file with the command that repeats it, as it was before passes changed the
// options, and the module that it was given. Nothing else is lost: the next compilation goes its way.
TEST(GpuPasses, WhatBreaksARuleCanBeRepeated) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tegula-gpu-passes-" + std::to_string(::getpid()));
  ir::Module m;
  test::RandomKernel generate(m, 7);
  PassRun run("--num-warps=8 --num-stages=2 --target=sm_80");
  const nvidia::NvTargetInfo target(run.target);
  const gpu::GpuPass faulty[] = {
      *gpu::findGpuPass("partition-cluster"),
      *gpu::findGpuPass("assign-layouts"),
      {"rotate-dots", nullptr,
       [](ir::Module &x, const gpu::PassInput &in) { in.options.numWarps = 1, x.kernel()->argInfo.clear(); }, ""},
      *gpu::findGpuPass("sink-widening")};
  DiagEngine diag;
  const ir::StageVerifier verifier(true, diag, folder.string());
  EXPECT_FALSE(gpu::runPasses(faulty, m, {target, run.options, nullptr}, verifier));
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  std::string command =
      "tegula-opt --passes=rotate-dots --target=sm_80 --num-warps=8 --num-stages=2 --num-ctas=1 " + files[0].string();
  EXPECT_NE(renderAll(diag).find("the IR is malformed after rotate-dots"), std::string::npos) << renderAll(diag);
  EXPECT_NE(renderAll(diag).find(command), std::string::npos) << renderAll(diag);
  std::ostringstream text;
  text << std::ifstream(files[0]).rdbuf();
  std::filesystem::remove_all(folder);
  run.options.numWarps = 8;
  EXPECT_EQ(text.str(),
            "// " + command + "\n" +
                ir::print(*gpu::runPasses(std::span(faulty).first(2), m, {target, run.options, nullptr}, {})));
  EXPECT_TRUE(gpu::runGpuPasses(m, {target, run.options, nullptr}, verifier));
}

} // namespace
