// Sources, diagnostics, signatures, stages.
#include "Fixture.h"
#include <cstring>
#include <set>
#include <thread>

using namespace tegula;
using namespace tegula::test;

TEST(Compile, MissingFileAndKernel) {
  Context c = context();
  Status s = c.load("/nonexistent/kernels.py").status();
  EXPECT_EQ(s.code(), TEGULA_NOT_FOUND);
  EXPECT_NE(s.message().find("/nonexistent/kernels.py"), std::string::npos);
  EXPECT_EQ(c.load("/").status().code(), TEGULA_IO_ERROR);
  Module m = module(c, addText);
  s = m.kernel("ad").status();
  EXPECT_EQ(s.code(), TEGULA_NOT_FOUND);
  EXPECT_NE(s.message().find("`add`"), std::string::npos) << s.message();
  EXPECT_EQ(m.kernels(), std::vector<std::string>{"add"});
  EXPECT_EQ(m.kernel("add").value().get(), m.kernel("add").value().get());
}

TEST(Compile, SyntaxErrorsAreAllReported) {
  Context c = context();
  Status s = c.loadText("bad.py", "x = = 3\n\ny = 1\nz = (1 +\n").status();
  EXPECT_EQ(s.code(), TEGULA_COMPILE_ERROR);
  ASSERT_GE(s.diagnostics().size(), 2u);
  EXPECT_EQ(s.diagnostics()[0].file, "bad.py");
  std::set<uint32_t> lines;
  for (const Message &m : s.diagnostics()) lines.insert(m.line);
  EXPECT_TRUE(lines.count(1) && lines.count(4));
}

TEST(Compile, DiagnosticsAreDataAndText) {
  Context c = context();
  Function bad = module(c, "@triton.jit\ndef bad(x):\n    tl.store(x, nothing)\n").kernel("bad").value();
  float x[4];
  Status s = bad(1, {std::span(x)});
  ASSERT_EQ(s.code(), TEGULA_COMPILE_ERROR);
  ASSERT_EQ(s.diagnostics().size(), 1u);
  const Message &m = s.diagnostics()[0];
  EXPECT_EQ(m.line, 6u);
  EXPECT_EQ(m.column, 17u);
  EXPECT_EQ(m.endColumn, 24u);
  EXPECT_EQ(m.severity, TEGULA_SEVERITY_ERROR);
  EXPECT_NE(m.text.find("`nothing`"), std::string::npos);
  EXPECT_NE(s.message().find("^~~~"), std::string::npos);
  EXPECT_NE(std::string(tegula_diagnostics_json()).find("\"line\""), std::string::npos);
  TegulaDiagnostic d, note;
  ASSERT_EQ(tegula_diagnostic_get(0, &d), TEGULA_OK);
  ASSERT_GE(d.note_count, 1);
  ASSERT_EQ(tegula_diagnostic_note(0, d.note_count - 1, &note), TEGULA_OK);
  EXPECT_NE(std::string(note.message).find("while instantiating"), std::string::npos);
  EXPECT_EQ(tegula_diagnostic_get(1, &d), TEGULA_INVALID_ARGUMENT);
  // Another thread has its own.
  std::jthread([] { EXPECT_EQ(tegula_last_status(), TEGULA_OK); });
  tegula_clear_error();
  EXPECT_STREQ(tegula_last_error(), "");
  EXPECT_EQ(tegula_diagnostic_count(), 0u);
}

TEST(Compile, FailingKernelCanBeTriedAgainAndOthersWork) {
  Context c = context();
  Module m = module(c, std::string(addText) + "\n@triton.jit\ndef bad(x):\n    nothing\n");
  Function bad = m.kernel("bad").value();
  float x[16];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bad(1, {std::span(x)}).code(), TEGULA_COMPILE_ERROR);
  EXPECT_TRUE(m.kernel("add").value()(1, {std::span(x), std::span(x), std::span(x), 16, 16}));
}

