// tokenize: the tokens of a text, by a tokenizer.json; a check of it, and a help for `generate --tokens`.
#include "Options.h"
#include <cstdio>

using namespace llm;

int main(int argc, char **argv) {
  if (argc != 3) return std::fprintf(stderr, "tokenize: two arguments are needed: a tokenizer.json and a text\n"), 2;
  Result<Tokenizer> t = Tokenizer::open(argv[1]);
  if (!t) return complain("tokenize", t.status());
  const char *space = "";
  for (int32_t token : t->encode(argv[2])) std::printf("%s%d", space, token), space = " ";
  std::printf("\n");
  return 0;
}
