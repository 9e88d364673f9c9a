// The work of one program of a kernel, as numbers: passes/WorkCount.h derives it from tile IR, it is stored with the
// compiled kernel, and the cost model (tune/Model.h) evaluates it for a launch.
//
// How often an operation runs, and where it accesses memory, depend on arguments and on the program's number. So counts
// belong to scopes (bodies of loops and branches), whose number of executions is an expression, and the address of an
// access is an expression, too. The same kernel can be evaluated for any launch.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tegula {

/// An integer expression; operands are earlier expressions of the same Work. Arithmetic is in 64 bits, whatever the
/// kernel's type. A number that is not known before the launch (loaded from memory, say) is Unknown, and so is
/// everything computed from it.
struct WorkExpr {
  enum class Kind : uint8_t {
    Unknown, Constant, Argument /* value: index */, ProgramId /* value: axis */, NumPrograms /* value: axis */,
    Iteration /* value: scope; the number of the iteration that is under way, from 0 */,
    Coordinate /* value: dimension of the access's tile */,
    Add, Sub, Mul, Div, Rem, And, Or, Xor, Shl, Shr, Min, Max, Equal, Less /* a < b */, LessEqual,
    Select /* a ? b : c */,
    Trips /* of a loop from a to b by c, c > 0 */
  };
  Kind kind = Kind::Unknown;
  int32_t a = -1, b = -1, c = -1;
  int64_t value = 0;
  bool operator==(const WorkExpr &) const = default;
};

/// The value of an expression from its operands' values. False: it has no value.
bool computeExpr(WorkExpr::Kind kind, int64_t a, int64_t b, int64_t c, int64_t &out);

/// Computed elements, by cost. The counts of a scope are for one execution of it.
enum class WorkKind : uint8_t {
  Integer,  // 32 bits and fewer; comparisons, selections and logic of all types
  Wide,     // integers of 64 bits
  Index,    // integers made of ranges and scalars alone: addresses and masks
  Float,    // fp32: an operation, or a product and a sum that are fused
  Half,     // 16 bits and fewer
  Double,
  Divide,   // quotients and square roots of floats
  IntDivide,
  Special,  // elementary functions
  Convert,  // between types of other width or kind
  Scalar,   // operations on scalars
  Exchange, // elements that move: transposes, gathers, scans, sorts
  Reduce,   // elements that are reduced
  Carried,  // loop-carried elements of tiles, except accumulators of dots
  Count
};
inline constexpr unsigned workKinds = static_cast<unsigned>(WorkKind::Count);

struct WorkScope {
  enum class Kind : uint8_t { Body, Loop, Branch };
  Kind kind = Kind::Body;
  int32_t parent = -1;       // an earlier scope
  int32_t count = -1;        // expression: trips of a loop; of a branch, whether it is taken (not 0). -1: once
  bool otherwise = false;    // the branch that is taken if the expression is 0
  // iterations in flight at once, as the loop or the launch asks (num_stages); 0: not known
  uint32_t stages = 0;
  std::array<double, workKinds> elements{};
  // synchronizations of the program's threads: reductions over several threads, exchanges
  uint32_t barriers = 0;
  double &operator[](WorkKind k) { return elements[static_cast<unsigned>(k)]; }
  double operator[](WorkKind k) const { return elements[static_cast<unsigned>(k)]; }
};

struct WorkAccess {
  enum class Kind : uint8_t { Load, Store, Atomic };
  Kind kind = Kind::Load;
  bool descriptor = false;   // by a tensor descriptor
  bool feedsDot = false;     // a load used only by dots, directly or through view operations
  uint8_t elementBytes = 1;
  uint32_t vectorBytes = 1;  // that one thread can access at once, as far as addresses and mask are known
  int32_t scope = 0;
  int32_t argument = -1;     // the pointer that it is based on; -1: several, or unknown
  int32_t offset = -1;       // expression: an element's byte offset from the argument's address, by its coordinates
  int32_t mask = -1;         // expression: is the element accessed? -1: all are
  std::vector<int64_t> shape; // empty: a scalar
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
  }
};

struct WorkDot {
  int32_t scope = 0;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  uint8_t bits = 32;     // of an operand's element in the multiplying unit; 19: tf32
  bool isFloat = true;
  uint8_t products = 1;  // executed for each one in the source (tf32x3: 3)
  bool loadsA = false, loadsB = false; // straight from a load
  int32_t waitsFor = -1; // an earlier dot of the iteration whose result this one needs
};

struct Work {
  std::vector<WorkExpr> exprs;
  std::vector<WorkScope> scopes; // the first one is the kernel's body; empty: nothing is known
  std::vector<WorkAccess> accesses;
  std::vector<WorkDot> dots;
};

/// The numbers of one program of a launch.
struct WorkPoint {
  std::span<const int64_t> arguments; // by index; of floats and pointers 0
  std::array<int64_t, 3> program{}, grid{1, 1, 1};
};

/// The evaluated iteration of each loop: the middle one represents all; the first one is the same for loops of other
/// lengths, as is the last one for loops that run backwards.
enum class WorkMoment : uint8_t { Middle, First, Last };

/// Values of all expressions for one program.
class WorkValues {
public:
  explicit WorkValues(const Work &work);
  ~WorkValues();
  WorkValues(const WorkValues &);
  void evaluate(const WorkPoint &point, WorkMoment moment = WorkMoment::Middle);
  /// Reevaluates what depends on coordinates; dimensions beyond them are 0.
  void at(const WorkPoint &point, std::span<const int64_t> coordinates);
  bool isKnown(int32_t expr) const { return expr >= 0 && known_[static_cast<size_t>(expr)]; }
  int64_t operator[](int32_t expr) const { return values_[static_cast<size_t>(expr)]; }
  /// Executions of a scope in one program. An unknown loop counts `guessedTrips` trips, an unknown branch one half.
  double executions(int32_t scope, double guessedTrips) const;

private:
  void evaluateOne(size_t i, const WorkPoint &point, std::span<const int64_t> coordinates);
  const Work &work_;
  WorkMoment moment_ = WorkMoment::Middle;
  std::vector<int64_t> values_;
  std::vector<uint8_t> known_;
  std::vector<uint8_t> varies_; // with coordinates; made at the first use
};

} // namespace tegula
