// Names and widths of element kinds, text of types.
#include "ir/Type.h"

namespace tegula::ir {

namespace {
struct ElemRow {
  const char *name;
  uint8_t bits;
};
// In the order of Elem.
constexpr ElemRow elemTable[] = {
    {"void", 0},    {"i1", 1},     {"i8", 8},       {"i16", 16},    {"i32", 32},
    {"i64", 64},    {"f8e5m2", 8}, {"f8e4m3fn", 8}, {"f8e4b15", 8}, {"f8e4b8", 8},
    {"f8e5b16", 8}, {"f16", 16},   {"bf16", 16},    {"f32", 32},    {"f64", 64},
};
static_assert(sizeof(elemTable) / sizeof(elemTable[0]) == static_cast<size_t>(Elem::F64) + 1);
} // namespace

unsigned bitWidth(Elem e) { return elemTable[static_cast<size_t>(e)].bits; }
const char *name(Elem e) { return elemTable[static_cast<size_t>(e)].name; }

std::string str(const Type &t) {
  std::string elem = t.isPtr ? std::string("ptr<") + name(t.elem) + ">" : name(t.elem);
  if (t.isScalar())
    return elem;
  std::string s = t.isShared ? "shared<" : "tensor<";
  for (int32_t d : t.shape)
    s += std::to_string(d) + "x";
  s += elem;
  if (t.layout)
    s += ", L" + std::to_string(t.layout);
  return s + ">";
}

} // namespace tegula::ir
