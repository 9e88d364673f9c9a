# tl.extra.libdevice: the names of rounded arithmetic and conversions (libdevice_rounding.py), one function each.
import tegula.language as tl
from tegula import jit
from tegula.language.extra import libdevice


@jit(exact=True)
def add_rz(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, y, "rz")


@jit(exact=True)
def mul_rz(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._mul(x, y, "rz")


@jit(exact=True)
def div_rz(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._div(x, y, "rz")


@jit(exact=True)
def sub_rz(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, -y, "rz")


@jit(exact=True)
def fma_rz(arg0, arg1, arg2):
    x, y = libdevice._pair(arg0, arg1)
    x, z = libdevice._pair(x, arg2)
    return libdevice._fma(x, y, z, "rz")


@jit(exact=True)
def sqrt_rz(arg0):
    return libdevice._sqrt(libdevice._real(arg0), "rz")


@jit(exact=True)
def add_rd(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, y, "rd")


@jit(exact=True)
def mul_rd(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._mul(x, y, "rd")


@jit(exact=True)
def div_rd(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._div(x, y, "rd")


@jit(exact=True)
def sub_rd(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, -y, "rd")


@jit(exact=True)
def fma_rd(arg0, arg1, arg2):
    x, y = libdevice._pair(arg0, arg1)
    x, z = libdevice._pair(x, arg2)
    return libdevice._fma(x, y, z, "rd")


@jit(exact=True)
def sqrt_rd(arg0):
    return libdevice._sqrt(libdevice._real(arg0), "rd")


@jit(exact=True)
def add_ru(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, y, "ru")


@jit(exact=True)
def mul_ru(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._mul(x, y, "ru")


@jit(exact=True)
def div_ru(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._div(x, y, "ru")


@jit(exact=True)
def sub_ru(arg0, arg1):
    x, y = libdevice._pair(arg0, arg1)
    return libdevice._add(x, -y, "ru")


@jit(exact=True)
def fma_ru(arg0, arg1, arg2):
    x, y = libdevice._pair(arg0, arg1)
    x, z = libdevice._pair(x, arg2)
    return libdevice._fma(x, y, z, "ru")


@jit(exact=True)
def sqrt_ru(arg0):
    return libdevice._sqrt(libdevice._real(arg0), "ru")


@jit(exact=True)
def rcp_rn(arg0):
    y = libdevice._real(arg0)
    return libdevice._div(tl.zeros_like(y) + 1.0, y, "rn")


@jit(exact=True)
def double2float_rn(arg0):
    return libdevice._narrow(arg0, "rn")


@jit(exact=True)
def float2int_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rn")


@jit(exact=True)
def float2uint_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rn")


@jit(exact=True)
def float2ll_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rn")


@jit(exact=True)
def float2ull_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rn")


@jit(exact=True)
def double2int_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rn")


@jit(exact=True)
def double2uint_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rn")


@jit(exact=True)
def double2ll_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rn")


@jit(exact=True)
def double2ull_rn(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rn")


@jit(exact=True)
def int2float_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int32), tl.float32, "rn")


@jit(exact=True)
def int2double_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int32), tl.float64, "rn")


@jit(exact=True)
def uint2float_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint32), tl.float32, "rn")


@jit(exact=True)
def uint2double_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint32), tl.float64, "rn")


@jit(exact=True)
def ll2float_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float32, "rn")


@jit(exact=True)
def ll2double_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float64, "rn")


@jit(exact=True)
def ull2float_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float32, "rn")


@jit(exact=True)
def ull2double_rn(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float64, "rn")


@jit(exact=True)
def rcp_rz(arg0):
    y = libdevice._real(arg0)
    return libdevice._div(tl.zeros_like(y) + 1.0, y, "rz")


@jit(exact=True)
def double2float_rz(arg0):
    return libdevice._narrow(arg0, "rz")


@jit(exact=True)
def float2int_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rz")


@jit(exact=True)
def float2uint_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rz")


@jit(exact=True)
def float2ll_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rz")


@jit(exact=True)
def float2ull_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rz")


@jit(exact=True)
def double2int_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rz")


@jit(exact=True)
def double2uint_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rz")


@jit(exact=True)
def double2ll_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rz")


@jit(exact=True)
def double2ull_rz(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rz")


@jit(exact=True)
def int2float_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int32), tl.float32, "rz")


@jit(exact=True)
def uint2float_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint32), tl.float32, "rz")


@jit(exact=True)
def ll2float_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float32, "rz")


@jit(exact=True)
def ll2double_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float64, "rz")


@jit(exact=True)
def ull2float_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float32, "rz")


@jit(exact=True)
def ull2double_rz(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float64, "rz")


@jit(exact=True)
def rcp_rd(arg0):
    y = libdevice._real(arg0)
    return libdevice._div(tl.zeros_like(y) + 1.0, y, "rd")


@jit(exact=True)
def double2float_rd(arg0):
    return libdevice._narrow(arg0, "rd")


@jit(exact=True)
def float2int_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rd")


@jit(exact=True)
def float2uint_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rd")


@jit(exact=True)
def float2ll_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rd")


@jit(exact=True)
def float2ull_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rd")


@jit(exact=True)
def double2int_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "rd")


@jit(exact=True)
def double2uint_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "rd")


@jit(exact=True)
def double2ll_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "rd")


@jit(exact=True)
def double2ull_rd(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "rd")


@jit(exact=True)
def int2float_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int32), tl.float32, "rd")


@jit(exact=True)
def uint2float_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint32), tl.float32, "rd")


@jit(exact=True)
def ll2float_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float32, "rd")


@jit(exact=True)
def ll2double_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float64, "rd")


@jit(exact=True)
def ull2float_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float32, "rd")


@jit(exact=True)
def ull2double_rd(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float64, "rd")


@jit(exact=True)
def rcp_ru(arg0):
    y = libdevice._real(arg0)
    return libdevice._div(tl.zeros_like(y) + 1.0, y, "ru")


@jit(exact=True)
def double2float_ru(arg0):
    return libdevice._narrow(arg0, "ru")


@jit(exact=True)
def float2int_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "ru")


@jit(exact=True)
def float2uint_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "ru")


@jit(exact=True)
def float2ll_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "ru")


@jit(exact=True)
def float2ull_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "ru")


@jit(exact=True)
def double2int_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int32, "ru")


@jit(exact=True)
def double2uint_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint32, "ru")


@jit(exact=True)
def double2ll_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.int64, "ru")


@jit(exact=True)
def double2ull_ru(arg0):
    return libdevice._to_int(libdevice._real(arg0), tl.uint64, "ru")


@jit(exact=True)
def int2float_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int32), tl.float32, "ru")


@jit(exact=True)
def uint2float_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint32), tl.float32, "ru")


@jit(exact=True)
def ll2float_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float32, "ru")


@jit(exact=True)
def ll2double_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.int64), tl.float64, "ru")


@jit(exact=True)
def ull2float_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float32, "ru")


@jit(exact=True)
def ull2double_ru(arg0):
    return libdevice._from_int(libdevice._word_of(arg0, tl.uint64), tl.float64, "ru")
