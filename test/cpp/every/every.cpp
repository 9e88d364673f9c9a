// Every function of the language in C++: compiled with the types that C++ takes values for as assertions (checkedSource), and run where a sum says that it does what it should.
// Prints what is wrong, and how much was right.
#include <tegula/tile.hpp>
#include <cstdio>
#include <set>
#include <vector>

namespace tg = tegula::tile;
using tegula::Context;

static constexpr auto shapes = tg::kernel("shapes(x, y, BLOCK)", [](tg::Ptr<float> x, tg::Ptr<int> y, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto column = tg::unsqueeze(v, 1);
  auto [a, b] = tg::broadcast(column, v.row());
  tg::store(x + tg::arange(0, 16), tg::squeeze(tg::sum(a + b, 1, {.keep_dims = true}), 1));
  auto whole = tg::view(tg::load(y + i), {4, 4});
  tg::store(y + i, tg::ravel(tg::trans(whole)));
  tg::store(y + i, tg::flip(tg::reshape(whole, {16})));
  tg::store(y + i, tg::cumsum(tg::load(y + i)));
  tg::store(y + i, tg::cumprod(tg::load(y + i), 0, {.reverse = true}));
  tg::store(x + i, tg::cumsum(v));
  tg::store(x + i, tg::sort(v, {.descending = true}));
  tg::store(x + i, tg::bitonic_merge(v));
  tg::store(x + tg::arange(0, 4), tg::topk(v, 4));
  tg::store(x + tg::arange(0, 4), tg::topk(v, 4, {.descending = false}));
  tg::store(y, tg::reduce_or(tg::load(y + i), 0));
  tg::store(x, tg::item(tg::sum(v, 0, {.keep_dims = true})));
  tg::store(x + i, tg::cast<float>(tg::cast<tg::half>(v)));
  tg::store(x + i, tg::add(v, tg::to_tensor(1.5)));
  tg::store(y + i, tg::mul(tg::load(y + i), 3, {.wrapping = true}));
  tg::store(y + i, tg::sub(tg::load(y + i), 3));
  tg::store(y + i, tg::umulhi(i.to<uint32_t>(), 77u).to<int>());
  auto [p, q] = tg::swizzle2d(tg::program_id(0), tg::program_id(1), 8, 8, 4);
  tg::store(y + p, q);
  tg::store(x + i, tg::expect_zero(v, v < 0), i < tg::next_power_of_2(9));
  tg::static_print("v", v);
});

static constexpr auto numbers = tg::kernel("numbers(x, y, seed)", [](tg::Ptr<float> x, tg::Ptr<uint32_t> y, tg::Int seed) {
  auto i = tg::arange(0, 16);
  tg::store(x + i, tg::rand(seed, i) + tg::randn(seed, i, 7));
  tg::store(y + i, tg::randint(seed, i));
  auto [a, b, c, d] = tg::randint4x(seed, i);
  tg::store(y + i, a ^ b ^ c ^ d);
  auto [u, v, w, z] = tg::rand4x(seed, i);
  auto [n1, n2, n3, n4] = tg::randn4x(seed, i);
  auto [m1, m2] = tg::pair_uniform_to_normal(tg::uint_to_uniform_float(a), u);
  tg::store(x + i, u + v + w + z + n1 + n2 + n3 + n4 + m1 + m2);
  auto [k0, k1, k2, k3] = tg::philox(seed, i, 0, 0, 0);
  auto j = i.to<uint32_t>();
  auto [l0, l1, l2, l3] = tg::philox_impl(j, j, j, j, j, j);
  auto [w0, w1, w2, w3] = tg::philox(seed, i.to<int64_t>(), 0, 0, 0);
  tg::store(y + i, k0 + k1 + k2 + k3 + l0 + l1 + l2 + l3 + (w0 + w1 + w2 + w3).to<uint32_t>());
});

static constexpr auto memory = tg::kernel("memory(x, y, n)", [](tg::Ptr<float> x, tg::Ptr<int> y, tg::Int n) {
  auto p = tg::make_block_ptr(x, {n, n}, {n, 1}, {0, 0}, {4, 4}, {1, 0});
  p = tg::advance(p, {0, 4});
  auto v = tg::load(p, {.boundary_check = {0, 1}, .padding = "zero"});
  tg::store(p, v + 1.0, {.boundary_check = {0}});
  tg::store(p, tg::load(p));
  tg::atomic_store(y, tg::atomic_load(y + 1));
  tg::atomic_store(y + 2, 5, tg::none, {.sem = "release"});
  tg::if_(tg::atomic_poll(y + 2, 5), [&] { tg::store(y + 3, tg::atomic_add(y + 4, 2)); });
  auto d = tg::make_tensor_descriptor(x, {n, n}, {n, 1}, {4, 4});
  tg::store_tensor_descriptor(d, {0, 0}, tg::load_tensor_descriptor(d, {4, 4}));
});

