// Selects the configurations of a space that are worth compiling and timing, and their order. Uses neither a clock nor
// a device: the caller reports estimates and measurements and asks for the next configurations; equal answers give
// equal questions.
//
// A space of hundreds of configurations is too large to compile and time as a whole:
//
//   sketch   The cost model estimates configurations before code generation (milliseconds each): all of a space of up
//            to 2048; of a larger one 512 that are spread over it, then neighbours (one step along one axis) of the
//            best, as long as they are better, 4096 at most.
//   round    Some configurations are compiled and run: those with the least prediction, twins last (equal estimates, or
//            estimates within a thousandth along one axis, which the model cannot distinguish). Every fourth is the
//            best neighbour of the fastest so far, whatever its prediction.
//   correct  Measurements correct predictions: log(measured / estimated) is modelled as a sum of one term for each
//            value of each axis, fitted by ridge regression, one axis after the other (backfitting; Hastie, Tibshirani
//            and Friedman, The Elements of Statistical Learning, 9.1.1). The model is wrong about num_warps = 8, say,
//            for all tiles alike.
//   halve    In a round all are timed briefly, the better half longer, and so on: successive halving (Jamieson and
//            Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016). Rounds
//            are its brackets, as in Hyperband (Li et al., JMLR 18, 2018), but the configurations of a bracket are
//            chosen, not drawn.
// It ends with the budget, or when three rounds have found nothing at least 1 % faster, or after 96 configurations.
#pragma once
#include "tune/Space.h"

namespace tegula::tune {

class Search {
public:
  /// One point for each configuration, all of the same number of axes.
  explicit Search(std::vector<Point> points);

  /// The configurations to estimate next; empty: there are enough estimates. Answer each with sketched().
  std::vector<size_t> toSketch();
  /// `ns` 0: there is no estimate; negative: the configuration cannot be compiled.
  void sketched(size_t i, double ns);

  /// The configurations of the next round, at most `most`; empty: all are tried, or the rest is not worth it. Answer
  /// each with timed() or dropped().
  std::vector<size_t> next(size_t most);
  void timed(size_t i, double ns);
  void dropped(size_t i);
  /// Tries `i` in the first round, whatever its prediction.
  void prefer(size_t i) { preferred_.push_back(i); }
  /// Some rounds found nothing faster, or enough configurations are tried.
  bool isSettled() const { return idleRounds_ >= 3 || tried_ >= mostTried; }

  /// The predicted time of configuration `i` in nanoseconds; infinite for one without an estimate.
  double predicted(size_t i) const;
  static constexpr size_t mostTried = 96;

private:
  enum class State : uint8_t { Unknown, Sketched, Asked, Timed, Dropped };
  struct Candidate {
    State state = State::Unknown;
    bool asked = false;   // for a sketch
    double estimate = 0;  // ns
    double measured = 0;
  };
  void forEachNeighbour(size_t i, const std::function<void(size_t)> &f) const;
  void correct();
  bool isTwin(size_t i, const std::vector<size_t> &of) const;
  std::vector<size_t> byPrediction() const;

  std::vector<Point> points_;
  std::vector<size_t> sorted_; // configurations by point, to find neighbours
  std::vector<uint32_t> extents_;
  std::vector<Candidate> all_;
  std::vector<std::vector<double>> terms_; // of each axis, of each value
  double base_ = 0;                        // of the logarithms
  std::vector<size_t> preferred_;
  size_t sketches_ = 0, tried_ = 0;
  unsigned idleRounds_ = 0;
  size_t best_ = SIZE_MAX;
  double bestNs_ = 0, roundStart_ = 0; // best when the round before ended
  bool begun_ = false;
};

} // namespace tegula::tune
