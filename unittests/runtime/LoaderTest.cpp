// Object files: loaded ones run, damaged ones are refused.
#include "TestObjects.h"
#include "runtime/Relocate.h"
#include <algorithm>
#include <cstring>
#include <elf.h>
#include <random>

using namespace tegula::runtime;

static void runSections(const std::string &variant) {
  auto k = testKernel("sections", {}, variant);
  ASSERT_TRUE(k);
  double out[7] = {};
  double *args = out;
  for (int round = 1; round <= 2; ++round) {
    TegulaCpuLaunch launch{};
    EXPECT_EQ(k->entry()(&args, &launch, 0, 1, nullptr), 0);
    double expected[7] = {11, 40.0 + 2 * round, double(round), 342, 6.5, 7, 19};
    for (int i = 0; i < 7; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  }
}

TEST(Loader, SectionsSymbolsAndExternals) { runSections("plain"); }
TEST(Loader, ObjectsWithDebugInfo) { runSections("debug"); }

TEST(Loader, EachLoadHasItsOwnData) {
  runSections("plain");
  runSections("plain");
}

namespace {
struct JitEntry {
  JitEntry *next, *prev;
  const char *image;
  uint64_t size;
};
} // namespace
extern "C" {
extern struct {
  uint32_t version, action;
  JitEntry *relevant, *first;
} __jit_debug_descriptor;
}

TEST(Loader, AnnouncesDebugInfoToDebuggers) {
  JitEntry *before = __jit_debug_descriptor.first;
  {
    auto plain = testKernel("add");
    EXPECT_EQ(__jit_debug_descriptor.first, before);
    auto k = testKernel("add", {}, "debug");
    JitEntry *e = __jit_debug_descriptor.first;
    ASSERT_NE(e, before);
    EXPECT_EQ(__jit_debug_descriptor.action, 1u);
    EXPECT_EQ(e->next, before);
    // Some section of the announced image lies where the entry point is.
    Elf64_Ehdr h;
    std::memcpy(&h, e->image, sizeof h);
    bool covers = false;
    for (int i = 0; i < h.e_shnum; ++i) {
      Elf64_Shdr s;
      std::memcpy(&s, e->image + h.e_shoff + i * sizeof s, sizeof s);
      auto entry = reinterpret_cast<uint64_t>(k->entry());
      covers |= (s.sh_flags & SHF_EXECINSTR) && entry >= s.sh_addr && entry < s.sh_addr + s.sh_size;
    }
    EXPECT_TRUE(covers);
  }
  EXPECT_EQ(__jit_debug_descriptor.first, before);
  EXPECT_EQ(__jit_debug_descriptor.action, 2u);
}

TEST(Loader, MissingEntryPoint) {
  Status status;
  KernelInfo info;
  info.symbol = "nothing";
  EXPECT_FALSE(CpuKernel::load(info, testObject("plain"), status));
  EXPECT_EQ(status.code, TEGULA_INTERNAL_ERROR);
}

TEST(Loader, OtherMachineIsRefusedButCanBePlaced) {
  std::vector<char> object = testObject("arm");
  ASSERT_FALSE(object.empty());
  Status status;
#if defined(__x86_64__)
  EXPECT_FALSE(LoadedObject::load(object, status));
#endif
  auto o = LoadedObject::load(object, status, true);
  ASSERT_TRUE(o) << status.text;
  auto *code = static_cast<const unsigned char *>(o->symbol("sections"));
  ASSERT_NE(code, nullptr);
  // Every adrp/ldr pair was patched: no call is left with a zero offset to itself.
  uint32_t insn;
  std::memcpy(&insn, code, 4);
  EXPECT_NE(insn, 0u);
}

TEST(Loader, UnknownSymbolIsNamed) {
  std::vector<char> object = testObject("plain");
  // Rename fmaf in the string table.
  static constexpr char name[] = "fmaf";
  auto at = std::search(object.begin(), object.end(), name, name + 5);
  ASSERT_NE(at, object.end());
  at[1] = 'x';
  Status status;
  EXPECT_FALSE(LoadedObject::load(object, status));
  EXPECT_NE(status.text.find("`fxaf`"), std::string::npos) << status.text;
}

TEST(Loader, DamagedObjectsNeverCrash) {
  std::vector<char> object = testObject("plain");
  std::mt19937 random(7);
  Status status;
  for (size_t n : {size_t(0), size_t(10), size_t(64), object.size() / 2, object.size() - 1})
    (void)LoadedObject::load(std::span(object.data(), n), status);
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> bad = object;
    for (int k = random() % 4; k >= 0; --k) {
      // Half of the damage goes to the headers, where it matters most.
      size_t at = random() % 2 ? random() % bad.size() : bad.size() - 1 - random() % std::min<size_t>(bad.size(), 2048);
      bad[i % 3 == 0 ? random() % 64 : at] = static_cast<char>(random());
    }
    (void)LoadedObject::load(bad, status);
  }
}

namespace {
struct RelocCase {
  uint16_t machine;
  uint32_t type;
  uint64_t place, value;
  uint64_t before, after; // the field's bytes, little-endian
  bool fits;
};
} // namespace

TEST(Loader, RelocationFormulas) {
  const RelocCase cases[] = {
      {EM_X86_64, R_X86_64_64, 0x1000, 0x123456789abcull, 0, 0x123456789abcull, true},
      {EM_X86_64, R_X86_64_PC32, 0x2000, 0x1000 - 4, 0, 0xffffeffcull, true},
      {EM_X86_64, R_X86_64_PLT32, 0x1000, 0x180001000ull, 0, 0, false},
      {EM_AARCH64, R_AARCH64_ABS64, 0, 42, 0, 42, true},
      {EM_AARCH64, R_AARCH64_PREL32, 0x1000, 0x0ff0, 0, 0xfffffff0ull, true},
      {EM_AARCH64, R_AARCH64_CALL26, 0x1000, 0x2000, 0x94000000, 0x94000400, true},
      {EM_AARCH64, R_AARCH64_CALL26, 0x2000, 0x1000, 0x94000000, 0x97fffc00, true},
      {EM_AARCH64, R_AARCH64_JUMP26, 0x1000, 0x20001000, 0x14000000, 0x14000000, false},
      {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x1000, 0x5678, 0x90000000, 0x90000020, true},
      {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x5678, 0x1000, 0x90000000, 0x90ffffe0, true},
      {EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, 0, 0x5678, 0x91000000, 0x9119e000, true},
      {EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, 0, 0x5678, 0xb9400000, 0xb9467800, true},
      {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, 0, 0x5674, 0xf9400000, 0xf9400000, false},
      {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0, 0x5670, 0x3dc00000, 0x3dc00000 | 0x67 << 10, true},
  };
  for (const RelocCase &c : cases) {
    RelocInfo info{};
    ASSERT_TRUE(relocInfo(c.machine, c.type, info));
    char field[8];
    std::memcpy(field, &c.before, 8);
    bool fits = applyReloc(c.machine, c.type, field, c.place, c.value);
    uint64_t after = 0;
    std::memcpy(&after, field, info.bytes);
    EXPECT_EQ(fits, c.fits) << c.type;
    if (c.fits) EXPECT_EQ(after, c.after) << c.type;
  }
}
