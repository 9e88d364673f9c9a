// Conversions inside warps: selections and shuffles.
//
// Notation: S and D are the source and the destination layout, h a thread (lane, warp, block), k a destination
// register, and an element is a vector. We look for linear maps T (thread -> destination register), Sigma (thread ->
// source register) and A (thread -> lane) with
//     D_h h + D_R T h = S_R Sigma h + S_L A h + S_h' h        (h' = warp, block: they never change)
// and Sigma = 0 where A = 0 (lanes that read one lane read one register). Then in round k every lane receives its
// register k + T h from lane A h + G k, where D_R k = S_R P k + S_L G k, and the source lane s offers register P' k + Q
// s: one register per lane and round, so each round is one shuffle. Q and T are selection networks over registers
// before and after. If A is the identity, the rounds with G k = 0 stay in the thread. Elements narrower than 32 bits
// are packed along register directions J with G J = 0.
#include "layout/ConversionDetail.h"
#include <algorithm>

namespace tegula::layout::detail {

namespace {

/// A linear map as the images of unit vectors.
using Columns = std::vector<uint64_t>;

/// Solves x = sum of generators, where the generators are the columns of up to three groups; labels are packed into one
/// word.
class Solver {
public:
  Solver(const Columns &first, unsigned firstLabel, const Columns &second, unsigned secondLabel) {
    add(first, firstLabel);
    add(second, secondLabel);
  }
  void add(const Columns &generators, unsigned label) {
    for (size_t i = 0; i < generators.size(); ++i)
      space_.insert(generators[i], uint64_t{1} << (label + i));
  }
  std::optional<uint64_t> solve(uint64_t v) const {
    auto [rest, combo] = space_.reduce(v);
    return rest == 0 ? std::optional(combo) : std::nullopt;
  }
  Subspace &space() { return space_; }

private:
  Subspace space_;
};

/// Field of a solution: source registers, lanes, destination registers.
constexpr unsigned kSigma = 0, kLane = 20, kTau = 26;
uint64_t sigmaOf(uint64_t v) { return v & ((uint64_t{1} << kLane) - 1); }
uint64_t laneOf(uint64_t v) { return v >> kLane & 31; }
uint64_t tauOf(uint64_t v) { return v >> kTau; }

/// A complement of the span of `taken`: first the vectors of `first`, as far as independent, then unit vectors.
Columns complement(const Columns &first, const Columns &taken, unsigned dimensions) {
  Subspace seen;
  for (uint64_t v : taken)
    seen.insert(v, 0);
  Columns basis;
  for (uint64_t v : first)
    if (seen.insert(v, 0))
      basis.push_back(v);
  for (unsigned i = 0; i < dimensions; ++i)
    if (seen.insert(uint64_t{1} << i, 0))
      basis.push_back(uint64_t{1} << i);
  return basis;
}

class ShufflePlanner {
public:
  ShufflePlanner(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits)
      : src_(placesOf(src)), dst_(placesOf(dst)), dstBits_(dst.inBits(Dim::Register)), elemBits_(elemBits) {
    solveThreads();
    solveRegisters();
  }

  ConversionPlan plan() const {
    // Packing along directions that the networks leave alone lets the networks work on whole words; along others it may
    // still save shuffles.
    ConversionPlan words = build(true), elements = build(false);
    return elements.cost.clocks < words.cost.clocks ? elements : words;
  }

private:
  void solveThreads();
  bool solveInPlace();
  void solveAnywhere();
  void makeInvertible();
  uint64_t widen(uint64_t conflict);
  void solveRegisters();
  struct Words;
  Words words(bool selectWords) const;
  void addNetworks(ShufflePlan &s, const Words &w) const;
  unsigned addRounds(ShufflePlan &s, const Words &w) const;
  ConversionPlan build(bool selectWords) const;
  Columns packing(bool selectWords) const;
  size_t threads() const { return 5 + src_.warp.size() + src_.block.size(); }
  /// Images of the thread bits, lanes first.
  Columns threadBases(const Places &p) const {
    Columns c = p.lane;
    c.insert(c.end(), p.warp.begin(), p.warp.end());
    c.insert(c.end(), p.block.begin(), p.block.end());
    return c;
  }
  ThreadBit threadBit(uint64_t mask) const {
    auto warpBits = static_cast<unsigned>(src_.warp.size());
    return {static_cast<uint32_t>(mask & 31), static_cast<uint32_t>(mask >> 5 & ((1u << warpBits) - 1)),
            static_cast<uint32_t>(mask >> (5 + warpBits))};
  }
  /// The network that adds f(thread) to an index below `size`; `index` maps a direction of f to one of the index.
  template <typename Index> std::vector<SelectStep> network(const Columns &f, size_t size, Index index) const;

