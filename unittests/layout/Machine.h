// A small machine that executes conversion plans: registers, shuffles, shared memory with ldmatrix and stmatrix written
// from the hardware's definition, and a count of bank conflicts from the real addresses.
#pragma once
#include "layout/Banks.h"
#include "layout/Conversion.h"
#include <gtest/gtest.h>
#include <map>

namespace tegula::layout::test {

/// What the machine saw, per warp.
struct Observed {
  unsigned shuffles = 0, storeWavefronts = 0, loadWavefronts = 0, bytes = 0;
};

class Machine {
public:
  static constexpr uint32_t kUndefined = ~0u;
  Machine(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits)
      : src_(src), dst_(dst), elemBits_(elemBits),
        warps_(static_cast<uint32_t>(std::max(src.inSize(Dim::Warp), dst.inSize(Dim::Warp)))),
        blocks_(static_cast<uint32_t>(std::max(src.inSize(Dim::Block), dst.inSize(Dim::Block)))) {
    forThreads([&](uint32_t l, uint32_t w, uint32_t b) {
      auto &regs = in_[{l, w, b}];
      for (uint64_t r = 0; r < static_cast<uint64_t>(src.inSize(Dim::Register)); ++r)
        regs.push_back(element(src_, r, l, w, b, src_));
    });
  }

  /// Runs the plan (given accesses have no scope: Cta) and checks that every place of dst holds its element.
  Observed run(const ConversionPlan &plan) {
    scope_ = plan.scope;
    switch (plan.kind) {
    case ConversionKind::Nothing:
    case ConversionKind::Registers:
      forThreads([&](uint32_t l, uint32_t w, uint32_t b) {
        for (uint16_t r : plan.registers)
          out_[{l, w, b}].push_back(in_[{l, w, b}].at(r));
      });
      break;
    case ConversionKind::Shuffles:
      shuffle(plan.shuffle, plan.copyOf.size());
      break;
    case ConversionKind::Shared:
      shared(plan.shared, plan.copyOf.size());
      break;
    }
    bool copies = plan.kind == ConversionKind::Shuffles || plan.kind == ConversionKind::Shared;
    unsigned wrong = 0;
    forThreads([&](uint32_t l, uint32_t w, uint32_t b) {
      auto &regs = out_[{l, w, b}];
      for (uint64_t r = 0; r < static_cast<uint64_t>(dst_.inSize(Dim::Register)); ++r) {
        uint32_t got = regs.at(copies ? plan.copyOf.at(r) : r);
        wrong += got != element(dst_, r, l, w, b, src_);
      }
    });
    EXPECT_EQ(wrong, 0u) << plan.print() << "\nsrc " << src_.print() << "\ndst " << dst_.print() << "\nelement bits "
                         << elemBits_;
    return seen_;
  }

private:
  using Thread = std::array<uint32_t, 3>;
  using Registers = std::vector<uint32_t>;
  /// A place in shared memory, and the warp that wrote it.
  struct Cell {
    uint32_t element = kUndefined, warp = 0;
  };
  using Memory = std::vector<std::vector<Cell>>;

  template <typename F> void forThreads(F f) {
    for (uint32_t b = 0; b < blocks_; ++b)
      for (uint32_t w = 0; w < warps_; ++w)
        for (uint32_t l = 0; l < 32; ++l)
          f(l, w, b);
  }

  static uint32_t element(const LinearLayout &l, uint64_t r, uint64_t lane, uint64_t w, uint64_t b,
                          const LinearLayout &order) {
    auto clip = [&](Dim d, uint64_t v) { return l.ins().flat(d, v & (static_cast<uint64_t>(l.inSize(d)) - 1)); };
    uint64_t flat = l.apply(clip(Dim::Register, r) | clip(Dim::Lane, lane) | clip(Dim::Warp, w) | clip(Dim::Block, b));
    return static_cast<uint32_t>(l.outs().regroup(flat, order.outs()));
  }

  static void select(const std::vector<SelectStep> &steps, Registers &v, Thread t) {
    for (const SelectStep &s : steps) {
      Registers old = v;
      if (s.when.at(t[0], t[1], t[2]))
        for (size_t i = 0; i < s.from.size() && i < v.size(); ++i)
          v[i] = s.from[i] < old.size() ? old[s.from[i]] : kUndefined;
    }
  }
  static void selectWords(const std::vector<SelectStep> &steps, std::vector<Registers> &v, Thread t) {
    for (const SelectStep &s : steps) {
      std::vector<Registers> old = v;
      if (s.when.at(t[0], t[1], t[2]))
        for (size_t i = 0; i < v.size(); ++i)
          v[i] = old.at(s.from[i]);
    }
  }

  void shuffle(const ShufflePlan &s, size_t dstRegisters) {
    std::map<Thread, std::vector<Registers>> offered;
    forThreads([&](uint32_t l, uint32_t w, uint32_t b) {
      Registers regs = in_[{l, w, b}];
      if (!s.selectWords)
        select(s.pre, regs, {l, w, b});
      std::vector<Registers> words;
      for (const auto &list : s.srcWords) {
        ASSERT_LE(list.size() * elemBits_, std::max(32u, elemBits_));
        words.emplace_back();
        for (uint16_t r : list)
          words.back().push_back(regs.at(r));
      }
      if (s.selectWords)
        selectWords(s.pre, words, {l, w, b});
      offered[{l, w, b}] = words;
    });
    for (const auto &round : s.rounds)
      seen_.shuffles += round.stays ? 0 : elemBits_ == 64 ? 2 : 1;
    size_t temporaries = dstRegisters;
    for (const auto &list : s.dstWords)
      for (uint16_t r : list)
        temporaries = std::max<size_t>(temporaries, r + 1u);
    forThreads([&](uint32_t l, uint32_t w, uint32_t b) {
      std::vector<Registers> words(s.dstWords.size());
      for (const auto &round : s.rounds) {
        uint32_t from = s.sourceLane.at(l, w, b) ^ round.laneXor;
        if (round.stays) {
          EXPECT_EQ(from, l);
        }
        words.at(round.dstWord) = offered[{from, w, b}].at(round.srcWord);
      }
      if (s.selectWords)
        selectWords(s.post, words, {l, w, b});
      Registers regs(temporaries, kUndefined);
      for (size_t i = 0; i < words.size(); ++i)
        for (size_t j = 0; j < s.dstWords[i].size(); ++j)
          regs.at(s.dstWords[i][j]) = words[i].at(j);
      if (!s.selectWords)
        select(s.post, regs, {l, w, b});
      out_[{l, w, b}] = regs;
    });
  }

