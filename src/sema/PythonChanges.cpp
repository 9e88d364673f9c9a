// Mutation of a list, a dict or a set in code that runs at compile time: `xs.append(v)`, `d[k] = v`, `del xs[i]`.
// Values are immutable, so the name gets a new value; mutation is rejected if another reference to the same object
// would see the change in Python.
#include "lang/Containers.h"
#include "sema/Evaluator.h"
#include <algorithm>

namespace tegula::sema {

namespace {

using Values = std::vector<Value>;

/// A method that mutates its object: the object's kind, the number of arguments, and the results: the object's new
/// value, and the value of the call.
struct Change {
  Value object, result = Value::none();
};
struct Call {
  const Values &args;
  std::function<std::optional<Values>(const Value &)> items; // of an iterable
};
using Changer = std::optional<Change> (*)(const Value &object, Call &call); // nullopt: the arguments do not fit

std::optional<size_t> position(const Values &items, const Value &index) {
  if (!index.isInt() && !index.isBool())
    return std::nullopt;
  lang::Int i = index.asInt() < 0 ? index.asInt() + static_cast<lang::Int>(items.size()) : index.asInt();
  return i >= 0 && i < static_cast<lang::Int>(items.size()) ? std::optional(static_cast<size_t>(i)) : std::nullopt;
}

std::optional<Change> listInsert(const Value &object, Call &call) {
  if (!call.args[0].isInt())
    return std::nullopt;
  Values items = object.items();
  auto n = static_cast<lang::Int>(items.size());
  lang::Int i = call.args[0].asInt() < 0 ? call.args[0].asInt() + n : call.args[0].asInt();
  items.insert(items.begin() + static_cast<ptrdiff_t>(std::clamp(i, lang::Int(0), n)), call.args[1]);
  return Change{Value::tuple(std::move(items))};
}
std::optional<Change> listPop(const Value &object, Call &call) {
  Values items = object.items();
  std::optional<size_t> at = position(items, call.args.empty() ? Value::integer(-1) : call.args[0]);
  if (!at)
    return std::nullopt;
  Value taken = items[*at];
  items.erase(items.begin() + static_cast<ptrdiff_t>(*at));
  return Change{Value::tuple(std::move(items)), taken};
}
std::optional<Change> listRemove(const Value &object, Call &call) {
  Values items = object.items();
  auto it = std::find_if(items.begin(), items.end(), [&](const Value &v) { return lang::equal(v, call.args[0]); });
  if (it == items.end())
    return std::nullopt;
  items.erase(it);
  return Change{Value::tuple(std::move(items))};
}
std::optional<Change> listReverse(const Value &object, Call &) {
  Values items = object.items();
  std::reverse(items.begin(), items.end());
  return Change{Value::tuple(std::move(items))};
}
std::optional<Change> listClear(const Value &, Call &) { return Change{Value::tuple({})}; }

std::optional<Change> dictUpdate(const Value &object, Call &call) {
  if (!lang::isDict(call.args[0]))
    return std::nullopt;
  Values keys = lang::keysOf(object), values = lang::valuesOf(object);
  keys.insert(keys.end(), lang::keysOf(call.args[0]).begin(), lang::keysOf(call.args[0]).end());
  values.insert(values.end(), lang::valuesOf(call.args[0]).begin(), lang::valuesOf(call.args[0]).end());
  return Change{lang::makeDict(keys, values)};
}
Value withItem(const Value &dict, const Value &key, const Value &value) {
  Values keys = lang::keysOf(dict), values = lang::valuesOf(dict);
  keys.push_back(key);
  values.push_back(value);
  return lang::makeDict(keys, values);
}
Value withoutKey(const Value &dict, const Value &key) {
  Values keys, values;
  for (size_t i = 0; i < lang::keysOf(dict).size(); ++i)
    if (!lang::equal(lang::keysOf(dict)[i], key)) {
      keys.push_back(lang::keysOf(dict)[i]);
      values.push_back(lang::valuesOf(dict)[i]);
    }
  return lang::makeDict(keys, values);
}
std::optional<Change> dictSetdefault(const Value &object, Call &call) {
  Value wanted = call.args.size() > 1 ? call.args[1] : Value::none();
  if (const Value *v = lang::findKey(object, call.args[0]))
    return Change{object, *v};
  return Change{withItem(object, call.args[0], wanted), wanted};
}
std::optional<Change> dictPop(const Value &object, Call &call) {
  const Value *v = lang::findKey(object, call.args[0]);
  if (!v && call.args.size() < 2)
    return std::nullopt;
  return Change{withoutKey(object, call.args[0]), v ? *v : call.args[1]};
}
std::optional<Change> dictClear(const Value &, Call &) { return Change{lang::makeDict({}, {})}; }

std::optional<Change> setAdd(const Value &object, Call &call) {
  Values items = lang::membersOf(object);
  items.push_back(call.args[0]);
  return Change{lang::makeSet(items)};
}
std::optional<Change> setDiscard(const Value &object, Call &call) {
  Values items = lang::membersOf(object);
  std::erase_if(items, [&](const Value &v) { return lang::equal(v, call.args[0]); });
  return Change{lang::makeSet(items)};
}
std::optional<Change> setUpdate(const Value &object, Call &call) {
  std::optional<Values> more = call.items(call.args[0]);
  if (!more)
    return std::nullopt;
  Values items = lang::membersOf(object);
  items.insert(items.end(), more->begin(), more->end());
  return Change{lang::makeSet(items)};
}

bool isList(const Value &v) { return v.isTuple(); }

struct Row {
  std::string_view name;
  bool (*of)(const Value &);
  size_t least, most;
  Changer change;
};
constexpr Row rows[] = {
    {"insert", isList, 2, 2, listInsert},          {"pop", isList, 0, 1, listPop},
    {"remove", isList, 1, 1, listRemove},          {"reverse", isList, 0, 0, listReverse},
    {"clear", isList, 0, 0, listClear},            {"update", lang::isDict, 1, 1, dictUpdate},
    {"setdefault", lang::isDict, 1, 2, dictSetdefault}, {"pop", lang::isDict, 1, 2, dictPop},
    {"clear", lang::isDict, 0, 0, dictClear},      {"add", lang::isSet, 1, 1, setAdd},
    {"discard", lang::isSet, 1, 1, setDiscard},    {"update", lang::isSet, 1, 1, setUpdate},
};

} // namespace

bool Evaluator::mayChange(std::string_view name, Loc loc) {
  const Value &v = env().find(name)->value;
  bool alone = v.isTuple() ? v.get<std::shared_ptr<const lang::TupleValue>>().use_count() == 1
                           : v.get<std::shared_ptr<const lang::RecordValue>>().use_count() == 1;
  if (!alone)
    fail(diag::sharedChange, loc, name, v.isTuple() ? "list" : lang::kindName(v));
  return alone;
}

std::optional<Value> Evaluator::pythonMutation(const Expr &e) {
  const Expr &callee = *e.operands[0];
  if (callee.kind != ExprKind::Attribute || callee.operands[0]->kind != ExprKind::Name)
    return std::nullopt;
  std::string_view name = callee.operands[0]->name;
  const Var *var = env().find(name);
  bool changes = callee.name == "append" || callee.name == "extend" || callee.name == "sort";
  for (const Row &r : rows)
    changes |= r.name == callee.name;
  if (!var || !changes || (!var->value.isTuple() && !lang::isDict(var->value) && !lang::isSet(var->value)))
    return std::nullopt;
  if (!mayChange(name, e.loc))
    return Value::error();
  if (var->value.isTuple() && (callee.name == "append" || callee.name == "extend") && e.operands.size() == 2)
    return appendTo(name, *e.operands[1], callee.name == "extend", e.loc);
  if ((var->value.isTuple() && callee.name == "sort") ||
      (lang::isDict(var->value) && callee.name == "update" && !e.keywords.empty())) {
    bool sorts = callee.name == "sort";
    CallArgs args = evalArgs(e);
    args.args.insert(args.args.begin(), CallArgs::Arg{env().find(name)->value, e.loc, {}, {}});
    Value changed = args.failed ? Value::error() : pythonBuiltin(sorts ? "sorted" : "dict", args, e.loc);
    env().edit(name)->value = changed;
    return changed.isError() ? changed : Value::none();
  }
  if (!e.keywords.empty())
    return std::nullopt;
  for (const Row &r : rows) {
    size_t given = e.operands.size() - 1;
    if (r.name != callee.name || !r.of(var->value) || given < r.least || given > r.most)
      continue;
    Values args;
    for (size_t i = 1; i < e.operands.size(); ++i) {
      args.push_back(eval(*e.operands[i]));
      if (args.back().isError())
        return Value::error();
    }
    Value object = env().find(name)->value;
    if (!charge(object.summary().weight, e.loc))
      return Value::error();
    Call call{args, [&](const Value &v) { return iterate(v, e.loc); }};
    std::optional<Change> change = r.change(object, call);
    if (!change)
      return fail(diag::pythonArgument, e.loc, callee.name, args.empty() ? "an empty list" : describe(args[0]));
    env().edit(name)->value = bounded(std::move(change->object), e.loc);
    return change->result;
  }
  return std::nullopt;
}

/// Takes the value out of the name, so that there is no other reference and it can grow in place.
Value Evaluator::appendTo(std::string_view name, const Expr &item, bool all, Loc loc) {
  Values more{eval(item)};
  if (all) {
    std::optional<Values> items = iterate(more[0], item.loc);
    more = items ? std::move(*items) : Values();
  }
  Var *v = env().edit(name);
  Value grown = std::exchange(v->value, Value::none());
  for (Value &m : more)
    grown = std::move(grown).appended(std::move(m));
  v->value = bounded(std::move(grown), loc);
  return Value::none();
}

/// `name[index] = v`, or `del name[index]` without one.
bool Evaluator::assignItem(const Expr &target, const Value *v) {
  if (target.operands[0]->kind != ExprKind::Name)
    return false;
  const Var *var = env().find(target.operands[0]->name);
  if (!var || (!var->value.isTuple() && !lang::isDict(var->value)))
    return false;
  if (!mayChange(target.operands[0]->name, target.loc))
    return true;
  Value index = eval(*target.operands[1]), object = env().find(target.operands[0]->name)->value, changed;
  if (index.isError() || (v && v->isError()) || !charge(object.summary().weight, target.loc))
    return true;
  if (lang::isDict(object)) {
    if (!v && !lang::findKey(object, index)) {
      fail(diag::noKey, target.operands[1]->loc, lang::repr(index), lang::repr(object));
      return true;
    }
    changed = v ? withItem(object, index, *v) : withoutKey(object, index);
  } else {
    Values items = object.items();
    std::optional<size_t> at = position(items, index);
    if (!at) {
      fail(diag::indexOutOfRange, target.operands[1]->loc, lang::repr(index), static_cast<uint64_t>(items.size()));
      return true;
    }
    if (v)
      items[*at] = *v;
    else
      items.erase(items.begin() + static_cast<ptrdiff_t>(*at));
    changed = Value::tuple(std::move(items));
  }
  env().edit(target.operands[0]->name)->value = bounded(std::move(changed), target.loc);
  return true;
}

} // namespace tegula::sema
