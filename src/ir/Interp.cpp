// Control flow, memory and regions of the interpreter; see Interp.h.
#include "ir/Interp.h"
#include "ir/Scalar.h"
#include "support/Clock.h"
#include "support/FloatFormat.h"
#include <cstring>
#include <limits>
#include <unordered_map>

namespace tegula::ir {

/// One program, or one call.
class InterpRun {
public:
  InterpRun(const Interp &in, std::array<int32_t, 3> grid, std::array<int32_t, 3> pid)
      : in_(in), grid_(grid), pid_(pid) {}

  bool function(const Function &f, std::span<const Tile> args, std::vector<Tile> &results);
  bool part(const Block &b, std::span<Value *const> wanted, std::vector<Tile> &results);
  InterpResult take() {
    result_.ok = result_.fault.empty();
    std::copy(pid_.begin(), pid_.end(), result_.pid);
    return std::move(result_);
  }

private:
  bool block(const Block &b, std::vector<Tile> &out);
  bool op(const Op &op);
  bool elementwise(const Op &op);
  bool load(const Op &op);
  bool store(const Op &op);
  bool atomic(const Op &op);
  bool descriptor(const Op &op);
  bool combine(const Op &op);
  bool combineLine(const Op &op, const std::vector<size_t> &line, std::vector<Tile> &results, size_t out);
  bool forOp(const Op &op);
  bool whileOp(const Op &op);
  bool call(const Op &op);
  bool assertion(const Op &op);
  bool fault(const Op &op, std::string why) {
    result_.fault = std::move(why);
    result_.op = &op;
    return false;
  }
  bool access(const Op &op, uint64_t address, size_t bytes, bool write);
  uint64_t read(uint64_t address, Elem e) const {
    uint64_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const void *>(address), byteWidth(e)); // little-endian hosts
    return bits & elemMask(e);
  }
  void write(uint64_t address, Elem e, uint64_t bits) const {
    std::memcpy(reinterpret_cast<void *>(address), &bits, byteWidth(e));
  }

  const Tile &get(const Value *v) const {
    bool isGiven = !v->def && !v->block;
    return isGiven ? static_cast<const GivenValue *>(v)->tile : env_.at(v);
  }
  void set(const Value *v, Tile t) { env_[v] = std::move(t); }
  void setAll(const std::vector<Value *> &to, std::vector<Tile> from) {
    for (size_t i = 0; i < to.size(); ++i)
      set(to[i], std::move(from[i]));
  }

  const Interp &in_;
  std::array<int32_t, 3> grid_, pid_;
  std::unordered_map<const Value *, Tile> env_;
  uint64_t steps_ = 0;
  unsigned depth_ = 0;
  InterpResult result_;
};

bool InterpRun::function(const Function &f, std::span<const Tile> args, std::vector<Tile> &results) {
  for (size_t i = 0; i < args.size(); ++i)
    set(f.block()->args[i], args[i]);
  return block(*f.block(), results);
}

bool InterpRun::part(const Block &b, std::span<Value *const> wanted, std::vector<Tile> &results) {
  std::vector<Tile> none;
  if (!block(b, none))
    return false;
  for (const Value *v : wanted)
    results.push_back(get(v));
  return true;
}

/// Runs a block; `out` gets the operands of its terminator.
bool InterpRun::block(const Block &b, std::vector<Tile> &out) {
  for (const Op *o : b.ops) {
    if (o->has(traits::Terminator)) {
      out.clear();
      for (const Value *v : o->operands)
        out.push_back(get(v));
      return true;
    }
    steps_ += o->results.empty() ? 1 : static_cast<uint64_t>(o->result()->type.numel());
    if (steps_ > in_.maxSteps)
      return fault(*o, "the program takes too many steps");
    if (!op(*o))
      return false;
  }
  return true;
}

bool InterpRun::elementwise(const Op &op) {
  ScalarOp s = scalarOp(op.kind, op.operands, op.result()->type, op.attrs);
  std::vector<const Tile *> tiles;
  for (const Value *v : op.operands)
    tiles.push_back(&get(v));
  Tile out(static_cast<size_t>(op.result()->type.numel()));
  uint64_t args[3] = {};
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t k = 0; k < tiles.size(); ++k)
      args[k] = (*tiles[k])[i];
    out[i] = evalScalar(s, {args, tiles.size()}).value_or(0);
  }
  set(op.result(), std::move(out));
  return true;
}

