// Changes texts of IR the way that a mistake in a pass, or in a text written by hand, differs from what is right:
// another value, number, layout, operation or attribute, a line left out, twice or in another place. Most of the texts
// still parse, so what comes after the parser is reached.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tegula::fuzz {

class IrMutator {
public:
  explicit IrMutator(uint64_t seed) : gen_(seed) {}

  /// `text` after so many changes; a change that finds nothing to work on leaves it as it is.
  std::string mutate(const std::string &text, unsigned changes);

private:
  using Lines = std::vector<std::string>;
  uint64_t below(uint64_t n) { return gen_() % n; }
  /// Puts a word of the same kind (value, number, name) in the place of a word of a line.
  void changeWord(Lines &lines);
  void changeAttributes(std::string &line);
  void moveLine(Lines &lines);

  std::mt19937_64 gen_;
};

} // namespace tegula::fuzz
