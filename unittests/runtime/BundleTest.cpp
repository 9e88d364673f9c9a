// Bundles: what is written is read, what is changed is refused by name, and the best entry for a machine and for
// arguments is found.
#include "runtime/Bundle.h"
#include "runtime/BundleMachine.h"
#include "runtime/BundleMatch.h"
#include "runtime/Ed25519.h"
#include "tegula/bundle.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace tegula::runtime;

namespace {

BundleParam pointer(const char *name, TegulaDtype dtype, uint32_t divisibility) {
  BundleParam p;
  p.kind = BundleParam::Kind::Runtime;
  p.name = name, p.dtype = dtype, p.isPtr = true, p.divisibility = divisibility;
  return p;
}
BundleParam number(const char *name, TegulaDtype dtype, uint32_t divisibility = 1) {
  BundleParam p = pointer(name, dtype, divisibility);
  p.isPtr = false;
  return p;
}
BundleParam integer(const char *name, int64_t v, bool isConstexpr) {
  BundleParam p;
  p.name = name, p.constant = BundleParam::Constant::Int, p.number = v, p.text = std::to_string(v),
  p.isConstexpr = isConstexpr;
  return p;
}

BundleRecord record(BundleParam x, BundleParam n) {
  BundleRecord r;
  r.signature = "x, n";
  r.params = {x, n, integer("BLOCK", 64, true)};
  r.info.name = "k", r.info.symbol = "k";
  uint32_t offset = 0;
  for (const BundleParam &p : r.params)
    if (p.kind == BundleParam::Kind::Runtime)
      r.info.args.push_back({p.name, p.dtype, p.isPtr, true, true, offset}), offset += 8;
  r.info.argBytes = offset;
  return r;
}

NewBundleEntry entry(const char *kernel, const char *target, const char *needs, uint8_t key, std::vector<char> code) {
  NewBundleEntry e;
  e.kernel = kernel, e.target = target, e.needs = needs;
  e.classKey.fill(key);
  e.record = record(pointer("x", TEGULA_FP32, 16), number("n", TEGULA_INT32));
  e.record.signature = target;
  e.record.properties = {{"source", "abc"}};
  e.code = std::move(code);
  return e;
}

std::vector<char> bytesOf(std::vector<NewBundleEntry> entries, const SecretKey *sign = nullptr) {
  std::vector<char> out;
  Status s = encodeBundle(std::move(entries), sign, out);
  EXPECT_TRUE(s) << s.text;
  return out;
}

std::vector<NewBundleEntry> three() {
  return {entry("add", "cpu:x86-64", "x86-64", 1, {1, 2, 3}),
          entry("add", "cpu:avx2", "x86-64-v3", 1, std::vector<char>(100, 7)),
          entry("mul", "sm_90a", "cubin sm_90a", 2, {1, 2, 3})};
}

/// The sentence with which a bundle of these bytes is refused, or one of its entries; "" if all of it is right.
std::string refusal(std::span<const char> bytes, const PublicKey *key = nullptr) {
  Status s;
  auto b = Bundle::of(bytes, "app.tgb", key, s);
  if (b && b->notes().empty()) s = b->checkAll();
  else if (b) return b->notes()[0];
  return s.text;
}

TEST(Bundle, readsWhatWasWritten) {
  std::vector<char> bytes = bytesOf(three());
  EXPECT_EQ(bytes, bytesOf(three()));
  Status s;
  auto b = Bundle::of(bytes, "app.tgb", nullptr, s);
  ASSERT_TRUE(b) << s.text;
  ASSERT_EQ(b->entries().size(), 3u);
  EXPECT_TRUE(b->checkAll());
  Digest key;
  key.fill(1);
  EXPECT_EQ(b->ofClass(key).size(), 2u);
  EXPECT_EQ(b->ofKernel("mul").size(), 1u);
  EXPECT_EQ(b->ofKernel("div").size(), 0u);
  BundleRecord r;
  std::vector<char> code;
  ASSERT_TRUE(b->record(1, r) && b->code(1, code));
  EXPECT_EQ(code, std::vector<char>(100, 7));
  EXPECT_EQ(r.params[0].divisibility, 16u);
  EXPECT_EQ(r.params[2].number, 64);
  EXPECT_EQ(r.properties[0].second, "abc");
  // Equal code is there once.
  EXPECT_EQ(b->entries()[0].codeOffset, b->entries()[2].codeOffset);
}

TEST(Bundle, everyByteCounts) {
  std::vector<char> bytes = bytesOf(three());
  ASSERT_EQ(refusal(bytes), "");
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    std::string why = refusal(bytes);
    EXPECT_NE(why, "") << "byte " << i;
    bool named = why.find("`add`") != why.npos || why.find("`mul`") != why.npos || why.find("entry ") != why.npos;
    if (i >= Bundle::headerBytes) EXPECT_TRUE(named || why.find("index") != why.npos) << i << ": " << why;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
  }
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(refusal({bytes.data(), n}), "") << n;
}

