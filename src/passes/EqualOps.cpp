// Hashing and comparing operations; see EqualOps.h.
#include "passes/EqualOps.h"
#include <bit>
#include <functional>

namespace tegula {

using namespace ir;

namespace {

void mix(uint64_t &h, uint64_t v) { h = (std::rotl(h, 23) ^ v) * 0x9E3779B97F4A7C15; }

void mixAttr(uint64_t &h, const AttrValue &v) {
  if (auto *i = std::get_if<int64_t>(&v))
    mix(h, static_cast<uint64_t>(*i));
  else if (auto *d = std::get_if<double>(&v))
    mix(h, std::bit_cast<uint64_t>(*d));
  else if (auto *s = std::get_if<std::string>(&v))
    mix(h, std::hash<std::string>()(*s));
  else
    for (int64_t x : std::get<std::vector<int64_t>>(v))
      mix(h, static_cast<uint64_t>(x));
}

uint64_t hashOf(const Op &op, uint64_t epoch) {
  uint64_t h = static_cast<uint64_t>(op.kind);
  mix(h, epoch);
  for (const Value *v : op.operands)
    mix(h, reinterpret_cast<uintptr_t>(v));
  for (const Attr &a : op.attrs)
    mixAttr(h, a.value);
  for (const Value *v : op.results) {
    mix(h, static_cast<uint64_t>(v->type.elem) * 2 + v->type.isPtr);
    for (int32_t d : v->type.shape)
      mix(h, static_cast<uint64_t>(d));
  }
  return h;
}

bool sameValue(const AttrValue &a, const AttrValue &b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

bool sameOp(const Op &a, const Op &b) {
  if (a.kind != b.kind || a.operands != b.operands || a.attrs.size() != b.attrs.size() ||
      a.results.size() != b.results.size())
    return false;
  for (size_t i = 0; i < a.results.size(); ++i)
    if (a.results[i]->type != b.results[i]->type)
      return false;
  for (size_t i = 0; i < a.attrs.size(); ++i)
    if (a.attrs[i].key != b.attrs[i].key || !sameValue(a.attrs[i].value, b.attrs[i].value))
      return false;
  return true;
}

} // namespace

Op *EqualOps::findOrAdd(Op &op, uint64_t epoch) {
  if (!op.regions.empty())
    return &op;
  uint64_t h = hashOf(op, epoch);
  auto [it, isNew] = heads_.emplace(h, -1);
  for (int32_t i = it->second; i >= 0; i = entries_[static_cast<size_t>(i)].previous) {
    const Entry &e = entries_[static_cast<size_t>(i)];
    ++compared_;
    if (e.epoch == epoch && sameOp(*e.op, op))
      return e.op;
  }
  entries_.push_back({&op, h, epoch, it->second});
  it->second = static_cast<int32_t>(entries_.size()) - 1;
  return &op;
}

void EqualOps::close(size_t scope) {
  while (entries_.size() > scope) {
    const Entry &e = entries_.back();
    if (e.previous < 0)
      heads_.erase(e.hash);
    else
      heads_[e.hash] = e.previous;
    entries_.pop_back();
  }
}

} // namespace tegula