TEST(Compile, SignaturesForEveryTarget) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  for (int i = 0; tegula_target_name(i); ++i) {
    Result<Kernel> k = add.compile("x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:64", tegula_target_name(i));
    ASSERT_TRUE(k) << tegula_target_name(i) << ": " << k.status().message();
    EXPECT_EQ(k->info().arg_count, 4u);
    // Machine code: an object, a cubin, or PTX where there is no assembler.
    bool gpu = std::string_view(tegula_target_name(i)).starts_with("sm_");
    auto object = k->stage(gpu ? "ptx" : "obj");
    ASSERT_TRUE(object) << object.status().message();
    EXPECT_EQ(object->substr(0, gpu ? 1 : 4), gpu ? "/" : "\177ELF");
  }
  Kernel arm = add.compile("x:*f32, y:*f32, out:*f32, n:i32, BLOCK:64", "cpu:aarch64").value();
#if defined(__x86_64__)
  float x[4];
  EXPECT_EQ(arm(1, {std::span(x), std::span(x), std::span(x), 4}).code(), TEGULA_UNSUPPORTED);
#endif
}

TEST(Compile, SignatureMistakes) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  auto text = [&](const char *signature, const char *target = "") {
    return add.compile(signature, target).status().message();
  };
  EXPECT_EQ(text("x:*f32"), "`add`: parameter `y` has neither a type in the signature nor a value among the constants");
  EXPECT_EQ(text("blok:64"), "`add` has no parameter `blok`");
  EXPECT_EQ(text("BLOKC:64"), "`add` has no parameter `BLOKC`; did you mean `BLOCK`?");
  EXPECT_EQ(text("x:*f32, x:*f32"), "parameter `x` is given twice");
  EXPECT_EQ(text("x"), "signature: `x` is not of the form name:type");
  EXPECT_EQ(text("x:*f33:16"), "signature: `x`: `*f33` is not a data type");
  EXPECT_EQ(text("x:what"), "signature: `x`: `what` is neither a data type nor a constant");
  EXPECT_EQ(text("x:tensordesc<f32"), "signature: `x`: write tensordesc<dtype[block, shape]>");
  EXPECT_EQ(text("x:tensordesc<f33[8]>"), "signature: `x`: `f33` is not a data type");
  EXPECT_EQ(text("x:tensordesc<f32[8, 3]>"),
            "signature: `x`: a descriptor has blocks of 1 to 5 extents that are powers of 2");
  EXPECT_EQ(text("x:tensordesc<f32[8, 2]>"),
            "signature: `x`: Descriptor block shape must have at least 16 bytes in the last dimension");
  EXPECT_EQ(text("x:tensordesc<i32[8]>:nan"), "signature: `x`: padding with NaN needs floats");
  EXPECT_EQ(text("x:tensordesc<f32[8]>:what"), "signature: `x`: `what` is neither `nan`, `tf32` nor a divisibility");
  EXPECT_EQ(text("x:tensordesc<i32[8]>:tf32"), "signature: `x`: rounding to tf32 needs float32");
  EXPECT_EQ(text("BLOCK:tensordesc<f32[8]>"),
            "signature: `BLOCK` is a constexpr parameter, which cannot take a tensor descriptor");
  EXPECT_EQ(text("x:(i32, i32"), "signature: `x`: a tuple is written (item, item)");
  EXPECT_EQ(text("x:(i32, what)"), "signature: `x`: `what` is neither a data type nor a constant");
  EXPECT_EQ(text("x:Pair(a=i32, i32)"), "signature: `x`: a named tuple is written Pair(field=item, field=item)");
  EXPECT_EQ(text("x:Pair(a=i32, a=i32)"), "signature: `x`: two fields `a`");
  EXPECT_EQ(text("x:Pair(a=(i32, what))"), "signature: `x`: `what` is neither a data type nor a constant");
  EXPECT_EQ(text(("x:" + std::string(100, '(') + std::string(100, ')')).c_str()),
            "signature: `x`: tuples are nested more than 64 deep");
  EXPECT_EQ(text("x:*f32:0"), "signature: `x`: the divisibility `0` is not a positive number");
  const char *sameText =
      "signature: what is the same buffer as a parameter must stand behind it, be of its type, and name the first of them";
  EXPECT_EQ(text("x:*f32:z"), "signature: `x`: `z` is neither a divisibility nor a parameter that is the same buffer");
  EXPECT_EQ(text("x:*f32:y, y:*f32, out:*f32, n:i32, BLOCK:64"), sameText);
  EXPECT_EQ(text("x:*f32, y:*i32:x, out:*f32, n:i32, BLOCK:64"), sameText);
  EXPECT_EQ(text("x:*f32, y:*f32:x, out:*f32:y, n:i32, BLOCK:64"), sameText);
  EXPECT_EQ(text("x:*f32, y:*f32, out:*f32:n, n:i32, BLOCK:64"), sameText);
  EXPECT_EQ(text("x:*f32, y:*f32, out:*f32, n:i32:x, BLOCK:64"),
            "signature: `n`: the divisibility `x` is not a positive number");
  EXPECT_NE(text("x:*f32,y:*f32,out:*f32,n:i32,BLOCK:64", "gpu").find("there is no target `gpu`; targets are "),
            std::string::npos);
}

