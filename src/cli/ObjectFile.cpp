#include "cli/ObjectFile.h"
#include <algorithm>
#include <elf.h>
#include <iterator>

namespace tegula::cli {

uint16_t elfMachine(std::string_view name) {
  return name == "x86-64" ? EM_X86_64 : name == "aarch64" ? EM_AARCH64 : EM_NONE;
}

std::string_view thisMachine() {
#ifdef __aarch64__
  return "aarch64";
#else
  return "x86-64";
#endif
}

namespace {

template <typename T> void append(std::string &out, const T &record) {
  out.append(reinterpret_cast<const char *>(&record), sizeof record);
}

/// Pads to a multiple of 16; returns the offset of the next data.
uint64_t aligned(std::string &out) {
  out.resize((out.size() + 15) / 16 * 16);
  return out.size();
}

/// A table of names: symbols and sections refer to the offset of a name.
struct Names {
  std::string text = std::string(1, '\0');
  uint32_t add(const std::string &name) {
    const auto at = static_cast<uint32_t>(text.size());
    text += name, text += '\0';
    return at;
  }
};

} // namespace

std::string objectFile(std::string_view bytes, const std::string &symbol, uint16_t machine) {
  const uint64_t length = bytes.size(), sizeAt = (length + 15) / 16 * 16;
  std::string data(bytes);
  data.resize(sizeAt);
  append(data, length);

  enum Section : uint16_t { Null, ReadOnly, Stack, Symbols, SymbolNames, SectionNames, Count };
  Names names;
  std::string symbols(sizeof(Elf64_Sym), '\0');
  auto object = [&](const std::string &name, uint64_t at, uint64_t size) {
    Elf64_Sym s{};
    s.st_name = names.add(name), s.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), s.st_shndx = ReadOnly,
    s.st_value = at, s.st_size = size;
    append(symbols, s);
  };
  object(symbol, 0, length);
  object(symbol + "_size", sizeAt, sizeof length);

  Elf64_Shdr sections[Count] = {};
  const std::string *contents[Count] = {};
  const std::string empty;
  Names sectionNames;
  auto section = [&](Section s, const char *name, uint32_t type, uint64_t flags, const std::string &content,
                     uint64_t alignment) {
    sections[s].sh_name = sectionNames.add(name), sections[s].sh_type = type, sections[s].sh_flags = flags,
    sections[s].sh_addralign = alignment;
    contents[s] = &content;
  };
  section(ReadOnly, ".rodata", SHT_PROGBITS, SHF_ALLOC, data, 16);
  // without it linkers would make the program's stack executable
  section(Stack, ".note.GNU-stack", SHT_PROGBITS, 0, empty, 1);
  section(Symbols, ".symtab", SHT_SYMTAB, 0, symbols, 8);
  // sh_info: the first symbol that is not local
  sections[Symbols].sh_link = SymbolNames, sections[Symbols].sh_info = 1,
  sections[Symbols].sh_entsize = sizeof(Elf64_Sym);
  section(SymbolNames, ".strtab", SHT_STRTAB, 0, names.text, 1);
  section(SectionNames, ".shstrtab", SHT_STRTAB, 0, sectionNames.text, 1);

  std::string out(sizeof(Elf64_Ehdr), '\0');
  for (size_t s = ReadOnly; s != Count; ++s) {
    sections[s].sh_offset = aligned(out), sections[s].sh_size = contents[s]->size();
    out += *contents[s];
  }
  Elf64_Ehdr header{};
  const unsigned char ident[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
                                 ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE};
  std::copy(std::begin(ident), std::end(ident), header.e_ident);
  header.e_type = ET_REL, header.e_machine = machine, header.e_version = EV_CURRENT, header.e_ehsize = sizeof header;
  header.e_shoff = aligned(out), header.e_shentsize = sizeof(Elf64_Shdr), header.e_shnum = Count,
  header.e_shstrndx = SectionNames;
  for (const Elf64_Shdr &s : sections) append(out, s);
  out.replace(0, sizeof header, reinterpret_cast<const char *>(&header), sizeof header);
  return out;
}

} // namespace tegula::cli
