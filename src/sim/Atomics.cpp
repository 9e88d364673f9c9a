// Atomic operations. Global memory is shared with other host threads, so global atomics are host atomics; shared memory
// belongs to one host thread.
#include "sim/AsyncState.h"
#include "sim/Numeric.h"
#include "sim/State.h"
#include <cmath>
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

static uint32_t typeBytes(int32_t type) {
  static constexpr uint8_t bytes[] = {4, 8, 2, 2, 4, 8, 2, 1};
  return uint32_t(type) < sizeof bytes ? bytes[type] : 0;
}

/// Minimum and maximum with the hardware's rule that a NaN loses.
template <class F> static F floatOp(int32_t op, F a, F b) {
  switch (op) {
  case TEGULA_ATOM_ADD:
  case TEGULA_ATOM_FADD:
    return a + b;
  case TEGULA_ATOM_SMIN:
    return std::fmin(a, b);
  default:
    return std::fmax(a, b);
  }
}

template <class U> static U intOp(int32_t op, U a, U b) {
  using S = std::make_signed_t<U>;
  switch (op) {
  case TEGULA_ATOM_ADD:
    return U(a + b);
  case TEGULA_ATOM_SMIN:
    return U(std::min(S(a), S(b)));
  case TEGULA_ATOM_SMAX:
    return U(std::max(S(a), S(b)));
  case TEGULA_ATOM_UMIN:
    return std::min(a, b);
  case TEGULA_ATOM_UMAX:
    return std::max(a, b);
  case TEGULA_ATOM_AND:
    return a & b;
  case TEGULA_ATOM_OR:
    return a | b;
  default:
    return a ^ b;
  }
}

/// What is stored for `old`, operand `value` and (CAS) `compare`.
template <class U> static U combine(int32_t type, int32_t op, U old, U value, U compare) {
  if (op == TEGULA_ATOM_XCHG || op == TEGULA_ATOM_STORE)
    return value;
  if (op == TEGULA_ATOM_LOAD)
    return old;
  if (op == TEGULA_ATOM_CAS)
    return old == compare ? value : old;
  bool arithmetic = op == TEGULA_ATOM_FADD || op == TEGULA_ATOM_ADD || op == TEGULA_ATOM_SMIN || op == TEGULA_ATOM_SMAX;
  if (arithmetic && type == TEGULA_SIM_F32 && sizeof(U) == 4)
    return U(fromFloat(floatOp(op, toFloat(uint32_t(old)), toFloat(uint32_t(value)))));
  if (arithmetic && type == TEGULA_SIM_F64 && sizeof(U) == 8) {
    double a, b;
    std::memcpy(&a, &old, sizeof(U)), std::memcpy(&b, &value, sizeof(U));
    double r = floatOp(op, a, b);
    U bits;
    std::memcpy(&bits, &r, sizeof(U));
    return bits;
  }
  if (arithmetic && type == TEGULA_SIM_F16)
    return U(floatToHalf(floatOp(op, halfToFloat(uint16_t(old)), halfToFloat(uint16_t(value)))));
  if (arithmetic && type == TEGULA_SIM_BF16)
    return U(floatToBfloat(floatOp(op, bfloatToFloat(uint16_t(old)), bfloatToFloat(uint16_t(value)))));
  return intOp<U>(op, old, value);
}

