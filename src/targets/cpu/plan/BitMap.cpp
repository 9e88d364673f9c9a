// Bit positions through shape operations.
#include "targets/cpu/plan/BitMap.h"

namespace tegula::cpu {
using ir::OpKind;
using ir::Shape;

unsigned bitCount(const Shape &s) {
  unsigned n = 0;
  for (unsigned d = 0; d < s.rank(); ++d)
    n += dimBits(s, d);
  return n;
}

unsigned dimOffset(const Shape &s, unsigned dim) {
  unsigned n = 0;
  for (unsigned d = s.rank(); d-- > dim + 1;)
    n += dimBits(s, d);
  return n;
}

Bits identityBits(unsigned n) {
  Bits b(n);
  for (unsigned i = 0; i < n; ++i)
    b[i] = static_cast<BitSource>(i);
  return b;
}

bool isIdentity(const Bits &b) {
  for (unsigned i = 0; i < b.size(); ++i)
    if (b[i] != static_cast<BitSource>(i))
      return false;
  return true;
}

bool isView(const ir::Op &op) {
  return op.has(ir::traits::Shape) && op.operands.size() == 1 && op.kind != OpKind::Split;
}

static void appendDim(Bits &out, const Bits &at, const Shape &s, unsigned dim, unsigned bits) {
  unsigned from = dimOffset(s, dim);
  out.append(at.begin() + from, at.begin() + from + bits);
}

static Bits permuteBits(const ir::Op &op, const Bits &at) {
  const Shape &in = op.operands[0]->type.shape, &out = op.results[0]->type.shape;
  auto perm = op.perm();
  Bits r;
  for (unsigned d = in.rank(); d-- > 0;)
    for (unsigned i = 0; i < perm.size(); ++i)
      if (perm[i] == static_cast<int64_t>(d))
        appendDim(r, at, out, i, dimBits(in, d));
  return r;
}

static Bits broadcastBits(const ir::Op &op, const Bits &at) {
  const Shape &in = op.operands[0]->type.shape, &out = op.results[0]->type.shape;
  Bits r;
  for (unsigned d = in.rank(); d-- > 0;)
    appendDim(r, at, out, d, dimBits(in, d));
  return r;
}

static unsigned catAxis(const ir::Op &op) { return static_cast<unsigned>(op.axis()); }

Bits operandBits(const ir::Op &op, unsigned i, unsigned result, const Bits &at) {
  switch (op.kind) {
  case OpKind::Splat:
  case OpKind::Unsplat:
    return {};
  case OpKind::Broadcast:
    return broadcastBits(op, at);
  case OpKind::Permute:
    return permuteBits(op, at);
  case OpKind::Join:
    return Bits(at.begin() + 1, at.end());
  case OpKind::Split: {
    Bits r{result ? oneBit : zeroBit};
    r.append(at.begin(), at.end());
    return r;
  }
  case OpKind::Cat: {
    const Shape &out = op.results[0]->type.shape;
    Bits r(at);
    r.erase(r.begin() + dimOffset(out, catAxis(op)) + dimBits(out, catAxis(op)) - 1);
    return r;
  }
  default:
    return at;
  }
}

BitSource selectorBit(const ir::Op &op, const Bits &at) {
  if (op.kind == OpKind::Join)
    return at[0];
  const Shape &out = op.results[0]->type.shape;
  return at[dimOffset(out, catAxis(op)) + dimBits(out, catAxis(op)) - 1];
}

Bits bitsWithout(const Shape &s, unsigned axis) {
  unsigned from = dimOffset(s, axis), n = dimBits(s, axis);
  Bits r;
  for (unsigned i = 0, e = bitCount(s); i < e; ++i)
    if (i < from || i >= from + n)
      r.push_back(static_cast<BitSource>(i));
  return r;
}

} // namespace tegula::cpu