static constexpr auto scalars = tg::kernel("scalars(x, y)", [](tg::Ptr<float> x, tg::Ptr<int> y) {
  auto i = tg::arange(0, 16);
  auto v = tg::load(x + i);
  auto clipped = tg::map_elementwise(
      [](tg::Float e) {
        tg::Float r = e;
        tg::if_(e > 1.0, [&] { r = 1.0; }).else_([&] { r = e * 2.0; });
        return r;
      },
      v);
  auto [most, least] = tg::map_elementwise([](auto a, auto b) { return std::tuple(tg::maximum(a, b), tg::minimum(a, b)); }, v, clipped);
  auto pairs = tg::map_elementwise<2>([](auto a0, auto a1) { return std::tuple(a0 + a1, a0 - a1); }, v);
  tg::store(x + i, most + least + pairs);
  auto doubled = tg::inline_asm_elementwise<int>("shl.b32 $0, $1, 1;", "=r,r", std::tuple(tg::load(y + i)));
  auto [lo, hi] = tg::inline_asm_elementwise<int, int>("add.s32 $0, $2, 1;\nadd.s32 $1, $2, 2;", "=r,=r,r", std::tuple(doubled), {.is_pure = true, .pack = 1});
  tg::store(y + i, lo + hi);
});

static constexpr auto matrices = tg::kernel("matrices(a, b, s, out)", [](tg::Ptr<const uint8_t> a, tg::Ptr<const uint8_t> b, tg::Ptr<const uint8_t> s, tg::Ptr<float> out) {
  auto r = tg::arange(0, 32), k = tg::arange(0, 32), k2 = tg::arange(0, 1);
  auto x = tg::load(a + r.column() * 32 + k.row()), y = tg::load(b + k.column() * 32 + r.row());
  auto scale = tg::load(s + r.column() + k2.row());
  auto acc = tg::zeros<float>({32, 32});
  tg::store(out + r.column() * 32 + r.row(), tg::dot_scaled(x, scale, "e4m3", y, tg::none, "e5m2", acc));
});

static constexpr auto options = tg::kernel("options(x, y, h, BLOCK)", [](tg::Ptr<float> x, tg::Ptr<int> y, tg::Ptr<tg::half> h, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto n = tg::load(y + i);
  auto f = tg::load(h + i);
  tg::store(x, tg::sum(f, 0).to<float>() + tg::sum<float>(f, 0) + tg::item(tg::max(v, {.keep_dims = true})) + tg::min(f));
  tg::store(x + 1, tg::item(tg::sum<double>(v, {.keep_dims = true})));
  tg::store(y, tg::argmax(v, 0, {.tie_break_left = false}) + tg::argmin(f, 0) + tg::xor_sum(n) + tg::xor_sum(n, 0));
  auto [most, at] = tg::max_with_indices(v, 0);
  auto [least, where] = tg::min_with_indices(f, 0, {.tie_break_left = false});
  auto [kept, places] = tg::max_with_indices(n, 0, {.keep_dims = true});
  tg::store(x, most + least), tg::store(y, at + where), tg::store(y + tg::arange(0, 1), kept + places);
  tg::store(x + i, tg::cumsum<double>(v, 0, {.reverse = true}) + tg::cumprod<float>(f));
  tg::store(x + i, tg::sort(v, {.dim = 0}) + tg::topk(v, BLOCK, {.descending = false, .dim = 0}) + tg::flip(v, 0) + tg::flip(v));
  auto square = tg::reshape(v, {4, BLOCK / 4}, {.can_reorder = true});
  tg::store(x + i, tg::ravel(tg::softmax(square, {.dim = 1, .keep_dims = true, .ieee_rounding = true}), {.can_reorder = true}));
  tg::store(x + i, tg::ravel(tg::trans(tg::trans(square, {1, 0}))) + tg::item(tg::expand_dims(tg::sum(square), {0, 1})));
  tg::store(x + tg::arange(0, 2 * BLOCK), tg::cat(v, v, {.can_reorder = true}) + tg::ravel(tg::cat(square, square, {.dim = 1})));
  tg::store(x + i, tg::maximum(v, f, {.propagate_nan = true}) + tg::minimum(v, 1.0, {.propagate_nan = true}) + tg::clamp(v, 0.0, 1.0, {.propagate_nan = true}));
  tg::store(x + i, tg::fdiv(v, 3.0, {.approx = true}) + tg::fdiv(v, v, {.ieee_rounding = true}) + tg::fdiv(f, f));
  tg::store(h + i, v.to<tg::half>({.fp_downcast_rounding = "rtz"}) + tg::cast<tg::half>(v, {.fp_downcast_rounding = "rtne"}));
  tg::store(y + tg::arange(0, 4), tg::histogram(n, 4, n < 4));
  tg::store(y + i, tg::max_constancy(tg::max_contiguous(tg::multiple_of(n, {4}), {1}), 1));
  tg::store(tg::multiple_of(y + i, 4), n);
  tg::device_assert(v < 1000.0, "large", i < BLOCK);
  tg::device_print("values", v, n, 5);
  tg::device_print("bits", {.hex = true}, n);
  tg::static_print("types", v, n);
  tg::store(x + i, tg::load(tg::where(i < 4, x + i, x)));
  tg::store(y + i, ((y + i).to<int64_t>() != (y + n).to<int64_t>()).to<int>());
  tg::store((y + i).to<int64_t>().to<tg::Ptr<int>>(), n);
  tg::store((y + i).to<tg::Ptr<float>>(), v);
  auto count = tg::sum(n, 0);
  tg::while_([&] { return count > 0; }, {.disable_licm = true}, [&] { count = count - 5; });
  tg::range(count, {.num_stages = 2, .loop_unroll_factor = 2, .flatten = true, .warp_specialize = true, .disallow_acc_multi_buffer = true, .disable_licm = true}, [&](tg::Int k) { tg::store(y + k, k); });
  tg::range(0, count, {.warp_specialize = tg::never}, [&](tg::Int k) { tg::store(y + k, k); });
  tg::range(4, [&](tg::Int k) { tg::store(y + k, k); });
});

