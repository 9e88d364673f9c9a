// From source text to syntax tree: a hand-written lexer and recursive-descent parser of the whole Python 3.12 grammar.
#pragma once
#include "support/Diag.h"
#include "syntax/Ast.h"

namespace tegula::syntax {

/// Parses a whole module. Never fails: all errors are reported to `diag` (with recovery at statement boundaries) and
/// appear in the tree as Error nodes. Nesting deeper than 200 levels is an error, not a stack overflow.
std::shared_ptr<const Tree> parse(std::shared_ptr<const SourceFile> file, DiagEngine &diag);

/// Parses text that holds one expression (`--grid` of the command line). Null on error.
std::shared_ptr<const Tree> parseExpression(std::shared_ptr<const SourceFile> file, DiagEngine &diag);

/// Indented text form, one node a line, for `--emit ast` and goldens.
std::string print(const Tree &tree);
/// One statement of it.
std::string print(const Stmt &stmt);
/// The expression as source on one line (normalized spacing), for messages.
std::string print(const Expr &expr);

} // namespace tegula::syntax
