// The values that names are bound to while a kernel is instantiated: a compile-time object or a runtime tensor.
//
// Values are immutable and cheap to copy (compound payloads are shared). Everything that is not a Tensor (or a record
// or tuple that holds one) is a compile-time object, "constexpr" in the language. `Error` stands for a value whose
// error was already reported: operations on it return Error and report nothing.
#pragma once
#include "ir/Ir.h"
#include "lang/Dtype.h"
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tegula::lang {

class Value;
class Node;       // lang/Circle.h
struct Builtin;   // lang/Builtin.h
struct Function;  // sema/Function.h: a @jit function or constexpr_function with its module
struct Module;    // sema/Module.h: an imported module (tl, math, triton, a sibling file)

struct ErrorValue {};
struct NoneValue {};
struct EllipsisValue {};

/// Compile-time integer. Python's are unbounded; these hold 127 bits and overflow is reported.
using Int = __int128;

/// A runtime value: shape () is a scalar. The shape is the IR value's.
struct Tensor {
  Dtype dtype;
  ir::Value *value = nullptr;
  const ir::Shape &shape() const { return value->type.shape; }
  bool isScalar() const { return shape().rank() == 0; }
};

/// A type as an object: tl.float32, tl.pointer_type(tl.float16), x.type of a block (with shape), the type of a block
/// pointer (a pointer dtype, and the shape of what it points to).
struct TypeValue {
  Dtype dtype;
  ir::Shape shape; // rank 0: a scalar type
  bool isBlock = false;
  bool isBlockPtr() const { return !isBlock && dtype.isPtr && shape.rank() > 0; }
};

/// Summary of a compound value, available without walking it. A shared value counts at each occurrence, so a small
/// program can build a value too large to walk: code that builds values from other values rejects those over the
/// limits.
struct Summary {
  static constexpr uint64_t maxWeight = 1 << 21;
  static constexpr uint32_t maxDepth = 200;
  uint64_t weight = 1;     // of the value and everything in it, at any depth; saturates
  uint32_t depth = 0;      // nesting depth
  bool isConstexpr = true; // no tensor inside
  void add(const Value &item);
  bool isBounded() const { return weight <= maxWeight && depth <= maxDepth; }
};

/// Tuples and lists are one thing in the language.
struct TupleValue {
  std::vector<Value> items;
  Summary summary;
  explicit TupleValue(std::vector<Value> i);
};

struct Aggregate;

/// The class of a record: namedtuple classes, block pointers, tensor descriptors, aggregates, and objects of the
/// language that only have attributes.
struct RecordClass {
  enum class Kind : uint8_t { NamedTuple, BlockPtr, Descriptor, Aggregate, Object } kind = Kind::NamedTuple;
  std::string name;
  std::vector<std::string> fields;
  std::vector<Value> defaults; // of the last fields; of an aggregate: of each field, Error where there is none
  std::shared_ptr<Aggregate> aggregate = nullptr; // of that kind only
  /// Set for a class that a binding creates: its values are stored as lang/Circle.h describes, and read through
  /// findMember(), baseOf(), defaultOf().
  Node *node = nullptr;
  Summary summary = {}; // of `defaults`, as far as the maker cares for limits
};
struct RecordValue {
  std::shared_ptr<const RecordClass> cls;
  std::vector<Value> fields;
  Summary summary; // of the initial `fields`, and of the class
  RecordValue() = default;
  RecordValue(std::shared_ptr<const RecordClass> c, std::vector<Value> f);
};

struct SliceValue { // a:b:c
  std::vector<Value> parts; // lower, upper, step; None where absent
};

/// `x.sum` before the call: a builtin or library function with its first argument.
struct BoundMethod {
  std::shared_ptr<const Value> self;
  std::shared_ptr<const Value> callee;
};

/// `tl.range(...)`, `range(...)`, `tl.static_range(...)`, `tl.condition(...)` as values.
struct RangeValue {
  enum class Kind : uint8_t { Range, TlRange, StaticRange, Condition } kind = Kind::Range;
  std::vector<Value> args;                            // start, stop, step (Condition: the condition)
  std::vector<std::pair<std::string, Value>> options; // num_stages=..., disable_licm=...
};

/// An opaque Python object of the binding (enum members, classes); compared by id, printed by name. `attributes`: the
/// attributes that programs may read (an enum member's name and value, the fields of a dataclass), compile-time values
/// without functions.
struct OpaqueValue {
  std::string name;
  uint64_t id = 0;
  std::vector<std::pair<std::string, Value>> attributes;
  bool bare = false; // not in a constexpr, whose own `.value` is the object
};

/// Types by number. (std::variant, which costs every file that includes it half a second, stays out of this header.)
template <typename... Ts> struct TypeList {
  static constexpr uint8_t size = sizeof...(Ts);
  /// `size` if T is none of them.
  template <typename T> static constexpr uint8_t indexOf = [] {
    uint8_t index = 0;
    bool found = false;
    ((found = found || std::is_same_v<T, Ts>, index += !found), ...);
    return index;
  }();
};

class Value {
public:
  /// The kinds of values.
  using Kinds = TypeList<ErrorValue, NoneValue, EllipsisValue, bool, Int, double, std::shared_ptr<const std::string>,
                         Dtype, std::shared_ptr<const TypeValue>, Tensor, std::shared_ptr<const TupleValue>,
                         std::shared_ptr<const RecordValue>, std::shared_ptr<const RecordClass>,
                         std::shared_ptr<const SliceValue>, std::shared_ptr<const BoundMethod>,
                         std::shared_ptr<const RangeValue>, const Builtin *, std::shared_ptr<const Function>,
                         std::shared_ptr<const Module>, std::shared_ptr<const OpaqueValue>>;
  Value() : kind_(Kinds::indexOf<ErrorValue>) {}
  template <typename T>
  requires(Kinds::indexOf<T> < Kinds::size)
      Value(T v) : kind_(Kinds::indexOf<T>) {
    static_assert(sizeof(T) <= sizeof bytes_ && alignof(T) <= alignof(Int));
    ::new (static_cast<void *>(bytes_)) T(std::move(v));
  }
  // In Value.cpp: each is a table of all kinds.
  Value(const Value &);
  Value(Value &&) noexcept;
  Value &operator=(const Value &);
  Value &operator=(Value &&) noexcept;
  ~Value();

  static Value error() { return Value(); }
  static Value none() { return Value(NoneValue{}); }
  static Value boolean(bool b) { return Value(b); }
  static Value integer(Int i) { return Value(i); }
  static Value number(double d) { return Value(d); }
  static Value str(std::string s) { return Value(std::make_shared<const std::string>(std::move(s))); }
  static Value tuple(std::vector<Value> items) { return Value(Tuple(std::make_shared<TupleValue>(std::move(items)))); }
  static Value tensor(Dtype d, ir::Value *v) { return Value(Tensor{d, v}); }
  static Value type(Dtype d) { return Value(d); }

  bool isError() const { return is<ErrorValue>(); }
  bool isNone() const { return is<NoneValue>(); }
  bool isBool() const { return is<bool>(); }
  bool isInt() const { return is<Int>(); }
  bool isFloat() const { return is<double>(); }
  /// bool, int or float
  bool isNumber() const { return isBool() || isInt() || isFloat(); }
  bool isStr() const { return is<std::shared_ptr<const std::string>>(); }
  bool isTensor() const { return is<Tensor>(); }
  bool isTuple() const { return is<std::shared_ptr<const TupleValue>>(); }
  bool isRecord() const { return is<std::shared_ptr<const RecordValue>>(); }
  bool isDtype() const { return is<Dtype>(); }
  /// No tensor inside, at any depth.
  bool isConstexpr() const { return summary().isConstexpr; }
  Summary summary() const;
  /// An int or string that is a member of an enumeration of the host (IntEnum, StrEnum), null for others. Values
  /// computed from it are plain.
  const OpaqueValue *member() const { return member_ ? member_->get() : nullptr; }
  /// This int or string as the member `object`, which has its name and attributes.
  Value asMember(std::shared_ptr<const OpaqueValue> object) const;
  /// The same int or string as no member.
  Value withoutMember() const { return asMember(nullptr); }
  /// Of a tuple: the same with one more item. In place, and so in constant time, if this is the only reference.
  Value appended(Value item) &&;

  bool asBool() const { return get<bool>(); }
  /// Of an int or a bool.
  Int asInt() const { return isBool() ? Int(asBool()) : get<Int>(); }
  /// Of any number.
  double asFloat() const { return isFloat() ? get<double>() : static_cast<double>(asInt()); }
  const std::string &asStr() const { return *get<std::shared_ptr<const std::string>>(); }
  const Tensor &asTensor() const { return get<Tensor>(); }
  const std::vector<Value> &items() const { return get<std::shared_ptr<const TupleValue>>()->items; }
  const RecordValue &record() const { return *get<std::shared_ptr<const RecordValue>>(); }
  Dtype asDtype() const { return get<Dtype>(); }

  template <typename T> bool is() const {
    static_assert(Kinds::indexOf<T> < Kinds::size);
    return kind_ == Kinds::indexOf<T>;
  }
  /// Ends the process if the value is of another kind.
  template <typename T> const T &get() const {
    if (!is<T>()) std::abort();
    return *std::launder(reinterpret_cast<const T *>(bytes_));
  }
  /// Index of its kind in Kinds.
  uint8_t kind() const { return kind_; }

private:
  using Tuple = std::shared_ptr<const TupleValue>;
  using Member = std::shared_ptr<const OpaqueValue>;
  alignas(Int) std::byte bytes_[16];
  uint8_t kind_;
  std::unique_ptr<const Member> member_; // few values have one
};
static_assert(sizeof(Value) == 32);

/// The parts of a class of aggregates besides its fields (LANGUAGE 1.10). The fields of a base come first.
struct Aggregate {
  struct Member {
    enum class Role : uint8_t { Plain, Static, Class, Property }; // as the decorators say
    std::string name;
    Value value; // a function, or a constant
    Role role = Role::Plain;
  };
  std::vector<Value> types;    // of each field: tl.tensor, tl.constexpr, tl.tuple, ..., a class; Error if it is no type
  std::vector<Member> members; // the class's own, filled before its first use: functions refer to their class
  std::vector<std::shared_ptr<const RecordClass>> bases; // all ancestors, nearest first
  std::string badBase;         // a base that is no aggregate, if there is one
  uint64_t identity = 0;       // classes of one number are one class (0: of none)
  const void *definition = nullptr; // of a file: its statement
  bool detached = false;            // stands for the class of that definition in its own file's scope, see FileScope
  mutable std::string hashCache;    // guarded by hashMutex in sema/Module.cpp
};

/// The member of that name: of the class itself, else of its nearest base; nullopt if there is none.
std::optional<Aggregate::Member> findMember(const RecordClass &cls, std::string_view name);
/// The same without members of bases.
std::optional<Aggregate::Member> ownMember(const RecordClass &cls, std::string_view name);
std::shared_ptr<const RecordClass> baseOf(const RecordClass &cls, size_t i);
/// The default of an aggregate's field; Error if it has none.
Value defaultOf(const RecordClass &cls, size_t field);
bool isSameClass(const RecordClass &a, const RecordClass &b);
/// Whether `cls` is `base` or derives from it.
bool derivesFrom(const RecordClass &cls, const RecordClass &base);
bool isAggregate(const Value &v);
/// isinstance(v, cls) for any class or tuple of classes.
bool isInstance(const Value &v, const Value &cls);

/// An attribute of the enumeration's member that a number or string is; nullopt if it is none, or has no such
/// attribute.
std::optional<Value> memberAttribute(const Value &v, std::string_view name);
/// Attributes of members with their results of repr(), str() and format(); their names cannot occur after `.`.
constexpr std::string_view memberRepr = "repr of the host", memberStr = "str of the host",
                           memberFormat = "format of the host";

/// As Python's repr() shows it: 3, 'abc', (1, 2), float32, int32[128], <function f>. For messages, static_print,
/// f-strings.
std::string repr(const Value &v);
/// As str(): like repr but strings bare.
std::string str(const Value &v);
/// Type in the user's words: "int", "tuple", "tensor int32[128]", "scalar float32", "None". For messages.
std::string kindName(const Value &v);
/// "int32[128, 64]", "float32", "pointer<float16>[128]"
std::string typeName(const Tensor &t);
/// Equality of compile-time objects as Python's == (True == 1). Tensors are equal if they are the same IR value.
bool equal(const Value &a, const Value &b);
/// Whether both are the same tuple or record object; then a property of every object equal to itself needs no walk.
bool samePayload(const Value &a, const Value &b);
/// Exact text of a compile-time object, different for different objects (1, True and 1.0 differ; -0.0 differs from 0.0;
/// functions by content hash). Part of instantiation and cache keys.
std::string key(const Value &v);
std::string intToString(Int v);
/// The items of a tuple or namedtuple, null for anything else.
const std::vector<Value> *sequenceItems(const Value &v);
/// As Python's repr of a float: shortest text that reads back ("0.1", "1e+16", "inf", "nan", "2.0").
std::string floatToString(double v);

/// Functions on types of a higher layer, which that layer (sema/Module.cpp) defines. lang has weak fallbacks, so that
/// it links and can be tested alone.
std::string nameOf(const Function &f);
std::string keyOf(const Function &f);
std::string keyOf(const RecordClass &aggregate); // of its fields, members and bases
std::string nameOf(const Module &m);
Node *nodeOf(const Function &f); // null: of a file
Node *nodeOf(const Module &m);

} // namespace tegula::lang
