// See ElementUses.h.
#include "gpu/layouts/ElementUses.h"
#include "gpu/Layouts.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::gpu {

using ir::Op;
using ir::OpKind;
using ir::Value;

/// Has one result, whose elements each come from the elements at some place of the operands?
static bool followsElements(const Op &op) { return op.results.size() == 1 && (op.has(ir::traits::Elementwise) || renames(op.kind) || op.kind == OpKind::Join); }

/// `seen`: a value that many ways lead to is followed once.
static unsigned unpackedBytes(const Users &users, const Value *v, unsigned joined, std::unordered_set<const Value *> &seen) {
  constexpr size_t mostValues = 256;
  if (!seen.insert(v).second || seen.size() > mostValues)
    return 0;
  for (const Op *u : users.of(v)) {
    if (u->kind == OpKind::Store) {
      if (joined > 1 && u->operands[1] == v)
        return joined * ir::byteWidth(v->type.elem);
    } else if (u->kind != OpKind::Broadcast && followsElements(*u)) {
      if (unsigned bytes = unpackedBytes(users, u->result(), u->kind == OpKind::Join ? 2 * joined : joined, seen))
        return bytes;
    }
  }
  return 0;
}

unsigned unpackedBytes(const Users &users, const Value *v) {
  std::unordered_set<const Value *> seen;
  return unpackedBytes(users, v, 1, seen);
}

unsigned tileBytes(const Users &users, const Value *v, unsigned depth, const std::function<bool(const Op &)> &readsTiles) {
  if (!depth)
    return 0;
  for (const Op *u : users.of(v)) {
    unsigned bytes = 0;
    if (u->kind == OpKind::Dot)
      bytes = u->operands[2] != v && readsTiles(*u) ? ir::byteWidth(v->type.elem) : 0;
    else if (followsElements(*u))
      bytes = tileBytes(users, u->result(), depth - 1, readsTiles);
    if (bytes)
      return bytes;
  }
  return 0;
}

bool isSplit(const Users &users, const Value *v, unsigned depth) {
  return depth && std::ranges::any_of(users.of(v), [&](const Op *u) {
           return u->kind == OpKind::Split || (u->results.size() == 1 && u->has(ir::traits::Elementwise) && isSplit(users, u->result(), depth - 1));
         });
}

bool feedsDot(const Users &users, const Value *v, unsigned depth) {
  return depth && std::ranges::any_of(users.of(v), [&](const Op *u) {
           return u->kind == OpKind::Dot ? u->operands[2] != v : followsElements(*u) && feedsDot(users, u->result(), depth - 1);
         });
}

} // namespace tegula::gpu