template <class U> static U updateGlobal(U *at, int32_t type, int32_t op, U value, U compare) {
  if (op == TEGULA_ATOM_STORE) {
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
    return value;
  }
  U old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  if (op == TEGULA_ATOM_LOAD) // the memory may be read-only
    return old;
  while (!__atomic_compare_exchange_n(at, &old, combine<U>(type, op, old, value, compare), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return old;
}

template <class U>
static void update(uint8_t *memory, bool global, int32_t type, int32_t count, int32_t op, const void *in, void *old) {
  for (int32_t i = 0; i < count; ++i) {
    U value, compare = 0, before;
    const char *operand = static_cast<const char *>(in);
    if (op == TEGULA_ATOM_CAS) {
      std::memcpy(&compare, operand, sizeof(U));
      std::memcpy(&value, operand + sizeof(U), sizeof(U));
    } else if (op == TEGULA_ATOM_LOAD) {
      value = 0;
    } else {
      std::memcpy(&value, operand + size_t(i) * sizeof(U), sizeof(U));
    }
    U *at = reinterpret_cast<U *>(memory) + i;
    if (global) {
      before = updateGlobal<U>(at, type, op, value, compare);
    } else {
      before = *at;
      *at = combine<U>(type, op, before, value, compare);
    }
    if (old)
      std::memcpy(static_cast<char *>(old) + size_t(i) * sizeof(U), &before, sizeof(U));
  }
}

void reduceGlobal(void *global, int32_t type, int32_t op, const void *value) {
  auto *at = static_cast<uint8_t *>(global);
  switch (typeBytes(type)) {
  case 2:
    return update<uint16_t>(at, true, type, 1, op, value, nullptr);
  case 4:
    return update<uint32_t>(at, true, type, 1, op, value, nullptr);
  default:
    return update<uint64_t>(at, true, type, 1, op, value, nullptr);
  }
}

/// Order that shared atomics give: a release leaves what the thread knows at the address, an acquire takes it.
static void orderShared(Thread *t, uint32_t addr, bool releases, bool acquires) {
  auto &list = t->cluster->released;
  auto it = std::find_if(list.begin(), list.end(), [&](auto &e) { return e.first == addr; });
  if (acquires && it != list.end())
    acquire(t, it->second);
  if (!releases)
    return;
  if (it == list.end())
    it = list.insert(list.end(), {addr, nullptr});
  Clocks &clocks = t->cluster->clocks;
  if (it->second && it->second->refs > 1) {
    Clock *own = clocks.make(it->second);
    clocks.drop(it->second);
    it->second = own;
  }
  release(t, it->second);
  advance(t);
}

} // namespace tegula::sim

void tegula_sim_atom(TegulaSimThread *t, int32_t site, int32_t space, uint64_t addr, int32_t type, int32_t count,
                     int32_t op, int32_t sem, int32_t scope, int32_t p, const void *in, void *old) {
  t->cluster->count(Instr::Atomic);
  if (!p)
    return;
  uint32_t bytes = typeBytes(type);
  bool known = bytes && count >= 1 && (count & (count - 1)) == 0 && uint64_t(bytes) * uint32_t(count) <= 16 &&
               (count == 1 || op != TEGULA_ATOM_CAS) && op >= 0 && op <= TEGULA_ATOM_STORE &&
               (bytes > 1 || op >= TEGULA_ATOM_LOAD);
  if (!known)
    fail(t, FaultKind::BadInstruction, site, -1, "executes atom at site %d: operation %d on %d elements of type %d",
         site, op, count, type);
  uint32_t total = bytes * uint32_t(count);
  if (op != TEGULA_ATOM_LOAD)
    checkMarkers(t, site, "atom", in, int32_t(op == TEGULA_ATOM_CAS ? 2 * total : total));
  uint8_t *memory;
  bool global = space == 0;
  if (global) {
    checkGlobal(t, site, "atom", addr, total, total);
    memory = reinterpret_cast<uint8_t *>(addr);
    if (old)
      t->cluster->polls = true;
  } else {
    Cta *cta;
    memory = sharedAt(t, site, "atom", uint32_t(addr), total, total, cta);
    touchShared(t, site, "atom", *cta, userOffset(uint32_t(addr)), total, Touch::Atomic);
    if (sem)
      orderShared(t, uint32_t(addr), sem & 2, sem & 1);
  }
  switch (bytes) {
  case 1:
    return update<uint8_t>(memory, global, type, count, op, in, old);
  case 2:
    return update<uint16_t>(memory, global, type, count, op, in, old);
  case 4:
    return update<uint32_t>(memory, global, type, count, op, in, old);
  default:
    return update<uint64_t>(memory, global, type, count, op, in, old);
  }
}
