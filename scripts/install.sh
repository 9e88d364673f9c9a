#!/bin/sh
# Builds the Python extension for this machine's Python (3.10 or later): ./install.sh [python]. Nothing is written outside this folder. Needs a
# C++20 compiler (CXX, else c++, g++ or clang++) and Python's headers; the command bin/tegula and C++ programs need none of this.
set -eu
cd "$(dirname "$0")"
python=${1:-python3}
"$python" - <<'PY' || exit 1
import sys
if sys.version_info < (3, 10):
    sys.exit(f"install.sh: Python 3.10 or later is needed, found {sys.version.split()[0]}")
PY
compiler=${CXX:-}
for c in c++ g++ clang++; do
  [ -n "$compiler" ] || ! command -v "$c" > /dev/null || compiler=$c
done
[ -n "$compiler" ] || { echo "install.sh: no C++ compiler found; set CXX" >&2; exit 1; }
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
[ -f "$include/Python.h" ] || { echo "install.sh: no Python.h in $include; install Python's headers (python3-dev)" >&2; exit 1; }
mkdir -p build
# One object a source, all at once.
pids=
for source in python/src/*.cpp; do
  "$compiler" -std=c++20 -O2 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -w -Iinclude -I"$include" \
    -c "$source" -o "build/$(basename "$source" .cpp).o" &
  pids="$pids $!"
done
for p in $pids; do wait "$p"; done
"$compiler" -shared -o "python/tegula/_core$suffix" build/*.o -Llib -ltegula -Wl,-rpath,'$ORIGIN/../../lib' -Wl,-s
rm -rf build
PYTHONPATH=python "$python" -c 'import tegula; print("tegula", tegula.__version__, "for Python", __import__("sys").version.split()[0])'
echo "use it with: export PYTHONPATH=$PWD/python PATH=$PWD/bin:\$PATH"
