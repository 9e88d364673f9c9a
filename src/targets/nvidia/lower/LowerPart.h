// The base class of the parts of Lowering, each of which lowers one family of operations in its own file (struct Words,
// Reductions, Control ...). A part reads and sets values of its Lowering, and uses its builder.
#pragma once
#include "targets/nvidia/lower/Lower.h"

namespace tegula::nvidia {

struct Lowering::Part {
  explicit Part(Lowering &frame)
      : frame_(frame), m_(frame.m_), target_(frame.target_), options_(frame.options_), b_(frame.b_), in_(frame.in_),
        vec_(frame.vec_) {}

  const LinearLayout &layoutOf(const Value *v) const { return frame_.layoutOf(v); }
  unsigned registersOf(const ir::Type &t) const { return frame_.registersOf(t); }
  const Regs &get(const Value *v) const { return frame_.get(v); }
  V scalar(const Value *v) const { return frame_.scalar(v); }
  void set(const Value *v, Regs r) { frame_.set(v, std::move(r)); }

  Lowering &frame_;
  const ir::Module &m_;
  const NvTarget &target_;
  const Options &options_;
  llvm::IRBuilder<> &b_;
  std::optional<Instr> &in_;
  std::optional<targets::VecEmitter> &vec_;
};

} // namespace tegula::nvidia
