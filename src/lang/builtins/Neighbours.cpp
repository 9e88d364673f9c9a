// See Neighbours.h: by halves, each a split or a join of pairs.
#include "lang/builtins/Neighbours.h"

namespace tegula::lang {

std::vector<ir::Value *> deal(ir::Builder &b, ir::Value *x, unsigned count) {
  if (count == 1)
    return {x};
  int64_t half = x->type.numel() / 2;
  const ir::Type pairs = x->type.withShape(ir::Shape{half, 2}), part = x->type.withShape(ir::Shape{half});
  ir::Value *paired[] = {b.reshape(x, pairs.shape)};
  const ir::Type parts[] = {part, part};
  ir::Op *split = b.create(ir::OpKind::Split, paired, parts);
  std::vector<ir::Value *> even = deal(b, split->result(0), count / 2), odd = deal(b, split->result(1), count / 2), out;
  for (unsigned i = 0; i < count / 2; ++i)
    out.insert(out.end(), {even[i], odd[i]});
  return out;
}

ir::Value *gatherUp(ir::Builder &b, std::span<ir::Value *const> parts) {
  if (parts.size() == 1)
    return parts[0];
  std::vector<ir::Value *> even, odd;
  for (size_t i = 0; i < parts.size(); i += 2) {
    even.push_back(parts[i]);
    odd.push_back(parts[i + 1]);
  }
  ir::Value *x = gatherUp(b, even), *y = gatherUp(b, odd);
  int64_t n = x->type.numel();
  return b.reshape(b.create1(ir::OpKind::Join, {x, y}, x->type.withShape(ir::Shape{n, 2})), ir::Shape{2 * n});
}

ir::Value *repeated(ir::Builder &b, ir::Value *x, int64_t count) {
  int64_t n = x->type.numel();
  x = x->type.isScalar() ? b.splat(x, ir::Shape{1}) : b.reshape(x, ir::Shape{n});
  return b.reshape(b.broadcast(b.expandDims(x, 1), ir::Shape{n, count / n}), ir::Shape{count});
}

} // namespace tegula::lang