// What a kernel says of its arguments compiles the same kernel.
TEST(Compile, SignaturesReadBack) {
  Context c = context();
  Function f = module(c, "@triton.jit\ndef k(d, e, t, n, s: tl.constexpr, T: tl.constexpr, *rest):\n    pass\n")
                   .kernel("k")
                   .value();
  const char *texts[] = {
      "d:tensordesc<fp32[4, 16]>:nan:tf32:16, e:tensordesc<fp16[32]>, t:(*fp32:16, i32), n:i64:16, s:'a', T:fp8e5, rest:()",
      "d:tensordesc<bf16[32]>:nan, e:tensordesc<fp32[16]>:tf32, t:(1, (2.5, None), ()), n:True, s:'it\\\"s, \\'x\\':(\\n\\r', T:*kfp16, rest:(i32,)",
      "d:*kfp16, e:inf, t:(i32), n:1, s:(1, (fp32, 'x')), T:-1e+300, rest:(*i8, u1)",
      "d:Pair(a=*fp32:16, b=(i32, 3)), e:Pair(a=Empty(), b=Größe(n_1=i64:16, x='a=(')), t:(Pair(a=1, b=None), i1), n:1, s:Pair(a=1, b='x'), T:fp32, rest:(P(a=i8))"};
  for (const char *text : texts) {
    Result<Kernel> k = f.compile(text);
    ASSERT_TRUE(k) << text << ": " << k.status().message();
    std::string said = k->info().signature;
    Result<Kernel> again = f.compile(said);
    ASSERT_TRUE(again) << said << ": " << again.status().message();
    EXPECT_EQ(again->info().signature, said);
    EXPECT_STREQ(again->info().hash, k->info().hash) << said;
  }
  EXPECT_STREQ(f.compile(texts[0])->info().signature, texts[0]);
  EXPECT_STREQ(f.compile(texts[3])->info().signature, texts[3]);
}

/// `add` as `signature` has it, which says `fact` of its pointers: another kernel than `plain`, which does not.
static Kernel withFact(const Function &add, const char *signature, const char *fact, const char *plain) {
  Kernel k = add.compile(signature).value();
  EXPECT_STREQ(k.info().signature, signature);
  EXPECT_NE(k.stage("tile").value().find(fact), std::string_view::npos);
  EXPECT_STRNE(k.info().hash, add.compile(plain)->info().hash);
  return k;
}

