// The kernels of kernels.py in C++.
#pragma once
#include <tegula/tile.hpp>

namespace tg = tegula::tile;

constexpr auto vector_add = tg::kernel("vector_add(x, y, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const float> y, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto offsets = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto mask = offsets < n;
  tg::store(out + offsets, tg::load(x + offsets, mask) + tg::load(y + offsets, mask), mask);
});

constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr auto softmax_rows = tg::kernel("softmax_rows(x, out, stride, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int stride, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto row = tg::program_id(0);
  auto columns = tg::arange(0, BLOCK);
  auto mask = columns < n;
  auto values = tg::load(x + row * stride + columns, mask, -infinity);
  auto e = tg::exp(values - tg::max(values, 0));
  tg::store(out + row * stride + columns, e / tg::sum(e, 0), mask);
});

constexpr auto layer_norm = tg::kernel("layer_norm(x, w, b, out, n, eps, BLOCK)", [](tg::Ptr<const tg::half> x, tg::Ptr<const float> w, tg::Ptr<const float> b, tg::Ptr<tg::half> out, tg::Int n, tg::Float eps,
                                                                                  tg::Constexpr<int> BLOCK) {
  auto row = tg::program_id(0);
  auto mean = tg::zeros<float>({BLOCK});
  tg::range(0, n, BLOCK, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    mean += tg::load(x + row * n + i, i < n, 0.0).to<float>();
  });
  auto m = tg::sum(mean, 0) / n;
  auto square = tg::zeros<float>({BLOCK});
  tg::range(0, n, BLOCK, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    auto d = tg::where(i < n, tg::load(x + row * n + i, i < n, 0.0).to<float>() - m, 0.0);
    square += d * d;
  });
  auto scale = tg::rsqrt(tg::sum(square, 0) / n + eps);
  tg::range(0, n, BLOCK, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    auto v = tg::load(x + row * n + i, i < n).to<float>();
    tg::store(out + row * n + i, (v - m) * scale * tg::load(w + i, i < n) + tg::load(b + i, i < n), i < n);
  });
});

constexpr auto matmul = tg::kernel("matmul(a, b, c, M, N, K, BM, BN, BK)", [](tg::Ptr<const tg::half> a, tg::Ptr<const tg::half> b, tg::Ptr<tg::half> c, tg::Int M, tg::Int N, tg::Int K, tg::Constexpr<int> BM,
                                                                              tg::Constexpr<int> BN, tg::Constexpr<int> BK) {
  auto m = tg::program_id(0) * BM + tg::arange(0, BM);
  auto n = tg::program_id(1) * BN + tg::arange(0, BN);
  auto acc = tg::zeros<float>({BM, BN});
  tg::range(0, K, BK, {.num_stages = 3}, [&](tg::Int start) {
    auto k = start + tg::arange(0, BK);
    auto left = tg::load(a + m.column() * K + k.row(), (m.column() < M) & (k.row() < K), 0.0);
    auto right = tg::load(b + k.column() * N + n.row(), (k.column() < K) & (n.row() < N), 0.0);
    acc = tg::dot(left, right, acc);
  });
  tg::store(c + m.column() * N + n.row(), acc.to<tg::half>(), (m.column() < M) & (n.row() < N));
});

constexpr auto shared_sums = tg::kernel("shared_sums(x, out, n, BLOCK, PARTS)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK, tg::Constexpr<int> PARTS) {
  auto i = tg::arange(0, BLOCK);
  auto acc = tg::zeros<float>({BLOCK});
  tg::range(0, n, {.split = PARTS}, [&](tg::Int k) { acc += tg::load(x + k * BLOCK + i); });
  auto more = tg::zeros<float>({BLOCK});
  if (PARTS == 0) tg::range(0, n, {.split = "auto"}, [&](tg::Int k) { more += tg::load(x + k * BLOCK + i) * 0.5; });
  tg::store(out + i, acc + more);
});

