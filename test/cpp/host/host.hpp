// Checks of the programs beside this file: each prints what is wrong, and exits with how much that is.
#pragma once
#include <tegula/tegula.hpp>
#include <cstdio>
using namespace tegula;

inline int fails = 0;
inline void expect(bool right, int line, const char *what) {
  if (!right) std::printf("line %d: %s\n", line, what), ++fails;
}
inline void expectOk(const Status &s, int line) { expect(static_cast<bool>(s), line, s.message().c_str()); }
/// Failed, with this in its message.
inline void expectSays(const Status &s, const char *text, int line) { expect(!s && s.message().find(text) != std::string::npos, line, s.message().c_str()); }
#define CHECK(x) expect(static_cast<bool>(x), __LINE__, #x)
#define OK(s) expectOk(s, __LINE__)
#define SAYS(s, text) expectSays(s, text, __LINE__)
