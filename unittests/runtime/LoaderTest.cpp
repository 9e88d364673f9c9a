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

namespace {
/// An object file taken apart, to be damaged at one place.
struct Elf {
  std::vector<char> bytes = testObject("plain");

  Elf64_Ehdr &header() { return *reinterpret_cast<Elf64_Ehdr *>(bytes.data()); }
  Elf64_Shdr &section(size_t i) { return reinterpret_cast<Elf64_Shdr *>(bytes.data() + header().e_shoff)[i]; }
  /// The first section that `is` holds of.
  template <typename F> Elf64_Shdr &find(F is) {
    for (size_t i = 0; i < header().e_shnum; ++i)
      if (is(section(i))) return section(i);
    ADD_FAILURE() << "no such section";
    return section(0);
  }
  Elf64_Shdr &ofType(uint32_t type) {
    return find([&](const Elf64_Shdr &s) { return s.sh_type == type; });
  }
  bool isLoaded(const Elf64_Shdr &s) const {
    return s.sh_type == SHT_PROGBITS && (s.sh_flags & SHF_ALLOC) && s.sh_size;
  }
  Elf64_Shdr &code() {
    return find([&](const Elf64_Shdr &s) { return isLoaded(s) && (s.sh_flags & SHF_EXECINSTR); });
  }
  /// The relocations of a loaded section.
  Elf64_Shdr &relocations() {
    return find([&](const Elf64_Shdr &s) { return s.sh_type == SHT_RELA && isLoaded(section(s.sh_info)); });
  }
  Elf64_Rela &relocation() { return *reinterpret_cast<Elf64_Rela *>(bytes.data() + relocations().sh_offset); }
  Elf64_Sym &symbolOf(const Elf64_Rela &r) {
    return reinterpret_cast<Elf64_Sym *>(bytes.data() + ofType(SHT_SYMTAB).sh_offset)[ELF64_R_SYM(r.r_info)];
  }
};

struct Damage {
  const char *reason;
  void (*change)(Elf &);
};
} // namespace

TEST(Loader, NamesWhatIsDamaged) {
  const char *noElf = "not a 64-bit little-endian relocatable ELF object";
  const Damage damages[] = {
      {noElf, [](Elf &e) { e.bytes.clear(); }},
      {noElf, [](Elf &e) { e.bytes.resize(sizeof(Elf64_Ehdr) - 1); }},
      {noElf, [](Elf &e) { e.bytes[0] = 'x'; }},
      {noElf, [](Elf &e) { e.header().e_type = ET_EXEC; }},
      {"object for an unknown machine", [](Elf &e) { e.header().e_machine = EM_RISCV; }},
      {"bad section table", [](Elf &e) { e.header().e_shentsize = 1; }},
      {"section table outside the object", [](Elf &e) { e.header().e_shoff = ~uint64_t(0) - 8; }},
      {"section table outside the object", [](Elf &e) { e.header().e_shnum = 0xffff; }},
      {"section outside the object", [](Elf &e) { e.code().sh_size = ~uint64_t(0) - e.code().sh_offset; }},
      {"no section names", [](Elf &e) { e.header().e_shstrndx = 0; }},
      {"no symbol names", [](Elf &e) { e.ofType(SHT_SYMTAB).sh_link = 0xffff; }},
      {"section `.text` is of a kind that kernels do not have", [](Elf &e) { e.code().sh_flags |= SHF_TLS; }},
      {"bad alignment or size of a section", [](Elf &e) { e.code().sh_addralign = 3; }},
      {"relocations without addends", [](Elf &e) { e.relocations().sh_type = SHT_REL; }},
      {"relocation of an unknown symbol", [](Elf &e) { e.relocation().r_info |= uint64_t(0xffffff) << 32; }},
      {"relocation type 255 is not supported", [](Elf &e) { e.relocation().r_info |= 0xff; }},
      {"relocation outside its section", [](Elf &e) { e.relocation().r_offset = ~uint64_t(0) - 2; }},
      {"is nowhere in the loaded sections", [](Elf &e) { e.symbolOf(e.relocation()).st_shndx = 0x7fff; }},
  };
  Status status;
  EXPECT_TRUE(LoadedObject::load(Elf().bytes, status)) << status.text;
  for (const Damage &d : damages) {
    Elf e;
    d.change(e);
    EXPECT_FALSE(LoadedObject::load(e.bytes, status)) << d.reason;
    EXPECT_EQ(status.code, TEGULA_INTERNAL_ERROR) << d.reason;
    EXPECT_NE(status.text.find("cannot load compiled code: "), std::string::npos) << status.text;
    EXPECT_NE(status.text.find(d.reason), std::string::npos) << d.reason << "; " << status.text;
  }
}

/// Random damage: an error that says why, or code whose entry point lies where it was loaded.
TEST(Loader, DamagedObjectsAreRefusedOrWhole) {
  std::vector<char> object = testObject("plain");
  std::mt19937 random(7);
  for (size_t n : {size_t(0), size_t(10), size_t(64), object.size() / 2, object.size() - 1}) {
    Status status;
    EXPECT_FALSE(LoadedObject::load(std::span(object.data(), n), status)) << n;
    EXPECT_EQ(status.code, TEGULA_INTERNAL_ERROR) << n;
  }
  unsigned refused = 0, loaded = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> bad = object;
    for (int k = random() % 4; k >= 0; --k) {
      // Half of the damage goes to the headers, where it matters most.
      size_t at = random() % 2 ? random() % bad.size() : bad.size() - 1 - random() % std::min<size_t>(bad.size(), 2048);
      bad[i % 3 == 0 ? random() % 64 : at] = static_cast<char>(random());
    }
    Status status;
    if (auto o = LoadedObject::load(bad, status)) {
      ++loaded;
      EXPECT_EQ(status.code, TEGULA_OK);
      if (void *entry = o->symbol("sections")) {
        // What a symbol names can be read: it is in the mapping.
        volatile char first = *static_cast<char *>(entry);
        (void)first;
      }
    } else {
      ++refused;
      EXPECT_EQ(status.code, TEGULA_INTERNAL_ERROR);
      EXPECT_GT(status.text.size(), std::strlen("cannot load compiled code: ")) << i;
    }
  }
  // Damage to code and constants cannot be seen; damage to the tables must be.
  EXPECT_GT(refused, 300u);
  EXPECT_GT(loaded, 300u);
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