constexpr auto matmul_descriptors = tg::kernel("matmul_descriptors(a, b, c, K, BM, BN, BK)", [](tg::Desc<tg::half> a, tg::Desc<tg::half> b, tg::Desc<tg::half> c, tg::Int K, tg::Constexpr<int> BM, tg::Constexpr<int> BN,
                                                                                              tg::Constexpr<int> BK) {
  auto m = tg::program_id(0) * BM;
  auto n = tg::program_id(1) * BN;
  auto acc = tg::zeros<float>({BM, BN});
  tg::range(0, K, BK, [&](tg::Int k) { acc = tg::dot(a.load({m, k}), b.load({k, n}), acc); });
  c.store({m, n}, acc.to<tg::half>());
});

constexpr auto attention = tg::kernel("attention(q, k, v, out, n, scale, M, N, D)", [](tg::Ptr<const tg::half> q, tg::Ptr<const tg::half> k, tg::Ptr<const tg::half> v, tg::Ptr<tg::half> out, tg::Int n, tg::Float scale,
                                                                                       tg::Constexpr<int> M, tg::Constexpr<int> N, tg::Constexpr<int> D) {
  auto rows = tg::program_id(0) * M + tg::arange(0, M);
  auto d = tg::arange(0, D);
  auto query = tg::load(q + rows.column() * D + d.row());
  auto top = tg::full<float>({M}, -infinity);
  auto total = tg::zeros<float>({M});
  auto acc = tg::zeros<float>({M, D});
  tg::range(0, n, N, [&](tg::Int start) {
    auto keys = start + tg::arange(0, N);
    auto s = tg::dot(query, tg::trans(tg::load(k + keys.column() * D + d.row()))) * scale;
    s = tg::where(rows.column() >= keys.row(), s, -infinity);
    auto now = tg::maximum(top, tg::max(s, 1));
    auto alpha = tg::exp2(top - now);
    auto p = tg::exp2(s - now.column());
    total = total * alpha + tg::sum(p, 1);
    acc = acc * alpha.column();
    acc = tg::dot(p.to<tg::half>(), tg::load(v + keys.column() * D + d.row()), acc);
    top = now;
  });
  tg::store(out + rows.column() * D + d.row(), (acc / total.column()).to<tg::half>());
});

constexpr auto rotate = tg::kernel("rotate(x, cosine, sine, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const float> cosine, tg::Ptr<const float> sine, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto [even, odd] = tg::split(tg::reshape(tg::load(x + i), {BLOCK / 2, 2}));
  auto h = tg::arange(0, BLOCK / 2);
  auto c = tg::load(cosine + h);
  auto s = tg::load(sine + h);
  tg::store(out + i, tg::reshape(tg::join(even * c - odd * s, even * s + odd * c), {BLOCK}));
});

constexpr auto arg_reduce = tg::kernel("arg_reduce(x, value, index, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> value, tg::Ptr<int> index, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto [best, at] = tg::reduce(std::tuple(v, i), 0, [](auto a, auto i, auto b, auto j) {
    auto left = (a > b) | ((a == b) & (i < j));
    return std::tuple(tg::where(left, a, b), tg::where(left, i, j));
  });
  tg::store(value, best);
  tg::store(index, at);
});

constexpr auto scan = tg::kernel("scan(x, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  tg::store(out + i, tg::associative_scan(tg::load(x + i), 0, [](auto a, auto b) { return a * b; }));
});

constexpr auto count = tg::kernel("count(x, bins, n, BLOCK)", [](tg::Ptr<const int> x, tg::Ptr<int> bins, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  tg::atomic_add(bins + tg::load(x + i, i < n, 0), 1, i < n, {.sem = "relaxed"});
});

constexpr auto collatz = tg::kernel("collatz(x, out)", [](tg::Ptr<const int> x, tg::Ptr<int> out) {
  auto p = tg::program_id(0);
  auto n = tg::load(x + p);
  tg::Tile<int> steps = 0;
  tg::while_([&] { return n > 1; }, [&] {
    tg::if_(n % 2 == 0, [&] { n = n / 2; }).else_([&] { n = n * 3 + 1; });
    steps += 1;
  });
  tg::store(out + p, steps);
});

