// Writes a kernel anew with its values in forms: what assign-layouts (a form is a layout) and partition-cluster (a form
// is the axis along which the CTAs of a cluster share a tile) have in common. A value is written in its home form where
// it is computed; want() makes it in another one where a user needs that.
//
//   %x = load %p      form of %x: A          %x' = load %p' : A
//   %y = dot %x, %z   wants %x in form B     %x'' = (the deriving class: a conversion, or %x computed once more)  ;  %y' = dot %x'', %z'
//
// What was made is known in the block where it stands and in those inside. Values of carried loops and branches have
// one form, that of the argument or result.
#pragma once
#include "ir/Builder.h"
#include <unordered_map>

namespace tegula::gpu {

class FormWriter {
protected:
  /// `scalar`: the form of scalars, and of what is not divided.
  FormWriter(ir::Module &out, int scalar) : out_(out), b_(out), scalar_(scalar) { b_.setFolding(false); }
  virtual ~FormWriter() = default;

  /// The home form of a value, and its type in a form.
  virtual int formOf(const ir::Value *v) = 0;
  virtual ir::Type typeIn(const ir::Value *v, int form) = 0;
  /// `v` in a form: what is there, else made at the builder's place.
  virtual ir::Value *want(const ir::Value *v, int form) = 0;
  /// As want; what was widened comes as it was, and is widened again: it crosses threads in half the words.
  ir::Value *wantNarrow(const ir::Value *v, int form);
  /// An operation that is neither control flow nor a terminator.
  virtual void compute(const ir::Op &op) = 0;
  /// Defines the results of an operation as those of `now`, which have these forms; where users look for them in the
  /// home form, in that too.
  virtual void finish(const ir::Op &op, const ir::Op &now, std::span<const int> forms);

  /// The kernel `f`, in the new module.
  ir::Function *writeKernel(const ir::Function &f);
  void define(const ir::Value *old, int form, ir::Value *now);
  /// Null: it was not made in this form yet.
  ir::Value *find(const ir::Value *v, int form) const;
  ir::Op *clone(const ir::Op &op, std::span<ir::Value *const> operands, std::span<const ir::Type> results);
  /// Region `i` of `old` into `now`: its arguments in their home forms, its terminator giving `yields`.
  void region(const ir::Op &old, ir::Op &now, unsigned i, std::vector<int> yields);
  /// The region of a reduction, on scalars.
  void scalarRegion(const ir::Op &old, ir::Op &now);

  ir::Module &out_;
  ir::Builder b_;

private:
  void body(const ir::Block &from, ir::Block *to);
  void control(const ir::Op &op);
  void terminator(const ir::Op &op);

  struct Key {
    const ir::Value *value;
    int form;
    bool operator==(const Key &) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key &k) const {
      return std::hash<const void *>()(k.value) * 31 + static_cast<size_t>(k.form);
    }
  };
  const int scalar_;
  std::vector<std::unordered_map<Key, ir::Value *, KeyHash>> made_{1}; // one for each block around
  // forms that the terminator of the current region must give
  std::vector<std::vector<int>> yields_;
};

} // namespace tegula::gpu
