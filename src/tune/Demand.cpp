// Evaluates a kernel's Work for a launch, on a sample of its programs.
#include "tune/Demand.h"
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace tegula::tune {

namespace {
/// Trips of loops whose count is unknown before the launch.
constexpr double guessedTrips = 8;
constexpr double page = 4096;

constexpr DemandField fields[] = {
#define DEMAND(field, text) {#field, text, &Demand::field},
#include "tune/Demand.def"
};

/// The memory accesses of one program's access, from its strides.
struct Touch {
  double bytes = 0;   // in whole sectors
  double active = 1;  // fraction of elements that are accessed
  double pieces = 0;      // runs of contiguous bytes
  double far = 0;         // of those, the ones at least a page apart
  bool contiguous = true; // neighbours in memory along some dimension
};

class Evaluation {
public:
  Evaluation(const runtime::KernelInfo &info, const runtime::GpuUse &use, const Launch &launch, const Machine &machine)
      : info_(info), work_(info.work), launch_(launch), machine_(machine), use_(use), values_(work_) {}

  Demand run() {
    double programs = 1;
    for (int64_t n : launch_.grid) programs *= static_cast<double>(std::max<int64_t>(n, 0));
    d_.programs = programs;
    if (work_.scopes.empty() || programs < 1) return d_;
    touches_.resize(work_.accesses.size());
    executions_.assign(work_.scopes.size(), 0);
    freshLoads_.assign(work_.accesses.size(), 0);
    spread();
    sideBySide();
    scopes();
    accesses();
    dots();
    pipelines();
    return d_;
  }

private:
  WorkPoint point(double number) const {
    WorkPoint p;
    p.arguments = launch_.arguments;
    auto n = static_cast<int64_t>(number);
    for (unsigned i = 0; i < 3; ++i) {
      p.grid[i] = std::max<int64_t>(launch_.grid[i], 1);
      p.program[i] = n % p.grid[i];
      n /= p.grid[i];
    }
    return p;
  }

  /// That many evaluations of all expressions take about a millisecond.
  double budget(double wanted) const {
    return std::clamp(2e6 / static_cast<double>(work_.exprs.size() + 1), 8.0, wanted);
  }

  /// Samples programs from the whole grid: executions of scopes, and strides of accesses.
  void spread() {
    double n = std::min(d_.programs, std::floor(budget(48)));
    const std::vector<double> cost = costs();
    const double looked = std::min(n, isLarge() ? 1.0 : 8.0);
    std::vector<double> weight;
    for (double i = 0; i < n; ++i) {
      // Not a multiple of a grid extent, so that no row or column of the grid is preferred.
      WorkPoint p =
          point(n < d_.programs ? std::floor(std::fmod((i + 0.5) * 0.6180339887498949, 1.0) * d_.programs) : i);
      values_.evaluate(p);
      double sum = 0;
      for (size_t s = 0; s < work_.scopes.size(); ++s) {
        double e = values_.executions(static_cast<int32_t>(s), guessedTrips);
        executions_[s] += e;
        sum += e * cost[s];
      }
      weight.push_back(sum);
      if (i < looked)
        for (size_t a = 0; a < work_.accesses.size(); ++a) look(p, a, 1 / looked);
    }
    for (double &e : executions_) e /= n;
    double mean = 0, most = 0;
    for (double w : weight) mean += w / n, most = std::max(most, w);
    d_.imbalance = mean > 0 ? most / mean : 1;
  }

  /// Thousands of accesses, which are evaluated one by one: fewer samples of each.
  bool isLarge() const { return work_.accesses.size() * work_.exprs.size() > 200000; }

  /// A weight of each scope's contents, for comparing programs with each other.
  std::vector<double> costs() const {
    std::vector<double> c(work_.scopes.size(), 1);
    for (size_t s = 0; s < c.size(); ++s)
      for (double e : work_.scopes[s].elements) c[s] += e;
    for (const WorkAccess &a : work_.accesses)
      c[static_cast<size_t>(a.scope)] += static_cast<double>(a.elements()) * a.elementBytes;
    for (const WorkDot &d : work_.dots)
      c[static_cast<size_t>(d.scope)] += static_cast<double>(d.m * d.n) * static_cast<double>(d.k) / 64;
    return c;
  }

  double activeFraction(const WorkPoint &p, const WorkAccess &a) {
    if (a.mask < 0) return 1;
    // Coordinates at quarters of each dimension, moving together and in opposite directions, which finds edges and
    // triangles.
    const int parts = isLarge() ? 2 : 8;
    double hits = 0, known = 0;
    for (int way = 0; way < 2; ++way)
      for (int i = 0; i < parts; ++i) {
        std::vector<int64_t> c;
        for (size_t d = 0; d < a.shape.size(); ++d) {
          int at = way && d % 2 ? parts - 1 - i : i;
          c.push_back((2 * at + 1) * a.shape[d] / (2 * parts));
        }
        values_.at(p, c);
        if (!values_.isKnown(a.mask)) continue;
        known += 1;
        hits += values_[a.mask] != 0;
        if (a.shape.empty()) return hits;
      }
    return known ? hits / known : 1;
  }

  void look(const WorkPoint &p, size_t index, double share) {
    const WorkAccess &a = work_.accesses[index];
    Touch &t = touches_[index];
    double active = activeFraction(p, a), bytes = a.elementBytes;
    struct Run {
      double stride;
      int64_t extent;
    };
    std::vector<Run> runs;
    values_.at(p, {});
    bool isKnown = values_.isKnown(a.offset);
    int64_t base = isKnown ? values_[a.offset] : 0;
    std::vector<int64_t> c(a.shape.size());
    for (size_t d = 0; d < a.shape.size(); ++d) {
      if (a.shape[d] == 1) continue;
      c.assign(a.shape.size(), 0);
      // A quarter of the extent is far enough to see the stride and near enough not to wrap around (rows modulo an
      // extent).
      int64_t steps = std::max<int64_t>(a.shape[d] / 4, 1);
      c[d] = steps;
      values_.at(p, c);
      bool has = isKnown && values_.isKnown(a.offset);
      double stride = has ? std::abs(static_cast<double>(values_[a.offset]) - static_cast<double>(base)) /
                                static_cast<double>(steps)
                          : -1;
      runs.push_back({stride, a.shape[d]});
    }
    // An unknown address may be anywhere.
    double span = bytes, pieces = 1, far = 1;
    std::sort(runs.begin(), runs.end(), [](const Run &x, const Run &y) {
      double a = x.stride < 0 ? 1e30 : x.stride, b = y.stride < 0 ? 1e30 : y.stride;
      return a != b ? a < b : x.extent < y.extent;
    });
    for (const Run &r : runs) {
      if (r.stride >= 0 && r.stride <= std::max(span, bytes))
        span += r.stride * static_cast<double>(r.extent - 1);
      else if (r.stride >= 0 && r.stride < machine_.sector && pieces == 1)
        span += r.stride * static_cast<double>(r.extent - 1);
      else {
        pieces *= static_cast<double>(r.extent);
        if (r.stride < 0 || r.stride >= page) far *= static_cast<double>(r.extent);
      }
    }
    double sectors = std::ceil(span / machine_.sector) * machine_.sector;
    t.bytes += share * pieces * sectors * active;
    t.pieces += share * pieces * active;
    t.far += share * (far > 1 ? pieces : 0) * active;
    t.active += share * (active - 1);
    t.contiguous = t.contiguous && (a.shape.empty() || a.vectorBytes > a.elementBytes || span >= 4 * bytes);
  }

  /// Samples consecutive programs, to find the memory that they share.
  void sideBySide() {
    double many = std::max(2.0, std::min({d_.programs, machine_.inFlight, budget(512)}));
    many = std::min(many, d_.programs);
    double first = std::floor((d_.programs - many) / 2);
    struct Tile {
      double bytes = 0, again = 0; // of a program; those that the first one loads again
      double first = -1;           // the program that accessed it first
    };
    struct Seen {
      std::unordered_map<int64_t, Tile> tiles; // by address
      std::unordered_set<int64_t> updated;
    };
    std::vector<Seen> seen(info_.args.size() + 1);
    double all = 0, fresh = 0, updates = 0, addresses = 0;
    const bool hasCaches = machine_.l2Bytes > 0;
    std::vector<double> freshAt; // bytes that are new after that many programs
    std::vector<int64_t> atLast(work_.accesses.size(), INT64_MAX); // at the ends of loops
    const bool hasLoops = work_.scopes.size() > 1;                 // or branches; without them one moment suffices
    for (double i = 0; i < many; ++i) {
      WorkPoint p = point(first + i);
      if (hasLoops) values_.evaluate(p, WorkMoment::Last);
      for (size_t k = 0; hasLoops && k < work_.accesses.size(); ++k)
        if (int32_t offset = work_.accesses[k].offset; values_.isKnown(offset)) atLast[k] = values_[offset];
        else atLast[k] = INT64_MAX;
      values_.evaluate(p, WorkMoment::First);
      for (size_t k = 0; k < work_.accesses.size(); ++k) {
        const WorkAccess &a = work_.accesses[k];
        double n = executions_[static_cast<size_t>(a.scope)], bytes = touches_[k].bytes * n;
        if (n <= 0) continue;
        all += bytes;
        Seen &s = seen[static_cast<size_t>(a.argument + 1)];
        if (!values_.isKnown(a.offset)) {
          fresh += bytes;
          freshLoads_[k] += bytes / many;
          continue;
        }
        // The same address when loops begin, or end where they run backwards, with the same number of bytes: the same
        // tiles.
        int64_t at = std::min(values_[a.offset], atLast[k]);
        Tile &tile = s.tiles[at];
        double had = tile.bytes, known = std::min(bytes, had);
        if (had == 0) tile.first = i;
        if (bytes > had) fresh += bytes - had, tile.bytes = bytes;
        freshLoads_[k] += (bytes - known) / many;
        if (tile.first == i && a.kind == WorkAccess::Kind::Load && known > 0) {
          d_.againBytes += known / many;
          d_.keptBytes += std::max(known - tile.again, 0.0) / many;
          tile.again = std::max(tile.again, known);
        }
        if (a.kind == WorkAccess::Kind::Atomic) {
          updates += n;
          if (s.updated.insert(at).second) addresses += n;
        }
      }
      freshAt.push_back(fresh);
    }
    d_.freshBytes = fresh / many;
    d_.clash = addresses > 0 ? updates / addresses : 0;
    d_.uniqueBytes = unique(d_.freshBytes * d_.programs);
    if (hasCaches) {
      auto misses = [&](double cache) {
        // The longest sequence of programs whose tiles fit into the cache together.
        double miss = all / many;
        for (size_t i = 0; i < freshAt.size(); ++i)
          if (i == 0 || freshAt[i] <= cache) miss = freshAt[i] / static_cast<double>(i + 1);
        return miss;
      };
      d_.l1Misses = misses(machine_.l1Bytes);
      d_.l2Misses = misses(machine_.l2Bytes);
      d_.l3Misses = d_.uniqueBytes > machine_.l3Bytes ? misses(machine_.l3Bytes) : 0;
    }
  }

  /// The memory that the launch accesses: no more than its tensors hold.
  double unique(double streamed) const {
    double held = 0;
    std::vector<bool> used(info_.args.size());
    for (const WorkAccess &a : work_.accesses) {
      if (a.argument < 0) return streamed;
      used[static_cast<size_t>(a.argument)] = true;
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      if (i >= launch_.extents.size() || launch_.extents[i] < 0) return streamed;
      held += static_cast<double>(launch_.extents[i]);
    }
    return std::min(held, streamed);
  }

  /// Elements that a thread accesses at once, by scope: the minimum over its accesses or, if it has none, over all.
  std::vector<double> vectors() const {
    std::vector<double> here(work_.scopes.size());
    double all = 0;
    for (const WorkAccess &a : work_.accesses) {
      if (a.shape.empty()) continue;
      double n = a.descriptor ? 64 : std::clamp<double>(a.vectorBytes, a.elementBytes, 16) / a.elementBytes;
      all = all > 0 ? std::min(all, n) : n;
      double &least = here[static_cast<size_t>(a.scope)];
      least = least > 0 ? std::min(least, n) : n;
    }
    for (double &n : here)
      if (n <= 0) n = std::max(all, 1.0);
    return here;
  }

  void scopes() {
    static constexpr double Demand::*kinds[] = {&Demand::integer, &Demand::wide, &Demand::index, &Demand::single,
                                                &Demand::half, &Demand::twice, &Demand::divide, &Demand::intDivide,
                                                &Demand::special, &Demand::convert, &Demand::scalar, &Demand::exchange,
                                                &Demand::reduce, &Demand::carried};
    static_assert(std::size(kinds) == workKinds);
    const std::vector<double> vector = vectors();
    for (size_t s = 0; s < work_.scopes.size(); ++s) {
      const WorkScope &scope = work_.scopes[s];
      for (unsigned k = 0; k < workKinds; ++k) {
        // One address serves all elements that a thread accesses at once.
        double shared = k == static_cast<unsigned>(WorkKind::Index) ? vector[s] : 1;
        d_.*kinds[k] += executions_[s] * scope.elements[k] / shared;
      }
      d_.barriers += executions_[s] * scope.barriers;
      if (scope.kind == WorkScope::Kind::Loop) d_.trips = std::max(d_.trips, executions_[s]);
    }
    for (const WorkAccess &a : work_.accesses)
      if (a.kind != WorkAccess::Kind::Load && a.shape.size() > 1 &&
          work_.scopes[static_cast<size_t>(a.scope)][WorkKind::Exchange] > 0)
        d_.exchangeRow = std::max(d_.exchangeRow, static_cast<double>(a.shape.back()));
  }

  void accesses() {
    for (size_t k = 0; k < work_.accesses.size(); ++k) {
      const WorkAccess &a = work_.accesses[k];
      const Touch &t = touches_[k];
      double n = executions_[static_cast<size_t>(a.scope)], elements = static_cast<double>(a.elements()) * t.active * n,
             bytes = n * t.bytes;
      (a.kind == WorkAccess::Kind::Load ? d_.loadBytes : d_.storeBytes) += bytes;
      if (a.kind == WorkAccess::Kind::Atomic) d_.atomics += elements;
      d_.swept += n * static_cast<double>(a.elements());
      if (!a.shape.empty()) d_.pieces += n * t.pieces;
      // Stores to distant rows wait in buffers for the page's address; a load stalls the thread.
      constexpr double buffered = 0.25;
      const bool isLoad = a.kind == WorkAccess::Kind::Load;
      if (!a.shape.empty()) d_.farPieces += n * t.far * (isLoad ? 1 : buffered);
      if (isLoad) d_.farRows = std::max(d_.farRows, t.far);
      double width = std::clamp<double>(a.vectorBytes, a.elementBytes, 16) / a.elementBytes;
      if (a.descriptor)
        d_.bulkBytes += elements * a.elementBytes;
      else if (a.feedsDot && width * a.elementBytes >= 4)
        d_.copies += elements / width;
      else if (!a.shape.empty())
        d_.lanes += elements / width;
      if (!a.shape.empty() && !t.contiguous) d_.scattered += elements;
    }
  }

  void dots() {
    double most = 0;
    for (const WorkDot &dot : work_.dots) {
      double n = executions_[static_cast<size_t>(dot.scope)] * static_cast<double>(dot.batch),
             size = static_cast<double>(dot.m * dot.n) * static_cast<double>(dot.k);
      double fmas = n * size * dot.products;
      (dot.bits == 64   ? d_.fma64
       : dot.bits > 19  ? d_.fma32
       : dot.bits == 19 ? d_.fmaTf32
       : dot.bits == 16 ? d_.fma16
                        : d_.fma8) += fmas;
      d_.dots += n;
      if (dot.waitsFor >= 0) d_.dotChain += n;
      double bytes = dot.bits > 16 ? dot.bits == 64 ? 8 : 4 : dot.bits / 8.0;
      d_.operandBytes += n * bytes * static_cast<double>((dot.m + dot.n) * dot.k);
      d_.registerBytes +=
          n * bytes * static_cast<double>((dot.loadsA ? 0 : dot.m) * dot.k + (dot.loadsB ? 0 : dot.n) * dot.k);
      d_.resultBytes += n * (dot.bits == 64 ? 8 : 4) * static_cast<double>(dot.m * dot.n);
      if (size > most) {
        most = size;
        d_.dotM = static_cast<double>(dot.m), d_.dotN = static_cast<double>(dot.n),
        d_.dotK = static_cast<double>(dot.k);
      }
    }
  }

  /// Loads of loops with dots run ahead by the requested number of iterations, as far as shared memory allows; threads
  /// wait for all other loads.
  void pipelines() {
    double most = 0, shared = std::max(info_.gpu.use.sharedBytes, info_.gpu.sharedBytes), waited = 0;
    std::vector<double> loaded(work_.scopes.size());
    std::vector<bool> multiplies(work_.scopes.size()), isFresh(work_.scopes.size());
    for (size_t k = 0; k < work_.accesses.size(); ++k) {
      const WorkAccess &a = work_.accesses[k];
      const auto s = static_cast<size_t>(a.scope);
      d_.tile = std::max(d_.tile, static_cast<double>(a.elements()));
      if (a.kind != WorkAccess::Kind::Load) continue;
      loaded[s] += static_cast<double>(a.elements()) * a.elementBytes;
      if (2 * freshLoads_[k] > touches_[k].bytes * executions_[s]) isFresh[s] = true;
    }
    for (const WorkDot &d : work_.dots) multiplies[static_cast<size_t>(d.scope)] = true;
    for (size_t s = 0; s < work_.scopes.size(); ++s) {
      const WorkScope &scope = work_.scopes[s];
      double n = executions_[s], bytes = loaded[s];
      if (bytes <= 0) continue;
      if (!multiplies[s] || scope.kind != WorkScope::Kind::Loop) {
        double trips = n * roundTrips(scope, bytes);
        d_.rounds += trips;
        if (!isFresh[s]) d_.again += trips;
        waited += n * bytes;
        continue;
      }
      d_.pipelined += n;
      if (n * bytes <= most) continue;
      // One stage of the ring is being multiplied.
      double asked = scope.stages ? scope.stages - 1.0 : 8;
      most = n * bytes, d_.depth = std::clamp(std::floor(shared / bytes + 0.01) - 1, 0.0, std::min(asked, 8.0)),
      d_.iterationBytes = bytes;
    }
    d_.burst = d_.rounds > 0 ? waited / d_.rounds : 0;
  }

  /// Loads are in flight together as far as there are registers for their results.
  double roundTrips(const WorkScope &scope, double bytes) const {
    double threads = info_.gpu.threads;
    if (threads <= 0) return 1;
    constexpr double most = 255, others = 20, fewest = 8;
    double held = std::max(scope[WorkKind::Carried], 0.0) / threads,
           free = (use_.registers ? use_.registers : most) - others - held;
    return std::max(1.0, bytes / 4 / threads / std::max(free, fewest));
  }

  const runtime::KernelInfo &info_;
  const Work &work_;
  const Launch &launch_;
  const Machine &machine_;
  const runtime::GpuUse &use_;
  WorkValues values_;
  Demand d_;
  std::vector<Touch> touches_;
  std::vector<double> executions_; // mean executions of scopes
  std::vector<double> freshLoads_; // bytes of accesses that no earlier program accessed, per program
};
} // namespace

std::span<const DemandField> demandFields() { return fields; }

Demand demandOf(const runtime::KernelInfo &info, const runtime::GpuUse &use, const Launch &launch,
                const Machine &machine) {
  Demand d = Evaluation(info, use, launch, machine).run();
  d.threads = info.gpu.threads;
  d.ctas = info.gpu.clusterCtas;
  d.registers = use.registers;
  d.spillBytes = use.spillBytes;
  d.sharedBytes = std::max(use.sharedBytes, info.gpu.sharedBytes);
  d.scratchBytes = static_cast<double>(info.scratchBytes);
  return d;
}

} // namespace tegula::tune
