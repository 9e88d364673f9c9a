// Registers the CPU target behind the interface of targets (targets/Target.h).
#include "passes/WorkCount.h"
#include "support/ByteStream.h"
#include "targets/Target.h"
#include "targets/cpu/Cpu.h"

namespace tegula::targets {

namespace {

using cpu::CpuTarget;

class CpuCode final : public Target {
public:
  CpuCode(const CpuTarget &t, const Family &f)
      : Target(f), settings(t), processor_{t.features, t.vectorBits, t.fma, t.avx512Bf16,
                                           t.multipliesBytes(), t.l1Bytes, t.l2Bytes, t.l3Bytes} {}
  const CpuTarget settings;

  Machine machine() const override { return Machine::Cpu; }
  std::string key() const override { return cpu::targetKey(settings); }
  Language language() const override { return {"cpu", 0, "ieee"}; }
  std::optional<ir::AsmExecutor> asmExecutor() const override { return ir::AsmExecutor{"a CPU", true}; }
  bool runs(const Target &code) const override {
    return &code.family == &family && cpu::runsOn(static_cast<const CpuCode &>(code).settings, settings);
  }
  TargetRef tunedFor(const Target &machine) const override {
    return machine.runs(*this) ? std::make_shared<CpuCode>(
                                     cpu::tunedFor(settings, static_cast<const CpuCode &>(machine).settings), family)
                               : nullptr;
  }
  const Processor *processor() const override { return &processor_; }

  std::string needs(std::string_view) const override {
    const CpuTarget &c = settings;
    if (c.triple.starts_with("aarch64"))
      return "aarch64";
    return std::string(c.avx512 ? "x86-64-v4"
                       : c.avx2 ? "x86-64-v3"
                                : "x86-64") +
           (c.avxVnni && !c.avx512 ? " avxvnni" : "") + (c.avx512Vnni ? " avx512vnni" : "") +
           (c.avx512Bf16 ? " avx512bf16" : "");
  }

  std::string portable() const override {
    std::string best; // names are listed from the poorest to the richest
    for (const std::string &name : cpu::knownTargetNames())
      if (name != "cpu" && name != "cpu:native" && cpu::runsOn(*cpu::parseTarget(name), settings))
        best = name;
    return best;
  }

  /// "cpu" is another one on every machine.
  std::string saved() const override {
    ByteWriter w;
    const CpuTarget &c = settings;
    w.str(c.triple), w.str(c.cpu), w.str(c.features), w.u32(c.vectorBits);
    for (bool flag : {c.avx512Bf16, c.avx512Vnni, c.avxVnni, c.fma, c.f16c, c.avx512, c.avx2, c.slowPairsOfBf16})
      w.u8(flag);
    w.u64(c.l1Bytes), w.u64(c.l2Bytes), w.u64(c.l3Bytes);
    return {w.bytes.begin(), w.bytes.end()};
  }

  std::optional<Compiled> compile(const ir::Module &tile, const Options &options, DiagEngine &diag) const override {
    Work work = countWork(tile);
    std::optional<Compiled> out = cpu::compile(tile, settings, options, diag);
    if (out)
      out->work = std::move(work);
    return out;
  }

  std::span<const char *const> stages() const override {
    static constexpr const char *names[] = {"cpu", "llvm", "asm", "obj"};
    return names;
  }
  std::optional<std::string> emit(const ir::Module &tile, const Options &options, std::string_view stage,
                                  std::string_view, DiagEngine &diag) const override {
    using cpu::Stage;
    static constexpr std::pair<std::string_view, Stage> table[] = {
        {"cpu", Stage::Plan}, {"llvm", Stage::Llvm}, {"asm", Stage::Asm}, {"obj", Stage::Object}};
    for (auto [name, which] : table)
      if (stage == name)
        return cpu::emitStage(tile, settings, options, which, diag);
    return std::nullopt;
  }

private:
  const Processor processor_;
};

} // namespace

extern const Family cpuFamily;

namespace {

TargetRef parse(std::string_view name) {
  std::optional<CpuTarget> t = cpu::parseTarget(name);
  return t ? std::make_shared<CpuCode>(*t, cpuFamily) : nullptr;
}

TargetRef host() { return parse("cpu"); }

TargetRef restore(std::string_view bytes) {
  ByteReader r(bytes.data(), bytes.size());
  CpuTarget c;
  c.triple = r.str(), c.cpu = r.str(), c.features = r.str(), c.vectorBits = r.u32();
  for (bool *flag : {&c.avx512Bf16, &c.avx512Vnni, &c.avxVnni, &c.fma, &c.f16c, &c.avx512, &c.avx2, &c.slowPairsOfBf16})
    *flag = r.flag();
  c.l1Bytes = r.u64(), c.l2Bytes = r.u64(), c.l3Bytes = r.u64();
  return !r.failed() && r.atEnd() ? std::make_shared<CpuCode>(c, cpuFamily) : nullptr;
}

} // namespace

constinit const Family cpuFamily{
    .name = "cpu", .parse = parse, .names = cpu::knownTargetNames, .host = host, .restore = restore};

} // namespace tegula::targets
