// Follows a conversion plan, step by step, through an emitter of single steps: a code generator or a test.
//
// `Emit` provides a type Value (copyable; a register, or a packed word) and
//   Value pack(std::span<const Value> elements);               lowest bits first; one element is its own word
//   std::vector<Value> unpack(const Value &word, size_t n);
//   Value select(const ThreadBit &when, const Value &ifSet, const Value &ifClear);
//   Value shuffle(const Value &word, const ThreadMap &sourceLane, uint32_t laneXor);      shfl.idx of 32 (or 64) bits
//   void barrier(ExchangeScope scope);                          of a warp, the CTA or the cluster
//   void store(const SharedSide &side, const SharedAccess &access, std::span<const Value> registers);
//   std::vector<Value> load(const SharedSide &side, const SharedAccess &access);
// where the values of a store and of a load are those of access.registers, in that order.
#pragma once
#include "layout/Conversion.h"

namespace tegula::layout {

namespace detail {

/// Applies a selection network to the values that are present.
template <typename Emit, typename Value>
void followSelects(const std::vector<SelectStep> &steps, std::vector<std::optional<Value>> &values, Emit &emit) {
  for (const SelectStep &step : steps) {
    std::vector<std::optional<Value>> old = values;
    for (size_t i = 0; i < step.from.size() && i < values.size(); ++i)
      if (old[i] && old.at(step.from[i]))
        values[i] = emit.select(step.when, *old[step.from[i]], *old[i]);
  }
}

template <typename Emit, typename Value>
std::vector<std::optional<Value>> followShuffles(const ShufflePlan &plan, std::span<const Value> source, Emit &emit) {
  using Values = std::vector<std::optional<Value>>;
  Values registers(source.begin(), source.end()), words, received(plan.dstWords.size()), result;
  if (!plan.selectWords)
    followSelects(plan.pre, registers, emit);
  for (const std::vector<uint16_t> &list : plan.srcWords) {
    std::vector<Value> elements;
    for (uint16_t r : list)
      elements.push_back(*registers.at(r));
    words.push_back(emit.pack(std::span<const Value>(elements)));
  }
  if (plan.selectWords)
    followSelects(plan.pre, words, emit);
  for (const ShufflePlan::Round &round : plan.rounds) {
    const Value &word = *words.at(round.srcWord);
    received.at(round.dstWord) = round.stays ? word : emit.shuffle(word, plan.sourceLane, round.laneXor);
  }
  if (plan.selectWords)
    followSelects(plan.post, received, emit);
  for (size_t w = 0; w < received.size(); ++w) {
    std::vector<Value> elements = emit.unpack(*received[w], plan.dstWords[w].size());
    for (size_t j = 0; j < elements.size(); ++j) {
      if (result.size() <= plan.dstWords[w][j])
        result.resize(plan.dstWords[w][j] + size_t{1});
      result[plan.dstWords[w][j]] = elements[j];
    }
  }
  if (!plan.selectWords)
    followSelects(plan.post, result, emit);
  return result;
}

template <typename Emit, typename Value>
std::vector<std::optional<Value>> followShared(const SharedPlan &plan, ExchangeScope scope,
                                               std::span<const Value> source, size_t registers, Emit &emit) {
  std::vector<std::optional<Value>> result(registers);
  for (unsigned turn = 0; turn < plan.repetitions; ++turn) {
    if (turn > 0)
      emit.barrier(scope);
    for (const SharedAccess &access : plan.store.accesses) {
      if (access.repetition != turn)
        continue;
      std::vector<Value> values;
      for (uint16_t r : access.registers)
        values.push_back(source[r]);
      emit.store(plan.store, access, std::span<const Value>(values));
    }
    emit.barrier(scope);
    for (const SharedAccess &access : plan.load.accesses) {
      if (access.repetition != turn)
        continue;
      std::vector<Value> values = emit.load(plan.load, access);
      for (size_t j = 0; j < access.registers.size(); ++j)
        result.at(access.registers[j]) = values.at(j);
    }
  }
  return result;
}

} // namespace detail

/// Emits a conversion and returns all its destination registers. The scratch memory may be reused after one more
/// barrier of the plan's scope (at least a CTA's, if other code uses it).
template <typename Emit, typename Value>
std::vector<Value> followPlan(const ConversionPlan &plan, std::span<const Value> source, Emit &emit) {
  std::vector<Value> result;
  if (plan.kind == ConversionKind::Nothing || plan.kind == ConversionKind::Registers) {
    for (uint16_t r : plan.registers)
      result.push_back(source[r]);
    return result;
  }
  auto made = plan.kind == ConversionKind::Shuffles
                  ? detail::followShuffles(plan.shuffle, source, emit)
                  : detail::followShared(plan.shared, plan.scope, source, plan.copyOf.size(), emit);
  for (uint16_t r : plan.copyOf)
    result.push_back(*made.at(r));
  return result;
}

} // namespace tegula::layout