bool InterpRun::access(const Op &op, uint64_t address, size_t bytes, bool write) {
  if (!in_.checksAccesses)
    return true;
  const char *verb = write ? "store of " : "load of ";
  for (const Interp::Buffer &b : in_.buffers_)
    if (address >= b.begin && address - b.begin <= b.bytes && b.bytes - (address - b.begin) >= bytes) {
      if (write && !b.writable)
        return fault(op, verb + std::to_string(bytes) + " bytes to read-only memory");
      return true;
    }
  result_.address = address;
  return fault(op, verb + std::to_string(bytes) + " bytes outside all buffers");
}

bool InterpRun::load(const Op &op) {
  const Tile &ptr = get(op.operands[0]);
  const Tile *mask = op.operands.size() > 1 ? &get(op.operands[1]) : nullptr;
  const Tile *other = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  Elem e = op.result()->type.elem;
  Tile out(ptr.size());
  for (size_t i = 0; i < ptr.size(); ++i) {
    if (mask && !(*mask)[i]) {
      out[i] = other ? (*other)[i] : 0;
      continue;
    }
    if (!access(op, ptr[i], byteWidth(e), false))
      return false;
    out[i] = read(ptr[i], e);
  }
  set(op.result(), std::move(out));
  return true;
}

bool InterpRun::store(const Op &op) {
  const Tile &ptr = get(op.operands[0]), &value = get(op.operands[1]);
  const Tile *mask = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  Elem e = op.operands[1]->type.elem;
  for (size_t i = 0; i < ptr.size(); ++i) {
    if (mask && !(*mask)[i])
      continue;
    if (!access(op, ptr[i], byteWidth(e), true))
      return false;
    write(ptr[i], e, value[i]);
  }
  return true;
}

/// The value that an atomic stores; the kinds are in Ops.def.
static uint64_t combined(std::string_view rmw, Elem e, uint64_t old, uint64_t value) {
  struct Row {
    std::string_view rmw;
    OpKind ints, floats;
  };
  static constexpr Row table[] = {{"add", OpKind::Add, OpKind::FAdd},      {"fadd", OpKind::FAdd, OpKind::FAdd},
                                  {"smax", OpKind::SMax, OpKind::MaxNum},  {"smin", OpKind::SMin, OpKind::MinNum},
                                  {"umax", OpKind::UMax, OpKind::MaxNum},  {"umin", OpKind::UMin, OpKind::MinNum},
                                  {"and", OpKind::And, OpKind::And},       {"or", OpKind::Or, OpKind::Or},
                                  {"xor", OpKind::Xor, OpKind::Xor},       {"fmin", OpKind::MinNum, OpKind::MinNum},
                                  {"fmax", OpKind::MaxNum, OpKind::MaxNum}};
  uint64_t args[] = {old, value};
  for (const Row &r : table)
    if (r.rmw == rmw)
      return evalScalar({isFloat(e) ? r.floats : r.ints, e, e}, args).value_or(0);
  return value; // xchg, store
}

bool InterpRun::atomic(const Op &op) {
  const Tile &ptr = get(op.operands[0]), &a = get(op.operands[1]);
  bool isCas = op.kind == OpKind::AtomicCas;
  const Tile *mask = op.mask() ? &get(op.mask()) : nullptr, *next = isCas ? &get(op.operands[2]) : nullptr;
  Elem e = op.result()->type.elem;
  bool isLoad = op.rmw() == "load";
  Tile out(ptr.size());
  for (size_t i = 0; i < ptr.size(); ++i) {
    if (mask && !(*mask)[i])
      continue;
    if (!access(op, ptr[i], byteWidth(e), !isLoad))
      return false;
    out[i] = read(ptr[i], e);
    if (isLoad)
      continue;
    if (isCas ? out[i] == a[i] : true)
      write(ptr[i], e, isCas ? (*next)[i] : combined(op.rmw(), e, out[i], a[i]));
  }
  set(op.result(), std::move(out));
  return true;
}

bool InterpRun::descriptor(const Op &op) {
  const DescAccess a = descAccess(op);
  auto scalar = [&](const Value *v) { return signExtend(v->type.elem, get(v)[0]); };
  const Elem e = a.base->type.elem;
  const bool isLoad = op.kind == OpKind::DescLoad;
  const double padding = op.nan() ? std::numeric_limits<double>::quiet_NaN() : 0;
  Tile out(static_cast<size_t>(a.block.numel()), isFloat(e) ? encodeFloat(e, padding) : 0);
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<int64_t> c = coordinates(a.block, static_cast<int64_t>(i));
    uint64_t address = get(a.base)[0];
    bool inside = true;
    for (unsigned d = 0; d < a.rank(); ++d) {
      int64_t at = d == 0 && a.hasRows() ? signExtend(Elem::I32, get(a.offsets[0])[static_cast<size_t>(c[0])])
                                         : scalar(a.offsets[d]) + c[d];
      inside = inside && at >= 0 && at < scalar(a.extents[d]);
      address += static_cast<uint64_t>(at) * static_cast<uint64_t>(scalar(a.strides[d])) * byteWidth(e);
    }
    if (!inside)
      continue;
    if (!access(op, address, byteWidth(e), !isLoad))
      return false;
    if (isLoad)
      out[i] = op.tf32() ? roundToTf32(static_cast<uint32_t>(read(address, e))) : read(address, e);
    else if (op.kind == OpKind::DescStore)
      write(address, e, get(a.value)[i]);
    else
      write(address, e, combined(op.rmw(), e, read(address, e), get(a.value)[i]));
  }
  if (isLoad)
    set(op.result(), std::move(out));
  return true;
}

