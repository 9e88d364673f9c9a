// Modules of tests from their text.
#pragma once
#include "ir/Text.h"
#include <gtest/gtest.h>

namespace tegula::test {

/// The module of a text that has no errors; else a failure of the test, and null.
inline std::unique_ptr<ir::Module> parsed(std::string text) {
  DiagEngine diag;
  auto file = std::make_shared<const SourceFile>("test.ir", std::move(text));
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  EXPECT_TRUE(m) << renderAll(diag) << file->text();
  return m;
}

/// How often the block and the regions in it have operations of this kind.
inline unsigned count(const ir::Block &b, ir::OpKind kind) {
  unsigned n = 0;
  for (const ir::Op *op : b.ops) {
    n += op->kind == kind;
    for (const ir::Region *r : op->regions)
      n += count(*r->block, kind);
  }
  return n;
}

} // namespace tegula::test