TEST(Bundle, namesTheEntryThatWasChanged) {
  std::vector<char> bytes = bytesOf(three());
  Status s;
  auto b = Bundle::of(bytes, "app.tgb", nullptr, s);
  const BundleEntry e = b->entries()[1];
  bytes[e.codeOffset + 5] ^= 1;
  EXPECT_EQ(refusal(bytes), "app.tgb: `add` for cpu:avx2 is damaged: its code was changed");
  // The others still load.
  b = Bundle::of(bytes, "app.tgb", nullptr, s);
  std::vector<char> code;
  EXPECT_TRUE(b->code(0, code) && b->code(2, code));
  bytes[e.codeOffset + 5] ^= 1;
  bytes[e.recordOffset] ^= 1;
  EXPECT_EQ(refusal(bytes), "app.tgb: `add` for cpu:avx2 is damaged: its record was changed");
  bytes[e.recordOffset] ^= 1;
  // In the index: after the first entry stands the second.
  bytes[Bundle::headerBytes + 8 + 8] ^= 1;
  EXPECT_NE(refusal(bytes).find("entry 1 of its index"), std::string::npos) << refusal(bytes);
}

TEST(Bundle, otherVersionsAreNamed) {
  std::vector<char> bytes = bytesOf(three());
  bytes[8] = 9;
  EXPECT_EQ(refusal(bytes), "app.tgb is a bundle of format 9; this is tegula 0.1, which reads format 1");
  EXPECT_EQ(refusal(std::string_view("no bundle at all")), "app.tgb is no bundle of tegula");
  BundleEntry e;
  e.kernel = "add", e.target = "cpu:avx2", e.version = 77;
  std::string why;
  EXPECT_FALSE(e.isReadable(why));
  EXPECT_NE(why.find("is of another version of tegula (entry 77."), std::string::npos) << why;
}

TEST(Bundle, signatures) {
  PublicKey open, other;
  SecretKey secret, unused;
  if (Status s = makeKeys(open, secret); !s) GTEST_SKIP() << "Skipped: " << s.text;
  ASSERT_TRUE(makeKeys(other, unused));
  std::vector<char> bytes = bytesOf(three(), &secret);
  EXPECT_EQ(refusal(bytes, &open), "");
  EXPECT_EQ(refusal(bytes), "");
  EXPECT_EQ(refusal(bytes, &other), "app.tgb is signed with another key than the one that is given");
  EXPECT_EQ(refusal(bytesOf(three()), &open), "app.tgb is not signed, and a public key is given");
  // Somebody else's entries under this header: the hash of the index is signed.
  std::vector<char> forged = bytesOf({entry("add", "cpu:avx2", "x86-64-v3", 1, {9})});
  std::copy(bytes.begin() + 72, bytes.begin() + 72 + 96, forged.begin() + 72);
  EXPECT_NE(refusal(forged, &open), "");
  PublicKey read;
  EXPECT_TRUE(parseKey(keyText(open), read));
  EXPECT_EQ(read, open);
  EXPECT_FALSE(parseKey("12", read));
}

