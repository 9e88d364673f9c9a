// The tables of operations and predicates, attributes, and the arena that holds a module.
#include "ir/Ir.h"
#include <algorithm>
#include <array>
#include <unordered_map>

namespace tegula::ir {

namespace {

constexpr OpInfo row(bool ofGpu, const char *name, int8_t operands, int8_t results, int8_t regions, uint16_t traits,
                     const AttrList &attributes) {
  OpInfo o{name, operands, results, regions, traits, ofGpu, attributes.all, attributes.needed};
  if (results != 0 && regions == 0)
    for (AttrKey hint : hintKeys)
      o.attrs.add(hint);
  return o;
}

constexpr OpKind opKinds[] = {
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) OpKind::Enum,
#include "ir/Ops.def"
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) OpKind::Enum,
#include "gpu/Ops.def"
};
constexpr const char *predNames[] = {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule",
                                     "ugt", "uge", "oeq", "one", "olt", "ole", "ogt", "oge",
                                     "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno"};
static_assert(std::size(predNames) == static_cast<size_t>(CmpPred::Uno) + 1);
} // namespace

// The names that rows use are those of traits and attributes: a row's `Shape` is the trait and not the class.
namespace traits::rows {
constexpr AttrList none;
#define IR_ATTR(id, key, type, otherwise) using attr::id;
#include "ir/Attrs.def"
#define IR_ATTR(id, key, type, otherwise) using attr::id;
#include "gpu/Attrs.def"

static constexpr auto table = [] {
  OpInfo rows[] = {
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) row(false, name, operands, results, regions, traits, attributes),
#include "ir/Ops.def"
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) row(true, name, operands, results, regions, traits, attributes),
#include "gpu/Ops.def"
  };
#define IR_OP(Enum, name, operands, results, regions, traits, attributes)
#define GPU_ATTRS(Enum, attributes) rows[static_cast<size_t>(OpKind::Enum)].attrs.add(AttrList(attributes).all);
#include "gpu/Ops.def"
  return std::to_array(rows);
}();
} // namespace traits::rows
using traits::rows::table;

const OpInfo &info(OpKind k) { return table[static_cast<size_t>(k)]; }

const OpKind *findOp(std::string_view name) {
  // Immutable after its (thread-safe) construction.
  static const std::unordered_map<std::string_view, const OpKind *> byName = [] {
    std::unordered_map<std::string_view, const OpKind *> m;
    for (size_t i = 0; i < std::size(table); ++i)
      m.emplace(table[i].name, &opKinds[i]);
    return m;
  }();
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : it->second;
}

const char *name(CmpPred p) { return predNames[static_cast<size_t>(p)]; }

const AttrValue *Op::find(AttrKey key) const {
  for (const Attr &a : attrs)
    if (a.key == key)
      return &a.value;
  return nullptr;
}

namespace {
/// Null: there is none.
template <typename T> const T *heldAs(const Op &op, AttrKey key) {
  const AttrValue *v = op.find(key);
  const T *t = v ? std::get_if<T>(v) : nullptr;
  assert((!v || t) && "attribute has another type than its table says");
  return t;
}
} // namespace

int64_t Op::read(IntKey key, int64_t otherwise) const {
  const int64_t *v = heldAs<int64_t>(*this, key);
  return v ? *v : otherwise;
}
bool Op::read(BoolKey key, bool otherwise) const {
  const int64_t *v = heldAs<int64_t>(*this, key);
  return v ? *v != 0 : otherwise;
}
CmpPred Op::read(PredKey key, CmpPred otherwise) const {
  const int64_t *v = heldAs<int64_t>(*this, key);
  return v ? static_cast<CmpPred>(*v) : otherwise;
}
const AttrValue *Op::read(NumberKey key, const AttrValue *otherwise) const {
  const AttrValue *v = find(key);
  return v ? v : otherwise;
}
std::string_view Op::read(StringKey key, std::string_view otherwise) const {
  const std::string *v = heldAs<std::string>(*this, key);
  return v ? std::string_view(*v) : otherwise;
}
std::span<const int64_t> Op::read(ListKey key, std::span<const int64_t> otherwise) const {
  const std::vector<int64_t> *v = heldAs<std::vector<int64_t>>(*this, key);
  return v ? std::span<const int64_t>(*v) : otherwise;
}
int64_t Op::intValue(int64_t otherwise) const {
  const int64_t *v = heldAs<int64_t>(*this, attr::value);
  return v ? *v : otherwise;
}
double Op::floatValue(double otherwise) const {
  const double *v = heldAs<double>(*this, attr::value);
  return v ? *v : otherwise;
}
size_t Op::maskAt() const {
  switch (kind) {
  case OpKind::Load: case OpKind::Assert: case OpKind::Histogram: return 1;
  case OpKind::Store: case OpKind::AtomicRmw: return 2;
  case OpKind::AtomicCas: return 3;
  default: return 0;
  }
}
void Op::set(AttrKey key, AttrValue v) {
  for (Attr &a : attrs)
    if (a.key == key) {
      a.value = std::move(v);
      return;
    }
  attrs.emplace_back(key, std::move(v));
}

