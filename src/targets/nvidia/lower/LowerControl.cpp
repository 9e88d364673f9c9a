// Structured control flow. Conditions and bounds are equal in all threads, so whole blocks branch together.
#include "targets/nvidia/lower/LowerPart.h"
#include "targets/nvidia/passes/UnrollLoops.h"

namespace tegula::nvidia {

struct Lowering::Control : Part {
  using Part::Part;
  void forLoop(const Op &op), whileLoop(const Op &op), ifElse(const Op &op);
  // Values that blocks hand on, narrow ones packed into words.
  llvm::SmallVector<llvm::PHINode *, 8> phis(llvm::ArrayRef<Value *> values);
  void incoming(llvm::ArrayRef<llvm::PHINode *> phis, llvm::ArrayRef<Value *> values, llvm::BasicBlock *from);
  unsigned perWord(const ir::Type &t);
  bool wordsOf(const ir::Type &t);
  V packWord(llvm::ArrayRef<V> x, const ir::Type &t);
  void unpackWord(V word, const ir::Type &t, Regs &out);
};

void Lowering::forLoop(const Op &op) { Control(*this).forLoop(op); }
void Lowering::whileLoop(const Op &op) { Control(*this).whileLoop(op); }
void Lowering::ifElse(const Op &op) { Control(*this).ifElse(op); }

/// Narrow elements cross control flow packed: each by itself would take a whole register.
unsigned Lowering::Control::perWord(const ir::Type &t) {
  if (t.isScalar() || t.isPtr || t.elem == ir::Elem::I1)
    return 1;
  unsigned n = std::max(1u, 4 / ir::byteWidth(t.elem));
  return registersOf(t) % n == 0 ? n : 1;
}
bool Lowering::Control::wordsOf(const ir::Type &t) { return perWord(t) > 1; }

V Lowering::Control::packWord(llvm::ArrayRef<V> x, const ir::Type &t) {
  if (x.size() == 1)
    return x[0];
  return frame_.packed({x.begin(), x.end()}, 0, static_cast<unsigned>(x.size()))[0];
}

void Lowering::Control::unpackWord(V word, const ir::Type &t, Regs &out) {
  if (!wordsOf(t)) {
    out.push_back(word);
    return;
  }
  unsigned n = perWord(t);
  V elements = b_.CreateBitCast(word, llvm::FixedVectorType::get(frame_.regType(t), n));
  for (unsigned i = 0; i < n; ++i)
    out.push_back(b_.CreateExtractElement(elements, i));
}

llvm::SmallVector<llvm::PHINode *, 8> Lowering::Control::phis(llvm::ArrayRef<Value *> values) {
  llvm::SmallVector<llvm::PHINode *, 8> out;
  for (const Value *v : values)
    for (unsigned words = wordsOf(v->type), i = 0; i < registersOf(v->type); i += perWord(v->type))
      out.push_back(b_.CreatePHI(words ? b_.getInt32Ty() : frame_.regType(v->type), 2));
  size_t at = 0;
  for (const Value *v : values) {
    Regs regs;
    for (unsigned i = 0; i < registersOf(v->type); i += perWord(v->type), ++at)
      unpackWord(out[at], v->type, regs);
    set(v, std::move(regs));
  }
  return out;
}

void Lowering::Control::incoming(llvm::ArrayRef<llvm::PHINode *> phis, llvm::ArrayRef<Value *> values,
                                 llvm::BasicBlock *from) {
  size_t at = 0;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  if (llvm::Instruction *end = from->getTerminator())
    b_.SetInsertPoint(end);
  else
    b_.SetInsertPoint(from);
  for (const Value *v : values)
    for (unsigned i = 0; i < registersOf(v->type); i += perWord(v->type))
      phis[at++]->addIncoming(packWord(llvm::ArrayRef<V>(get(v)).slice(i, perWord(v->type)), v->type), from);
}

/// What LLVM must not do with the loop that `branch` closes.
static void forbid(llvm::BranchInst *branch, llvm::ArrayRef<llvm::StringRef> names) {
  if (names.empty())
    return;
  llvm::LLVMContext &c = branch->getContext();
  llvm::SmallVector<llvm::Metadata *, 3> nodes{nullptr};
  for (llvm::StringRef name : names)
    nodes.push_back(llvm::MDNode::get(c, {llvm::MDString::get(c, name)}));
  llvm::MDNode *id = llvm::MDNode::getDistinct(c, nodes);
  id->replaceOperandWith(0, id);
  branch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

static llvm::SmallVector<llvm::StringRef, 2> forbidden(const ir::Op &loop) {
  llvm::SmallVector<llvm::StringRef, 2> names;
  if (loop.rolled())
    names.push_back("llvm.loop.unroll.disable");
  if (loop.disableLicm())
    names.push_back("llvm.licm.disable");
  return names;
}

void Lowering::keepRolled(llvm::BranchInst *branch) { forbid(branch, {"llvm.loop.unroll.disable"}); }

static bool startsCopies(const ir::Block &b) {
  return llvm::any_of(b.ops, [](const ir::Op *op) {
    return op->kind == ir::OpKind::AsyncCopy ||
           llvm::any_of(op->regions, [](const ir::Region *r) { return startsCopies(*r->block); });
  });
}

void Lowering::Control::forLoop(const Op &op) {
  const ir::Block &body = *op.region(0);
  bool reverse = op.reverse();
  V upper = scalar(op.operands[1]), step = scalar(op.operands[2]);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *header = frame_.newBlock("for"),
                   *inside = frame_.newBlock("for.body"), *after = frame_.newBlock("for.end");
  llvm::SmallVector<Value *, 8> carried(body.args.begin() + 1, body.args.end()),
      inits(op.operands.begin() + 3, op.operands.end());
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode *index = b_.CreatePHI(upper->getType(), 2);
  index->addIncoming(scalar(op.operands[0]), before);
  set(body.args[0], {index});
  auto nodes = phis(carried);
  incoming(nodes, inits, before);
  b_.CreateCondBr(reverse ? b_.CreateICmpSGT(index, upper) : b_.CreateICmpSLT(index, upper), inside, after);
  b_.SetInsertPoint(inside);
  // Strength reduction would give each pointer of a copy a sum of its own to carry, where one offset is carried for
  // all.
  std::map<const Value *, Regs> offsets;
  if (startsCopies(body))
    for (const Value *v : carried)
      if (v->type == ir::Type::scalar(ir::Elem::I64)) {
        offsets[v] = get(v);
        set(v, {in_->opaque(scalar(v))});
      }
  frame_.block(body);
  in_->setSite(frame_.siteOf(op));
  in_->backEdge();
  V next = reverse ? b_.CreateSub(index, step) : b_.CreateAdd(index, step);
  index->addIncoming(next, b_.GetInsertBlock());
  if (frame_.ok_)
    incoming(nodes, body.terminator()->operands, b_.GetInsertBlock());
  llvm::BranchInst *back = b_.CreateBr(header);
  forbid(back, forbidden(op));
  if (unsigned copies = copiesOfBody(op); copies > 1)
    wantCopies(back, copies);
  b_.SetInsertPoint(after);
  for (size_t i = 0; i < op.results.size(); ++i)
    set(op.results[i], offsets.count(carried[i]) ? offsets[carried[i]] : Regs(get(carried[i])));
}

void Lowering::Control::whileLoop(const Op &op) {
  const ir::Block &test = *op.region(0), &body = *op.region(1);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *header = frame_.newBlock("while"),
                   *inside = frame_.newBlock("while.body"), *after = frame_.newBlock("while.end");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  auto nodes = phis(test.args);
  incoming(nodes, op.operands, before);
  frame_.block(test);
  if (!frame_.ok_)
    return;
  llvm::ArrayRef<Value *> given(test.terminator()->operands);
  b_.CreateCondBr(scalar(given[0]), inside, after);
  b_.SetInsertPoint(inside);
  for (size_t i = 0; i < body.args.size(); ++i)
    set(body.args[i], Regs(get(given[i + 1])));
  frame_.block(body);
  if (!frame_.ok_)
    return;
  in_->setSite(frame_.siteOf(op));
  in_->backEdge();
  incoming(nodes, body.terminator()->operands, b_.GetInsertBlock());
  forbid(b_.CreateBr(header), forbidden(op));
  b_.SetInsertPoint(after);
  for (size_t i = 0; i < op.results.size(); ++i)
    set(op.results[i], Regs(get(given[i + 1])));
}

void Lowering::Control::ifElse(const Op &op) {
  llvm::BasicBlock *side[2] = {frame_.newBlock("then"), frame_.newBlock("else")}, *after = frame_.newBlock("if.end"),
                   *end[2];
  b_.CreateCondBr(scalar(op.operands[0]), side[0], side[1]);
  for (unsigned i = 0; i < 2; ++i) {
    b_.SetInsertPoint(side[i]);
    frame_.block(*op.region(i));
    if (!frame_.ok_)
      return;
    end[i] = b_.GetInsertBlock();
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  auto nodes = phis(op.results);
  for (unsigned i = 0; i < 2; ++i)
    incoming(nodes, op.region(i)->terminator()->operands, end[i]);
}

} // namespace tegula::nvidia