  Places src_, dst_;
  unsigned dstBits_, elemBits_;
  Columns sigma_, lane_, tau_; // Sigma, A, T: images of thread bits
  Columns offered_, laneXor_;  // P', G: images of compact destination register bits
  Columns select_;             // Q: source register offset by thread (before the exchange)
};

/// Tries A = identity: every thread holds its own source elements.
bool ShufflePlanner::solveInPlace() {
  Solver own(src_.reg, kSigma, dst_.reg, kTau);
  Columns from = threadBases(src_), to = threadBases(dst_);
  for (size_t i = 0; i < threads(); ++i) {
    auto x = own.solve(from[i] ^ to[i]);
    if (!x)
      return false;
    sigma_.push_back(sigmaOf(*x));
    tau_.push_back(tauOf(*x));
    lane_.push_back(i < 5 ? uint64_t{1} << i : 0);
  }
  return true;
}

void ShufflePlanner::solveAnywhere() {
  Solver registers(src_.reg, kSigma, {}, kLane), any(src_.reg, kSigma, src_.lane, kLane);
  Columns from = threadBases(src_), to = threadBases(dst_);
  for (size_t i = 0; i < threads(); ++i) {
    // A lane keeps its own values if it can; else any lane of the warp is the source.
    auto keep = registers.solve(from[i] ^ to[i]);
    uint64_t x = keep ? *keep : *any.solve(i < 5 ? to[i] : from[i] ^ to[i]);
    sigma_.push_back(sigmaOf(x));
    tau_.push_back(0);
    lane_.push_back(keep ? (i < 5 ? uint64_t{1} << i : 0) : laneOf(x));
  }
  makeInvertible();
}

/// Where two lanes read different registers of one lane (A x = 0, Sigma x != 0), changes one of them: to another lane,
/// which other destination registers make possible, or, where there is none, to another register of a longer exchange.
void ShufflePlanner::makeInvertible() {
  Subspace image;
  // Each dependency contains one dependent column, its last, so correcting that column changes no other dependency.
  Columns kernel;
  for (size_t i = 0; i < 5; ++i)
    if (!image.insert(lane_[i], uint64_t{1} << i))
      kernel.push_back(image.dependency());
  // Free moves: lane offsets that some choice of source and destination registers makes possible.
  Solver moves(src_.reg, kSigma, dst_.reg, kTau);
  Columns free;
  for (size_t i = 0; i < 5; ++i)
    if (!moves.space().insert(src_.lane[i], uint64_t{1} << (kLane + i)))
      free.push_back(moves.space().dependency());
  for (uint64_t x : kernel) {
    uint64_t conflict = multiply(sigma_, x);
    if (conflict == 0)
      continue;
    size_t column = static_cast<size_t>(63 - std::countl_zero(x));
    uint64_t change = 0;
    for (uint64_t move : free)
      if (change == 0 && image.insert(lane_[column] ^ laneOf(move), 0))
        change = move;
    if (change == 0)
      change = widen(conflict);
    lane_[column] ^= laneOf(change);
    sigma_[column] ^= sigmaOf(change);
    tau_[column] ^= tauOf(change);
  }
}

/// Makes the elements of this source register offset reachable as a destination register too: receives twice as much,
/// and the threads then select. Needed where a warp holds copies that other warps need spread. Returns the move.
uint64_t ShufflePlanner::widen(uint64_t conflict) {
  uint64_t element = multiply(src_.reg, conflict);
  Solver destination(dst_.reg, kTau, {}, 0);
  if (auto tau = destination.solve(element))
    return conflict | *tau;
  unsigned next = std::max(dstBits_, dst_.registerBits.empty() ? 0 : dst_.registerBits.back() + 1);
  dst_.registerBits.push_back(next);
  dst_.reg.push_back(element);
  return conflict | uint64_t{1} << (kTau + dst_.reg.size() - 1);
}

void ShufflePlanner::solveThreads() {
  if (solveInPlace())
    return;
  sigma_.clear();
  tau_.clear();
  lane_.clear();
  solveAnywhere();
}

void ShufflePlanner::solveRegisters() {
  // The warp's own part follows (see the head of the file).
  Subspace inverse;
  for (size_t i = 0; i < 5; ++i)
    inverse.insert(lane_[i], uint64_t{1} << i);
  auto sourceOffset = [&](uint64_t lane) { return multiply(sigma_, inverse.reduce(lane).combo); };
  for (size_t i = 0; i < 5; ++i)
    select_.push_back(sourceOffset(uint64_t{1} << i));
  for (size_t i = 5; i < threads(); ++i)
    select_.push_back(sigma_[i] ^ sourceOffset(lane_[i]));
  Solver any(src_.reg, kSigma, src_.lane, kLane);
  for (uint64_t d : dst_.reg) {
    uint64_t x = *any.solve(d);
    offered_.push_back(sigmaOf(x) ^ sourceOffset(laneOf(x)));
    laneXor_.push_back(laneOf(x));
  }
}

Columns ShufflePlanner::packing(bool selectWords) const {
  size_t capacity = elemBits_ >= 32 ? 0 : elemBits_ == 16 ? 1 : 2;
  // Destination register directions that stay in a lane: the kernel of G.
  Subspace lanes;
  Columns free;
  for (size_t i = 0; i < laneXor_.size(); ++i)
    if (!lanes.insert(laneXor_[i], uint64_t{1} << i))
      free.push_back(lanes.dependency());
  Subspace used;
  if (selectWords) {
    for (uint64_t q : select_)
      used.insert(q, 0);
    for (uint64_t t : tau_)
      used.insert(multiply(offered_, t), 0);
  }
  Columns chosen;
  for (uint64_t j : free)
    if (chosen.size() < capacity && used.insert(multiply(offered_, j), 0))
      chosen.push_back(j);
  return chosen;
}

template <typename Index>
std::vector<SelectStep> ShufflePlanner::network(const Columns &f, size_t size, Index index) const {
  // f(h) = sum over a basis q_j of its image of q_j * (bit j of h's coordinates).
  Subspace image;
  std::vector<std::pair<uint64_t, uint64_t>> basis; // q_j, mask of thread bits
  for (uint64_t v : f)
    if (image.insert(v, uint64_t{1} << basis.size()))
      basis.emplace_back(v, 0);
  for (size_t i = 0; i < f.size(); ++i)
    for (uint64_t hit = image.reduce(f[i]).combo; hit; hit &= hit - 1)
      basis[static_cast<size_t>(std::countr_zero(hit))].second |= uint64_t{1} << i;
  std::vector<SelectStep> steps;
  for (auto [q, mask] : basis) {
    SelectStep step{threadBit(mask), std::vector<uint16_t>(size)};
    for (size_t i = 0; i < size; ++i)
      step.from[i] = static_cast<uint16_t>(i ^ index(q));
    steps.push_back(step);
  }
  return steps;
}

/// Numbering of the words before and after the exchange.
///
/// Source words are cosets of P'(J), numbered in a complement that the networks leave invariant; destination words are
/// cosets of J, numbered in K' = P'^-1(that complement), again a complement. So word k offers word P' k, in the same
/// order.
struct ShufflePlanner::Words {
  Columns packedSrc, packedDst, srcBasis, dstBasis;
  Subspace src, dst; // coordinates: word number in the low bits of the label, position in the word from bit 32