TEST(Compile, ParametersThatOverlap) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  constexpr const char *signature = "x:*fp32:16:~1, y:*fp32, out:*fp32:~1, n:i32, BLOCK:4";
  Kernel k = withFact(add, signature, "overlap = 1", "x:*fp32:16, y:*fp32, out:*fp32, n:i32, BLOCK:4");
  EXPECT_STREQ(c.loadKernel(k.save().value())->info().signature, signature);
  for (const char *wrong :
       {"x:*fp32:~0, y:*fp32, out:*fp32, n:i32, BLOCK:4", "x:*fp32:~x, y:*fp32, out:*fp32, n:i32, BLOCK:4",
        "x:*fp32, y:*fp32, out:*fp32:~1:x, n:i32, BLOCK:4", "x:*fp32, y:*fp32, out:*fp32, n:i32:~1, BLOCK:4"})
    EXPECT_FALSE(add.compile(wrong)) << wrong;
}

TEST(Compile, LaunchesNoticeWhatOverlaps) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  alignas(64) float memory[64] = {}, other[64] = {};
  auto signatureOf = [&](TegulaArg x, TegulaArg y, TegulaArg out) {
    TegulaArg args[] = {x, y, out, tegula_int(12), tegula_int(4)};
    TegulaKernel *k = nullptr;
    const int64_t grid[3] = {3, 1, 1};
    EXPECT_EQ(tegula_launch(add.get(), grid, args, 5, nullptr, &k), TEGULA_OK) << tegula_last_error();
    TegulaKernelInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(tegula_kernel_info(k, &info), TEGULA_OK);
    return std::string(info.signature);
  };
  auto at = [](float *p, int64_t elements) { return tegula_ptr(p, TEGULA_FP32, elements * 4); };
  for (int round : {0, 1, 2}) { // the long way, and the short one
    SCOPED_TRACE(round);
    EXPECT_EQ(signatureOf(at(memory, 16), at(memory + 16, 16), at(other, 16)),
              "x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32, BLOCK:4")
        << "neighbours";
    EXPECT_EQ(signatureOf(at(memory, 16), at(other, 16), at(memory + 12, 16)),
              "x:*fp32:16:~1, y:*fp32:16, out:*fp32:16:~1, n:i32, BLOCK:4");
    EXPECT_EQ(signatureOf(at(memory, 16), at(other, 16), at(memory, 16)),
              "x:*fp32:16, y:*fp32:16, out:*fp32:16:x, n:i32, BLOCK:4");
    EXPECT_EQ(signatureOf(at(memory, 16), at(other, 16), at(memory, 12)),
              "x:*fp32:16:~1, y:*fp32:16, out:*fp32:16:~1, n:i32, BLOCK:4")
        << "another extent";
    EXPECT_EQ(signatureOf(at(memory, 16), at(memory + 12, 16), at(memory + 24, 16)),
              "x:*fp32:16:~1, y:*fp32:16:~1, out:*fp32:16:~1, n:i32, BLOCK:4")
        << "a chain is one group";
    EXPECT_EQ(signatureOf(tegula_const_ptr(memory, TEGULA_FP32, 64), tegula_const_ptr(memory + 12, TEGULA_FP32, 64),
                          at(other, 16)),
              "x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32, BLOCK:4")
        << "nobody writes them";
    EXPECT_EQ(signatureOf(tegula_const_ptr(memory, TEGULA_FP32, 64), tegula_const_ptr(memory + 12, TEGULA_FP32, 64),
                          at(memory, 16)),
              "x:*fp32:16:~1, y:*fp32:16:~1, out:*fp32:16:x, n:i32, BLOCK:4")
        << "`out` writes what `x` is";
    EXPECT_EQ(signatureOf(at(memory, -1), at(memory + 16, -1), at(other, -1)),
              "x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32, BLOCK:4")
        << "nothing is known of their extents";
    EXPECT_EQ(signatureOf(at(memory, -1), at(memory, 16), at(memory, 16)),
              "x:*fp32:16:~1, y:*fp32:16:~1, out:*fp32:16:y, n:i32, BLOCK:4")
        << "`out` is `y`";
  }
}