  void shared(const SharedPlan &s, size_t dstRegisters) {
    size_t size = static_cast<size_t>(s.memory.inSize(Dim::Offset));
    seen_.bytes = static_cast<unsigned>(size) * elemBits_ / 8;
    forThreads([&](uint32_t l, uint32_t w, uint32_t b) { out_[{l, w, b}].assign(dstRegisters, kUndefined); });
    for (uint16_t rep = 0; rep < s.repetitions; ++rep) {
      Memory memory(blocks_, std::vector<Cell>(size));
      for (const SharedAccess &a : s.store.accesses)
        if (a.repetition == rep)
          access(s.store, a, memory, true);
      for (const SharedAccess &a : s.load.accesses)
        if (a.repetition == rep)
          access(s.load, a, memory, false);
    }
  }

  void access(const SharedSide &side, const SharedAccess &a, Memory &memory, bool store) {
    unsigned worst = 0;
    for (uint32_t b = 0; b < blocks_; ++b)
      for (uint32_t w = 0; w < warps_; ++w) {
        if (store && (w & side.guard.warp))
          continue;
        worst = std::max(worst, side.move == SharedMove::Plain ? plain(side, a, memory, store, w, b)
                                                               : matrix(side, a, memory, store, w, b));
      }
    EXPECT_LE(worst, side.wavefronts) << "more conflicts than promised";
    (store ? seen_.storeWavefronts : seen_.loadWavefronts) += worst;
  }

  unsigned plain(const SharedSide &side, const SharedAccess &a, Memory &memory, bool store,
                 uint32_t w, uint32_t b) {
    std::array<uint32_t, 32> at{};
    uint32_t active = 0, bytes = elemBits_ / 8;
    EXPECT_EQ(a.registers.size(), side.elements);
    for (uint32_t l = 0; l < 32; ++l) {
      uint32_t base = side.base.at(l, w, b), address = base ^ a.offset;
      EXPECT_EQ(address, (base ^ (a.offset & ~side.addMask)) + (a.offset & side.addMask));
      EXPECT_EQ(address % side.elements, 0u) << "aligned";
      at[l] = address * bytes;
      if (store && (l & side.guard.lane))
        continue;
      active |= 1u << l;
      uint32_t owner = side.block.block.empty() ? b : side.block.at(l, w, b) ^ a.blockXor;
      for (uint32_t j = 0; j < side.elements; ++j)
        move(memory.at(owner).at(address + j), {l, w, b}, a.registers[j], store);
    }
    return simulateWavefronts(at, bytes * side.elements, active);
  }

  /// ldmatrix and stmatrix by definition: lane 8i+j supplies row j of matrix i; lane l holds, of each matrix, the 32
  /// bits at row l/4, columns of word l%4; with .trans the halves h at row 2(l%4)+h, column l/4 of 16 bits: two bytes.
  unsigned matrix(const SharedSide &side, const SharedAccess &a, Memory &memory, bool store,
                  uint32_t w, uint32_t b) {
    uint32_t bytes = elemBits_ / 8, perWord = 4 / bytes;
    EXPECT_EQ(a.registers.size(), side.matrices * perWord);
    EXPECT_EQ(store && side.guard.lane != 0, false);
    std::array<uint32_t, 32> rows{};
    for (uint32_t l = 0; l < 32; ++l) {
      rows[l] = (side.base.at(l, w, b) ^ a.offset) * bytes;
      EXPECT_EQ(rows[l] % 16, 0u) << "row alignment";
    }
    for (uint32_t l = 0; l < 32; ++l)
      for (uint32_t m = 0; m < side.matrices; ++m)
        for (uint32_t h = 0; h < perWord; ++h) {
          uint32_t row = l / 4, column = l % 4 * perWord + h;
          if (side.move == SharedMove::MatrixTrans) {
            EXPECT_LE(bytes, 2u);
            const uint32_t perHalf = 2 / bytes;
            row = l % 4 * 2 + h / perHalf, column = l / 4 * perHalf + h % perHalf;
          }
          move(memory.at(b).at(rows[8 * m + row] / bytes + column), {l, w, b}, a.registers[m * perWord + h], store);
        }
    return simulateMatrixWavefronts(rows, side.matrices);
  }

  void move(Cell &cell, Thread t, uint16_t reg, bool store) {
    if (store) {
      EXPECT_EQ(cell.element, kUndefined) << "two threads write one place";
      cell = {in_[t].at(reg), t[1]};
    } else {
      EXPECT_TRUE(scope_ >= ExchangeScope::Cta || cell.warp == t[1]) << "another warp's value without a barrier";
      out_[t].at(reg) = cell.element;
    }
  }

  LinearLayout src_, dst_;
  unsigned elemBits_;
  uint32_t warps_, blocks_;
  std::map<Thread, Registers> in_, out_;
  Observed seen_;
  ExchangeScope scope_ = ExchangeScope::Cta;
};

} // namespace tegula::layout::test
