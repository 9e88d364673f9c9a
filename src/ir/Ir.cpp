// The tables of operations and predicates, attributes, and the arena that holds a module.
#include "ir/Ir.h"
#include <algorithm>
#include <unordered_map>

namespace tegula::ir {

namespace {

/// The keys of a row of Ops.def: all of them, or those with a `!`.
constexpr AttrSet keysOf(std::string_view list, bool onlyNeeded) {
  AttrSet keys;
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(' '));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    bool isNeeded = word.ends_with('!');
    std::optional<AttrKey> k = AttrKey::find(word.substr(0, word.size() - isNeeded));
    if (!k)
      detail::thereIsNoSuchAttribute();
    if (isNeeded || !onlyNeeded)
      keys.add(*k);
  }
  return keys;
}

constexpr OpInfo row(const char *name, int8_t operands, int8_t results, int8_t regions, uint16_t traits, std::string_view attributes) {
  OpInfo o{name, operands, results, regions, traits, keysOf(attributes, false), keysOf(attributes, true)};
  if (results != 0 && regions == 0)
    for (AttrKey hint : hintKeys)
      o.attrs.add(hint);
  return o;
}

} // namespace

// Inside the namespace of the traits, so that a row's `Shape` is the trait and not the class.
namespace traits {
static constexpr OpInfo opTable[] = {
#define TILE_OP(Enum, name, operands, results, regions, traits, attributes) row(name, operands, results, regions, traits, attributes),
#include "ir/Ops.def"
};
} // namespace traits

namespace {
using traits::opTable;
constexpr OpKind opKinds[] = {
#define TILE_OP(Enum, name, operands, results, regions, traits, attributes) OpKind::Enum,
#include "ir/Ops.def"
};
constexpr const char *predNames[] = {"eq",  "ne",  "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "oeq", "one",
                                     "olt", "ole", "ogt", "oge", "ord", "ueq", "une", "ult", "ule", "ugt", "uge", "uno"};
static_assert(std::size(predNames) == static_cast<size_t>(CmpPred::Uno) + 1);
} // namespace

const OpInfo &info(OpKind k) { return opTable[static_cast<size_t>(k)]; }

const OpKind *findOp(std::string_view name) {
  // Immutable after its (thread-safe) construction.
  static const std::unordered_map<std::string_view, const OpKind *> byName = [] {
    std::unordered_map<std::string_view, const OpKind *> m;
    for (size_t i = 0; i < std::size(opTable); ++i)
      m.emplace(opTable[i].name, &opKinds[i]);
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
template <typename T> const T *typedAttr(const Op &op, KeyOf<T> key) {
  const AttrValue *v = op.find(key);
  if (!v)
    return nullptr;
  const T *t = std::get_if<T>(v);
  assert(t && "attribute has another type than expected");
  return t;
}
} // namespace

int64_t Op::intAttr(IntKey key, int64_t otherwise) const {
  const int64_t *v = typedAttr<int64_t>(*this, key);
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
double Op::floatAttr(FloatKey key, double otherwise) const {
  const double *v = typedAttr<double>(*this, key);
  return v ? *v : otherwise;
}
std::string_view Op::strAttr(StringKey key, std::string_view otherwise) const {
  const std::string *v = typedAttr<std::string>(*this, key);
  return v ? std::string_view(*v) : otherwise;
}
std::span<const int64_t> Op::listAttr(ListKey key) const {
  const std::vector<int64_t> *v = typedAttr<std::vector<int64_t>>(*this, key);
  return v ? std::span<const int64_t>(*v) : std::span<const int64_t>();
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
  std::copy_if(attrs.begin(), attrs.end(), std::back_inserter(out), [&](const Attr &a) { return info(other).attrs.has(a.key); });
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
    op.regions.push_back(createRegion({}, &op));
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
  return {all[0], all.subspan(1, n), all.subspan(1 + n, n), all.subspan(1 + 2 * n, n), value, (isLoad ? op.result() : value)->type.shape};
}

} // namespace tegula::ir
