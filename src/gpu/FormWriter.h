// Rewrites a kernel with its values in forms: the base class of assign-layouts (a form is a layout) and
// partition-cluster (a form is the axis along which the CTAs of a cluster share a tile). A value is computed in its
// home form; want() gives it in another form where a user needs one.
//
//   %x = load %p      form of %x: A          %x' = load %p' : A
//   %y = dot %x, %z   wants %x in form B     %x'' = (the deriving class: a conversion, or %x computed once more)  ;  %y' = dot %x'', %z'
//
// A converted value is reused in its own block and in nested blocks, which it dominates. Values that loops carry or
// branches yield have one form, that of the argument or result.
#pragma once
#include "ir/Builder.h"
#include <unordered_map>

namespace tegula::gpu {

class FormWriter {
protected:
  /// `scalar`: the form of scalars, and of values that are not partitioned.
  FormWriter(ir::Module &out, int scalar) : out_(out), b_(out), scalar_(scalar) { b_.setFolding(false); }
  virtual ~FormWriter() = default;

  /// The home form of a value, and its type in a form.
  virtual int formOf(const ir::Value *v) = 0;
  virtual ir::Type typeIn(const ir::Value *v, int form) = 0;
  /// `v` in a form: the existing value, else one made at the builder's insertion point.
  virtual ir::Value *want(const ir::Value *v, int form) = 0;
  /// As want, but a value that was widened is fetched in its narrow type and widened again: it crosses threads in half
  /// the words.
  ir::Value *wantNarrow(const ir::Value *v, int form);
  /// An operation that is neither control flow nor a terminator.
  virtual void compute(const ir::Op &op) = 0;
  /// Defines the results of `op` as those of `now`, which have these forms. If the home form of a result differs, an
  /// override also defines the result in that form.
  virtual void finish(const ir::Op &op, const ir::Op &now, std::span<const int> forms);

  /// Writes the kernel `f` to the new module.
  ir::Function *writeKernel(const ir::Function &f);
  void define(const ir::Value *old, int form, ir::Value *now);
  /// Null if `v` has not been made in this form yet.
  ir::Value *find(const ir::Value *v, int form) const;
  ir::Op *clone(const ir::Op &op, std::span<ir::Value *const> operands, std::span<const ir::Type> results);
  /// Writes region `i` of `old` to `now`: the arguments in their home forms, the terminator's operands in the forms
  /// `yields`.
  void region(const ir::Op &old, ir::Op &now, unsigned i, std::vector<int> yields);
  /// Writes the region of a reduction, which works on scalars.
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
