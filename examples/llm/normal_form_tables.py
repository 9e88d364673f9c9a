#!/usr/bin/env python3
"""Prints src/NormalFormTables.h, the tables of Unicode's canonical composition (NFC) as this Python knows them: `normal_form_tables.py > src/NormalFormTables.h`."""
import textwrap
import unicodedata


def rows(items):
    return "\n".join(textwrap.wrap(" ".join(items), 196, initial_indent="    ", subsequent_indent="    "))


points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
parts = {c: [int(p, 16) for p in d.split()] for c in points if (d := unicodedata.decomposition(chr(c))) and not d.startswith("<")}
classes = []
for c in points:
    k = unicodedata.combining(chr(c))
    if k and classes and classes[-1][1:] == [c - 1, k]:
        classes[-1][1] = c
    elif k:
        classes.append([c, c, k])
print(f"""// Made by normal_form_tables.py from Unicode {unicodedata.unidata_version}.
#pragma once
#include <cstdint>

namespace llm {{

/// A character and the one or two (second != 0) that it stands for; in the order of `whole`. `composes`: the two become it.
struct Decomposition {{
  uint32_t whole, first, second;
  bool composes;
}};
constexpr Decomposition decompositions[] = {{
{rows(f"{{{c},{p[0]},{p[1] if len(p) > 1 else 0},{int(len(p) > 1 and unicodedata.normalize('NFC', chr(c)) == chr(c))}}}," for c, p in parts.items())}
}};

/// Combining classes other than 0 of the characters from `first` to `last`.
struct CombiningClass {{
  uint32_t first, last;
  uint8_t value;
}};
constexpr CombiningClass combiningClasses[] = {{
{rows(f"{{{a},{b},{k}}}," for a, b, k in classes)}
}};

}} // namespace llm""")
