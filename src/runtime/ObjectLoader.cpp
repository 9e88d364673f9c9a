// Steps: read and check the tables, lay out the sections, assign an address to every symbol, relocate, protect,
// register with the debugger.
#include "runtime/ObjectLoader.h"
#include "runtime/Externals.h"
#include "runtime/GdbJit.h"
#include "runtime/Relocate.h"
#include <algorithm>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>

namespace tegula::runtime {

#if defined(__x86_64__)
static constexpr uint16_t hostMachine = EM_X86_64;
#elif defined(__aarch64__)
static constexpr uint16_t hostMachine = EM_AARCH64;
#else
static constexpr uint16_t hostMachine = EM_NONE;
#endif

static constexpr uint64_t page = 4096, stubBytes = 16, sizeLimit = uint64_t(1) << 30;
static uint64_t roundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

enum Region { Exec, Const, Data, regionCount };

/// State of one load. Methods return false after setting `why`.
struct ObjectBuilder {
  std::span<const char> in;
  LoadedObject &out;
  bool allowForeign;
  std::string why;

  uint16_t machine = 0;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::string_view strings, sectionNames;
  struct Place {
    bool loaded = false;
    Region region = Exec;
    uint64_t offset = 0; // in the region
  };
  std::vector<Place> places;
  struct Use {
    bool got = false, stub = false;
    uint64_t gotOffset = 0, stubOffset = 0; // in Const and Exec
    void *external = nullptr;
  };
  std::vector<Use> uses; // parallel to symbols
  uint64_t regionBytes[regionCount] = {}, regionStart[regionCount] = {};

  bool fail(std::string text) {
    why = std::move(text);
    return false;
  }
  template <typename T> bool read(uint64_t offset, T &v) const {
    if (offset > in.size() || in.size() - offset < sizeof v) return false;
    std::memcpy(&v, in.data() + offset, sizeof v);
    return true;
  }
  bool inside(uint64_t offset, uint64_t n) const { return offset <= in.size() && in.size() - offset >= n; }
  static std::string_view text(std::string_view table, uint64_t at) {
    if (at >= table.size()) return {};
    std::string_view s = table.substr(at);
    return s.substr(0, s.find('\0'));
  }
  char *address(Region r, uint64_t offset) const { return out.base_ + regionStart[r] + offset; }

  bool readTables();
  bool readSymbols();
  bool layOut();
  bool markUses();
  bool place();
  bool symbolAddress(uint32_t index, const RelocInfo &need, uint64_t &value);
  bool relocate();
  bool relocateSection(const Elf64_Shdr &rela);
  bool protect();
  void publish();
  void debug();
  template <typename F> bool forEachReloc(F &&f);
};

bool ObjectBuilder::readTables() {
  Elf64_Ehdr h;
  if (!read(0, h) || std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL)
    return fail("not a 64-bit little-endian relocatable ELF object");
  machine = h.e_machine;
  if (machine != EM_X86_64 && machine != EM_AARCH64) return fail("object for an unknown machine");
  if (machine != hostMachine && !allowForeign) return fail("object for another kind of processor than this one");
  if (h.e_shentsize != sizeof(Elf64_Shdr)) return fail("bad section table");
  sections.resize(h.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    Elf64_Shdr &s = sections[i];
    if (!read(h.e_shoff + i * sizeof s, s)) return fail("section table outside the object");
    if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && !inside(s.sh_offset, s.sh_size))
      return fail("section outside the object");
  }
  if (h.e_shstrndx >= sections.size() || sections[h.e_shstrndx].sh_type != SHT_STRTAB) return fail("no section names");
  const Elf64_Shdr &n = sections[h.e_shstrndx];
  sectionNames = std::string_view(in.data() + n.sh_offset, n.sh_size);
  return readSymbols();
}

bool ObjectBuilder::readSymbols() {
  for (const Elf64_Shdr &s : sections) {
    if (s.sh_type != SHT_SYMTAB) continue;
    if (s.sh_link >= sections.size() || sections[s.sh_link].sh_type != SHT_STRTAB) return fail("no symbol names");
    const Elf64_Shdr &n = sections[s.sh_link];
    strings = std::string_view(in.data() + n.sh_offset, n.sh_size);
    symbols.resize(s.sh_size / sizeof(Elf64_Sym));
    if (!symbols.empty()) std::memcpy(symbols.data(), in.data() + s.sh_offset, symbols.size() * sizeof(Elf64_Sym));
    break;
  }
  uses.resize(symbols.size());
  return true;
}

