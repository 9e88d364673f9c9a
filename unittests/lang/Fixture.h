// A context for tests of the language layer: a function with some arguments, calls of builtins by name, and the names
// of the operations that came out.
#pragma once
#include "ir/Verifier.h"
#include "lang/Diagnostics.h"
#include "lang/Ops.h"
#include <functional>
#include <gtest/gtest.h>
#include <map>

namespace tegula::lang {

class FakeContext : public Context {
public:
  FakeContext(ir::Builder &b, DiagEngine &d, const TargetInfo &t) : Context(b, d, t) {}
  /// Functions of the test, callable by an OpaqueValue of that name.
  std::map<std::string, std::function<Value(std::span<const Value>)>> functions;
  std::string printed;

  Value call(const Value &callee, std::span<const Value> args, Loc loc) override {
    if (callee.is<std::shared_ptr<const BoundMethod>>()) {
      const auto &m = *callee.get<std::shared_ptr<const BoundMethod>>();
      std::vector<Value> all{*m.self};
      all.insert(all.end(), args.begin(), args.end());
      return call(*m.callee, all, loc);
    }
    if (callee.is<const Builtin *>())
      return callByPosition(*callee.get<const Builtin *>(), args, {}, loc);
    return functions.at(callee.get<std::shared_ptr<const OpaqueValue>>()->name)(args);
  }
  Value libraryFunction(std::string_view name) override {
    return Value(std::make_shared<const OpaqueValue>(OpaqueValue{std::string(name), 1}));
  }
  void staticPrint(std::string text, Loc) override { printed += text; }

  using Keywords = std::vector<std::pair<std::string, Value>>;
  Value callByPosition(const Builtin &b, std::span<const Value> args, const Keywords &keywords, Loc loc) {
    const Signature &sig = signatureOf(b);
    std::vector<Value> bound;
    size_t next = 0;
    for (const Signature::Param &p : sig.params) {
      auto kw = std::find_if(keywords.begin(), keywords.end(), [&](const auto &k) { return k.first == p.name; });
      if (p.keywords && next == args.size()) {
        bound.push_back(Value::tuple({})); // others are given as an argument: a tuple of (name, value)
      } else if (p.variadic) {
        bound.push_back(Value::tuple({args.begin() + static_cast<long>(std::min(next, args.size())), args.end()}));
        next = args.size();
      } else if (kw != keywords.end()) {
        bound.push_back(kw->second);
      } else if (next < args.size() && !p.keywordOnly) {
        bound.push_back(args[next++]);
      } else {
        EXPECT_TRUE(p.hasDefault) << b.name << ": no argument for " << p.name;
        bound.push_back(p.defaultValue);
      }
    }
    EXPECT_EQ(next, args.size()) << b.name << ": too many arguments";
    std::vector<Loc> locs(bound.size(), loc);
    return callBuiltin(*this, b, bound, locs, loc);
  }
};

inline Value num(int64_t v) { return Value::integer(v); }
inline Value real(double v) { return Value::number(v); }
inline Value list(std::initializer_list<int64_t> v) {
  std::vector<Value> items;
  for (int64_t i : v)
    items.push_back(num(i));
  return Value::tuple(std::move(items));
}
inline Value slice() {
  return Value(std::make_shared<const SliceValue>(SliceValue{{Value::none(), Value::none(), Value::none()}}));
}

class LangTest : public ::testing::Test {
protected:
  SourceFile file{"test.py", "x + y  # the only line\n"};
  ir::Module module;
  TargetInfo target;
  DiagEngine diags;
  ir::Builder builder{module};
  FakeContext c{builder, diags, target};
  ir::Function *function = module.createFunction("kernel", {}, {}, {});

  void SetUp() override {
    builder.setBlock(function->block());
    c.functions["add"] = [this](std::span<const Value> a) {
      return binary(c, BinOp::Add, a[0], a[1], at(), at(), at());
    };
    c.functions["_atomic_poll"] = [this](std::span<const Value> a) {
      return cmp(Cmp::Eq, run("atomic_load", {a[0]}), a[1]);
    };
    c.functions["add_max"] = [this](std::span<const Value> a) {
      return Value::tuple({binary(c, BinOp::Add, a[0], a[2], at(), at(), at()), run("maximum", {a[1], a[3]})});
    };
  }

  /// What the builtins made keeps the rules of the IR (unless a mistake was made on purpose).
  void TearDown() override {
    if (madeErrors)
      return;
    builder.setBlock(function->block());
    builder.create(ir::OpKind::Return, {}, {});
    std::string why;
    EXPECT_TRUE(ir::verify(module, &why)) << why;
  }
  bool madeErrors = false;

  Loc at() const { return {&file, 0, 5}; }
  Value fn(std::string name) { return Value(std::make_shared<const OpaqueValue>(OpaqueValue{std::move(name), 1})); }
  /// A fresh runtime value: an argument of the function.
  Value var(Dtype d, ir::Shape s = {}) {
    function->argInfo.emplace_back();
    return Value::tensor(d, module.addArg(function->block(), irType(d, s)));
  }
  Value var(Scalar s, ir::Shape shape = {}) { return var(dtype(s), shape); }
  Value ptr(Scalar s, ir::Shape shape = {}) { return var(Dtype::ptr(s), shape); }

  Value run(std::string_view name, std::vector<Value> args, FakeContext::Keywords keywords = {}) {
    const Builtin *b = findBuiltin(name);
    if (!b) {
      ADD_FAILURE() << "no builtin " << name;
      return Value::error();
    }
    return c.callByPosition(*b, args, keywords, at());
  }
  Value attr(const Value &v, std::string_view name) {
    std::optional<Value> a = attribute(c, v, name, at());
    EXPECT_TRUE(a) << "no attribute " << name;
    return a ? *a : Value::error();
  }
  Value method(const Value &v, std::string_view name, std::vector<Value> args = {}) {
    return c.call(attr(v, name), args, at());
  }

  Value op(BinOp o, const Value &a, const Value &b) { return binary(c, o, a, b, at(), at(), at()); }
  Value cmp(Cmp o, const Value &a, const Value &b) { return compare(c, o, a, b, at(), at(), at()); }

  /// Names of the operations made since the last call, regions in braces; constants are left out.
  std::string ops() {
    std::string s = text(function->block(), shown);
    shown = function->block()->ops.size();
    return s;
  }
  size_t shown = 0;
  static std::string text(const ir::Block *block, size_t from = 0) {
    std::string s;
    for (size_t i = from; i < block->ops.size(); ++i) {
      const ir::Op *o = block->ops[i];
      if (o->kind == ir::OpKind::Const)
        continue;
      s += (s.empty() ? "" : " ") + std::string(ir::info(o->kind).name);
      for (const ir::Region *r : o->regions)
        s += "{" + text(r->block) + "}";
    }
    return s;
  }
  std::string messages() const {
    std::string s;
    for (const Diagnostic &d : diags.all())
      s += std::string(d.kind->name) + ": " + d.message() + "\n";
    return s;
  }
};

} // namespace tegula::lang
