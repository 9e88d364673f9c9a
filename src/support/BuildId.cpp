#include "support/BuildId.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

namespace tegula {

std::string buildIdIn(std::span<const char> notes) {
  auto padded = [](uint32_t bytes) { return (size_t(bytes) + 3) & ~size_t(3); };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof note);
    notes = notes.subspan(sizeof note);
    if (padded(note.n_namesz) > notes.size() || note.n_descsz > notes.size() - padded(note.n_namesz)) break;
    const char *name = notes.data(), *content = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0)
      return {content, note.n_descsz};
    notes = notes.subspan(std::min(padded(note.n_namesz) + padded(note.n_descsz), notes.size()));
  }
  return {};
}

std::string buildIdOf(const std::string &path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char pages[8192]; // linkers put the notes right after the program headers
  size_t size = 0;
  for (ssize_t n; size < sizeof pages && (n = read(fd, pages + size, sizeof pages - size)) > 0;)
    size += static_cast<size_t>(n);
  close(fd);
  Elf64_Ehdr file;
  if (size < sizeof file) return {};
  std::memcpy(&file, pages, sizeof file);
  constexpr char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
      file.e_ident[EI_DATA] != order || file.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  for (size_t i = 0; i < file.e_phnum; ++i) {
    const size_t at = file.e_phoff + i * sizeof(Elf64_Phdr);
    if (file.e_phoff > size || at + sizeof(Elf64_Phdr) > size) break;
    Elf64_Phdr segment;
    std::memcpy(&segment, pages + at, sizeof segment);
    if (segment.p_type != PT_NOTE || segment.p_offset > size || segment.p_filesz > size - segment.p_offset) continue;
    if (std::string id = buildIdIn({pages + segment.p_offset, segment.p_filesz}); !id.empty()) return id;
  }
  return {};
}

} // namespace tegula
