// The pass of ExpandAsm.h: operands of the statement become places, its text operations on them.
#include "ir/ExpandAsm.h"
#include "ir/Asm.h"
#include "ir/Diagnostics.h"
#include "ir/PtxMeaning.h"
#include <charconv>
#include <unordered_map>

namespace tegula::ir {

namespace {

class Expander {
public:
  Expander(Module &m, const AsmExecutor &by, DiagEngine &diag) : b_(m), by_(by), diag_(diag) {}
  bool run(Function &f) {
    block(*f.block());
    return ok_;
  }
  Value *now(Value *v) const {
    auto it = now_.find(v);
    return it == now_.end() ? v : it->second;
  }

private:
  void block(Block &b) {
    Block *outer = b_.block();
    std::vector<Op *> ops;
    ops.swap(b.ops);
    b_.setBlock(&b);
    for (Op *op : ops) {
      for (Value *&v : op->operands)
        v = now(v);
      for (Region *r : op->regions)
        block(*r->block);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      bool isAsm = op->kind == OpKind::Asm || op->kind == OpKind::AsmEffect;
      if (!isAsm || !expand(*op))
        b.ops.push_back(op);
    }
    b_.setBlock(outer);
  }

  /// True if the operation is gone.
  bool expand(const Op &op) {
    std::string_view text = op.text();
    if (!looksLikePtx(text)) {
      if (by_.keepsOther)
        return false;
      return fail(diag::asmNotPtx, op, text, "");
    }
    ptx::Problem problem;
    std::optional<ptx::Program> program = ptx::parse(text, problem);
    if (!program)
      return fail(diag::asmRefused, op, problem.text, problem.why);
    const Type &shaped = op.results[0]->type;
    ptx::Meaning meaning(b_, shaped.shape);
    const AsmConstraints c = asmConstraints(op.constraints());
    if (!bind(op, c, meaning, problem) || !meaning.run(*program, problem))
      return fail(diag::asmRefused, op, problem.text, problem.why);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ptx::Place &p = meaning.places[op.kind == OpKind::Asm ? static_cast<size_t>(op.output()) : i];
      const Type &t = op.results[i]->type;
      Value *x = meaning.resize(p.value ? p.value : meaning.constant(p.bits, 0), bitWidth(t.elem));
      now_[op.results[i]] = b_.cast(OpKind::Bitcast, x, t.elem);
    }
    return true;
  }

  /// Outputs first, then inputs, each in its own place except tied ones ("0").
  bool bind(const Op &op, const AsmConstraints &c, ptx::Meaning &m, ptx::Problem &problem) {
    auto bad = [&](const std::string &constraint, std::string why) {
      why_ = constraint;
      problem = {why_, std::move(why)};
      return false;
    };
    for (const std::string &s : c.outputs) {
      unsigned bits = ptxRegisterBits(s);
      if (!bits)
        return bad(s, "this constraint names no register of PTX");
      m.numbers.push_back(static_cast<unsigned>(m.places.size()));
      m.places.push_back({bits, nullptr});
    }
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const std::string &s = c.inputs[i];
      Value *x = op.operands[i];
      unsigned have = bitWidth(x->type.elem);
      x = x->type.isFloatLike() ? b_.cast(OpKind::Bitcast, x, m.intType(have).elem) : x;
      unsigned tied = 0;
      auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), tied);
      bool isTied = error == std::errc() && end == s.data() + s.size();
      if (isTied && tied >= c.outputs.size())
        return bad(s, "there is no such output");
      // Constants (n, i) have the operand's size, at least 32 bits.
      unsigned bits = isTied ? m.places[tied].bits : s == "n" || s == "i" ? std::max(32u, have) : ptxRegisterBits(s);
      if (!bits)
        return bad(s, "this constraint names no register of PTX");
      if (have > bits && bits != 1)
        return bad(s, "this register has " + std::to_string(bits) + " bits, the operand " + std::to_string(have));
      x = m.resize(x, bits);
      if (!isTied) {
        m.numbers.push_back(static_cast<unsigned>(m.places.size()));
        m.places.push_back({bits, x});
        continue;
      }
      m.numbers.push_back(tied);
      m.places[tied].value = x;
    }
    return true;
  }

  bool fail(const DiagKind &kind, const Op &op, std::string_view text, std::string_view why) {
    diag_.report(kind, op.loc, by_.name, text.substr(0, 200), why);
    ok_ = false;
    return false;
  }

  Builder b_;
  const AsmExecutor &by_;
  DiagEngine &diag_;
  std::unordered_map<const Value *, Value *> now_;
  std::string why_; // what a problem points to that is not in the text
  bool ok_ = true;
};

} // namespace

bool expandAsm(Module &m, const AsmExecutor &by, DiagEngine &diag, std::span<Value *> kept) {
  Expander expander(m, by, diag);
  bool ok = true;
  for (Function *f : m.functions)
    ok &= expander.run(*f);
  for (Value *&v : kept)
    v = expander.now(v);
  return ok;
}

} // namespace tegula::ir