static constexpr auto products = tg::kernel("products(a, b, h, s, out)", [](tg::Ptr<const tg::half> a, tg::Ptr<const float> b, tg::Ptr<tg::half> h, tg::Ptr<const uint8_t> s, tg::Ptr<tg::bf16> out) {
  auto r = tg::arange(0, 32);
  auto place = r.column() * 32 + r.row();
  auto x = tg::load(a + place);
  auto y = tg::load(b + place);
  auto narrow = tg::dot<tg::half>(x, x);
  narrow = tg::dot(x, x, narrow);
  tg::store(h + place, narrow + tg::dot(y, y, {.input_precision = "ieee", .max_num_imprecise_acc = 32}).to<tg::half>());
  auto bytes = tg::load(s + place);
  tg::store(out + place, tg::dot_scaled(bytes, tg::none, "e4m3", bytes, tg::none, "e4m3").to<tg::bf16>());
});

static constexpr auto rows = tg::kernel("rows(x, y, d, n)", [](tg::Ptr<float> x, tg::Ptr<const int> y, tg::Desc<float> d, tg::Int n) {
  auto each = tg::load(y + tg::arange(0, 8));
  d.scatter(d.gather(each, 4) + 1.0, each, 0);
  auto t = tg::make_tensor_descriptor(x, {n, n}, {n, 1}, {8, 16}, {.padding = "nan"});
  auto v = t.load({0, 0});
  t.atomic_add({0, 0}, v);
  auto whole = tg::make_tensor_descriptor(x.to<tg::Ptr<uint32_t>>(), {n, n}, {n, 1}, {8, 16});
  auto w = whole.load({0, 0});
  whole.atomic_min({0, 0}, w), whole.atomic_max({0, 0}, w), whole.atomic_and({0, 0}, w), whole.atomic_or({0, 0}, w), whole.atomic_xor({0, 0}, w);
  tg::store(x, (t.shape(0) + t.stride(0) + d.shape(1)).to<float>());
});

/// Functions of libdevice of operands of one type: the one of that number. The language refuses some types, C++ must agree about all others.
template <typename T> struct Libdevice {
  using Call = void (*)(tg::Ptr<T>);
  struct Row {
    const char *name;
    Call call;
  };
  static constexpr Row rows[] = {
#define TEGULA_LIBDEVICE1(name, rule) {#name, [](tg::Ptr<T> p) { auto x = tg::load(p); tg::store(p, tg::libdevice::name(x)); }},
#define TEGULA_LIBDEVICE2(name, rule) {#name, [](tg::Ptr<T> p) { auto x = tg::load(p); tg::store(p, tg::libdevice::name(x, x)); }},
#define TEGULA_LIBDEVICE3(name, rule) {#name, [](tg::Ptr<T> p) { auto x = tg::load(p); tg::store(p, tg::libdevice::name(x, x, x)); }},
#define TEGULA_LIBDEVICE4(name, rule) {#name, [](tg::Ptr<T> p) { auto x = tg::load(p); tg::store(p, tg::libdevice::name(x, x, x, x)); }},
#include <tegula/tile/libdevice.inc>
  };
  static constexpr auto kernel = tg::kernel("one(x, WHICH)", [](tg::Ptr<T> x, tg::Constexpr<int> which) { rows[which].call(x); });
};

