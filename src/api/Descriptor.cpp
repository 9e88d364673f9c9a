// Host tensor descriptors: an argument that is a record of pointer, extents, strides and compile-time parts, as the
// language sees it (lang/Descriptor.h). Everything after this file treats it as any other namedtuple.
#include "lang/Descriptor.h"
#include "api/Handles.h"
#include <array>
#include <limits>

using namespace tegula;
using namespace tegula::api;

static TegulaStatus refuse(std::string text) {
  return fail(TEGULA_INVALID_ARGUMENT, "tensor descriptor: " + std::move(text));
}

namespace {
/// Compile-time parts shared by descriptors; made once, never freed.
struct Constants {
  TegulaValue *cls = new TegulaValue(lang::Value(lang::descriptorClass()));
  TegulaValue *zero = new TegulaValue(lang::Value::str("zero")), *nan = new TegulaValue(lang::Value::str("nan"));
  TegulaValue *no = new TegulaValue(lang::Value::boolean(false)), *yes = new TegulaValue(lang::Value::boolean(true));
  static constexpr unsigned maxBits = 20; // of a block extent
  std::array<TegulaValue *, maxBits + 1> extents;
  Constants() {
    for (unsigned i = 0; i <= maxBits; ++i) extents[i] = new TegulaValue(lang::Value::integer(lang::Int(1) << i));
  }
};
} // namespace

static const Constants &constants() {
  static const Constants c;
  return c;
}

constexpr unsigned descriptorFields = 6; // of lang::descriptorClass()

static std::string text(const char *name, size_t d) { return std::string(name) + "[" + std::to_string(d) + "]"; }

/// The requirements of LANGUAGE on host descriptors; the language's own binding has reported violations before.
static TegulaStatus check(const TegulaArg &base, size_t rank, const int64_t *shape, const int64_t *strides,
                          const int64_t *block, int32_t flags) {
  if (base.kind != TEGULA_ARG_POINTER || base.dtype == TEGULA_VOID || base.dtype > TEGULA_FP64)
    return refuse("the base is no pointer to elements");
  int64_t bytes = tegula_dtype_bytes(base.dtype), grain = lang::descriptorGrain;
  if (reinterpret_cast<uintptr_t>(base.u.ptr) % lang::descriptorGrain) return refuse("base must be 16-byte aligned");
  for (size_t d = 0; d < rank; ++d) {
    if (shape[d] < 1) return refuse("shape must be positive: " + text("shape", d) + " is " + std::to_string(shape[d]));
    if (shape[d] > std::numeric_limits<int32_t>::max())
      return refuse(text("shape", d) + " is " + std::to_string(shape[d]) + ", beyond 32 bits");
    if (d + 1 < rank &&
        (strides[d] > INT64_MAX / bytes || strides[d] < INT64_MIN / bytes || strides[d] * bytes % grain))
      return refuse("strides must be 16-byte aligned: " + text("strides", d) + " is " + std::to_string(strides[d]) +
                    " elements of " + std::to_string(bytes) + " bytes");
    if (block[d] < 1 || block[d] > int64_t(1) << Constants::maxBits || (block[d] & (block[d] - 1)))
      return refuse("block_shape must be powers of 2: " + text("block_shape", d) + " is " + std::to_string(block[d]));
  }
  if (strides[rank - 1] != 1) return refuse("the last stride must be 1, not " + std::to_string(strides[rank - 1]));
  if (block[rank - 1] * bytes < grain)
    return refuse("Descriptor block shape must have at least 16 bytes in the last dimension; " +
                  text("block_shape", rank - 1) + " is " + std::to_string(block[rank - 1]) + " elements of " +
                  std::to_string(bytes) + " bytes");
  if (flags & TEGULA_PADDING_NAN && base.dtype < TEGULA_FP8E5) return refuse("padding with NaN needs floats");
  if (flags & TEGULA_ROUND_TF32 && base.dtype != TEGULA_FP32) return refuse("rounding to tf32 needs float32");
  return TEGULA_OK;
}

static TegulaArg tupleOf(const TegulaArg *items, size_t n) {
  TegulaArg a = {TEGULA_ARG_TUPLE, TEGULA_VOID, 0, static_cast<uint32_t>(n), {nullptr}, {0}};
  a.u.items = items;
  return a;
}

static TegulaArg intOf(int64_t v, TegulaDtype dtype) {
  TegulaArg a = tegula_int(v);
  a.dtype = dtype;
  return a;
}

TegulaStatus tegula_tensor_descriptor(TegulaTensorDescriptor *storage, TegulaArg base, size_t rank,
                                      const int64_t *shape, const int64_t *strides, const int64_t *block_shape,
                                      int32_t flags, TegulaArg *out) {
  if (rank < 1 || rank > lang::maxDescriptorRank)
    return refuse("1 to 5 dimensions are possible, not " + std::to_string(rank));
  if (!storage || !out || !shape || !strides || !block_shape) return refuse("null argument");
  if (flags & ~(TEGULA_PADDING_NAN | TEGULA_ROUND_TF32)) return refuse("there is no padding " + std::to_string(flags));
  if (TegulaStatus s = check(base, rank, shape, strides, block_shape, flags); s != TEGULA_OK) return s;
  static_assert(sizeof storage->parts / sizeof(TegulaArg) >= descriptorFields + 3 * lang::maxDescriptorRank);
  const Constants &c = constants();
  TegulaArg *fields = storage->parts, *extents = fields + descriptorFields, *steps = extents + rank,
            *block = steps + rank;
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = intOf(shape[d], TEGULA_INT32);
    steps[d] = d + 1 < rank ? intOf(strides[d], TEGULA_INT64) : tegula_int(1);
    block[d] =
        tegula_constant(c.extents[static_cast<unsigned>(__builtin_ctzll(static_cast<uint64_t>(block_shape[d])))]);
  }
  fields[0] = base;
  fields[1] = tupleOf(extents, rank);
  fields[2] = tupleOf(steps, rank);
  fields[3] = tupleOf(block, rank);
  fields[4] = tegula_constant(flags & TEGULA_PADDING_NAN ? c.nan : c.zero);
  fields[5] = tegula_constant(flags & TEGULA_ROUND_TF32 ? c.yes : c.no);
  *out = tupleOf(fields, descriptorFields);
  out->u2.cls = c.cls;
  return TEGULA_OK;
}