TEST(Compile, OneBufferForTwoParameters) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Kernel k = withFact(add, "x:*fp32:16, y:*fp32, out:*fp32:16:x, n:i32, BLOCK:4", "same_as = 0",
                      "x:*fp32:16, y:*fp32, out:*fp32:16, n:i32, BLOCK:4");
  // Saved and loaded, and made of its tile IR, it is the same kernel: it takes one buffer only.
  Kernel loaded = c.loadKernel(k.save().value()).value();
  TegulaKernel *read = nullptr;
  const std::string tile(k.stage("tile").value());
  ASSERT_EQ(tegula_compile_tile(c.get(), "k.tile", tile.data(), tile.size(), nullptr, nullptr, &read), TEGULA_OK)
      << tegula_last_error();
  const int64_t grid[3] = {1, 1, 1};
  auto run = [&](TegulaKernel *kernel, float *x, float *y, float *out) {
    const TegulaArg args[] = {tegula_ptr(x, TEGULA_FP32, 16), tegula_ptr(y, TEGULA_FP32, 16),
                              tegula_ptr(out, TEGULA_FP32, 16), tegula_int(4), tegula_int(4)};
    return tegula_kernel_launch(kernel, grid, args, kernel == read ? 4 : 5, nullptr);
  };
  for (TegulaKernel *kernel : {k.get(), loaded.get(), read}) {
    alignas(16) float x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40}, out[4] = {};
    EXPECT_EQ(run(kernel, x, y, x), TEGULA_OK) << tegula_last_error();
    EXPECT_EQ(x[3], 44);
    EXPECT_EQ(run(kernel, x, y, out), TEGULA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tegula_last_error()).find("is not the buffer of `x`, as the kernel was compiled to assume"),
              std::string::npos)
        << tegula_last_error();
  }
  tegula_kernel_release(read);
}

TEST(Compile, MemoryOfTheirOwnMayNotOverlapByAShift) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Kernel own = add.compile("x:*fp32:4, y:*fp32:4, out:*fp32:4, n:i32, BLOCK:4").value(),
         shared = add.compile("x:*fp32:4:~1, y:*fp32:4, out:*fp32:4:~1, n:i32, BLOCK:4").value();
  alignas(64) float memory[64] = {}, other[64] = {};
  const int64_t grid[3] = {1, 1, 1};
  auto at = [](float *p, int64_t elements, bool isDense = true) {
    TegulaArg a = tegula_ptr(p, TEGULA_FP32, elements * 4);
    if (isDense) a.flags |= TEGULA_ARG_DENSE;
    return a;
  };
  auto run = [&](const Kernel &k, TegulaArg x, TegulaArg y, TegulaArg out) {
    const TegulaArg args[] = {x, y, out, tegula_int(4), tegula_int(4)};
    return tegula_kernel_launch(k.get(), grid, args, 5, nullptr) == TEGULA_OK ? std::string()
                                                                              : std::string(tegula_last_error());
  };
  EXPECT_EQ(
      run(own, at(memory, 16), at(other, 16), at(memory + 12, 16)),
      "`add`: argument `out` shares elements with `x` at other places, and the kernel, which writes to it, was compiled for memory of their own; launch the function, or put `:~1` "
      "behind the types of both in the signature");
  EXPECT_NE(run(own, at(memory + 4, 16), at(other, 16), at(memory, 16)), "") << "behind";
  EXPECT_NE(run(own, at(memory, 16), at(other, 16), at(memory + 4, 8, false)), "")
      << "what has gaps begins in what has none";
  EXPECT_EQ(run(shared, at(memory, 16), at(other, 16), at(memory + 12, 16)), "") << "compiled for it";
  EXPECT_EQ(run(own, at(memory, 16), at(other, 16), at(memory, 16)), "") << "in place";
  EXPECT_EQ(run(own, at(memory, 16), at(memory + 1, 16), at(other, 16)), "") << "nobody writes to them";
  EXPECT_EQ(run(own, at(memory, 16), at(other, 16), at(memory + 16, 16)), "") << "neighbours";
  EXPECT_EQ(run(own, at(memory, 32, false), at(other, 16), at(memory + 4, 32, false)), "") << "they may interleave";
  EXPECT_EQ(run(own, at(memory, 32, false), at(other, 16), at(memory + 8, 4)), "") << "it may lie in a gap";
  EXPECT_EQ(run(own, at(memory, -1), at(other, 16), at(memory + 4, -1)), "") << "nothing is known";
}