std::vector<Attr> Op::attrsFor(OpKind other) const {
  std::vector<Attr> out;
  std::copy_if(attrs.begin(), attrs.end(), std::back_inserter(out),
               [&](const Attr &a) { return info(other).attrs.has(a.key); });
  return out;
}

// Deques keep addresses stable and allocate in chunks; everything dies with the module.
struct Module::Storage {
  std::deque<Value> values;
  std::deque<Op> ops;
  std::deque<Block> blocks;
  std::deque<Region> regions;
  std::deque<Function> functions;
};

Module::Module() : storage_(new Storage) {}
Module::~Module() { delete storage_; }

uint16_t Module::internLayout(const layout::LinearLayout &l) {
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i] == l)
      return static_cast<uint16_t>(i + 1);
  layouts.push_back(l);
  return static_cast<uint16_t>(layouts.size());
}

Value *Module::createValue(const Type &t) {
  Value &v = storage_->values.emplace_back();
  v.type = t;
  return &v;
}

Region *Module::createRegion(std::span<const Type> argTypes, Op *owner) {
  Region &r = storage_->regions.emplace_back();
  Block &b = storage_->blocks.emplace_back();
  r.block = &b;
  r.op = owner;
  if (owner && owner->parent)
    r.function = owner->parent->parent->function;
  b.parent = &r;
  for (const Type &t : argTypes)
    addArg(&b, t);
  return &r;
}

Region *Module::addRegion(Op *op) {
  op->regions.push_back(createRegion({}, op));
  return op->regions.back();
}

Value *Module::addArg(Block *b, const Type &t) {
  Value *v = createValue(t);
  v->block = b;
  v->index = static_cast<uint32_t>(b->args.size());
  b->args.push_back(v);
  return v;
}

Value *Module::addResult(Op *op, const Type &t) {
  Value *v = createValue(t);
  v->def = op;
  v->index = static_cast<uint32_t>(op->results.size());
  op->results.push_back(v);
  return v;
}

Op *Module::createOp(OpKind k, Loc loc, std::span<Value *const> operands, std::span<const Type> results,
                     std::vector<Attr> attrs) {
  Op &op = storage_->ops.emplace_back();
  op.kind = k;
  op.loc = loc;
  op.operands.assign(operands.begin(), operands.end());
  op.attrs = std::move(attrs);
  op.results.reserve(results.size());
  for (const Type &t : results)
    addResult(&op, t);
  for (int i = 0; i < info(k).regions; ++i)
    addRegion(&op);
  return &op;
}

Function *Module::createFunction(std::string name, std::span<const Type> args, std::span<const Type> results, Loc loc) {
  Function &f = storage_->functions.emplace_back();
  f.name = std::move(name);
  f.loc = loc;
  f.resultTypes.assign(results.begin(), results.end());
  f.argInfo.resize(args.size());
  f.body = createRegion(args, nullptr);
  f.body->function = &f;
  functions.push_back(&f);
  return &f;
}

Function *Module::find(std::string_view name) const {
  for (Function *f : functions)
    if (f->name == name)
      return f;
  return nullptr;
}

Function *Module::kernel() const {
  Function *found = nullptr;
  for (Function *f : functions)
    if (f->isKernel) {
      if (found)
        return nullptr;
      found = f;
    }
  return found;
}

bool isDescOp(OpKind k) { return k == OpKind::DescLoad || k == OpKind::DescStore || k == OpKind::DescReduce; }

DescAccess descAccess(const Op &op) {
  assert(isDescOp(op.kind));
  bool isLoad = op.kind == OpKind::DescLoad;
  std::span<Value *const> all(op.operands);
  const size_t n = (all.size() - (isLoad ? 1 : 2)) / 3;
  Value *value = isLoad ? nullptr : all.back();
  return {all[0],
          all.subspan(1, n),
          all.subspan(1 + n, n),
          all.subspan(1 + 2 * n, n),
          value,
          (isLoad ? op.result() : value)->type.shape};
}

} // namespace tegula::ir
