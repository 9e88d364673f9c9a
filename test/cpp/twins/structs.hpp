// The kernels of structs.py in C++: structs and tuples of tiles, helpers that are templates, loops that carry both and end early.
#pragma once
#include <array>
#include <cmath>
#include <tegula/tile.hpp>
#include <utility>

namespace tg = tegula::tile;

template <typename T> struct Moments {
  tg::Tile<T> mean, m2, count;
};
template <typename T> Moments<T> merge(const Moments<T> &a, const Moments<T> &b) {
  auto n = a.count + b.count;
  auto d = b.mean - a.mean;
  auto safe = tg::where(n > 0, n, T(1));
  return {a.mean + d * b.count / safe, a.m2 + b.m2 + d * d * a.count * b.count / safe, n};
}
constexpr auto variance = tg::kernel("variance(x, mean, var, columns, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> mean, tg::Ptr<float> var, tg::Int columns, tg::Constexpr<int> BLOCK) {
  auto row = tg::program_id(0);
  Moments<float> all{tg::zeros<float>({BLOCK}), tg::zeros<float>({BLOCK}), tg::zeros<float>({BLOCK})};
  tg::range(0, columns, BLOCK, {.warp_specialize = tg::never}, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    auto mask = i < columns;
    auto v = tg::load(x + row * columns + i, mask, 0.0);
    all = merge(all, {v, tg::zeros<float>({BLOCK}), mask.to<float>()});
  });
  auto total = tg::reduce(all, 0, merge<float>);
  tg::store(mean + row, total.mean);
  tg::store(var + row, total.m2 / total.count);
});

struct Payload {
  tg::Tile<int> a;
  tg::Tile<float> b;
};
struct Keyed {
  tg::Tile<float> key;
  Payload payload;
};
constexpr auto suffix_max = tg::kernel("suffix_max(x, key, a, b, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> key, tg::Ptr<int> a, tg::Ptr<float> b, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto s = tg::associative_scan(Keyed{v, {i, v * 2.0}}, 0, [](Keyed l, Keyed r) { return tg::where(l.key >= r.key, l, r); }, {.reverse = true});
  tg::store(key + i, s.key);
  tg::store(a + i, s.payload.a);
  tg::store(b + i, s.payload.b);
});

struct Gcd {
  tg::Tile<int> a, b;
};
constexpr auto gcd = tg::kernel("gcd(x, y, out)", [](tg::Ptr<const int> x, tg::Ptr<const int> y, tg::Ptr<int> out) {
  auto p = tg::program_id(0);
  Gcd g{tg::load(x + p), tg::load(y + p)};
  tg::while_([&] { return g.b != 0; }, [&] { g = {g.b, g.a % g.b}; });
  Gcd r;
  tg::if_(g.a < 0, [&] { r = {-g.a, g.b}; }).else_([&] { r = g; });
  tg::store(out + p, r.a);
});

constexpr auto several = tg::kernel("several(x, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto [lo, hi] = tg::reduce(std::pair(v, v), 0, [](auto a, auto b) { return std::pair(tg::minimum(a.first, b.first), tg::maximum(a.second, b.second)); });
  auto three = tg::reduce(std::array{v, v, v}, 0, [](const auto &l, const auto &r) { return std::array{l[0] + r[0], tg::maximum(l[1], r[1]), tg::minimum(l[2], r[2])}; });
  auto [s, q] = tg::reduce(std::tuple(v, v * v), 0, [](auto a, auto b, auto c, auto d) { return std::tuple(a + c, b + d); });
  auto one = tg::reduce(v, [](auto a, auto b) { return a + b; });
  auto [most, at] = tg::max_with_indices(v, 0);
  tg::store(out, lo);
  tg::store(out + 1, hi);
  tg::store(out + 2, three[0]);
  tg::store(out + 3, three[1] - three[2]);
  tg::store(out + 4, s);
  tg::store(out + 5, q);
  tg::store(out + 6, one);
  tg::store(out + 7, most + at);
});

struct Ordered {
  tg::Float lo, hi;
};
constexpr auto order = tg::kernel("order(x, y, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const float> y, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto r = tg::map_elementwise(
      [](tg::Float a, tg::Float b) {
        Ordered o{a, b};
        tg::if_(a > b, [&] { o = {b, a}; });
        return o;
      },
      tg::load(x + i), tg::load(y + i));
  tg::store(out + i, r.hi - r.lo);
});

/// A helper that C++ decides about: of which type, and whether a tile is scaled.
template <bool isScaled, typename T> auto widened(const tg::Tile<T> &x) {
  if constexpr (std::is_same_v<T, tg::half>) return x.template to<float>() * 2.0;
  else if constexpr (isScaled) return x * 0.5;
  else return x;
}
struct State {
  tg::Tile<float> sum;
  tg::Tile<int> count;
};
constexpr auto clipped = tg::kernel("clipped(x, h, out, n, limit, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const tg::half> h, tg::Ptr<float> out, tg::Int n, tg::Float limit, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  State s{tg::zeros<float>({BLOCK}), 0};
  tg::range(tg::program_id(0), n, tg::num_programs(0), {.num_stages = 2}, [&](tg::Int block) {
    // In one expression C++ compilers would call the two in an order of their own.
    auto a = widened<true>(tg::load(x + block * BLOCK + i));
    auto b = widened<true>(tg::load(h + block * BLOCK + i));
    auto v = a + b;
    s.sum += v;
    auto top = tg::max(v, 0);
    tg::while_([&] { return top > limit; }, [&] {
      s.count += 1;
      top = top * 0.5;
    });
    tg::if_(s.count > 3, [&] { s = {s.sum * 0.5, 0}; });
  });
  tg::store(out + tg::program_id(0) * BLOCK + i, s.sum + s.count);
});

constexpr auto first_above = tg::kernel("first_above(x, out, n, rows, limit)", [](tg::Ptr<const float> x, tg::Ptr<int> out, tg::Int n, tg::Int rows, tg::Float limit) {
  auto row = tg::program_id(0);
  tg::if_(row >= rows, [&] { tg::return_(); });
  tg::Tile<int> at = -1, skipped = 0;
  tg::range(n, [&](tg::Int i) {
    auto v = tg::load(x + row * n + i);
    tg::if_(v < 0, [&] {
      skipped += 1;
      tg::continue_();
    });
    tg::if_(v > limit, [&] {
      at = i.to<int>();
      tg::break_();
    });
  });
  tg::store(out + row * 2, at);
  tg::store(out + row * 2 + 1, skipped);
});
