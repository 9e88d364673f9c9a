// Compares kernels.hpp with kernels.py, and structs.hpp with structs.py: `twins kernels.py structs.py` prints one line a kernel, and both texts where they differ.
#include "kernels.hpp"
#include "structs.hpp"
#include <cctype>
#include <iostream>
#include <map>

using namespace tegula;

/// Values are named after variables, which a C++ kernel does not know: numbered in order instead.
static std::string unnamed(std::string_view ir) {
  std::map<std::string, std::string, std::less<>> names;
  std::string out;
  for (size_t i = 0; i < ir.size(); ++i) {
    out += ir[i];
    if (ir[i] != '%') continue;
    size_t end = i + 1;
    while (end < ir.size() && (std::isalnum(static_cast<unsigned char>(ir[end])) || ir[end] == '_' || ir[end] == '.')) ++end;
    out += names.try_emplace(std::string(ir.substr(i + 1, end - i - 1)), std::to_string(names.size())).first->second;
    i = end - 1;
  }
  return out;
}

static std::string tileOf(const Result<Function> &f, const std::string &signature) {
  if (!f) return f.status().message();
  Result<Kernel> k = f->compile(signature);
  if (!k) return k.status().message();
  Result<std::string_view> ir = k->stage("tile");
  return ir ? unnamed(*ir) : ir.status().message();
}

static Result<Function> fromTrace(const Context &context, const char *name, const tg::Source &s) {
  TegulaModule *m = nullptr;
  if (Status bad = Status::from(tegula_module_from_trace(context.get(), "twins.cpp", s.text.data(), s.text.size(), s.origins.data(), s.origins.size(), &m)); !bad) return bad;
  return Module(m).kernel(name);
}

template <typename K, typename... C> static bool compare(const Context &context, const Module &twins, const char *name, const K &kernel, const std::string &types, const std::string &names, C... constexprs) {
  std::string signature = types;
  std::string_view left = names;
  [[maybe_unused]] auto add = [&](auto value) {
    signature += ", " + std::string(left.substr(0, left.find(' '))) + ":" + std::to_string(value);
    left.remove_prefix(std::min(left.size(), left.find(' ') + 1));
  };
  (add(constexprs), ...);
  std::string mine = tileOf(kernel(context).function(constexprs...), signature), twin = tileOf(twins.kernel(name), signature);
  bool same = mine == twin && mine.starts_with("kernel @");
  std::string checked = tileOf(fromTrace(context, name, kernel.checkedSource(constexprs...)), signature);
  bool typed = checked.starts_with("kernel @");
  std::cout << name << ": " << (same ? "same" : "different") << (typed ? "" : ", types differ") << '\n';
  if (!same) std::cout << kernel.source(constexprs...).text << mine << twin;
  if (!typed) std::cout << checked;
  return same && typed;
}

int main(int, char **argv) {
  Context context = Context::create().value();
  Module twins = context.load(argv[1]).value();
  bool all = true;
#define TWIN(k, types, ...) all &= compare(context, twins, #k, k, types, __VA_ARGS__)
  TWIN(vector_add, "x:*kf32:16, y:*kf32:16, out:*f32:16, n:i32", "BLOCK", 1024);
  TWIN(softmax_rows, "x:*kf32, out:*f32, stride:i32:16, n:i64", "BLOCK", 256);
  TWIN(layer_norm, "x:*kf16, w:*kf32, b:*kf32, out:*f16, n:i32, eps:f32", "BLOCK", 128);
  TWIN(matmul, "a:*kf16:16, b:*kf16:16, c:*f16:16, M:i32, N:i32:16, K:i32:16", "BM BN BK", 64, 64, 32);
  TWIN(shared_sums, "x:*kf32:16, out:*f32:16, n:i32", "BLOCK PARTS", 128, 4);
  TWIN(shared_sums, "x:*kf32:16, out:*f32:16, n:i32", "BLOCK PARTS", 128, 0);
  TWIN(matmul_descriptors, "a:tensordesc<fp16[64, 32]>, b:tensordesc<fp16[32, 64]>, c:tensordesc<fp16[64, 64]>, K:i32", "BM BN BK", 64, 64, 32);
  TWIN(attention, "q:*kf16:16, k:*kf16:16, v:*kf16:16, out:*f16:16, n:i32:16, scale:f32", "M N D", 64, 32, 64);
  TWIN(rotate, "x:*kf32, cosine:*kf32, sine:*kf32, out:*f32", "BLOCK", 128);
  TWIN(arg_reduce, "x:*kf32, value:*f32, index:*i32", "BLOCK", 64);
  TWIN(scan, "x:*kf32, out:*f32", "BLOCK", 64);
  TWIN(count, "x:*ki32, bins:*i32, n:i32", "BLOCK", 64);
  TWIN(collatz, "x:*ki32, out:*i32", "");
  TWIN(integers, "x:*ki32, y:*ki32, out:*i32", "BLOCK", 64);
  TWIN(mixed, "x:*kf16, y:*kbf16, out:*f32, n:i32, s:f32", "BLOCK", 64);
  TWIN(mixed, "x:*kf16, y:*kbf16, out:*f32, n:1, s:f32", "BLOCK", 64);
  TWIN(math, "x:*kf32, out:*f32", "BLOCK", 64);
  TWIN(narrow, "x:*ki8, out:*i32", "BLOCK", 64);
  TWIN(tile_of_tiles, "x:*kf32, out:*f32", "M N", 16, 32);
  TWIN(unrolled, "x:*kf32, out:*f32", "BLOCK PARTS", 64, 3);
  TWIN(helper, "x:*kf32, out:*f32, n:i32", "BLOCK", 64);
  TWIN(bits, "x:*kf32, out:*f32", "BLOCK", 64);
  TWIN(dropout, "x:*kf32, out:*f32, n:i32, seed:i32, p:f32", "BLOCK", 64);
  TWIN(copy_blocks, "x:*f32:16, out:*f32:16, rows:i32:16, columns:i32:16", "M N", 16, 32);
  twins = context.load(argv[2]).value();
  TWIN(variance, "x:*kf32, mean:*f32, var:*f32, columns:i32", "BLOCK", 64);
  TWIN(suffix_max, "x:*kf32, key:*f32, a:*i32, b:*f32", "BLOCK", 64);
  TWIN(gcd, "x:*ki32, y:*ki32, out:*i32", "");
  TWIN(several, "x:*kf32, out:*f32", "BLOCK", 32);
  TWIN(order, "x:*kf32, y:*kf32, out:*f32", "BLOCK", 64);
  TWIN(clipped, "x:*kf32:16, h:*kf16:16, out:*f32:16, n:i32, limit:f32", "BLOCK", 64);
  TWIN(first_above, "x:*kf32, out:*i32, n:i32, rows:i32, limit:f32", "");
  return all ? 0 : 1;
}
