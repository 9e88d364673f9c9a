// What one program of a kernel does, as numbers: a value that passes/WorkCount.h makes of tile IR, that is kept with
// the compiled kernel, and that the cost model (tune/Model.h) evaluates for a launch.
//
// How often something happens, and where it happens in memory, depends on arguments and on the program's number. So
// counts stand in scopes (bodies of loops and branches) whose number of executions is an expression, and accesses have
// their address as one. The same kernel can be evaluated for any launch.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tegula {

/// An integer expression; operands are earlier expressions of the same Work. Arithmetic is in 64 bits, whatever the
/// kernel's type. A number that nobody can tell before the launch (loaded from memory, say) is Unknown, and so is all
/// that is computed from it.
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

/// What an expression with operands is of their values. False: it has no value.
bool computeExpr(WorkExpr::Kind kind, int64_t a, int64_t b, int64_t c, int64_t &out);

/// Elements that are computed, by what they cost. Sums of a scope are for one execution of it.
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
  Exchange, // elements that change places: transposes, gathers, scans, sorts
  Reduce,   // elements that are reduced
  Carried,  // elements of tiles that a loop's iteration hands to the next one, sums of dots apart
  Count
};
inline constexpr unsigned workKinds = static_cast<unsigned>(WorkKind::Count);

struct WorkScope {
  enum class Kind : uint8_t { Body, Loop, Branch };
  Kind kind = Kind::Body;
  int32_t parent = -1;       // an earlier scope
  int32_t count = -1;        // expression: trips of a loop; of a branch, whether it is taken (not 0). -1: once
  bool otherwise = false;    // the branch that is taken if the expression is 0
  // iterations that may be under way at once, as the loop or the launch asked (num_stages); 0: nothing is known
  uint32_t stages = 0;
  std::array<double, workKinds> elements{};
  // places where the program's threads synchronize: reductions over several threads, exchanges
  uint32_t barriers = 0;
  double &operator[](WorkKind k) { return elements[static_cast<unsigned>(k)]; }
  double operator[](WorkKind k) const { return elements[static_cast<unsigned>(k)]; }
};

struct WorkAccess {
  enum class Kind : uint8_t { Load, Store, Atomic };
  Kind kind = Kind::Load;
  bool descriptor = false;   // by a tensor descriptor
  bool feedsDot = false;     // a load that only dots read, directly or by views of it
  uint8_t elementBytes = 1;
  uint32_t vectorBytes = 1;  // that one thread may move at once, by what the compiler knows of addresses and mask
  int32_t scope = 0;
  int32_t argument = -1;     // the pointer it goes through; -1: several, or unknown
  int32_t offset = -1;       // expression: bytes from that argument's address, of an element by its coordinates
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
  uint8_t bits = 32;     // of an operand's element as the unit that multiplies sees it; 19: tf32
  bool isFloat = true;
  uint8_t products = 1;  // of it for one of the source (tf32x3: 3)
  bool loadsA = false, loadsB = false; // straight from a load
  int32_t waitsFor = -1; // another dot of the same iteration that this one needs the result of
};

struct Work {
  std::vector<WorkExpr> exprs;
  std::vector<WorkScope> scopes; // the first one is the kernel's body; none: nothing is known of the kernel
  std::vector<WorkAccess> accesses;
  std::vector<WorkDot> dots;
};

/// The numbers of one program of a launch.
struct WorkPoint {
  std::span<const int64_t> arguments; // by index; of floats and pointers 0
  std::array<int64_t, 3> program{}, grid{1, 1, 1};
};

/// Which iteration of each loop is looked at: the middle one stands for all, the first one is the same for loops of
/// other lengths, as the last one is for those that run backwards.
enum class WorkMoment : uint8_t { Middle, First, Last };

/// Values of all expressions for one program.
class WorkValues {
public:
  explicit WorkValues(const Work &work);
  ~WorkValues();
  WorkValues(const WorkValues &);
  void evaluate(const WorkPoint &point, WorkMoment moment = WorkMoment::Middle);
  /// Evaluates what depends on coordinates anew; dimensions beyond are 0.
  void at(const WorkPoint &point, std::span<const int64_t> coordinates);
  bool isKnown(int32_t expr) const { return expr >= 0 && known_[static_cast<size_t>(expr)]; }
  int64_t operator[](int32_t expr) const { return values_[static_cast<size_t>(expr)]; }
  /// Executions of a scope in one program; `guessedTrips` and a half stand for loops and branches that nobody can tell.
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
