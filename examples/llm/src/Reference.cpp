#include "Reference.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace llm {

namespace {

using Vector = std::vector<double>;

/// Rows [begin, begin + count) of m times x.
Vector product(const Matrix &m, const Vector &x, int64_t begin, int64_t count) {
  Vector y(static_cast<size_t>(count));
  for (int64_t n = 0; n < count; ++n)
    for (int64_t k = 0; k < m.inputs; ++k) y[size_t(n)] += double(m.at(begin + n, k)) * x[size_t(k)];
  return y;
}
Vector product(const Matrix &m, const Vector &x) { return product(m, x, 0, m.outputs); }

Vector norm(const Vector &x, const Tensor &weight, double eps) {
  double squares = 0;
  for (double v : x) squares += v * v;
  double scale = 1 / std::sqrt(squares / double(x.size()) + eps);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * double(weight.at(int64_t(i)));
  return y;
}

/// A head of queries or keys: normalized where it has a norm, and turned.
void turn(double *head, const Config &config, const Tensor &weight, int64_t position) {
  int64_t d = config.headDim;
  if (weight) {
    Vector normed = norm(Vector(head, head + d), weight, config.normEps);
    std::ranges::copy(normed, head);
  }
  for (int64_t i = 0; i < d / 2; ++i) {
    double angle = double(position) * config.angle(i), c = std::cos(angle) * config.rope.attention, s = std::sin(angle) * config.rope.attention;
    double low = head[i], high = head[i + d / 2];
    head[i] = low * c - high * s;
    head[i + d / 2] = high * c + low * s;
  }
}

Vector silu(Vector gate, const Vector &up) {
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return gate;
}

void add(Vector &x, const Vector &y, double factor = 1) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}

Vector feedForward(const Config &c, const LayerWeights &l, const Vector &x, double &margin) {
  if (!c.experts) return product(l.down, silu(product(l.gate, x), product(l.up, x)));
  Vector routes = product(l.router, x), sum(x.size());
  std::vector<int64_t> order(routes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t a, int64_t b) { return std::pair(-routes[size_t(a)], a) < std::pair(-routes[size_t(b)], b); });
  if (c.expertsPerToken < c.experts) margin = std::min(margin, routes[size_t(order[size_t(c.expertsPerToken - 1)])] - routes[size_t(order[size_t(c.expertsPerToken)])]);
  double total = 0;
  for (int64_t i = 0; i < c.expertsPerToken; ++i) total += std::exp(routes[size_t(order[size_t(i)])] - routes[size_t(order[0])]);
  for (int64_t i = 0; i < c.expertsPerToken; ++i) {
    int64_t e = order[size_t(i)];
    Vector h = silu(product(l.expertGate, x, e * c.intermediate, c.intermediate), product(l.expertUp, x, e * c.intermediate, c.intermediate));
    add(sum, product(l.expertDown, h, e * c.hidden, c.hidden), std::exp(routes[size_t(e)] - routes[size_t(order[0])]) / total);
  }
  return sum;
}

} // namespace

Reference reference(const Weights &w, std::span<const int32_t> tokens) {
  const Config &c = w.config;
  int64_t d = c.headDim, group = c.heads / c.kvHeads;
  std::vector<std::vector<Vector>> keys(size_t(c.layers)), values(size_t(c.layers)); // by layer and position
  Reference all;
  for (size_t t = 0; t < tokens.size(); ++t) {
    double margin = INFINITY;
    Vector x(static_cast<size_t>(c.hidden));
    for (int64_t i = 0; i < c.hidden; ++i) x[size_t(i)] = double(w.embedding.at(tokens[t] * c.hidden + i));
    for (size_t i = 0; i < w.layers.size(); ++i) {
      const LayerWeights &l = w.layers[i];
      Vector h = norm(x, l.attentionNorm, c.normEps), q = product(l.q, h), k = product(l.k, h), v = product(l.v, h), out(q.size());
      if (c.qkvBias)
        for (auto [x, bias] : {std::pair(&q, &l.qBias), {&k, &l.kBias}, {&v, &l.vBias}})
          for (size_t e = 0; e < x->size(); ++e) (*x)[e] += double(bias->at(int64_t(e)));
      for (int64_t head = 0; head < c.heads; ++head) turn(&q[size_t(head * d)], c, l.queryNorm, int64_t(t));
      for (int64_t head = 0; head < c.kvHeads; ++head) turn(&k[size_t(head * d)], c, l.keyNorm, int64_t(t));
      keys[i].push_back(k);
      values[i].push_back(v);
      for (int64_t head = 0; head < c.heads; ++head) {
        size_t at = size_t(head * d), kv = size_t(head / group * d);
        size_t first = c.window && t + 1 > size_t(c.window) ? t + 1 - size_t(c.window) : 0;
        Vector p(t + 1, -INFINITY);
        for (size_t s = first; s <= t; ++s) {
          p[s] = 0;
          for (size_t e = 0; e < size_t(d); ++e) p[s] += q[at + e] * keys[i][s][kv + e] / std::sqrt(double(d));
        }
        double top = *std::ranges::max_element(p), total = 0;
        for (double &v : p) total += v = std::exp(v - top);
        for (size_t s = first; s <= t; ++s)
          for (size_t e = 0; e < size_t(d); ++e) out[at + e] += p[s] / total * values[i][s][kv + e];
      }
      add(x, product(l.o, out));
      add(x, feedForward(c, l, norm(x, l.feedForwardNorm, c.normEps), margin));
    }
    all.logits.push_back(product(w.output, norm(x, w.finalNorm, c.normEps)));
    all.margins.push_back(margin);
  }
  return all;
}

} // namespace llm
