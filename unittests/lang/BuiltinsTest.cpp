// Each builtin once on good input: the type of its result and the operations it makes.
#include "Fixture.h"

namespace tegula::lang {
namespace {

class BuiltinsTest : public LangTest {
protected:
  void expect(Value v, const char *type, const char *operations) {
    EXPECT_EQ(repr(v), type) << messages();
    EXPECT_EQ(ops(), operations) << type;
  }
  Value dt(Scalar s) { return Value::type(dtype(s)); }
};

TEST_F(BuiltinsTest, Creation) {
  expect(run("program_id", {num(1)}), "int32", "program_id");
  expect(run("num_programs", {num(2)}), "int32", "num_programs");
  expect(run("arange", {num(-4), num(4)}), "int32[8]", "range");
  expect(run("full", {list({4, 8}), real(1.5), dt(Scalar::Fp16)}), "float16[4, 8]", "");
  expect(run("full", {Value::tuple({}), num(3), dt(Scalar::Int8)}), "int8", "");
  expect(run("full", {num(4), var(Scalar::Int32), dt(Scalar::Fp32)}), "float32[4]", "sitofp splat");
  expect(run("cast", {var(Scalar::Int32), dt(Scalar::Fp32)}), "float32", "sitofp");
  expect(run("to_tensor", {real(2.5)}), "float32", "");
}

TEST_F(BuiltinsTest, Shape) {
  Value x = var(Scalar::Fp32, {4, 8}), v = var(Scalar::Fp32, {8}), s = var(Scalar::Fp32);
  expect(run("expand_dims", {v, num(-1)}), "float32[8, 1]", "expand_dims");
  expect(run("expand_dims", {v, list({0, 2})}), "float32[1, 8, 1]", "expand_dims expand_dims");
  expect(run("expand_dims", {s, list({0, 1})}), "float32[1, 1]", "splat expand_dims");
  expect(run("expand_dims", {num(3), num(0)}), "int32[1]", "");
  expect(run("unsqueeze", {s, num(0)}), "float32[1]", "splat");
  expect(run("squeeze", {var(Scalar::Fp32, {4, 1}), num(1)}), "float32[4]", "reshape");
  expect(run("unsqueeze", {v, num(0)}), "float32[1, 8]", "expand_dims");
  expect(run("broadcast", {x, v}), "(float32[4, 8], float32[4, 8])", "expand_dims broadcast");
  expect(run("broadcast_to", {var(Scalar::Fp32, {4, 1}), num(4), num(8)}), "float32[4, 8]", "broadcast");
  expect(run("broadcast_to", {s, list({4, 8})}), "float32[4, 8]", "splat");
  expect(run("reshape", {x, list({32})}), "float32[32]", "reshape");
  expect(run("reshape", {x, num(2), num(16)}), "float32[2, 16]", "reshape");
  expect(run("reshape", {var(Scalar::Fp32, {1}), Value::tuple({})}), "float32", "unsplat");
  expect(run("trans", {x}), "float32[8, 4]", "permute");
  expect(run("permute", {x, list({1, 0})}), "float32[8, 4]", "permute");
  expect(run("join", {x, x}), "float32[4, 8, 2]", "join");
  expect(run("join", {s, s}), "float32[2]", "splat splat join reshape");
  expect(run("split", {var(Scalar::Int8, {4, 2})}), "(int8[4], int8[4])", "split");
  expect(run("split", {var(Scalar::Int8, {2})}), "(int8, int8)", "reshape split unsplat unsplat");
  expect(run("cat", {x, x}), "float32[8, 8]", "cat");
  expect(run("cat", {v, v}, {{"can_reorder", Value::boolean(true)}}), "float32[16]", "cat");
  expect(run("item", {var(Scalar::Int8, {1, 1})}), "int8", "unsplat");
}

TEST_F(BuiltinsTest, Memory) {
  Value p = ptr(Scalar::Fp16, {64}), m = var(Scalar::Int1, {64}), i = var(Scalar::Int32, {64});
  expect(run("load", {ptr(Scalar::Fp32)}), "float32", "load");
  expect(run("load", {p, m, real(0)}), "float16[64]", "load");
  expect(run("load", {p, var(Scalar::Int1)}), "float16[64]", "splat load");
  expect(run("load", {ptr(Scalar::Fp32, {8, 1}), var(Scalar::Int1, {1, 4})}), "float32[8, 4]",
         "broadcast broadcast load");
  expect(run("load", {ptr(Scalar::Int1, {64})}), "int1[64]", "load cmpi");
  expect(run("store", {p, i, m}), "None", "sitofp fptrunc store");
  expect(run("store", {p, num(1)}), "None", "store");
  expect(run("store", {ptr(Scalar::Int1), var(Scalar::Int32)}), "None", "cmpi zext store");
  run("load", {p},
      {{"cache_modifier", Value::str(".cg")},
       {"eviction_policy", Value::str("evict_last")},
       {"volatile", Value::boolean(true)}});
  const ir::Op *load = function->block()->ops.back();
  EXPECT_EQ(load->cache(), ".cg");
  EXPECT_EQ(load->evict(), "evict_last");
  EXPECT_EQ(load->isVolatile(), 1);
}

TEST_F(BuiltinsTest, BlockPointers) {
  Value n = var(Scalar::Int32), base = ptr(Scalar::Fp32);
  Value p = run("make_block_ptr",
                {base, Value::tuple({n, n}), Value::tuple({n, num(1)}), list({0, 0}), list({16, 8}), list({1, 0})});
  ASSERT_TRUE(p.isRecord()) << messages();
  EXPECT_EQ(repr(attr(p, "block_shape")), "(16, 8)");
  EXPECT_EQ(repr(attr(p, "dtype")), "pointer<float32>");
  EXPECT_EQ(repr(attr(p, "type")).substr(0, 15), "pointer<float32");
  p = method(p, "advance", {list({0, 8})});
  ops();
  Value x = run("load", {p}, {{"boundary_check", list({0, 1})}, {"padding_option", Value::str("zero")}});
  EXPECT_EQ(repr(x), "float32[16, 8]");
  const ir::Op *load = function->block()->ops.back();
  EXPECT_EQ(load->operands.size(), 3u);
  EXPECT_EQ(run("store", {p, x}, {{"boundary_check", list({1})}}).isNone(), true) << messages();
  EXPECT_EQ(function->block()->ops.back()->operands.size(), 3u);
}

TEST_F(BuiltinsTest, Atomics) {
  Value p = ptr(Scalar::Int32, {64}), u = ptr(Scalar::UInt32), f = ptr(Scalar::Fp32), h = ptr(Scalar::Fp16);
  expect(run("atomic_add", {p, num(1)}), "int32[64]", "atomic_rmw");
  expect(run("atomic_add", {h, real(1)}), "float16", "atomic_rmw");
  expect(run("atomic_max", {u, var(Scalar::UInt32)}), "uint32", "atomic_rmw");
  EXPECT_EQ(run("atomic_min", {u, var(Scalar::UInt32)}).asTensor().value->def->rmw(), "umin");
  ops();
  expect(run("atomic_max", {f, var(Scalar::Fp32)}), "float32",
         "bitcast bitcast cmpi cmpi atomic_rmw atomic_rmw select bitcast");
  Value v =
      run("atomic_xchg", {p, var(Scalar::Int32), var(Scalar::Int1, {64}), Value::str("release"), Value::str("sys")});
  EXPECT_EQ(v.asTensor().value->def->sem(), "release");
  EXPECT_EQ(v.asTensor().value->def->scope(), "sys");
  ops();
  expect(run("atomic_cas", {ptr(Scalar::Int32), num(0), num(1)}), "int32", "atomic_cas");
  expect(run("atomic_load", {h}), "float16", "bitcast poison atomic_rmw bitcast");
  expect(run("atomic_load", {ptr(Scalar::Int1), var(Scalar::Int1, {4})}), "int1[4]", "splat poison atomic_rmw cmpi");
  EXPECT_TRUE(run("atomic_store", {u, num(1), Value::none(), Value::str("relaxed")}).isNone());
  EXPECT_EQ(ops(), "atomic_rmw");
  expect(run("atomic_poll", {p, num(1)}), "int1[64]", "poison atomic_rmw cmpi");
}

TEST_F(BuiltinsTest, MapElementwise) {
  Value x = var(Scalar::Int32, {8});
  expect(run("map_elementwise", {fn("add"), x, num(3)}), "int32[8]", "add");
  expect(run("map_elementwise", {fn("add"), var(Scalar::Int32, {4, 1}), var(Scalar::Int32, {8})}), "int32[4, 8]",
         "broadcast expand_dims broadcast add");
  expect(run("map_elementwise", {fn("add"), var(Scalar::Fp32), num(3)}), "float32", "fadd");
}

TEST_F(BuiltinsTest, InlineAsm) {
  Value x = var(Scalar::Int32, {8}), f = var(Scalar::Fp32, {8}), bytes = var(Scalar::Int8, {8}),
        yes = Value::boolean(true), no = Value::boolean(false);
  auto text = [](const char *s) { return Value::str(s); };
  auto asmOf = [&](const char *code, const char *constraints, std::vector<Value> args, Value type, Value pure,
                   int pack) {
    return run("inline_asm_elementwise",
               {text(code), text(constraints), Value::tuple(std::move(args)), type, pure, num(pack)});
  };
  expect(asmOf("add.s32 $0, $1, $2;", "=r,r,r", {x, num(3)}, dt(Scalar::Int32), yes, 1), "int32[8]", "asm");
  expect(asmOf("mov.b32 $0, $1;", "=r,r", {f}, dt(Scalar::Fp16), no, 1), "float16[8]", "asm_effect bitcast");
  expect(asmOf("mov.b32 $0, 1;", "=r", {}, dt(Scalar::UInt32), yes, 1), "uint32", "asm");
  expect(asmOf("mov.b32 $0, $2; mov.b32 $1, $2;", "=r,=r,r", {x}, Value::tuple({dt(Scalar::Int32), dt(Scalar::Fp32)}),
               no, 1),
         "(int32[8], float32[8])", "asm_effect");
  expect(asmOf("mov.b32 $0, $1;", "=r,r", {bytes}, dt(Scalar::Int8), yes, 2), "int8[8]",
         "reshape split zext zext shl or asm trunc lshr trunc join reshape");
}

TEST_F(BuiltinsTest, Dot) {
  Value a = var(Scalar::Fp16, {16, 32}), b = var(Scalar::Fp16, {32, 8}), acc = var(Scalar::Fp32, {16, 8});
  expect(run("dot", {a, b}), "float32[16, 8]", "dot");
  expect(run("dot", {a, b, acc}), "float32[16, 8]", "dot");
  expect(run("dot", {a, b}, {{"out_dtype", dt(Scalar::Fp16)}}), "float16[16, 8]", "dot");
  expect(run("dot", {a, b, var(Scalar::Fp16, {16, 8})}), "float16[16, 8]", "dot");
  expect(run("dot", {var(Scalar::Int8, {16, 32}), var(Scalar::Int8, {32, 8})}), "int32[16, 8]", "dot");
  expect(run("dot", {var(Scalar::Fp8e5, {16, 32}), var(Scalar::Fp8e4nv, {32, 8})}), "float32[16, 8]", "dot");
  expect(run("dot", {var(Scalar::Fp32, {2, 4, 16, 32}), var(Scalar::Fp32, {2, 4, 32, 8})}), "float32[2, 4, 16, 8]",
         "reshape reshape dot reshape");
  Value f = var(Scalar::Fp32, {16, 16});
  EXPECT_EQ(run("dot", {f, f}).asTensor().value->def->precision(), "ieee");
  EXPECT_EQ(run("dot", {f, f}, {{"allow_tf32", Value::boolean(true)}}).asTensor().value->def->precision(),
            "tf32");
  EXPECT_EQ(run("dot", {f, f}, {{"input_precision", Value::str("tf32x3")}}).asTensor().value->def->precision(),
            "tf32x3");
}

TEST_F(BuiltinsTest, Elementwise) {
  Value f = var(Scalar::Fp32, {8}), h = var(Scalar::Fp16, {8}), bf = var(Scalar::Bf16, {8}),
        i = var(Scalar::Int32, {8});
  Value u = var(Scalar::UInt32, {8}), m = var(Scalar::Int1, {8}), all = *findConstant("PropagateNan");
  for (const char *name : {"exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil"})
    expect(run(name, {f}), "float32[8]", name);
  expect(run("sqrt_rn", {f}), "float32[8]", "sqrt");
  expect(run("exp", {real(1)}), "float32", "exp");
  expect(run("abs", {f}), "float32[8]", "fabs");
  expect(run("abs", {i}), "int32[8]", "absi");
  expect(run("abs", {u}), "uint32[8]", "");
  expect(run("maximum", {h, real(0)}), "float16[8]", "maxnum");
  expect(run("minimum", {bf, bf}), "bfloat16[8]", "minnum");
  expect(run("maximum", {f, f, attr(all, "ALL")}), "float32[8]", "maximum");
  expect(run("maximum", {u, i}), "uint32[8]", "umax");
  expect(run("clamp", {f, real(0), real(6)}), "float32[8]", "maxnum minnum");
  expect(run("fma", {f, f, f}), "float32[8]", "fma");
  expect(run("add_f32x2", {f, f}), "float32[8]", "fadd");
  expect(run("sub_f32x2", {f, real(1)}), "float32[8]", "fsub");
  expect(run("mul_f32x2", {f, f}), "float32[8]", "fmul");
  expect(run("fma_f32x2", {f, f, real(1)}), "float32[8]", "fma");
  expect(run("div_rn", {f, f}), "float32[8]", "fdiv");
  expect(run("clamp", {i, num(0), num(6)}), "int32[8]", "smax smin");
  expect(run("fdiv", {h, h}), "float32[8]", "fpext fpext fdiv");
  expect(run("umulhi", {u, u}), "uint32[8]", "umulhi");
  expect(run("where", {m, h, real(0)}), "float16[8]", "select");
  expect(run("where", {m, num(1), real(0)}), "float32[8]", "select");
  expect(run("where", {m, ptr(Scalar::Int8), ptr(Scalar::Int8)}), "pointer<int8>[8]", "splat splat select");
  expect(run("mul", {num(3), num(4)}), "12", "");
  expect(run("expect_zero", {f, m}), "float32[8]", "");
  expect(run("extra.libdevice.tanh", {f}), "float32[8]", "tanh");
  expect(run("extra.libdevice.isnan", {f}), "int32[8]", "cmpf zext");
  expect(run("extra.libdevice.trunc", {f}), "float32[8]", "cmpf ceil floor select");
  for (const Builtin *b : allBuiltins()) {
    std::string name = b->name;
    if (!name.starts_with("extra.libdevice.") || name.find("_as_") != std::string::npos)
      continue;
    bool isInt = name.ends_with("clz") || name.ends_with("popc");
    Value r = run(name, std::vector<Value>(signatureOf(*b).params.size(), isInt ? i : f));
    EXPECT_TRUE(r.isTensor()) << name << messages();
  }
  ops();
  expect(run("extra.libdevice.float_as_int", {f}), "int32[8]", "bitcast");
}

TEST_F(BuiltinsTest, Reductions) {
  Value x = var(Scalar::Fp32, {4, 8}), add = fn("add"), keep = Value::boolean(true), none = Value::none();
  expect(run("reduce", {x, num(1), add}), "float32[4]", "reduce{fadd yield}");
  expect(run("reduce", {x, num(-2), add}), "float32[8]", "reduce{fadd yield}");
  expect(run("reduce", {x, none, add}), "float32", "reshape reduce{fadd yield}");
  expect(run("reduce", {x, none, add, keep}), "float32[1, 1]", "reshape reduce{fadd yield} splat");
  expect(run("reduce", {x, num(1), add, keep}), "float32[4, 1]", "reduce{fadd yield} reshape");
  expect(run("reduce", {var(Scalar::Int8, {8}), num(0), add}), "int8", "reduce{add yield}");
  expect(run("reduce", {Value::tuple({x, x}), num(0), fn("add_max")}), "(float32[8], float32[8])",
         "reduce{fadd maxnum yield}");
  expect(run("associative_scan", {x, num(0), add, keep}), "float32[4, 8]", "scan{fadd yield}");
  expect(method(x, "reduce", {num(0), add}), "float32[8]", "reduce{fadd yield}");
  expect(run("histogram", {var(Scalar::Int32, {64}), num(16)}), "int32[16]", "histogram");
  expect(run("histogram", {var(Scalar::Int1, {64}), num(2)}), "int32[2]", "zext histogram");
  expect(run("histogram", {var(Scalar::Int32, {64}), num(1), var(Scalar::Int1, {64})}), "int32[1]", "histogram");
  expect(run("gather", {x, var(Scalar::Int8, {4, 2}), num(1)}), "float32[4, 2]", "sext gather");
}

TEST_F(BuiltinsTest, HintsAndDebugging) {
  Value i = op(BinOp::Mul, var(Scalar::Int32), var(Scalar::Int32));
  run("multiple_of", {i, num(16)});
  EXPECT_EQ(i.asTensor().value->def->divisibility()[0], 16);
  run("max_contiguous", {run("multiple_of", {i, list({8})}), num(4)});
  EXPECT_EQ(i.asTensor().value->def->divisibility()[0], 16);
  EXPECT_EQ(i.asTensor().value->def->contiguity()[0], 4);
  ops();
  expect(run("assume", {var(Scalar::Int1)}), "None", "assume");
  expect(run("debug_barrier", {}), "None", "barrier");
  run("device_print", {Value::str("x"), i, var(Scalar::UInt32, {8})});
  EXPECT_EQ(function->block()->ops.back()->prefix(), " x: ");
  EXPECT_EQ(function->block()->ops.back()->signs()[1], 0);
  ops();
  expect(run("device_assert", {var(Scalar::Int1, {8}), Value::str("m")}), "None", "");
  target.debug = true;
  expect(run("device_assert", {var(Scalar::Int1, {8}), Value::str("m")}), "None", "assert");
  expect(run("expect_zero", {var(Scalar::Fp32, {8}), var(Scalar::Int1, {8})}), "float32[8]", "cmpf assert");
  run("static_assert", {cmp(Cmp::Eq, num(1), num(1))});
  run("static_print", {Value::str("a"), num(1), var(Scalar::Int32, {8}), dt(Scalar::Fp16)});
  EXPECT_EQ(c.printed, "a 1 int32[constexpr[8]] fp16\n");
  EXPECT_EQ(repr(run("target_info.is_cuda", {})), "False");
  target.name = "cuda", target.cudaCapability = 90;
  EXPECT_EQ(repr(run("target_info.cuda_capability_geq", {num(9)})), "True");
  EXPECT_EQ(repr(run("target_info.cuda_capability_geq", {num(10), num(0)})), "False");
  EXPECT_EQ(messages(), "");
}

TEST_F(BuiltinsTest, Types) {
  expect(run("pointer_type", {dt(Scalar::Fp16)}), "pointer<float16>", "");
  expect(run("block_type", {dt(Scalar::Fp16), list({4, 4})}), "float16[4, 4]", "");
  expect(run("constexpr", {num(3)}), "3", "");
  expect(run("dtype", {Value::str("fp32")}), "float32", "");
  expect(run("tuple", {list({1})}), "(1,)", "");
}

} // namespace
} // namespace tegula::lang
