// Rules that no text can break: the reader keeps owners and numbers in order, and it knows neither layouts nor shared
// tiles. The others are in test/ir/verifier.ir.
#include "ir/StageVerifier.h"
#include "ir/Text.h"
#include <functional>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;

namespace {

const char *valid = R"(
func @f(%a: i32) -> i32 {
  %b = add %a, %a
  return %b
}
kernel @k(%p: ptr<f32>, %n: i32, %c: i1) {
  %r = range {start = 0} : tensor<4xi32>
  %s = add %r, %r
  if %c { %x = add %n, %n }
}
)";

struct Broken {
  const char *rule;
  std::function<void(Module &)> change;
};

Block &body(Module &m) { return *m.kernel()->block(); }

const Broken broken[] = {
    {"@f: there is another function of this name", [](Module &m) { m.kernel()->name = "f"; }},
    {"@k: argInfo must have one entry for each argument", [](Module &m) { m.kernel()->argInfo.pop_back(); }},
    {"@k: a block argument has the wrong owner or number", [](Module &m) { body(m).args[1]->index = 7; }},
    {"@k: a block has no terminator", [](Module &m) { body(m).ops.pop_back(); }},
    {"@k: a result has the wrong owner, number or type: `%r = range {start = 0} : void`",
     [](Module &m) { body(m).ops[0]->result()->type = Type(); }},
    {"@k: its parent is another block: `%s = add %r, %r : tensor<4xi32>`",
     [](Module &m) { body(m).ops[1]->parent = m.functions[0]->block(); }},
    {"@k: uses a value that is not visible here: `%s = add %b, %b : tensor<4xi32>`",
     [](Module &m) { body(m).ops[1]->operands.assign(2, m.functions[0]->block()->ops[0]->result()); }},
    {"@k: needs 2 regions: `if %c {`", [](Module &m) { body(m).ops[2]->regions.pop_back(); }},
    {"@k: a region has the wrong owner: `if %c {`", [](Module &m) { body(m).ops[2]->regions[0]->op = nullptr; }},
    {"@k: operands and result differ in layout: `%s = add %r, %r : tensor<4xi32, L1>`",
     [](Module &m) { body(m).ops[1]->result()->type.layout = 1; }},
    {"a layout is not one of a tensor, with its coordinates in the canonical order: lane: 1 -> bank 2",
     [](Module &m) { m.internLayout(layout::LinearLayout::identity(2, layout::Dim::Lane, layout::Dim::Bank)); }},
    // An asynchronous copy whose mask has another shape than its pointers; an i1 says whether it is done.
    {"@k: the mask is not i1 of the pointers' shape: `async_copy %0, %1, %n`",
     [](Module &m) {
       uint16_t layout = m.internLayout(layout::LinearLayout::tensor({4}, {{layout::Dim::Offset, {{1}, {2}}}}));
       Type pointers = Type::ptrTensor({4}, Elem::F32), tile = Type::shared({4}, Elem::F32, layout);
       Op *memory = m.createOp(OpKind::SharedAlloc, {}, {}, std::span(&tile, 1), {{attr::slots, 1}});
       Op *splat = m.createOp(OpKind::Splat, {}, std::span(&body(m).args[0], 1), std::span(&pointers, 1));
       Value *operands[] = {memory->result(), splat->result(), body(m).args[1]};
       Op *copy = m.createOp(OpKind::AsyncCopy, {}, operands, {});
       auto at = body(m).ops.begin();
       for (Op *op : {copy, splat, memory}) {
         op->parent = &body(m);
         at = body(m).ops.insert(at, op);
       }
     }},
};

std::unique_ptr<Module> parsed() {
  DiagEngine diag;
  std::unique_ptr<Module> m = parse(std::make_shared<SourceFile>("t", valid), diag);
  EXPECT_EQ(renderAll(diag), "");
  return m;
}

} // namespace

TEST(Verifier, NamesTheRuleAndTheOperation) {
  for (const Broken &b : broken) {
    std::unique_ptr<Module> m = parsed();
    ASSERT_TRUE(m);
    b.change(*m);
    std::string why;
    EXPECT_FALSE(verify(*m, &why)) << b.rule;
    EXPECT_EQ(why, b.rule);
    EXPECT_FALSE(verify(*m, nullptr)) << b.rule;
  }
}

