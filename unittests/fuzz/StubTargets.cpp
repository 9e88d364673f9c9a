// Stand-ins for the code generators, so that everything above them builds without LLVM and so under the sanitizers.
// They take every module that the verifier takes and give kernels that do nothing (objects of unittests/runtime), with
// the arguments of the module.
#include "TestPaths.h"
#include "ir/Verifier.h"
#include "targets/Target.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace tegula;

static void verified(const ir::Module &m) {
  std::string why;
  if (ir::verify(m, &why))
    return;
  std::fprintf(stderr, "a code generator was given a broken module: %s\n", why.c_str());
  std::abort();
}

static std::vector<char> object(const char *variant) {
  std::ifstream in(std::string(testBinaryDir) + "/unittests/runtime/kernels-" + variant + ".o", std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (bytes.empty()) {
    std::fprintf(stderr, "no object %s\n", variant);
    std::abort();
  }
  return bytes;
}

/// One slot of 8 bytes for each argument; what may be stored through is not known here.
static std::vector<targets::ArgSlot> slots(const ir::Module &m) {
  std::vector<targets::ArgSlot> list;
  const ir::Function &k = *m.kernel();
  for (size_t i = 0; i < k.block()->args.size(); ++i)
    list.push_back({k.block()->args[i]->type, static_cast<uint32_t>(8 * i), k.argInfo[i].name, k.argInfo[i].isSigned,
                    !k.argInfo[i].isConst});
  return list;
}

namespace tegula::targets {
namespace {

constexpr const char *cpuNames[] = {"cpu:x86-64", "cpu:avx2", "cpu:aarch64"};
constexpr const char *gpuNames[] = {"sm_80", "sm_90a", "sim", "sim:sm_80", "sim:sm_86", "sim:sm_89", "sim:sm_90a"};

class Stub : public Target {
public:
  Stub(const Family &f, std::string_view name) : Target(f), name_(name) {}
  std::string key() const override { return name_; }
  std::optional<Compiled> compile(const ir::Module &tile, const Options &options, DiagEngine &) const override {
    verified(tile);
    Compiled k;
    k.meta.args = slots(tile);
    k.meta.argBytes = static_cast<uint32_t>(8 * k.meta.args.size());
    k.meta.checked = options.checked;
    fill(k);
    return k;
  }
  std::optional<std::string> emit(const ir::Module &tile, const Options &, std::string_view, std::string_view,
                                  DiagEngine &) const override {
    verified(tile);
    return ir::print(tile);
  }

protected:
  virtual void fill(Compiled &k) const = 0;
  const std::string name_;
};

class StubCpu final : public Stub {
public:
  using Stub::Stub;
  Machine machine() const override { return Machine::Cpu; }
  Language language() const override { return {"cpu", 0, "ieee"}; }
  std::optional<ir::AsmExecutor> asmExecutor() const override { return ir::AsmExecutor{"a CPU", true}; }
  bool runs(const Target &code) const override { return (code.needs("") == "aarch64") == (needs("") == "aarch64"); }
  std::string needs(std::string_view) const override {
    return name_ == "cpu:aarch64" ? "aarch64" : name_ == "cpu:avx2" ? "x86-64-v3" : "x86-64";
  }
  std::string portable() const override { return name_ == "cpu" ? "cpu:x86-64" : name_; }
  std::string saved() const override { return name_; }
  const Processor *processor() const override { return &processor_; }
  std::span<const char *const> stages() const override {
    static constexpr const char *names[] = {"cpu", "llvm", "asm", "obj"};
    return names;
  }

private:
  void fill(Compiled &k) const override { k.code = object("plain"), k.meta.symbol = "empty"; }
  const Processor processor_{"", 128, false, false, false, 32768, 524288, 32 << 20};
};

class StubGpu final : public Stub {
public:
  using Stub::Stub;
  Machine machine() const override { return name_.starts_with("sim") ? Machine::Sim : Machine::Gpu; }
  Language language() const override { return {"cuda", name_.ends_with("80") ? 80 : 90, "tf32"}; }
  std::optional<ir::AsmExecutor> asmExecutor() const override {
    return makesPtx() ? std::nullopt : std::optional(ir::AsmExecutor{"the simulator", false});
  }
  bool makesPtx() const override { return machine() == Machine::Gpu; }
  std::string needs(std::string_view cubin) const override {
    return !makesPtx() ? "sim sm_90 x86-64" : cubin.empty() ? "ptx " + name_ : "cubin " + std::string(cubin);
  }
  std::string simulator() const override { return makesPtx() ? "sim:" + name_ : ""; }
  std::span<const char *const> stages() const override {
    static constexpr const char *onGpu[] = {"gpu", "llvm", "ptx"}, *onSim[] = {"gpu", "llvm", "obj"};
    return makesPtx() ? std::span(onGpu) : std::span(onSim);
  }

private:
  void fill(Compiled &k) const override {
    k.code = makesPtx() ? std::vector<char>{'P', 'T', 'X', 0} : object("sim");
    k.meta.symbol = makesPtx() ? "k" : "nothing";
  }
};

extern const Family stubCpus, stubGpus;

TargetRef cpuNamed(std::string_view name) {
  for (const char *known : cpuNames)
    if (name == known || name == "cpu")
      return std::make_shared<StubCpu>(stubCpus, name);
  return nullptr;
}
TargetRef gpuNamed(std::string_view name) {
  for (const char *known : gpuNames)
    if (name == known)
      return std::make_shared<StubGpu>(stubGpus, name);
  return nullptr;
}
std::vector<std::string> allCpus() { return {"cpu", "cpu:x86-64", "cpu:avx2", "cpu:aarch64"}; }
std::vector<std::string> allGpus() { return {std::begin(gpuNames), std::end(gpuNames)}; }
TargetRef host() { return cpuNamed("cpu"); }
std::optional<Family::GpuCode> forGpu(uint32_t capability) {
  return capability >= 80 ? std::optional(Family::GpuCode{"sm_80", "sm_80"}) : std::nullopt;
}

const Family stubCpus{.name = "cpu", .parse = cpuNamed, .names = allCpus, .host = host, .restore = cpuNamed};
const Family stubGpus{
    .name = "gpu", .parse = gpuNamed, .names = allGpus, .driver = "cuda", .forGpu = forGpu, .oldestGpu = "8.0"};

} // namespace

std::span<const Family *const> families() {
  static const Family *const all[] = {&stubCpus, &stubGpus};
  return all;
}

} // namespace tegula::targets
