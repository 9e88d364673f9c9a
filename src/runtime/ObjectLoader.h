// Loads a relocatable ELF object (x86-64 or AArch64, position independent code, small code model) into memory.
//
// One mapping holds, in this order, each on its own pages: code and jump stubs (read, execute), read-only data and the
// table of addresses (read), data (read, write). No page is ever writable and executable at once. External symbols may
// only be those of abi/CpuSymbols.def and abi/SimSymbols.def. Unwind tables, notes and comments are skipped. Every
// number in the object is checked against its size, so a damaged object is an error and never a wild access.
#pragma once
#include "runtime/Status.h"
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tegula::runtime {

class LoadedObject {
public:
  /// `allowForeign`: place and relocate objects of the other machine too (tests); their code is not made executable.
  static std::unique_ptr<LoadedObject> load(std::span<const char> object, Status &status, bool allowForeign = false);
  ~LoadedObject();
  LoadedObject(const LoadedObject &) = delete;

  /// Address of a defined global or local symbol; null if there is none.
  void *symbol(std::string_view name) const;
  /// Bytes of machine code, stubs included.
  size_t codeBytes() const { return codeBytes_; }

private:
  LoadedObject() = default;
  friend struct ObjectBuilder;
  char *base_ = nullptr;
  size_t size_ = 0, codeBytes_ = 0;
  std::vector<std::pair<std::string, void *>> symbols_;
  /// The object as gdb sees it, with section addresses filled in; empty if it has no debug sections.
  std::vector<char> debugImage_;
  void *debugEntry_ = nullptr;
};

} // namespace tegula::runtime