/// What only the GPU level has is right there and wrong in tile IR.
TEST(Verifier, KnowsTheLevel) {
  const std::pair<const char *, const char *> rows[] = {
      {"layout L1 = lane: 1 -> dim0 2\nkernel @k() {}", "there are layouts, which only the GPU level has"},
      {"kernel @k() {\n  shared_barrier\n}", "@k: only the GPU level has such an operation: `shared_barrier`"},
      {"kernel @k() {\n  %r = cluster_rank : i32\n}",
       "@k: only the GPU level has such an operation: `%r = cluster_rank : i32`"},
      {"kernel @k(%p: ptr<f32>) {\n  %x = load %p {vec = 1} : f32\n}",
       "@k: attribute `vec` is none of this operation's: `%x = load %p {vec = 1} : f32`"},
      {"kernel @k() {\n  %x = poison : shared<4xf32>\n}",
       "@k: a result is a shared tile, which only the GPU level has: `%x = poison : shared<4xf32>`"},
      {"kernel ordered @k() {\n  return\n}", "@k: a function is `ordered`, as only kernels of the GPU level are"},
      {"func @k(%x: shared<4xf32>) {\n  return\n}", "@k: an argument is a shared tile, which only the GPU level has"},
  };
  for (auto [text, rule] : rows) {
    DiagEngine diag;
    auto file = std::make_shared<SourceFile>("t", text); // messages show its lines
    std::unique_ptr<Module> m = parse(file, diag);
    ASSERT_TRUE(m) << renderAll(diag);
    std::string why;
    EXPECT_TRUE(verify(*m, &why)) << text << "\n" << why;
    EXPECT_FALSE(verify(*m, &why, nullptr, Level::Tile)) << text;
    EXPECT_EQ(why, rule);
  }
}

/// What takes the place of an operation keeps those of its attributes that it may carry.
TEST(Attributes, OfAnotherOperation) {
  Module m;
  Op *load = m.createOp(
      OpKind::Load, {}, {}, {},
      {{attr::cache, ".cg"}, {attr::divisibility, std::vector<int64_t>{16}}, {attr::vec, 4}, {attr::isVolatile, true}});
  EXPECT_EQ(load->attrsFor(OpKind::AsyncCopy), (std::vector<Attr>{{attr::cache, ".cg"}, {attr::vec, 4}}));
  EXPECT_EQ(load->attrsFor(OpKind::Gather), (std::vector<Attr>{{attr::divisibility, std::vector<int64_t>{16}}}));
  EXPECT_EQ(load->attrsFor(OpKind::Load), load->attrs);
}

TEST(Verifier, SaysWhere) {
  std::unique_ptr<Module> m = parsed();
  body(*m).ops[1]->operands.pop_back();
  std::string why;
  Loc where;
  EXPECT_FALSE(verify(*m, &why, &where));
  EXPECT_EQ(where.text(), "%s = add %r, %r");
  m->kernel()->argInfo.clear();
  EXPECT_FALSE(verify(*m, &why, &where));
  EXPECT_EQ(where.text(), "@k");
}

TEST(Verifier, BetweenStagesItNamesTheStage) {
  std::unique_ptr<Module> m = parsed();
  DiagEngine diag;
  EXPECT_TRUE(StageVerifier(true, diag).check(*m, "simplify"));
  EXPECT_FALSE(diag.hasErrors());
  body(*m).ops[1]->operands.pop_back();
  EXPECT_TRUE(StageVerifier().check(*m, "simplify")) << "it was not asked to look";
  EXPECT_EQ(StageVerifier(false, diag).check(*m, "simplify"), !verifiesAlways);
  DiagEngine asked;
  EXPECT_FALSE(StageVerifier(true, asked).check(*m, "simplify"));
  std::string text = renderAll(asked);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "t:8:3: error: internal error: the IR is malformed after simplify: @k: needs 2 operands: `%s = add %r : tensor<4xi32>` [malformedIr]");
}

/// A module that keeps the rules and whose text is none of its own.
TEST(Verifier, BetweenStagesTextIsReadBack) {
  std::unique_ptr<Module> m = parsed();
  m->kernel()->name = "two words";
  EXPECT_TRUE(verify(*m, nullptr));
  DiagEngine diag;
  EXPECT_FALSE(StageVerifier(true, diag).check(*m, "simplify"));
  EXPECT_NE(renderAll(diag).find("the IR is malformed after simplify: its text cannot be read: "), std::string::npos)
      << renderAll(diag);
}