bool ObjectBuilder::layOut() {
  places.resize(sections.size());
  for (size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr &s = sections[i];
    std::string_view name = text(sectionNames, s.sh_name);
    if (!(s.sh_flags & SHF_ALLOC) || name.starts_with(".eh_frame") || s.sh_type == SHT_NOTE) continue;
    if (s.sh_type == SHT_INIT_ARRAY || s.sh_type == SHT_FINI_ARRAY || (s.sh_flags & SHF_TLS))
      return fail("section `" + std::string(name) + "` is of a kind that kernels do not have");
    if (s.sh_type != SHT_PROGBITS && s.sh_type != SHT_NOBITS) continue;
    uint64_t align = std::max<uint64_t>(s.sh_addralign, 1);
    if (align > page || (align & (align - 1)) || s.sh_size > sizeLimit)
      return fail("bad alignment or size of a section");
    Region r = s.sh_flags & SHF_EXECINSTR ? Exec : s.sh_flags & SHF_WRITE ? Data : Const;
    places[i] = {true, r, roundUp(regionBytes[r], align)};
    regionBytes[r] = places[i].offset + s.sh_size;
    if (regionBytes[r] > sizeLimit) return fail("object too large");
  }
  return true;
}

/// Calls f(relocation, section header it applies to, its place) for every relocation of a loaded section, until one
/// returns false.
template <typename F> bool ObjectBuilder::forEachReloc(F &&f) {
  for (const Elf64_Shdr &s : sections) {
    if (s.sh_type == SHT_REL && s.sh_info < sections.size() && places[s.sh_info].loaded)
      return fail("relocations without addends");
    if (s.sh_type != SHT_RELA || s.sh_info >= sections.size() || !places[s.sh_info].loaded) continue;
    if (sections[s.sh_info].sh_type == SHT_NOBITS) return fail("relocations of an empty section");
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.sh_size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela r;
      std::memcpy(&r, in.data() + s.sh_offset + at, sizeof r);
      if (ELF64_R_SYM(r.r_info) >= symbols.size()) return fail("relocation of an unknown symbol");
      if (!f(r, sections[s.sh_info], places[s.sh_info])) return false;
    }
  }
  return true;
}

bool ObjectBuilder::markUses() {
  bool ok = forEachReloc([&](const Elf64_Rela &r, const Elf64_Shdr &, const Place &) {
    RelocInfo info;
    if (!relocInfo(machine, ELF64_R_TYPE(r.r_info), info))
      return fail("relocation type " + std::to_string(ELF64_R_TYPE(r.r_info)) + " is not supported");
    uint32_t index = ELF64_R_SYM(r.r_info);
    const Elf64_Sym &sym = symbols[index];
    Use &u = uses[index];
    if (sym.st_shndx == SHN_UNDEF && !u.external) {
      std::string_view name = text(strings, sym.st_name);
      for (const TegulaExternal *table : {tegulaCpuExternals, tegulaSimExternals})
        for (const TegulaExternal *e = table; e->name; ++e)
          if (name == e->name) u.external = e->address;
      if (!u.external) return fail("the object needs `" + std::string(name) + "`, which kernels may not use");
      u.stub = true;
    }
    u.got |= info.needs == RelocNeeds::GotEntry;
    return true;
  });
  if (!ok) return false;
  regionBytes[Exec] = roundUp(regionBytes[Exec], stubBytes);
  regionBytes[Const] = roundUp(regionBytes[Const], 8);
  for (Use &u : uses) {
    if (u.stub) u.stubOffset = regionBytes[Exec], regionBytes[Exec] += stubBytes;
    if (u.got) u.gotOffset = regionBytes[Const], regionBytes[Const] += 8;
  }
  return true;
}

bool ObjectBuilder::place() {
  uint64_t total = 0;
  for (int r = 0; r < regionCount; ++r) {
    regionStart[r] = total;
    total += roundUp(regionBytes[r], page);
  }
  if (total == 0) return fail("the object holds no code");
  void *p = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return fail("no memory for code");
  out.base_ = static_cast<char *>(p);
  out.size_ = total;
  out.codeBytes_ = regionBytes[Exec];
  for (size_t i = 0; i < sections.size(); ++i)
    if (places[i].loaded && sections[i].sh_type == SHT_PROGBITS && sections[i].sh_size)
      std::memcpy(address(places[i].region, places[i].offset), in.data() + sections[i].sh_offset, sections[i].sh_size);
  for (Use &u : uses) {
    if (!u.stub) continue;
    char *stub = address(Exec, u.stubOffset);
    // jmp *[rip]; .quad target   |   ldr x16, .+8; br x16; .quad target
    static constexpr unsigned char x86[8] = {0xff, 0x25, 2, 0, 0, 0, 0x90, 0x90};
    static constexpr uint32_t arm[2] = {0x58000050, 0xd61f0200};
    std::memcpy(stub, machine == EM_X86_64 ? static_cast<const void *>(x86) : arm, 8);
    std::memcpy(stub + 8, &u.external, 8);
  }
  return true;
}