static int wrong = 0, right = 0;

static std::string compiled(const Context &context, const tg::Source &s, const char *name, const std::string &signature) {
  TegulaModule *m = nullptr;
  if (auto bad = tegula::Status::from(tegula_module_from_trace(context.get(), name, s.text.data(), s.text.size(), s.origins.data(), s.origins.size(), &m)); !bad) return bad.message();
  auto f = tegula::Module(m).kernel(name);
  char *text = nullptr;
  size_t n = 0;
  auto status = tegula::Status::from(tegula_emit(f->get(), signature.c_str(), nullptr, 0, "cpu", nullptr, "tile", &text, &n));
  tegula_free(text);
  return status.message();
}

template <typename T> static void libdevice(const Context &context, const char *type, std::set<std::string> &seen) {
  for (int i = 0; i < static_cast<int>(std::size(Libdevice<T>::rows)); ++i) {
    std::string said = compiled(context, Libdevice<T>::kernel.checkedSource(i), "one", std::string("x:*") + type + ", WHICH:" + std::to_string(i));
    if (said.empty()) ++right, seen.insert(Libdevice<T>::rows[i].name);
    else if (said.find("the element type that C++ takes this for") != said.npos) ++wrong, std::printf("libdevice.%s of %s\n%s\n", Libdevice<T>::rows[i].name, type, said.c_str());
  }
}

template <typename K, typename... C> static void check(const Context &context, const K &kernel, const char *name, const std::string &signature, C... constexprs) {
  std::string said = compiled(context, kernel.checkedSource(constexprs...), name, signature);
  if (said.empty()) ++right;
  else ++wrong, std::printf("%s\n%s\n", name, said.c_str());
}

int main() {
  Context context = Context::create().value();
  std::set<std::string> seen{"jn", "yn"}; // of a whole number and a real one: below
  libdevice<float>(context, "f32", seen);
  libdevice<double>(context, "f64", seen);
  libdevice<int32_t>(context, "i32", seen);
  libdevice<int64_t>(context, "i64", seen);
  libdevice<tg::half>(context, "f16", seen);
  if (seen.size() != std::size(Libdevice<float>::rows)) ++wrong, std::printf("%zu functions of libdevice take something, of %zu\n", seen.size(), std::size(Libdevice<float>::rows));
  static constexpr auto bessel = tg::kernel("bessel(x, y)", [](tg::Ptr<float> x, tg::Ptr<int> y) {
    auto v = tg::load(x);
    auto n = tg::load(y);
    tg::store(x, tg::libdevice::jn(n, v) + tg::libdevice::yn(n, v) + tg::libdevice::ldexp(v, n));
  });
  check(context, bessel, "bessel", "x:*f32, y:*i32");
  check(context, shapes, "shapes", "x:*f32, y:*i32, BLOCK:16", 16);
  check(context, numbers, "numbers", "x:*f32, y:*u32, seed:i32");
  check(context, memory, "memory", "x:*f32:16, y:*i32, n:i32:16");
  check(context, scalars, "scalars", "x:*f32, y:*i32");
  check(context, options, "options", "x:*f32, y:*i32, h:*f16, BLOCK:16", 16);
  check(context, products, "products", "a:*kf16, b:*kf32, h:*f16, s:*ku8, out:*bf16");
  check(context, rows, "rows", "x:*f32:16, y:*ki32, d:tensordesc<fp32[1, 16]>, n:i32:16");
  check(context, matrices, "matrices", "a:*ku8, b:*ku8, s:*ku8, out:*f32");

  std::vector<float> x(16, 0.75f);
  std::vector<int> y(16, 3);
  tegula::Status s = scalars(context)[tg::grid(1)](x, y);
  // 0.75 and its double; of each pair the sum and the difference.
  bool same = s && y[5] == 6 + 1 + 6 + 2;
  for (int i = 0; i < 16; ++i) same = same && x[i] == 2.25f + (i % 2 ? 0.0f : 1.5f);
  if (!same) ++wrong, std::printf("scalars: %g %g %d %s\n", x[0], x[1], y[5], s.message().c_str());
  std::printf("%d right, %d wrong\n", right, wrong);
  return wrong != 0;
}
