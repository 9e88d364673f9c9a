// Types and formulas: System V ABI AMD64 supplement §4.4.1; ELF for the Arm 64-bit architecture §5.7.
#include "runtime/Relocate.h"
#include <cstring>
#include <elf.h>

namespace tegula::runtime {

bool relocInfo(uint16_t machine, uint32_t type, RelocInfo &info) {
  if (machine == EM_X86_64) {
    switch (type) {
    case R_X86_64_64: info = {8, RelocNeeds::Symbol}; return true;
    case R_X86_64_PC64: info = {8, RelocNeeds::Symbol}; return true;
    case R_X86_64_PC32: info = {4, RelocNeeds::Call}; return true;
    case R_X86_64_PLT32: info = {4, RelocNeeds::Call}; return true;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: info = {4, RelocNeeds::GotEntry}; return true;
    }
    return false;
  }
  switch (type) {
  case R_AARCH64_ABS64:
  case R_AARCH64_PREL64: info = {8, RelocNeeds::Symbol}; return true;
  case R_AARCH64_PREL32: info = {4, RelocNeeds::Symbol}; return true;
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26: info = {4, RelocNeeds::Call}; return true;
  case R_AARCH64_ADR_PREL_PG_HI21:
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC:
  case R_AARCH64_LDST16_ABS_LO12_NC:
  case R_AARCH64_LDST32_ABS_LO12_NC:
  case R_AARCH64_LDST64_ABS_LO12_NC:
  case R_AARCH64_LDST128_ABS_LO12_NC: info = {4, RelocNeeds::Symbol}; return true;
  case R_AARCH64_ADR_GOT_PAGE:
  case R_AARCH64_LD64_GOT_LO12_NC: info = {4, RelocNeeds::GotEntry}; return true;
  }
  return false;
}

static bool put32(char *where, uint32_t v) {
  std::memcpy(where, &v, 4);
  return true;
}
static bool put64(char *where, uint64_t v) {
  std::memcpy(where, &v, 8);
  return true;
}
/// Replaces the bits of `mask` in the instruction at `where`.
static bool patch(char *where, uint32_t mask, uint32_t bits) {
  uint32_t insn;
  std::memcpy(&insn, where, 4);
  return put32(where, (insn & ~mask) | (bits & mask));
}
static bool fitsSigned(int64_t v, int bits) { return v >= -(int64_t(1) << (bits - 1)) && v < int64_t(1) << (bits - 1); }

static bool pageLow(char *where, uint64_t value, int scale) {
  if (value & ((1u << scale) - 1)) return false;
  return patch(where, 0xfffu << 10, uint32_t((value & 0xfff) >> scale) << 10);
}

bool applyReloc(uint16_t machine, uint32_t type, char *where, uint64_t place, uint64_t value) {
  int64_t rel = static_cast<int64_t>(value - place);
  if (machine == EM_X86_64) {
    if (type == R_X86_64_64) return put64(where, value);
    if (type == R_X86_64_PC64) return put64(where, rel);
    return fitsSigned(rel, 32) && put32(where, static_cast<uint32_t>(rel));
  }
  switch (type) {
  case R_AARCH64_ABS64: return put64(where, value);
  case R_AARCH64_PREL64: return put64(where, rel);
  case R_AARCH64_PREL32: return fitsSigned(rel, 32) && put32(where, static_cast<uint32_t>(rel));
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26:
    return fitsSigned(rel, 28) && !(rel & 3) && patch(where, 0x3ffffff, static_cast<uint32_t>(rel >> 2));
  case R_AARCH64_ADR_PREL_PG_HI21:
  case R_AARCH64_ADR_GOT_PAGE: {
    int64_t pages = static_cast<int64_t>((value & ~0xfffull) - (place & ~0xfffull)) >> 12;
    return fitsSigned(pages, 21) &&
           patch(where, 0x60ffffe0, static_cast<uint32_t>((pages & 3) << 29 | ((pages >> 2) & 0x7ffff) << 5));
  }
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC: return pageLow(where, value, 0);
  case R_AARCH64_LDST16_ABS_LO12_NC: return pageLow(where, value, 1);
  case R_AARCH64_LDST32_ABS_LO12_NC: return pageLow(where, value, 2);
  case R_AARCH64_LDST64_ABS_LO12_NC:
  case R_AARCH64_LD64_GOT_LO12_NC: return pageLow(where, value, 3);
  case R_AARCH64_LDST128_ABS_LO12_NC: return pageLow(where, value, 4);
  }
  return false;
}

} // namespace tegula::runtime