/// The address of a relocation's symbol: the real one, or the stub if a 32-bit field might not reach it.
bool ObjectBuilder::symbolAddress(uint32_t index, const RelocInfo &need, uint64_t &value) {
  const Elf64_Sym &sym = symbols[index];
  const Use &u = uses[index];
  bool far = need.bytes == 8 || need.needs == RelocNeeds::GotEntry;
  if (sym.st_shndx == SHN_UNDEF) {
    value = reinterpret_cast<uint64_t>(far ? u.external : address(Exec, u.stubOffset));
    return true;
  }
  if (sym.st_shndx == SHN_ABS) {
    value = sym.st_value;
    return true;
  }
  if (sym.st_shndx >= sections.size() || !places[sym.st_shndx].loaded || sym.st_value > sections[sym.st_shndx].sh_size)
    return fail("symbol `" + std::string(text(strings, sym.st_name)) + "` is nowhere in the loaded sections");
  const Place &p = places[sym.st_shndx];
  value = reinterpret_cast<uint64_t>(address(p.region, p.offset + sym.st_value));
  return true;
}

bool ObjectBuilder::relocate() {
  return forEachReloc([&](const Elf64_Rela &r, const Elf64_Shdr &section, const Place &p) {
    RelocInfo info{};
    uint32_t index = ELF64_R_SYM(r.r_info), type = ELF64_R_TYPE(r.r_info);
    relocInfo(machine, type, info);
    if (r.r_offset > section.sh_size || section.sh_size - r.r_offset < info.bytes)
      return fail("relocation outside its section");
    uint64_t value;
    if (!symbolAddress(index, info, value)) return false;
    if (info.needs == RelocNeeds::GotEntry) {
      char *slot = address(Const, uses[index].gotOffset);
      std::memcpy(slot, &value, 8);
      value = reinterpret_cast<uint64_t>(slot);
    }
    char *where = address(p.region, p.offset + r.r_offset);
    if (!applyReloc(machine, type, where, reinterpret_cast<uint64_t>(where), value + r.r_addend))
      return fail("a relocation does not reach its symbol");
    return true;
  });
}

bool ObjectBuilder::protect() {
  static constexpr int access[regionCount] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
  for (int r = 0; r < regionCount; ++r) {
    int wanted = machine == hostMachine ? access[r] : access[r] & ~PROT_EXEC;
    uint64_t n = roundUp(regionBytes[r], page);
    if (n && mprotect(out.base_ + regionStart[r], n, wanted) != 0)
      return fail("the system refuses to make code executable");
  }
#if defined(__aarch64__)
  __builtin___clear_cache(out.base_, out.base_ + regionBytes[Exec]);
#endif
  return true;
}

void ObjectBuilder::publish() {
  for (const Elf64_Sym &sym : symbols) {
    int type = ELF64_ST_TYPE(sym.st_info);
    if (sym.st_shndx == SHN_UNDEF || sym.st_shndx >= sections.size() || !places[sym.st_shndx].loaded) continue;
    if (type == STT_SECTION || type == STT_FILE || sym.st_value >= sections[sym.st_shndx].sh_size) continue;
    const Place &p = places[sym.st_shndx];
    out.symbols_.emplace_back(text(strings, sym.st_name), address(p.region, p.offset + sym.st_value));
  }
}

/// gdb takes the relocatable object itself, with the address of each loaded section written into its header.
void ObjectBuilder::debug() {
  bool any = false;
  for (const Elf64_Shdr &s : sections) any |= text(sectionNames, s.sh_name) == ".debug_info";
  if (!any || machine != hostMachine) return;
  out.debugImage_.assign(in.begin(), in.end());
  Elf64_Ehdr h;
  read(0, h);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!places[i].loaded) continue;
    Elf64_Shdr s = sections[i];
    s.sh_addr = reinterpret_cast<uint64_t>(address(places[i].region, places[i].offset));
    std::memcpy(out.debugImage_.data() + h.e_shoff + i * sizeof s, &s, sizeof s);
  }
  out.debugEntry_ = gdbRegister(out.debugImage_.data(), out.debugImage_.size());
}

std::unique_ptr<LoadedObject> LoadedObject::load(std::span<const char> object, Status &status, bool allowForeign) {
  std::unique_ptr<LoadedObject> result(new LoadedObject);
  ObjectBuilder b{object, *result, allowForeign, {}};
  if (!b.readTables() || !b.layOut() || !b.markUses() || !b.place() || !b.relocate() || !b.protect()) {
    status = Status::error(TEGULA_INTERNAL_ERROR, "cannot load compiled code: " + b.why);
    return nullptr;
  }
  b.publish();
  b.debug();
  return result;
}

LoadedObject::~LoadedObject() {
  gdbUnregister(debugEntry_);
  if (base_) munmap(base_, size_);
}

void *LoadedObject::symbol(std::string_view name) const {
  for (const auto &[n, address] : symbols_)
    if (n == name) return address;
  return nullptr;
}

} // namespace tegula::runtime