TEST(Compile, EveryStageHasText) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Kernel k = add.compile("x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:64").value();
  for (int i = 0; tegula_kernel_stage_name(k.get(), i); ++i) {
    const char *stage = tegula_kernel_stage_name(k.get(), i);
    auto text = k.stage(stage);
    ASSERT_TRUE(text) << stage << ": " << text.status().message();
    EXPECT_FALSE(text->empty()) << stage;
    char *emitted = nullptr;
    size_t n = 0;
    ASSERT_EQ(tegula_emit(add.get(), "x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:64", nullptr, 0, nullptr, nullptr,
                          stage, &emitted, &n),
              TEGULA_OK)
        << tegula_last_error();
    // The same in, the same out.
    EXPECT_EQ(std::string(emitted, n), std::string(*text)) << stage;
    tegula_free(emitted);
  }
  EXPECT_EQ(k.stage("ptx").status().code(), TEGULA_NOT_FOUND);
  std::string json = tegula_kernel_metadata_json(k.get());
  EXPECT_NE(json.find("\"name\":\"add\""), std::string::npos);
  EXPECT_NE(json.find("{\"name\":\"out\",\"type\":\"*fp32\",\"offset\":16,\"read\":false,\"written\":true}"),
            std::string::npos)
      << json;
}

TEST(Compile, Timings) {
  Context c = context();
  Function add = module(c, addText).kernel("add").value();
  Kernel k = add.compile("x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:64").value();
  TegulaTimings t = k.timings();
  EXPECT_GT(t.parse, 0u);
  EXPECT_GT(t.sema, 0u);
  EXPECT_GT(t.codegen, 0u);
  EXPECT_GE(t.total, t.parse + t.sema + t.passes + t.plan + t.emit + t.optimize + t.codegen + t.load);
}

TEST(Compile, CheckAndInfo) {
  Context c = context();
  EXPECT_EQ(tegula_module_check(module(c, addText).get()), TEGULA_OK);
  Module bad = module(c, "@triton.jit\ndef bad(x):\n    tl.store(x, nothing)\n");
  EXPECT_EQ(tegula_module_check(bad.get()), TEGULA_COMPILE_ERROR);
  TegulaDeviceInfo d{};
  d.size = sizeof d;
  ASSERT_EQ(tegula_device_info(c.get(), 0, &d), TEGULA_OK);
  EXPECT_STREQ(d.name, "cpu");
  EXPECT_GT(d.cores, 0u);
  EXPECT_EQ(tegula_device_info(c.get(), 100, &d), TEGULA_NOT_FOUND);
  for (int32_t device : {TEGULA_DEVICE_INDEX_CPU, TEGULA_DEVICE_INDEX_SIM}) {
    uint64_t available = 0;
    ASSERT_EQ(tegula_memory_available(c.get(), device, &available), TEGULA_OK);
    EXPECT_GT(available, uint64_t(1) << 20);
    EXPECT_LE(available, d.memory_bytes);
  }
  uint64_t available = 0;
  EXPECT_EQ(tegula_memory_available(c.get(), 100, &available), TEGULA_NOT_FOUND);
  EXPECT_EQ(tegula_memory_available(c.get(), 0, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(tegula_memory_available(nullptr, 0, &available), TEGULA_INVALID_ARGUMENT);
  EXPECT_STREQ(tegula_version(), "0.1.0");
}
