// Names, widths and IR types of the language's data types: one table, everything else reads it.
#include "lang/Dtype.h"

namespace tegula::lang {

namespace {

struct ScalarRow {
  Scalar scalar;
  const char *code;     // in signatures
  const char *spelling; // as tl spells it
  uint8_t bits;
  ir::Elem elem;
};

constexpr ScalarRow rows[] = {
    {Scalar::Void, "void", "void", 0, ir::Elem::Void},
    {Scalar::Int1, "i1", "int1", 1, ir::Elem::I1},
    {Scalar::Int8, "i8", "int8", 8, ir::Elem::I8},
    {Scalar::Int16, "i16", "int16", 16, ir::Elem::I16},
    {Scalar::Int32, "i32", "int32", 32, ir::Elem::I32},
    {Scalar::Int64, "i64", "int64", 64, ir::Elem::I64},
    {Scalar::UInt8, "u8", "uint8", 8, ir::Elem::I8},
    {Scalar::UInt16, "u16", "uint16", 16, ir::Elem::I16},
    {Scalar::UInt32, "u32", "uint32", 32, ir::Elem::I32},
    {Scalar::UInt64, "u64", "uint64", 64, ir::Elem::I64},
    {Scalar::Fp8e5, "fp8e5", "float8e5", 8, ir::Elem::F8E5M2},
    {Scalar::Fp8e4nv, "fp8e4nv", "float8e4nv", 8, ir::Elem::F8E4M3FN},
    {Scalar::Fp8e4b15, "fp8e4b15", "float8e4b15", 8, ir::Elem::F8E4B15},
    {Scalar::Fp8e4b8, "fp8e4b8", "float8e4b8", 8, ir::Elem::F8E4B8},
    {Scalar::Fp8e5b16, "fp8e5b16", "float8e5b16", 8, ir::Elem::F8E5B16},
    {Scalar::Fp16, "fp16", "float16", 16, ir::Elem::F16},
    {Scalar::Bf16, "bf16", "bfloat16", 16, ir::Elem::BF16},
    {Scalar::Fp32, "fp32", "float32", 32, ir::Elem::F32},
    {Scalar::Fp64, "fp64", "float64", 64, ir::Elem::F64},
};

/// Spellings beyond code and spelling.
constexpr struct {
  const char *text;
  Scalar scalar;
} aliases[] = {
    {"bool", Scalar::Int1},
    {"u1", Scalar::Int1},
    {"B", Scalar::Int1},
    {"int", Scalar::Int32},
    {"uint", Scalar::UInt32},
    {"f16", Scalar::Fp16},
    {"half", Scalar::Fp16},
    {"f32", Scalar::Fp32},
    {"float", Scalar::Fp32},
    {"f64", Scalar::Fp64},
    {"double", Scalar::Fp64},
    {"f8e5", Scalar::Fp8e5},
    {"f8e5m2", Scalar::Fp8e5},
    {"float8_e5m2", Scalar::Fp8e5},
    {"fp8e5m2", Scalar::Fp8e5},
    {"f8e4nv", Scalar::Fp8e4nv},
    {"f8e4m3fn", Scalar::Fp8e4nv},
    {"float8_e4m3fn", Scalar::Fp8e4nv},
    {"fp8e4m3fn", Scalar::Fp8e4nv},
    {"f8e4m3", Scalar::Fp8e4nv},
    {"f8e4b15", Scalar::Fp8e4b15},
    {"f8e4b8", Scalar::Fp8e4b8},
    {"f8e4m3fnuz", Scalar::Fp8e4b8},
    {"float8_e4m3fnuz", Scalar::Fp8e4b8},
    {"f8e5b16", Scalar::Fp8e5b16},
    {"f8e5m2fnuz", Scalar::Fp8e5b16},
    {"float8_e5m2fnuz", Scalar::Fp8e5b16},
};

const ScalarRow &row(Scalar s) { return rows[static_cast<unsigned>(s)]; }

std::optional<Scalar> parseScalar(std::string_view text) {
  for (const ScalarRow &r : rows)
    if (text == r.code || text == r.spelling)
      return r.scalar;
  for (const auto &a : aliases)
    if (text == a.text)
      return a.scalar;
  if (text.ends_with("_t"))
    return parseScalar(text.substr(0, text.size() - 2));
  return std::nullopt;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ')
    s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ')
    s.remove_suffix(1);
  return s;
}

/// Removes `prefix` (and blanks after it) if present.
bool consume(std::string_view &s, std::string_view prefix) {
  if (!s.starts_with(prefix))
    return false;
  s = trim(s.substr(prefix.size()));
  return true;
}

} // namespace

unsigned Dtype::bits() const { return isPtr ? 64 : row(scalar).bits; }

std::string code(Dtype d) {
  std::string s = row(d.scalar).code;
  return d.isPtr ? (d.isConst ? "*k" : "*") + s : s;
}

std::string spelling(Dtype d) {
  std::string s = row(d.scalar).spelling;
  return d.isPtr ? (d.isConst ? "pointer<const " : "pointer<") + s + ">" : s;
}

std::optional<Dtype> parseDtype(std::string_view text) {
  std::string_view s = trim(text);
  bool isPtr = false, isConst = false;
  if (consume(s, "*")) {
    isPtr = true;
    // "k" is a prefix only here: no scalar's name begins with it.
    isConst = consume(s, "k");
  }
  isConst |= consume(s, "const ");
  if (!isPtr && s.ends_with('*')) {
    isPtr = true;
    s = trim(s.substr(0, s.size() - 1));
  }
  consume(s, "triton.language.");
  consume(s, "tl.");
  std::optional<Scalar> scalar = parseScalar(s);
  if (!scalar || (isConst && !isPtr))
    return std::nullopt;
  return Dtype{*scalar, isPtr, isConst};
}

ir::Elem elem(Scalar s) { return row(s).elem; }

ir::Type irType(Dtype d) {
  // Booleans in memory are bytes: a pointer to int1 is a pointer to i8, and loads and stores convert.
  if (d.isPtr)
    return ir::Type::ptr(d.scalar == Scalar::Int1 ? ir::Elem::I8 : elem(d.scalar));
  return ir::Type::scalar(elem(d.scalar));
}

ir::Type irType(Dtype d, const ir::Shape &shape) { return irType(d).withShape(shape); }

} // namespace tegula::lang