TEST(Bundle, filesOfOthersAreNotTrusted) {
  std::string path = testing::TempDir() + "bundle-" + std::to_string(getpid()) + ".tgb";
  ASSERT_TRUE(writeBundle(path, bytesOf(three())));
  Status s;
  EXPECT_TRUE(Bundle::open(path, nullptr, false, s)) << s.text;
  std::filesystem::permissions(path, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  EXPECT_FALSE(Bundle::open(path, nullptr, false, s));
  EXPECT_NE(s.text.find("can be written by other users"), std::string::npos) << s.text;
  EXPECT_TRUE(Bundle::open(path, nullptr, true, s));
  std::filesystem::remove(path);
  EXPECT_FALSE(Bundle::open(path, nullptr, true, s));
  EXPECT_EQ(s.code, TEGULA_NOT_FOUND);
  EXPECT_FALSE(Bundle::open(testing::TempDir(), nullptr, true, s));
}

TEST(BundleMachine, ranks) {
  std::string why;
#if defined(__x86_64__)
  EXPECT_EQ(cpuRank("x86-64", -1, why), 0);
  EXPECT_EQ(cpuRank("aarch64", -1, why), -1);
  EXPECT_EQ(cpuRank("x86-64-v3", 0, why), -1);
#endif
  EXPECT_EQ(cpuRank("x86-64 quantum", -1, why), -1);
  EXPECT_EQ(why, "needs quantum, which this version does not know");
  EXPECT_GT(cpuRankOf("x86-64-v4 avx512vnni avx512bf16"), cpuRankOf("x86-64-v4"));
  EXPECT_GT(gpuRank("cubin sm_90a", 90, why), gpuRank("ptx sm_90a", 90, why));
  EXPECT_GT(gpuRank("ptx sm_90a", 90, why), gpuRank("cubin sm_90", 90, why) - 4);
  EXPECT_EQ(gpuRank("cubin sm_80", 90, why), -1);
  EXPECT_EQ(why, "is cubin sm_80, this GPU is sm_90");
  EXPECT_GE(gpuRank("ptx sm_80", 90, why), 0);
  EXPECT_GE(gpuRank("cubin sm_80", 86, why), 0);
  EXPECT_EQ(gpuRank("cubin sm_86", 80, why), -1);
  EXPECT_EQ(gpuRank("ptx sm_90a", 100, why), -1);
  EXPECT_EQ(gpuRank("hsaco gfx90a", 90, why), -1);
}

TEST(BundleMatch, facts) {
  alignas(64) static float memory[64];
  auto args = [](float *x, int64_t n) { return std::vector<TegulaArg>{tegula_ptr(x, TEGULA_FP32, -1), tegula_int(n)}; };
  BundleRecord strict = record(pointer("x", TEGULA_FP32, 16), number("n", TEGULA_INT32, 16)),
               general = record(pointer("x", TEGULA_FP32, 1), number("n", TEGULA_INT32)),
               one = record(pointer("x", TEGULA_FP32, 1), integer("n", 1, false));
  EXPECT_GT(factsOf(strict), factsOf(one));
  EXPECT_GT(factsOf(one), factsOf(general));
  BundleCall call;
  std::string why;
  auto fit = [&](const BundleRecord &r, const std::vector<TegulaArg> &a) {
    return fits(r, a.data(), a.size(), call, &why);
  };
  EXPECT_TRUE(fit(strict, args(memory, 32)));
  EXPECT_EQ(call.count, 2u);
  EXPECT_FALSE(fit(strict, args(memory, 33)));
  EXPECT_EQ(why, "`n` is not divisible by 16");
  EXPECT_FALSE(fit(strict, args(memory + 1, 32)));
  EXPECT_EQ(why, "`x` is not aligned to 16 bytes");
  EXPECT_TRUE(fit(general, args(memory + 1, 33)));
  EXPECT_TRUE(fit(one, args(memory, 1)));
  EXPECT_EQ(call.count, 1u);
  EXPECT_FALSE(fit(one, args(memory, 2)));
  EXPECT_FALSE(fit(general, args(memory, int64_t(1) << 40)));
  EXPECT_EQ(why, "`n` is 1099511627776, which i32 does not hold");
  // Constexpr parameters: any value if none is given, else that one.
  std::vector<TegulaArg> block = args(memory, 2);
  block.push_back(tegula_int(64));
  EXPECT_TRUE(fit(general, block));
  block[2] = tegula_int(128);
  EXPECT_FALSE(fit(general, block));
  EXPECT_EQ(why, "`BLOCK` is not 64");
  EXPECT_TRUE(covers(general, strict));
  EXPECT_TRUE(covers(general, one));
  EXPECT_FALSE(covers(strict, general));
  EXPECT_EQ(differenceOf(strict, general), "x:*fp32:16 for *fp32");
}

TEST(BundleMatch, oneBufferForTwoParameters) {
  alignas(64) static float memory[64], other[64];
  BundleRecord apart = record(pointer("x", TEGULA_FP32, 16), pointer("out", TEGULA_FP32, 16)),
               same = record(pointer("x", TEGULA_FP32, 1), pointer("out", TEGULA_FP32, 1));
  same.params[1].sameAs = 0;
  EXPECT_GT(factsOf(same), factsOf(apart))
      << "it alone is right where a program reads through one what it writes through the other";
  BundleCall call;
  std::string why;
  auto fit = [&](const BundleRecord &r, std::vector<TegulaArg> a) { return fits(r, a.data(), a.size(), call, &why); };
  EXPECT_TRUE(fit(same, {tegula_const_ptr(memory, TEGULA_FP32, -1), tegula_ptr(memory, TEGULA_FP32, -1)}));
  EXPECT_FALSE(fit(same, {tegula_ptr(memory, TEGULA_FP32, -1), tegula_ptr(other, TEGULA_FP32, -1)}));
  EXPECT_EQ(why, "`out` is not the buffer of `x`");
  EXPECT_FALSE(fit(same, {tegula_const_ptr(memory, TEGULA_FP32, -1), tegula_const_ptr(memory, TEGULA_FP32, -1)}))
      << "nobody may write it";
  EXPECT_FALSE(fit(apart, {tegula_ptr(memory, TEGULA_FP32, -1), tegula_ptr(memory, TEGULA_FP32, -1)}));
  EXPECT_EQ(
      why,
      "`x`, which the kernel writes, shares memory with `out`, which the entry was compiled without (one buffer, or `:~1` behind both types in a signature)");
  EXPECT_FALSE(fit(apart, {tegula_ptr(memory, TEGULA_FP32, 256), tegula_ptr(memory + 16, TEGULA_FP32, 64)}));
  EXPECT_TRUE(fit(apart, {tegula_ptr(memory, TEGULA_FP32, 64), tegula_ptr(memory + 16, TEGULA_FP32, 64)}))
      << "neighbours";
  BundleRecord reader = apart;
  for (ArgInfo &a : reader.info.args) a.written = false;
  EXPECT_TRUE(fit(reader, {tegula_ptr(memory, TEGULA_FP32, -1), tegula_ptr(memory, TEGULA_FP32, -1)}))
      << "it writes neither";
  BundleRecord any = record(pointer("x", TEGULA_FP32, 1), pointer("out", TEGULA_FP32, 1));
  any.params[0].overlap = any.params[1].overlap = 1;
  EXPECT_LT(factsOf(any), factsOf(apart)) << "the last to be taken";
  EXPECT_TRUE(fit(any, {tegula_ptr(memory, TEGULA_FP32, -1), tegula_ptr(memory, TEGULA_FP32, -1)}));
  EXPECT_TRUE(fit(any, {tegula_ptr(memory, TEGULA_FP32, 256), tegula_ptr(memory + 16, TEGULA_FP32, 64)}));
  EXPECT_TRUE(covers(any, apart));
  EXPECT_TRUE(covers(any, same));
  EXPECT_FALSE(covers(apart, same));
  EXPECT_FALSE(covers(apart, any));
  reader.params[0].divisibility = reader.params[1].divisibility = 1;
  EXPECT_TRUE(covers(reader, any)) << "it writes neither";
  EXPECT_TRUE(covers(apart, apart));
  EXPECT_FALSE(covers(same, record(pointer("x", TEGULA_FP32, 1), pointer("out", TEGULA_FP32, 1))));

  // What a file says of it is looked at.
  auto reads = [](int32_t of, TegulaDtype type = TEGULA_FP32) {
    NewBundleEntry e = entry("k", "cpu:x86-64", "x86-64", 1, {1});
    e.record = record(pointer("x", TEGULA_FP32, 1), pointer("out", type, 1));
    e.record.params[1].sameAs = of;
    const std::vector<char> bytes = bytesOf({e});
    Status s;
    auto b = Bundle::of(bytes, "app.tgb", nullptr, s);
    BundleRecord out;
    return b->record(0, out).text;
  };
  EXPECT_EQ(reads(0), "");
  EXPECT_NE(reads(1), "");
  EXPECT_NE(reads(7), "");
  EXPECT_NE(reads(-5), "");
  EXPECT_NE(reads(0, TEGULA_INT32), "");
}

} // namespace
