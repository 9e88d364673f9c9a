// Serialization of Work and LaunchForms: reading validates them, so that evaluation needs no checks.
#include "runtime/Kernel.h"
#include <bit>

namespace tegula::runtime {

namespace {
constexpr uint8_t lastExpr = static_cast<uint8_t>(WorkExpr::Kind::Trips),
                  lastScope = static_cast<uint8_t>(WorkScope::Kind::Branch),
                  lastAccess = static_cast<uint8_t>(WorkAccess::Kind::Atomic);
constexpr int64_t axes = 3, dimensions = 24;

void number(ByteWriter &w, double v) { w.u64(std::bit_cast<uint64_t>(v)); }
double number(ByteReader &r) { return std::bit_cast<double>(r.u64()); }
void index(ByteWriter &w, int32_t v) { w.u32(static_cast<uint32_t>(v)); }
int32_t index(ByteReader &r) { return static_cast<int32_t>(r.u32()); }

/// -1 or below `end`.
bool isBelow(int32_t i, size_t end) { return i >= -1 && i < static_cast<int64_t>(end); }

void write(ByteWriter &w, const WorkExpr &e) {
  w.u8(static_cast<uint8_t>(e.kind));
  index(w, e.a), index(w, e.b), index(w, e.c);
  w.u64(static_cast<uint64_t>(e.value));
}

bool read(ByteReader &r, WorkExpr &e, size_t number, size_t scopes) {
  using Kind = WorkExpr::Kind;
  uint8_t kind = r.u8();
  e.kind = static_cast<Kind>(kind);
  e.a = index(r), e.b = index(r), e.c = index(r);
  e.value = static_cast<int64_t>(r.u64());
  if (kind > lastExpr || !isBelow(e.a, number) || !isBelow(e.b, number) || !isBelow(e.c, number)) return false;
  bool three = e.kind == Kind::Select || e.kind == Kind::Trips;
  if (e.kind >= Kind::Add && (e.a < 0 || e.b < 0 || (three && e.c < 0))) return false;
  int64_t end = e.kind == Kind::ProgramId || e.kind == Kind::NumPrograms ? axes
                : e.kind == Kind::Coordinate                             ? dimensions
                : e.kind == Kind::Iteration                              ? static_cast<int64_t>(scopes)
                                                                         : INT64_MAX;
  return e.kind == Kind::Constant || (e.value >= 0 && e.value < end);
}

void write(ByteWriter &w, const WorkScope &s) {
  w.u8(static_cast<uint8_t>(s.kind)), w.u8(s.otherwise);
  index(w, s.parent), index(w, s.count);
  w.u32(s.stages), w.u32(s.barriers);
  for (double n : s.elements) number(w, n);
}

bool read(ByteReader &r, WorkScope &s, size_t at) {
  uint8_t kind = r.u8();
  s.kind = static_cast<WorkScope::Kind>(kind);
  s.otherwise = r.flag();
  s.parent = index(r), s.count = index(r);
  s.stages = r.u32(), s.barriers = r.u32();
  for (double &n : s.elements) n = number(r);
  return kind <= lastScope && isBelow(s.parent, at) && (at == 0) == (s.parent < 0);
}

void write(ByteWriter &w, const WorkAccess &a) {
  w.u8(static_cast<uint8_t>(a.kind)), w.u8(a.descriptor), w.u8(a.feedsDot), w.u8(a.elementBytes);
  w.u32(a.vectorBytes);
  index(w, a.scope), index(w, a.argument), index(w, a.offset), index(w, a.mask);
  w.u64(a.shape.size());
  for (int64_t n : a.shape) w.u64(static_cast<uint64_t>(n));
}

bool read(ByteReader &r, WorkAccess &a, const Work &work, size_t arguments) {
  uint8_t kind = r.u8();
  a.kind = static_cast<WorkAccess::Kind>(kind);
  a.descriptor = r.flag(), a.feedsDot = r.flag(), a.elementBytes = r.u8();
  a.vectorBytes = r.u32();
  a.scope = index(r), a.argument = index(r), a.offset = index(r), a.mask = index(r);
  a.shape.resize(r.count(8));
  bool ok = kind <= lastAccess && a.elementBytes > 0 && a.vectorBytes > 0 && a.shape.size() <= dimensions;
  for (int64_t &n : a.shape) {
    n = static_cast<int64_t>(r.u64());
    ok = ok && n >= 1 && n <= INT32_MAX;
  }
  return ok && a.scope >= 0 && isBelow(a.scope, work.scopes.size()) && isBelow(a.argument, arguments) &&
         isBelow(a.offset, work.exprs.size()) && isBelow(a.mask, work.exprs.size());
}

void write(ByteWriter &w, const WorkDot &d) {
  index(w, d.scope), index(w, d.waitsFor);
  for (int64_t n : {d.batch, d.m, d.n, d.k}) w.u64(static_cast<uint64_t>(n));
  w.u8(d.bits), w.u8(d.products), w.u8(d.isFloat), w.u8(d.loadsA), w.u8(d.loadsB);
}

bool read(ByteReader &r, WorkDot &d, const Work &work, size_t at) {
  d.scope = index(r), d.waitsFor = index(r);
  bool ok = d.scope >= 0 && isBelow(d.scope, work.scopes.size()) && isBelow(d.waitsFor, at);
  for (int64_t *n : {&d.batch, &d.m, &d.n, &d.k}) {
    *n = static_cast<int64_t>(r.u64());
    ok = ok && *n >= 1 && *n <= INT32_MAX;
  }
  d.bits = r.u8(), d.products = r.u8();
  d.isFloat = r.flag(), d.loadsA = r.flag(), d.loadsB = r.flag();
  return ok && d.bits > 0 && d.products > 0;
}
} // namespace

void write(ByteWriter &w, const Work &work) {
  w.u64(work.scopes.size());
  for (const WorkScope &s : work.scopes) write(w, s);
  w.u64(work.exprs.size());
  for (const WorkExpr &e : work.exprs) write(w, e);
  w.u64(work.accesses.size());
  for (const WorkAccess &a : work.accesses) write(w, a);
  w.u64(work.dots.size());
  for (const WorkDot &d : work.dots) write(w, d);
}

bool read(ByteReader &r, Work &work, size_t arguments) {
  work.scopes.resize(r.count(18 + 8 * workKinds));
  for (size_t i = 0; i < work.scopes.size(); ++i)
    if (!read(r, work.scopes[i], i)) return false;
  work.exprs.resize(r.count(21));
  for (size_t i = 0; i < work.exprs.size(); ++i)
    if (!read(r, work.exprs[i], i, work.scopes.size())) return false;
  for (const WorkScope &s : work.scopes)
    if (!isBelow(s.count, work.exprs.size())) return false;
  work.accesses.resize(r.count(32));
  for (WorkAccess &a : work.accesses)
    if (!read(r, a, work, arguments)) return false;
  work.dots.resize(r.count(45));
  for (size_t i = 0; i < work.dots.size(); ++i)
    if (!read(r, work.dots[i], work, i)) return false;
  return !r.failed();
}

void write(ByteWriter &w, const LaunchForms &f) {
  w.u64(f.exprs.size());
  for (const WorkExpr &e : f.exprs) write(w, e);
  w.u64(f.axes.size());
  for (const LaunchForms::Axis &a : f.axes) {
    index(w, a.number);
    w.u64(a.limits.size());
    for (int64_t limit : a.limits) w.u64(static_cast<uint64_t>(limit));
  }
  w.u64(f.forms.size());
  for (uint8_t form : f.forms) w.u8(form);
  w.u8(f.unknown), w.u8(f.form);
}

bool read(ByteReader &r, LaunchForms &f, size_t arguments) {
  f.exprs.resize(r.count(21));
  for (size_t i = 0; i < f.exprs.size(); ++i)
    if (!read(r, f.exprs[i], i, 0)) return false;
  f.axes.resize(r.count(12));
  for (LaunchForms::Axis &a : f.axes) {
    a.number = index(r);
    a.limits.resize(r.count(8));
    for (int64_t &limit : a.limits) limit = static_cast<int64_t>(r.u64());
  }
  f.forms.resize(r.count(1));
  for (uint8_t &form : f.forms) form = r.u8();
  f.unknown = r.u8(), f.form = r.u8();
  return !r.failed() && f.isValid(arguments);
}

} // namespace tegula::runtime
