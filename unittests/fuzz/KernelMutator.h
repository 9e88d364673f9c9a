// Changes texts of kernels the way mistakes and unusual programs differ from usual ones: tokens swapped, literals and
// dtypes replaced, arguments left out, lines moved. The result mostly still parses, so that what comes after the
// parser is reached.
//
// A case is a Python file whose first line says what is compiled, by the signature of the C interface:
//   # compile: add(x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:128)
// That line is changed as well.
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::fuzz {

class KernelMutator {
public:
  /// `names`: identifiers (functions of the language) that may take the place of others.
  KernelMutator(uint64_t seed, const std::vector<std::string> &names) : gen_(seed), names_(names) {}

  /// `text` after so many changes; a change that finds nothing to work on leaves it as it is.
  std::string mutate(std::string text, unsigned changes);
  /// Lines of `other` put into `text`.
  std::string splice(const std::string &text, const std::string &other);
  uint64_t below(uint64_t n) { return gen_() % n; }

private:
  struct Token {
    std::string space, text;
    char kind; // 'n'ame, 'd'igits, 's'tring, 'o'perator, end of 'l'ine
  };
  static std::vector<Token> split(std::string_view text);
  static std::string join(const std::vector<Token> &tokens);
  /// A token of this kind, or any with 0; -1: there is none.
  int pick(const std::vector<Token> &tokens, char kind);
  bool isDtype(const Token &t) const;

  void changeToken(std::vector<Token> &t);
  void changeName(std::vector<Token> &t);
  void changeNumber(std::vector<Token> &t);
  void changeDtype(std::vector<Token> &t);
  void changeOperator(std::vector<Token> &t);
  void changeArgument(std::vector<Token> &t);
  void wrapName(std::vector<Token> &t);
  std::string changeLine(const std::string &text);

  std::mt19937_64 gen_;
  const std::vector<std::string> &names_;
};

/// What the first line of a case says.
struct CompileLine {
  std::string kernel, signature;
};
/// nullopt: `text` does not begin with such a line.
std::optional<CompileLine> compileLine(std::string_view text);

} // namespace tegula::fuzz
