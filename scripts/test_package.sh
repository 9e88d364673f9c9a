#!/bin/sh
# Installs the build into a fresh prefix, builds examples/cpp outside the tree against it with CMake and runs it.
# usage: scripts/test_package.sh [build folder]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() {
  name=$1
  shift
  if "$@" > "$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "--- $name"
    cat "$work/log"
  fi
}
check install cmake --install "$build" --prefix "$work/prefix"
cp -r "$root/examples/cpp" "$work/source"
check configure cmake -S "$work/source" -B "$work/out" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release
check build cmake --build "$work/out"
export TEGULA_CACHE_DIR="$work/cache"
check "8 threads" "$work/out/jit"
check "8 threads, warm cache" "$work/out/jit"
check "ahead of time" "$work/out/aot"
check "tuned" "$work/out/tuned"
check "searched and proposed" "$work/out/space"
check "kernel in C++" "$work/out/kernel"
pc="$(dirname "$(find "$work/prefix" -name tegula.pc)")"
if command -v pkg-config > "$work/log"; then
  check "pkg-config" sh -c "g++ -std=c++20 '$work/source/kernel.cpp' -o '$work/by-pc' \$(PKG_CONFIG_PATH='$pc' pkg-config --cflags --libs tegula) -Wl,-rpath,'$pc/..' && '$work/by-pc' cpu"
  check "pkg-config of the runtime" sh -c "PKG_CONFIG_PATH='$pc' pkg-config --cflags --libs --static tegula-runtime | grep -q ltegula_runtime"
else
  echo "skipped: pkg-config (not installed)"
fi
if command -v clang++-19 > "$work/log"; then
  check "kernel in C++ by clang" sh -c "clang++-19 -std=c++20 -I'$work/prefix/include' '$work/source/kernel.cpp' -o '$work/by-clang' -L'$pc/..' -ltegula -Wl,-rpath,'$pc/..' && '$work/by-clang' sim"
else
  echo "skipped: clang++-19 (not installed)"
fi
check "no LLVM in the runtime" sh -c "! nm -C '$work/prefix'/lib*/libtegula_runtime.a 2>/dev/null | grep -q 'llvm::'"
check "no python in the process" sh -c "! ldd '$work/out/jit' | grep -qi python"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