  uint64_t srcWord(uint64_t srcRegister) const { return src.reduce(srcRegister).combo & 0xffffffff; }
  uint64_t srcPosition(uint64_t srcRegister) const { return src.reduce(srcRegister).combo >> 32; }
  uint64_t dstWord(uint64_t dstRegister) const { return dst.reduce(dstRegister).combo & 0xffffffff; }

  static Subspace coordinates(const Columns &basis, const Columns &packed) {
    Subspace s;
    for (size_t i = 0; i < packed.size(); ++i)
      s.insert(packed[i], uint64_t{1} << (32 + i));
    for (size_t i = 0; i < basis.size(); ++i)
      s.insert(basis[i], uint64_t{1} << i);
    return s;
  }
  /// Registers of every word.
  static std::vector<std::vector<uint16_t>> list(const Columns &basis, const Columns &packed, const Places &places) {
    std::vector<std::vector<uint16_t>> words(size_t{1} << basis.size());
    for (uint64_t w = 0; w < words.size(); ++w)
      for (uint64_t j = 0; j < uint64_t{1} << packed.size(); ++j)
        words[w].push_back(places.realRegister(multiply(basis, w) ^ multiply(packed, j)));
    return words;
  }
};

ShufflePlanner::Words ShufflePlanner::words(bool selectWords) const {
  Words w;
  w.packedDst = packing(selectWords);
  for (uint64_t j : w.packedDst)
    w.packedSrc.push_back(multiply(offered_, j));
  Columns keep;
  if (selectWords) {
    keep = select_;
    for (uint64_t t : tau_)
      keep.push_back(multiply(offered_, t));
  }
  w.srcBasis = complement(keep, w.packedSrc, static_cast<unsigned>(src_.reg.size()));
  w.src = Words::coordinates(w.srcBasis, w.packedSrc);
  for (uint64_t unit : complement({}, w.packedDst, static_cast<unsigned>(dst_.reg.size())))
    w.dstBasis.push_back(unit ^ multiply(w.packedDst, w.srcPosition(multiply(offered_, unit))));
  w.dst = Words::coordinates(w.dstBasis, w.packedDst);
  return w;
}

void ShufflePlanner::addNetworks(ShufflePlan &s, const Words &w) const {
  auto registers = [](const Places &p) {
    return size_t{1} << (p.registerBits.empty() ? 0 : p.registerBits.back() + 1);
  };
  if (s.selectWords) {
    s.pre = network(select_, s.srcWords.size(), [&](uint64_t q) { return w.srcWord(q); });
    s.post = network(tau_, s.dstWords.size(), [&](uint64_t q) { return w.dstWord(q); });
  } else {
    s.pre = network(select_, registers(src_), [&](uint64_t q) { return src_.realRegister(q); });
    s.post = network(tau_, registers(dst_), [&](uint64_t q) { return dst_.realRegister(q); });
  }
}

/// Fills rounds and sourceLane; returns how many rounds leave the thread.
unsigned ShufflePlanner::addRounds(ShufflePlan &s, const Words &w) const {
  bool inPlace = true;
  for (size_t i = 0; i < threads(); ++i) {
    inPlace &= lane_[i] == (i < 5 ? uint64_t{1} << i : 0);
    auto &part = i < 5 ? s.sourceLane.lane : i < 5 + src_.warp.size() ? s.sourceLane.warp : s.sourceLane.block;
    part.push_back(static_cast<uint32_t>(lane_[i]));
  }
  unsigned shuffled = 0;
  for (size_t i = 0; i < s.dstWords.size(); ++i) {
    uint64_t k = multiply(w.dstBasis, i), lane = multiply(laneXor_, k);
    bool stays = inPlace && lane == 0;
    s.rounds.push_back({static_cast<uint16_t>(w.srcWord(multiply(offered_, k))), static_cast<uint16_t>(i),
                        static_cast<uint8_t>(lane), stays});
    shuffled += !stays;
  }
  return shuffled;
}

ConversionPlan ShufflePlanner::build(bool selectWords) const {
  ConversionPlan plan;
  plan.kind = ConversionKind::Shuffles;
  ShufflePlan &s = plan.shuffle;
  s.selectWords = selectWords;
  Words w = words(selectWords);
  s.srcWords = Words::list(w.srcBasis, w.packedSrc, src_);
  s.dstWords = Words::list(w.dstBasis, w.packedDst, dst_);
  addNetworks(s, w);
  unsigned shuffled = addRounds(s, w);
  plan.scope = shuffled ? ExchangeScope::Warp : ExchangeScope::Thread;
  unsigned halves = elemBits_ == 64 ? 2 : 1;
  ConversionCost &c = plan.cost;
  c.shuffles = shuffled * halves;
  size_t before = selectWords ? s.srcWords.size() : size_t{1} << src_.reg.size();
  size_t after = selectWords ? s.dstWords.size() : size_t{1} << dst_.reg.size();
  c.selects = static_cast<unsigned>((s.pre.size() * before + s.post.size() * after) * halves);
  // Issue slots of one warp: a shuffle per clock, two selections per clock. Packing is not counted, as vector accesses
  // need it too.
  c.clocks = (shuffled ? 24.0 : 0) + c.shuffles + 0.5 * c.selects;
  return plan;
}

} // namespace

ConversionPlan planShuffles(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits) {
  return ShufflePlanner(src, dst, elemBits).plan();
}

} // namespace tegula::layout::detail