/// One line along the axis; `line` holds the indices of its elements in order, `out` where the result of a reduce goes.
bool InterpRun::combineLine(const Op &op, const std::vector<size_t> &line, std::vector<Tile> &results, size_t out) {
  const Block &b = *op.region(0);
  size_t n = op.operands.size();
  std::vector<Tile> acc(n);
  for (size_t i = 0; i < line.size(); ++i) {
    if (i == 0) {
      for (size_t k = 0; k < n; ++k)
        acc[k] = {get(op.operands[k])[line[0]]};
    } else {
      for (size_t k = 0; k < n; ++k) {
        set(b.args[k], std::move(acc[k]));
        set(b.args[n + k], {get(op.operands[k])[line[i]]});
      }
      if (!block(b, acc))
        return false;
    }
    if (op.kind == OpKind::Scan)
      for (size_t k = 0; k < n; ++k)
        results[k][line[i]] = acc[k][0];
  }
  if (op.kind == OpKind::Reduce)
    for (size_t k = 0; k < n; ++k)
      results[k][out] = acc[k][0];
  return true;
}

bool InterpRun::combine(const Op &op) {
  const Shape &s = op.operands[0]->type.shape;
  size_t axis = static_cast<size_t>(op.axis());
  bool reverse = op.kind == OpKind::Scan && op.reverse();
  std::vector<Tile> results;
  for (const Value *v : op.results)
    results.emplace_back(static_cast<size_t>(v->type.numel()));
  int64_t extent = s[static_cast<unsigned>(axis)];
  size_t out = 0;
  for (int64_t i = 0; i < s.numel(); ++i) {
    std::vector<int64_t> c = coordinates(s, i);
    if (c[axis] != 0) // lines are named by their first element, which come in the order of the reduced shape
      continue;
    std::vector<size_t> line;
    for (int64_t k = 0; k < extent; ++k) {
      c[axis] = reverse ? extent - 1 - k : k;
      line.push_back(static_cast<size_t>(linearIndex(s, c)));
    }
    if (!combineLine(op, line, results, out++))
      return false;
  }
  setAll(op.results, std::move(results));
  return true;
}

bool InterpRun::forOp(const Op &op) {
  const Block &b = *op.region(0);
  Elem e = op.operands[0]->type.elem;
  auto scalar = [&](size_t i) { return static_cast<__int128>(signExtend(e, get(op.operands[i])[0])); };
  __int128 iv = scalar(0), end = scalar(1), step = scalar(2);
  bool reverse = op.reverse();
  std::vector<Tile> carried;
  for (size_t i = 3; i < op.operands.size(); ++i)
    carried.push_back(get(op.operands[i]));
  if (step <= 0 && (reverse ? iv > end : iv < end))
    return fault(op, "the step of a loop is not positive");
  for (; reverse ? iv > end : iv < end; iv += reverse ? -step : step) {
    if (++steps_ > in_.maxSteps)
      return fault(op, "the program takes too many steps");
    set(b.args[0], {static_cast<uint64_t>(iv) & elemMask(e)});
    for (size_t i = 0; i < carried.size(); ++i)
      set(b.args[i + 1], carried[i]);
    if (!block(b, carried))
      return false;
  }
  setAll(op.results, std::move(carried));
  return true;
}

bool InterpRun::whileOp(const Op &op) {
  std::vector<Tile> carried;
  for (const Value *v : op.operands)
    carried.push_back(get(v));
  for (;;) {
    if (++steps_ > in_.maxSteps)
      return fault(op, "the program takes too many steps");
    setAll(op.region(0)->args, std::move(carried));
    if (!block(*op.region(0), carried))
      return false;
    bool goesOn = carried[0][0] & 1;
    carried.erase(carried.begin());
    if (!goesOn)
      break;
    setAll(op.region(1)->args, std::move(carried));
    if (!block(*op.region(1), carried))
      return false;
  }
  setAll(op.results, std::move(carried));
  return true;
}

