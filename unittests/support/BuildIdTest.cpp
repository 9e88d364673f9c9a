#include "support/BuildId.h"
#include <cstring>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

namespace tegula {
namespace {

std::string note(const char *name, uint32_t type, const std::string &content) {
  const Elf64_Nhdr head{static_cast<Elf64_Word>(std::strlen(name) + 1), static_cast<Elf64_Word>(content.size()), type};
  std::string out(reinterpret_cast<const char *>(&head), sizeof head);
  for (std::string part : {std::string(name, head.n_namesz), content})
    out += part, out.resize((out.size() + 3) / 4 * 4);
  return out;
}

TEST(BuildId, AmongOtherNotes) {
  const std::string id = "\x01\x02 an id!",
                    other = note("GNU", NT_GNU_ABI_TAG, "abc") + note("stapsdt", NT_GNU_BUILD_ID, "no");
  EXPECT_EQ(buildIdIn(other + note("GNU", NT_GNU_BUILD_ID, id) + other), id);
  EXPECT_EQ(buildIdIn(other), "");
  EXPECT_EQ(buildIdIn({}), "");
}

TEST(BuildId, NotesThatEndEarly) {
  const std::string whole = note("a longer name", 7, "content") + note("GNU", NT_GNU_BUILD_ID, "12345678");
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_EQ(buildIdIn(std::string(whole, 0, n)), "") << n;
  std::string huge = note("GNU", NT_GNU_BUILD_ID, "12345678");
  for (size_t at : {size_t(0), size_t(4)}) { // lengths beyond the end
    std::string wrong = huge;
    std::memset(wrong.data() + at, 0xff, 4);
    EXPECT_EQ(buildIdIn(wrong), "") << at;
  }
}

int ofThisProgram(dl_phdr_info *info, size_t, void *id) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (const ElfW(Phdr) &p = info->dlpi_phdr[i]; p.p_type == PT_NOTE && static_cast<std::string *>(id)->empty())
      *static_cast<std::string *>(id) =
          buildIdIn({reinterpret_cast<const char *>(info->dlpi_addr + p.p_vaddr), p.p_memsz});
  return 1; // the first one is the program
}

TEST(BuildId, Files) {
  std::string loaded;
  dl_iterate_phdr(ofThisProgram, &loaded);
  EXPECT_EQ(buildIdOf("/proc/self/exe"), loaded);
  EXPECT_EQ(buildIdOf("/nonexistent"), "");
  EXPECT_EQ(buildIdOf("/proc/self/status"), "");
  EXPECT_EQ(buildIdOf("/"), "");
}

} // namespace
} // namespace tegula
