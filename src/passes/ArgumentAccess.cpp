// One table lists the sources of a pointer (Sources). baseArgument() follows it backwards from one pointer;
// kernelAccess() inverts it once per function and propagates every argument to the accesses that it reaches. Callees
// come first.
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tegula {
using namespace ir;

namespace {
/// The values that a pointer may be computed from: one step back.
struct Sources {
  std::vector<const Value *> values;
  bool argument = false, elsewhere = false; // it is one of the function's; something else than a pointer we know
};

Sources sourcesOfResult(const Op &op, uint32_t index) {
  switch (op.kind) {
  case OpKind::AddPtr:
  case OpKind::Bitcast:
  case OpKind::Splat:
  case OpKind::Unsplat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Reshape: case OpKind::Permute: case OpKind::Split: case OpKind::Convert:
    if (!op.operands[0]->type.isPtr)
      return {{}, false, true};
    return {{op.operands[0]}};
  case OpKind::Select:
    return {{op.operands[1], op.operands[2]}};
  case OpKind::For:
    return {{op.regions[0]->block->args[index + 1]}};
  case OpKind::While: // leaves by its test, which passes the values on after its condition
    return {{op.regions[0]->block->terminator()->operands[index + 1]}};
  case OpKind::If: {
    Sources s;
    for (const Region *r : op.regions)
      s.values.push_back(r->block->terminator()->operands[index]);
    return s;
  }
  default:
    return {{}, false, true};
  }
}

Sources sourcesOf(const Value *v) {
  if (v->def)
    return sourcesOfResult(*v->def, v->index);
  const Op *owner = v->block->parent->op;
  if (!owner)
    return {{}, true};
  if (owner->kind == OpKind::For && v->index >= 1)
    return {{owner->operands[2 + v->index], v->block->terminator()->operands[v->index - 1]}};
  if (owner->kind == OpKind::While && v->block->parent == owner->regions[0])
    return {{owner->operands[v->index], owner->regions[1]->block->terminator()->operands[v->index]}};
  if (owner->kind == OpKind::While)
    return {{owner->regions[0]->block->terminator()->operands[v->index + 1]}};
  return {{}, false, true};
}

/// The accesses of one operation and their operands: all kinds that touch global memory.
struct Access {
  int address = -1;
  ArgumentAccess does;
};

Access accessOf(const Op &op) {
  switch (op.kind) {
  case OpKind::Load: case OpKind::DescLoad:
    return {0, {true, false}};
  case OpKind::AsyncCopy:
    return {1, {true, false}};
  case OpKind::TmaCopy:
    return {2, {true, false}};
  case OpKind::Store: case OpKind::DescStore:
    return {0, {false, true}};
  case OpKind::AtomicRmw: {
    std::string_view rmw = op.rmw();
    return {0, {rmw != "store", rmw != "load"}};
  }
  case OpKind::AtomicCas: case OpKind::DescReduce:
    return {0, {true, true}};
  default:
    return {};
  }
}

void merge(ArgumentAccess &a, ArgumentAccess b) {
  a.reads |= b.reads;
  a.writes |= b.writes;
}

struct FunctionAccess {
  std::vector<ArgumentAccess> arguments;
  ArgumentAccess elsewhere;
};

class AccessSearch {
public:
  AccessSearch(const Function &f, const std::unordered_map<std::string, FunctionAccess> &callees) : callees_(callees) {
    found_.arguments.resize(f.block()->args.size());
    for (const Value *a : f.block()->args)
      define(a);
    visit(*f.block());
    for (const Value *a : f.block()->args)
      if (a->type.isPtr)
        merge(found_.arguments[a->index], spread({a}));
    merge(found_.elsewhere, spread(elsewhere_));
    for (const Value *a : f.block()->args)
      if (a->type.isPtr)
        merge(found_.arguments[a->index], found_.elsewhere);
  }
  FunctionAccess take() { return std::move(found_); }

private:
  void define(const Value *v) {
    if (!v->type.isPtr)
      return;
    Sources s = sourcesOf(v);
    for (const Value *from : s.values)
      made_[from].push_back(v);
    if (s.elsewhere)
      elsewhere_.push_back(v);
  }

  void visit(const Block &b) {
    for (const Op *op : b.ops) {
      if (Access a = accessOf(*op); a.address >= 0)
        merge(accessed_[op->operands[static_cast<size_t>(a.address)]], a.does);
      if (op->kind == OpKind::AsmEffect)
        merge(found_.elsewhere, {true, true}); // its text is not analysed
      if (op->kind == OpKind::Call) {
        auto callee = callees_.find(std::string(op->callee()));
        if (callee == callees_.end()) { // not in this module, or not before its caller
          merge(found_.elsewhere, {true, true});
        } else {
          merge(found_.elsewhere, callee->second.elsewhere);
          for (size_t i = 0; i < callee->second.arguments.size(); ++i)
            merge(accessed_[op->operands[i]], callee->second.arguments[i]);
        }
      }
      for (const Value *v : op->results)
        define(v);
      for (const Region *r : op->regions) {
        for (const Value *v : r->block->args)
          define(v);
        visit(*r->block);
      }
    }
  }

  /// All accesses through pointers computed from these.
  ArgumentAccess spread(std::vector<const Value *> todo) {
    ArgumentAccess does;
    std::unordered_set<const Value *> seen(todo.begin(), todo.end());
    while (!todo.empty()) {
      const Value *v = todo.back();
      todo.pop_back();
      if (auto it = accessed_.find(v); it != accessed_.end())
        merge(does, it->second);
      if (auto it = made_.find(v); it != made_.end())
        for (const Value *next : it->second)
          if (seen.insert(next).second)
            todo.push_back(next);
    }
    return does;
  }

  const std::unordered_map<std::string, FunctionAccess> &callees_;
  std::unordered_map<const Value *, std::vector<const Value *>> made_;
  std::unordered_map<const Value *, ArgumentAccess> accessed_;
  std::vector<const Value *> elsewhere_;
  FunctionAccess found_;
};
} // namespace

/// Null: there are several, or it comes from elsewhere.
static const Value *baseOf(const Value *pointer) {
  constexpr size_t most = 4096;
  std::unordered_set<const Value *> seen{pointer};
  std::vector<const Value *> todo{pointer};
  const Value *base = nullptr;
  while (!todo.empty()) {
    const Value *v = todo.back();
    todo.pop_back();
    Sources s = sourcesOf(v);
    if (s.elsewhere || seen.size() > most || (s.argument && base))
      return nullptr;
    if (s.argument)
      base = v;
    for (const Value *from : s.values)
      if (seen.insert(from).second)
        todo.push_back(from);
  }
  return base;
}

int baseArgument(const Value *pointer) {
  const Value *base = baseOf(pointer);
  return base ? static_cast<int>(base->index) : -1;
}

int memoryOf(const Value *pointer) {
  const Value *base = baseOf(pointer);
  if (!base)
    return -1;
  const Function &f = *base->block->parent->function;
  auto first = [&](auto &&isOne) {
    return static_cast<int>(std::ranges::find_if(f.block()->args, isOne) - f.block()->args.begin());
  };
  if (!f.isKernel)
    return first([](const Value *a) { return a->type.isPtr; });
  const int32_t group = f.argInfo[base->index].overlap;
  return group ? first([&](const Value *a) { return f.argInfo[a->index].overlap == group; })
               : static_cast<int>(base->index);
}

std::vector<ArgumentAccess> kernelAccess(const Module &m) {
  std::unordered_map<std::string, FunctionAccess> known;
  for (const Function *f : m.functions)
    known[f->name] = AccessSearch(*f, known).take();
  std::vector<ArgumentAccess> found = known.at(m.kernel()->name).arguments;
  for (size_t i = 0; i < found.size(); ++i)
    if (int32_t access = m.kernel()->argInfo[i].access; access >= 0)
      found[i] = {(access & 1) != 0, (access & 2) != 0};
  return found;
}

} // namespace tegula
