// Names that KernelMutator puts into kernels.
#pragma once
#include "lang/Builtin.h"
#include <string>
#include <vector>

namespace tegula::fuzz {

/// Functions that the language implements in C++, by the last part of their names.
inline const std::vector<std::string> &languageNames() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> out;
    for (const lang::Builtin *b : lang::allBuiltins()) {
      std::string_view name = b->name;
      out.emplace_back(name.substr(name.rfind('.') + 1));
    }
    return out;
  }();
  return list;
}

} // namespace tegula::fuzz
