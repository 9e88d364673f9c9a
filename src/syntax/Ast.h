// The syntax tree of a Python 3.12 module, as the grammar defines it; nothing is evaluated here.
//
// Nodes are allocated in the Tree's arena and live as long as it; they are immutable once parsed, so any number of
// threads may read a Tree. Every node has its source range. Names follow Python's own `ast` module
// (docs.python.org/3.12/library/ast.html), which is the grammar's reference.
#pragma once
#include "support/Source.h"
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::syntax {

enum class ExprKind : uint8_t {
  Name, Int, Float, Imaginary, Str, Bytes, FString, True, False, None, Ellipsis,
  Tuple, List, Set, Dict, ListComp, SetComp, DictComp, GeneratorExp,
  Unary, Binary, BoolOp, Compare, Call, Attribute, Subscript, Slice, IfExp, Lambda, NamedExpr, Starred,
  Await, Yield, YieldFrom,
  Error // recovered from a syntax error; a diagnostic was emitted
};
enum class UnaryOp : uint8_t { Neg, Pos, Invert, Not };
enum class BinaryOp : uint8_t {
  Add, Sub, Mult, MatMult, Div, FloorDiv, Mod, Pow, LShift, RShift, BitAnd, BitOr, BitXor
};
enum class CmpOp : uint8_t { Eq, NotEq, Lt, LtE, Gt, GtE, Is, IsNot, In, NotIn };
const char *spelling(UnaryOp op);
const char *spelling(BinaryOp op);
const char *spelling(CmpOp op);

struct Expr;
struct Stmt;

struct Keyword { // f(name=value); empty name: **value
  std::string_view name;
  Expr *value = nullptr;
  Loc loc;
};

struct Comprehension { // for target in iter if cond ...
  Expr *target = nullptr;
  Expr *iter = nullptr;
  std::vector<Expr *> conds;
  bool isAsync = false;
};

struct FStringPart { // literal text, or {value!conversion:spec}
  std::string text;
  Expr *value = nullptr;
  char conversion = 0; // 'r', 's', 'a' or 0
  Expr *spec = nullptr; // an FString, or null
  std::string debug;    // the text before `=` in {x=}, with the =
};

struct Param {
  enum class Kind : uint8_t { PositionalOnly, Normal, Star, KeywordOnly, DoubleStar } kind = Kind::Normal;
  std::string_view name;
  Expr *annotation = nullptr;
  Expr *defaultValue = nullptr;
  Loc loc;
};

/// One node type for all expressions: `kind` decides which members are used.
struct Expr {
  ExprKind kind;
  Loc loc;
  /// Name: identifier; Attribute: attribute name; NamedExpr: target name.
  std::string_view name;
  Loc nameLoc; // of `name` in an Attribute
  /// Int: digits without underscores, with 0x/0o/0b prefix; Float/Imaginary: normalized literal; Str/Bytes: decoded
  /// value.
  std::string text;
  /// Unary: operand. Binary: lhs, rhs. BoolOp: 2+ operands. Compare: operands (one more than cmpOps). Tuple/List/Set:
  /// elements. Call: callee, then positional arguments (Starred for *x). Attribute: object. Subscript: object, index.
  /// Slice: lower, upper, step (each may be null). IfExp: test, then, else. NamedExpr: value.
  /// Starred/Await/Yield(From): value or none. Lambda: body. Comprehensions: element (DictComp: key, value). Dict: key,
  /// value, key, value... (null key: **value).
  std::vector<Expr *> operands;
  UnaryOp unaryOp = UnaryOp::Neg;
  BinaryOp binaryOp = BinaryOp::Add;
  bool isAnd = false; // BoolOp
  std::vector<CmpOp> cmpOps;
  Loc opLoc; // of the operator of Unary, Binary, Compare (first), BoolOp (first)
  std::vector<Keyword> keywords;            // Call
  std::vector<Comprehension> generators;    // comprehensions
  std::vector<FStringPart> parts;           // FString
  std::vector<Param> params;                // Lambda
  bool parenthesized = false;               // written in parentheses of its own
};

enum class StmtKind : uint8_t {
  Expr, Assign, AugAssign, AnnAssign, For, While, If, With, Try, FunctionDef, ClassDef, Return, Delete, Pass, Break,
  Continue, Raise, Global, Nonlocal, Import, ImportFrom, Assert, Match, TypeAlias,
  Error
};

struct Alias { // import a.b as c
  std::string_view name;
  std::string_view asName;
  Loc loc;
};

struct WithItem {
  Expr *context = nullptr;
  Expr *target = nullptr; // may be null
};

struct ExceptHandler {
  Expr *type = nullptr;
  std::string_view name;
  std::vector<Stmt *> body;
};

/// Patterns of `match` are stored as expressions of the same spelling (a kernel may not use them; host code may).
struct MatchCase {
  Expr *pattern = nullptr;
  Expr *guard = nullptr;
  std::vector<Stmt *> body;
};

/// One node type for all statements.
struct Stmt {
  StmtKind kind;
  Loc loc;      // the whole statement
  Loc headLoc;  // compound statements: keyword up to the colon
  /// Assign: all targets (a = b = v has two). AugAssign/AnnAssign/For: one. Delete: all.
  std::vector<Expr *> targets;
  /// Expr/Assign/AugAssign/AnnAssign(null if none)/Return(null if bare)/Raise: value. For: iterable. While/If/Assert:
  /// test. Match: subject.
  Expr *value = nullptr;
  Expr *extra = nullptr; // AnnAssign: annotation. Assert: message. Raise: cause. FunctionDef: return annotation.
  BinaryOp binaryOp = BinaryOp::Add; // AugAssign
  Loc opLoc;
  std::vector<Stmt *> body, orelse, finalbody; // orelse: else arm, or an If for elif
  bool isElif = false;                         // an If that was written elif
  bool isAsync = false;
  std::vector<WithItem> items;
  std::vector<ExceptHandler> handlers;
  bool isTryStar = false;
  std::vector<MatchCase> cases;
  // FunctionDef, ClassDef
  std::string_view name;
  Loc nameLoc;
  std::vector<Expr *> decorators;
  std::vector<Param> params;
  std::vector<Expr *> bases;
  std::vector<Keyword> keywords;
  // Import, ImportFrom, Global, Nonlocal (names only)
  std::vector<Alias> names;
  std::string_view module; // ImportFrom, without leading dots
  uint32_t level = 0;      // number of leading dots
};

/// A parsed file. Owns its nodes and keeps the source alive.
class Tree {
public:
  explicit Tree(std::shared_ptr<const SourceFile> file);
  ~Tree();
  Tree(const Tree &) = delete;
  const SourceFile &file() const { return *file_; }
  std::shared_ptr<const SourceFile> filePtr() const { return file_; }
  std::vector<Stmt *> body;
  Expr *newExpr(ExprKind k, Loc loc);
  Stmt *newStmt(StmtKind k, Loc loc);
  /// A copy of `s` that lives as long as the tree (decoded identifiers).
  std::string_view intern(std::string_view s);

private:
  struct Storage;
  std::shared_ptr<const SourceFile> file_;
  std::unique_ptr<Storage> storage_;
};

} // namespace tegula::syntax