bool InterpRun::call(const Op &op) {
  const Function *f = in_.module_.find(op.callee());
  if (!f || ++depth_ > 100)
    return fault(op, "a call that cannot be followed");
  std::vector<Tile> args, results;
  for (const Value *v : op.operands)
    args.push_back(get(v));
  if (!function(*f, args, results))
    return false;
  --depth_;
  setAll(op.results, std::move(results));
  return true;
}

bool InterpRun::assertion(const Op &op) {
  const Tile &cond = get(op.operands[0]);
  for (size_t i = 0; i < cond.size(); ++i)
    if (!(cond[i] & 1) && (op.operands.size() < 2 || get(op.operands[1])[i]))
      return fault(op, op.kind == OpKind::Assume ? "an assumption does not hold" : std::string(op.message()));
  return true;
}

bool InterpRun::op(const Op &op) {
  if (op.kind == OpKind::Asm || op.kind == OpKind::AsmEffect)
    return fault(op, "inline assembly is executed as what expandAsm() makes of it");
  if (op.has(traits::Elementwise))
    return elementwise(op);
  switch (op.kind) {
  case OpKind::ProgramId: set(op.result(), {static_cast<uint32_t>(pid_[static_cast<size_t>(op.axis())])}); return true;
  case OpKind::NumPrograms:
    set(op.result(), {static_cast<uint32_t>(grid_[static_cast<size_t>(op.axis())])});
    return true;
  case OpKind::Load: return load(op);
  case OpKind::Store: return store(op);
  case OpKind::AtomicRmw: case OpKind::AtomicCas: return atomic(op);
  case OpKind::DescLoad: case OpKind::DescStore: case OpKind::DescReduce: return descriptor(op);
  case OpKind::Reduce: case OpKind::Scan: return combine(op);
  case OpKind::For: return forOp(op);
  case OpKind::While: return whileOp(op);
  case OpKind::Call: return call(op);
  case OpKind::Assert: case OpKind::Assume: return assertion(op);
  case OpKind::Barrier: case OpKind::GridWait: case OpKind::GridLaunch: return true;
  case OpKind::SmId: set(op.result(), {0}); return true;
  case OpKind::Clock: set(op.result(), {steadyNs()}); return true;
  case OpKind::If: {
    std::vector<Tile> out;
    if (!block(*op.region(get(op.operands[0])[0] & 1 ? 0 : 1), out))
      return false;
    setAll(op.results, std::move(out));
    return true;
  }
  case OpKind::Print:
    for (unsigned i = 0; in_.onPrint && i < op.operands.size(); ++i)
      in_.onPrint(op, i, pid_.data(), get(op.operands[i]));
    return true;
  default: break;
  }
  std::vector<const Tile *> args;
  for (const Value *v : op.operands)
    args.push_back(&get(v));
  std::optional<std::vector<Tile>> out = evalTileOp(op, args);
  if (!out)
    return fault(op, std::string("no rule for `") + info(op.kind).name + "`");
  setAll(op.results, std::move(*out));
  return true;
}

void Interp::addBuffer(void *begin, size_t bytes, bool writable) {
  buffers_.push_back({reinterpret_cast<uintptr_t>(begin), bytes, writable});
}

InterpResult Interp::run(std::span<const uint64_t> args, std::array<int32_t, 3> grid) {
  InterpResult r;
  const Function *kernel = module_.kernel();
  if (!kernel || kernel->block()->args.size() != args.size()) {
    r.ok = false;
    r.fault = kernel ? "wrong number of arguments" : "the module has no single kernel";
    return r;
  }
  std::vector<Tile> tiles, none;
  for (size_t i = 0; i < args.size(); ++i) {
    const Type &t = kernel->block()->args[i]->type;
    tiles.push_back({args[i] & (t.isPtr ? ~uint64_t(0) : elemMask(t.elem))});
  }
  for (int32_t z = 0; z < grid[2]; ++z)
    for (int32_t y = 0; y < grid[1]; ++y)
      for (int32_t x = 0; x < grid[0]; ++x) {
        InterpRun one(*this, grid, {x, y, z});
        one.function(*kernel, tiles, none);
        r = one.take();
        if (!r.ok)
          return r;
      }
  return r;
}

InterpResult Interp::evaluate(const Block &b, std::array<int32_t, 3> pid, std::array<int32_t, 3> grid,
                              std::span<Value *const> wanted, std::vector<Tile> &results) {
  InterpRun one(*this, grid, pid);
  one.part(b, wanted, results);
  return one.take();
}

InterpResult Interp::call(const Function &f, std::span<const Tile> args, std::vector<Tile> &results) {
  InterpRun one(*this, {1, 1, 1}, {0, 0, 0});
  one.function(f, args, results);
  return one.take();
}

} // namespace tegula::ir
