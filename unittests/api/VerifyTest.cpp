// TEGULA_VERIFY, from the environment to the code generators, which refuse a module that breaks a rule.
#include "Fixture.h"
#include "api/Handles.h"
#include "ir/StageVerifier.h"
#include "ir/Text.h"
#include <cstdlib>
#include <filesystem>

using namespace tegula;
using namespace tegula::test;

namespace {

/// The compile options of a context that is made with this in the environment.
api::CompileOptions optionsUnder(const char *verify) {
  const char *was = std::getenv("TEGULA_VERIFY");
  std::string before = was ? was : "";
  verify ? setenv("TEGULA_VERIFY", verify, 1) : unsetenv("TEGULA_VERIFY");
  Context c = context();
  was ? setenv("TEGULA_VERIFY", before.c_str(), 1) : unsetenv("TEGULA_VERIFY");
  api::CallOptions call;
  EXPECT_TRUE(c.get()->resolve(nullptr, call));
  return call.compile;
}

/// `%y` says that it is 64 bits wide.
std::unique_ptr<ir::Module> malformed() {
  DiagEngine diag;
  auto file = std::make_shared<const SourceFile>(
      "k.ir", "kernel @k(%p: ptr<i32>, %n: i32) {\n  %y = add %n, %n\n  store %p, %n\n}\n");
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  EXPECT_TRUE(m) << renderAll(diag);
  m->kernel()->block()->ops[0]->result()->type = ir::Type::scalar(ir::Elem::I64);
  return m;
}

} // namespace

TEST(Verify, TheEnvironmentDecides) {
  for (const char *on : {"1", "true"}) EXPECT_TRUE(optionsUnder(on).verify) << on;
  for (const char *off : {"0", "", static_cast<const char *>(nullptr)})
    EXPECT_FALSE(optionsUnder(off).verify) << (off ? off : "(unset)");
  // Kernels that were not verified are none of these.
  EXPECT_NE(optionsUnder("1").word(), optionsUnder("0").word());
}

TEST(Verify, TheEnvironmentNamesAFolder) {
  setenv("TEGULA_REPRODUCER_DIR", "/somewhere/else", 1);
  api::CompileOptions o = optionsUnder("1"), off = optionsUnder("0");
  unsetenv("TEGULA_REPRODUCER_DIR");
  ASSERT_TRUE(o.reproducers);
  EXPECT_EQ(*o.reproducers, "/somewhere/else");
  EXPECT_EQ(!off.reproducers, !ir::verifiesAlways);
  o = optionsUnder("1");
  ASSERT_TRUE(o.reproducers);
  EXPECT_EQ(*o.reproducers, std::filesystem::temp_directory_path().string());
}

TEST(Verify, EveryTargetNamesTheStage) {
  api::CompileOptions o = optionsUnder("1");
  for (const char *target : {"cpu", "sim", "sm_90a"}) {
    std::unique_ptr<ir::Module> m = malformed();
    DiagEngine diag;
    api::Generated out;
    TegulaTimings times{};
    runtime::Status status;
    EXPECT_FALSE(api::generate(*m, *api::parseTarget(target), o, "k", out, times, diag, status)) << target;
    EXPECT_EQ(api::report(diag), TEGULA_INTERNAL_ERROR);
    EXPECT_EQ(std::string(tegula_last_error()).substr(0, 91),
              "k.ir:2:3: error: internal error: the IR is malformed after the target-neutral passes: @k: o")
        << target << ": " << tegula_last_error();
    status = {};
    DiagEngine again;
    EXPECT_FALSE(api::emitTargetStage(*m, *api::parseTarget(target), o, "k", "llvm", again, status)) << target;
    EXPECT_TRUE(again.hasErrors());
  }
}