constexpr auto integers = tg::kernel("integers(x, y, out, BLOCK)", [](tg::Ptr<const int> x, tg::Ptr<const int> y, tg::Ptr<int> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto a = tg::load(x + i);
  auto b = tg::load(y + i);
  auto q = a / b + a % b;
  tg::store(out + i, ((q & 255) | (a << 3)) ^ (~b >> 1));
});

constexpr auto mixed = tg::kernel("mixed(x, y, out, n, s, BLOCK)", [](tg::Ptr<const tg::half> x, tg::Ptr<const tg::bf16> y, tg::Ptr<float> out, tg::Int n, tg::Float s, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto a = tg::load(x + i);
  auto b = tg::load(y + i);
  auto c = a * 2 + b;
  auto d = -c / n + s * a;
  tg::store(out + i, tg::where(a > 0.5, d, tg::minimum(c, 3.0)));
});

constexpr auto math = tg::kernel("math(x, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  v = tg::sin(v) + tg::cos(v) * tg::log(tg::abs(v) + 1.0);
  v = tg::fma(tg::sqrt(tg::abs(v)), tg::erf(v), tg::floor(v) - tg::ceil(v));
  tg::store(out + i, tg::clamp(tg::sigmoid(v), 0.1, 0.9));
});

constexpr auto narrow = tg::kernel("narrow(x, out, BLOCK)", [](tg::Ptr<const int8_t> x, tg::Ptr<int> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i);
  auto total = tg::sum(v, 0);
  auto high = tg::max(v, 0);
  tg::store(out, total + high + tg::argmax(v, 0));
});

constexpr auto tile_of_tiles = tg::kernel("tile_of_tiles(x, out, M, N)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> M, tg::Constexpr<int> N) {
  auto m = tg::arange(0, M);
  auto n = tg::arange(0, N);
  auto v = tg::load(x + tg::expand_dims(m, 1) * N + tg::expand_dims(n, 0));
  auto total = tg::sum(v, 1, {.keep_dims = true});
  auto wide = tg::broadcast_to(total, {M, N});
  tg::store(out + n.column() * M + m.row(), tg::trans(v - wide));
});

constexpr auto unrolled = tg::kernel("unrolled(x, out, BLOCK, PARTS)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> BLOCK, tg::Constexpr<int> PARTS) {
  auto i = tg::arange(0, BLOCK);
  auto total = tg::zeros<float>({BLOCK});
  for (int part = 0; part < PARTS; ++part) total += tg::load(x + (part * BLOCK + i));
  if (PARTS > 2) total = total / PARTS;
  tg::store(out + i, total);
});

template <typename T> tg::Tile<T> gelu(const tg::Tile<T> &x) { return x * 0.5 * (1.0 + tg::erf(x * 0.7071067811865476)); }

constexpr auto helper = tg::kernel("helper(x, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto v = gelu(tg::load(x + i, i < n));
  tg::store(out + i, v, i < n);
});

constexpr auto bits = tg::kernel("bits(x, out, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Constexpr<int> BLOCK) {
  auto i = tg::arange(0, BLOCK);
  auto v = tg::load(x + i).bitcast<int>();
  tg::store(out + i, (v & 0x7fffffff).bitcast<float>());
});

constexpr auto dropout = tg::kernel("dropout(x, out, n, seed, p, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Int seed, tg::Float p, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto keep = tg::rand(seed, i) > p;
  auto v = tg::load(x + i, i < n);
  tg::store(out + i, tg::where(keep, v / (1 - p), 0.0), i < n);
});

constexpr auto copy_blocks = tg::kernel("copy_blocks(x, out, rows, columns, M, N)", [](tg::Ptr<float> x, tg::Ptr<float> out, tg::Int rows, tg::Int columns, tg::Constexpr<int> M, tg::Constexpr<int> N) {
  auto source = tg::make_tensor_descriptor(x, {rows, columns}, {columns, 1}, {M, N});
  auto target = tg::make_tensor_descriptor(out, {rows, columns}, {columns, 1}, {M, N});
  tg::range(tg::program_id(0), tg::cdiv(rows, M), tg::num_programs(0), [&](tg::Int p) { target.store({p * M, 0}, source.load({p * M, 0})); });
});
