"""Joins kernels that tools.compile made to one function for each name: it runs the variant whose signature the arguments fit, of the algorithm
(values of constants, warps, stages) that the caller names by its number.

    python -m tegula.tools.link add.*.h -o add_all
    cc -c add_all.c add.*.c
"""
import argparse
import json
import re
import sys
from pathlib import Path


class LinkerError(Exception):
    """The headers do not fit together."""


HEADER = """/* Made by tegula.tools.link. */
#ifndef TEGULA_AOT_{guard}
#define TEGULA_AOT_{guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif
{declarations}#ifdef __cplusplus
}}
#endif
#endif
"""

DECLARE = """{declare}/* {algorithms} */
int32_t load_{name}(void); /* the code of all variants; by one thread, before others launch */
void unload_{name}(void);
int32_t {name}_get_num_algos(void);
/* 0, or a status of tegula.h: TEGULA_INVALID_ARGUMENT if there is no such algorithm, or none of its variants takes these arguments. */
int32_t {name}({parameters}, int32_t algo_id);
int32_t {name}_default({parameters}); /* algorithm 0 */
"""

SOURCE = """/* Made by tegula.tools.link. */
#include "{header}"

enum {{ tegula_aot_invalid_argument = 1 }};

{functions}"""

FUNCTIONS = """{prototypes}
int32_t load_{name}(void) {{
  int32_t status = 0;
{loads}  return status;
}}

void unload_{name}(void) {{
{unloads}}}

int32_t {name}_get_num_algos(void) {{ return {count}; }}

int32_t {name}({parameters}, int32_t algo_id) {{
  switch (algo_id) {{
{cases}  }}
  return tegula_aot_invalid_argument;
}}

int32_t {name}_default({parameters}) {{ return {name}({arguments}, 0); }}
"""


def read(path):
    """What a header says of its kernel."""
    found = re.search(r"^/\* tegula-link: (.*) \*/$", Path(path).read_text(), re.MULTILINE)
    if found is None:
        raise LinkerError(f"{path} is no header of tools.compile")
    return json.loads(found[1])


def _condition(variant):
    """When its arguments are what it was compiled for, as an expression of C."""
    tests = [f"{'(uintptr_t)' if a['pointer'] else ''}{a['name']} {'== 1' if a['fact'] == 1 else f'''% {a['fact']} == 0'''}"
             for a in variant["args"] if a["fact"]]
    return " && ".join(tests) or "1"


def _functions(name, variants, prefix):
    first = variants[0]
    for v in variants[1:]:
        same = [[(a["name"], a["ctype"]) for a in x["args"]] + [x["stream"]] for x in (v, first)]
        if same[0] != same[1]:
            raise LinkerError(f"{v['variant']} and {first['variant']} are of one name, `{name}`, and take other arguments")
    algorithms = {}
    for v in variants:
        if any(v["variant"] == x["variant"] for x in algorithms.setdefault(v["algorithm"], [])):
            raise LinkerError(f"{v['variant']} is given twice")
        algorithms[v["algorithm"]].append(v)
    space = lambda t: t + ("" if t.endswith("*") else " ")
    parameters = ", ".join([f"{first['stream']}tegula_stream", *(f"{space(a['ctype'])}{a['name']}" for a in first["args"])])
    arguments = ", ".join(["tegula_stream", *(a["name"] for a in first["args"])])
    cases = ""
    for i, group in enumerate(algorithms.values()):
        cases += f"  case {i}:\n"
        # What is known of the arguments makes the code faster: most facts first.
        for v in sorted(group, key=lambda v: -sum(bool(a["fact"]) for a in v["args"])):
            cases += f"    if ({_condition(v)}) return {v['variant']}({arguments});\n"
        cases += "    break;\n"
    fields = dict(
        name=prefix + name, declare=first["declare"], parameters=parameters, arguments=arguments, count=len(algorithms), cases=cases,
        algorithms="; ".join(f"{i}: " + ", ".join(f"{k}={x}" for k, x in group[0]["constants"].items()) for i, group in enumerate(algorithms.values()))
        .replace("*/", "* /"),
        prototypes="".join(f"int32_t load_{v['variant']}(void);\nvoid unload_{v['variant']}(void);\nint32_t {v['variant']}({parameters});\n" for v in variants),
        loads="".join(f"  if (!status) status = load_{v['variant']}();\n" for v in variants),
        unloads="".join(f"  unload_{v['variant']}();\n" for v in variants))
    return DECLARE.format(**fields), FUNCTIONS.format(**fields)


def link(headers, out, prefix=""):
    """Writes `out`.h and `out`.c for the kernels of the headers, in their order, and gives both paths."""
    by_name = {}
    for path in headers:
        variant = read(path)
        by_name.setdefault(variant["name"], []).append(variant)
    parts = [_functions(name, variants, prefix) for name, variants in by_name.items()]
    out = Path(out)
    header, source = out.parent / f"{out.name}.h", out.parent / f"{out.name}.c"
    header.write_text(HEADER.format(guard=re.sub(r"\W", "_", out.name).upper(), declarations="".join(d for d, _ in parts)))
    source.write_text(SOURCE.format(header=header.name, functions="\n".join(f for _, f in parts)))
    return header, source


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tegula.tools.link", description="Joins kernels of tools.compile to one function for each name.")
    parser.add_argument("headers", nargs="+", help="that tools.compile wrote")
    parser.add_argument("-o", "--out", type=Path, required=True, help="of the files, without extension")
    parser.add_argument("--prefix", default="", help="of the functions' names")
    args = parser.parse_args(argv)
    try:
        print(*link(args.headers, args.out, args.prefix))
    except (OSError, ValueError, LinkerError) as e:
        sys.exit(f"{parser.prog}: {e}")


if __name__ == "__main__":
    main()
