// Errors of this library: tegula::Status and tegula::Result, which the compiler's calls give as well. No exceptions.
#pragma once
#include <string>
#include <tegula/tegula.hpp>

namespace llm {

using tegula::Result, tegula::Status;

/// An error of ours with a code of tegula's: TEGULA_NOT_FOUND for a tensor that is missing, TEGULA_OUT_OF_RESOURCES for memory, ...
inline Status fail(TegulaStatus code, const std::string &text) { return Status::from(tegula_fail(code, text.c_str())); }
inline Status invalid(const std::string &text) { return fail(TEGULA_INVALID_ARGUMENT, text); }

/// "1.50 GiB", "12 KiB".
std::string readableBytes(uint64_t bytes);

} // namespace llm
