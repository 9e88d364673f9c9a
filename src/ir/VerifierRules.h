// The verifier's rules as one class, only for its two sources: Verifier.cpp has the walk and the rules that all
// operations share, VerifyFamilies.cpp has a function for each family. Users call verify() (Verifier.h).
#pragma once
#include "ir/Verifier.h"
#include "layout/LinearLayout.h"
#include <string>
#include <string_view>
#include <unordered_set>

namespace tegula::ir {

/// Verifies one module, once. A violated rule records its reason by bad(), which keeps the first one, and returns
/// false.
class Verifier {
public:
  Verifier(const Module &m, Level level) : module_(m), level_(level) {}
  bool run(std::string *why, Loc *where);

private:
  bool bad(const Op *op, std::string text);
  bool function(const Function &f);
  bool block(const Block &b, const Op *owner);
  bool op(const Op &op, const Block &b);
  bool layouts();
  bool layoutFits(const Type &t) const;
  bool vectors(const Op &op, const Type &t);
  bool isBeyondLevel(const Type &t) const { return level_ == Level::Tile && t.isShared; }
  bool places(const Op &op);
  bool counts(const Op &op);
  bool attributes(const Op &op);
  bool elementwise(const Op &op);
  bool constant(const Op &op);
  bool axis(const Op &op, unsigned rank);
  bool shape(const Op &op);
  bool permute(const Op &op);
  bool joins(const Op &op);
  bool gather(const Op &op);
  bool histogram(const Op &op);
  bool memory(const Op &op);
  bool tiles(const Op &op);
  bool atomics(const Op &op);
  bool descriptor(const Op &op);
  bool dot(const Op &op);
  bool combine(const Op &op);
  bool loop(const Op &op);
  bool condition(const Op &op);
  bool partitions(const Op &op);
  bool call(const Op &op);
  bool terminator(const Op &op, OpKind kind, const Block &b, std::span<const Type> types, size_t skip = 0);
  bool debugging(const Op &op);
  bool assembly(const Op &op);
  bool family(const Op &op);

  const Module &module_;
  const Level level_;
  const Function *function_ = nullptr;
  std::vector<layout::Extents> layoutShapes_; // of Module::layouts
  std::unordered_set<const Value *> visible_;
  std::unordered_set<std::string_view> functions_;
  std::string why_;
  Loc where_;
};

} // namespace tegula::ir
