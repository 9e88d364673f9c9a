// See IndexBits.h.
#include "gpu/layouts/IndexBits.h"
#include "ir/Builder.h"

namespace tegula::gpu {

using namespace ir;

uint32_t BitMap::imageOf(uint64_t flat) const {
  uint32_t out = 0;
  for (size_t i = 0; i < images.size(); ++i)
    out ^= flat >> i & 1 ? images[i] : 0;
  return out;
}

uint32_t BitMap::bits() const {
  uint32_t all = constant;
  for (uint32_t i : images)
    all |= i;
  return all;
}

namespace {

unsigned indexBits(const Type &t) { return layout::log2Exact(t.numel()); }

std::optional<int64_t> splatOf(const Value *v) {
  return constantInt(v->def && v->def->kind == OpKind::Splat ? v->def->operands[0] : v);
}

std::optional<BitMap> range(int64_t start, const Type &t) {
  if (start < 0 || start % t.numel() != 0)
    return std::nullopt;
  BitMap a{{}, static_cast<uint32_t>(start)};
  for (unsigned i = 0; i < indexBits(t); ++i)
    a.images.push_back(1u << i);
  return a;
}

bool isConstant(const BitMap &x) { return (x.bits() & ~x.constant) == 0; }

template <typename F> BitMap mapped(BitMap a, F &&f) {
  for (uint32_t &i : a.images)
    i = f(i);
  a.constant = f(a.constant);
  return a;
}

} // namespace

const std::optional<BitMap> &IndexBits::of(const Value *v) {
  if (auto it = known_.find(v); it != known_.end())
    return it->second;
  std::optional<BitMap> a = make(v);
  return known_[v] = std::move(a);
}

std::optional<BitMap> IndexBits::make(const Value *v) {
  if (!v->type.isTensor() || !v->type.isIntLike())
    return std::nullopt;
  if (std::optional<int64_t> c = splatOf(v)) {
    if (*c < 0 || *c > INT32_MAX)
      return std::nullopt;
    return BitMap{std::vector<uint32_t>(indexBits(v->type)), static_cast<uint32_t>(*c)};
  }
  if (!v->def)
    return std::nullopt;
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::Range:
    return range(op.start(), v->type);
  case OpKind::ExpandDims:
  case OpKind::Reshape:
    return of(op.operands[0]);
  case OpKind::SExt: // nothing here is negative
  case OpKind::ZExt:
    return op.operands[0]->type.elem == Elem::I32 ? of(op.operands[0]) : std::nullopt;
  case OpKind::Broadcast:
    return broadcast(op);
  case OpKind::Xor:
  case OpKind::And:
  case OpKind::Or:
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::LShr:
  case OpKind::AShr: return binary(op);
  default:
    return std::nullopt;
  }
}

std::optional<BitMap> IndexBits::broadcast(const Op &op) {
  const std::optional<BitMap> &x = of(op.operands[0]);
  if (!x)
    return std::nullopt;
  const Shape &from = op.operands[0]->type.shape, &to = op.result()->type.shape;
  BitMap a{{}, x->constant};
  unsigned bit = 0;
  for (unsigned d = to.rank(); d-- > 0;)
    for (unsigned i = 0; i < layout::log2Exact(to[d]); ++i)
      a.images.push_back(from[d] == 1 ? 0 : x->images[bit++]);
  return a;
}

std::optional<BitMap> IndexBits::binary(const Op &op) {
  std::optional<BitMap> a = of(op.operands[0]);
  const std::optional<BitMap> b = a ? of(op.operands[1]) : std::nullopt;
  if (!a || !b)
    return std::nullopt;
  uint32_t c = b->constant;
  switch (op.kind) {
  case OpKind::And:
    return isConstant(*b) ? std::optional(mapped(*std::move(a), [&](uint32_t i) { return i & c; })) : std::nullopt;
  case OpKind::LShr:
  case OpKind::AShr:
    return isConstant(*b) && c < 32 ? std::optional(mapped(*std::move(a), [&](uint32_t i) { return i >> c; }))
                                    : std::nullopt;
  case OpKind::Add:
  case OpKind::Or:
    if (a->bits() & b->bits())
      return std::nullopt;
    break;
  case OpKind::Sub: // from ones: no bit is borrowed
    if (!isConstant(*a) || (b->bits() & ~a->constant))
      return std::nullopt;
    break;
  default:
    break;
  }
  for (size_t i = 0; i < a->images.size(); ++i)
    a->images[i] ^= b->images[i];
  a->constant ^= c;
  return a;
}

} // namespace tegula::gpu
