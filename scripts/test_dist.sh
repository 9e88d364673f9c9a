#!/bin/sh
# Makes the archive of scripts/dist.py, unpacks it elsewhere, installs it for a Python and uses it there: command, Python, headers.
# usage: scripts/test_dist.sh [build folder] [python]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
python=$(command -v "${2:-$root/build/venv/bin/python}")
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
unset LD_LIBRARY_PATH PYTHONPATH
export TEGULA_CACHE_DIR="$work/cache"
check "archive" "$python" "$root/scripts/dist.py" --build "$build" --out "$work/dist"
mkdir "$work/there"
check "unpack" tar xf "$work"/dist/tegula-*.tar.xz -C "$work/there"
cd "$work"/there/tegula-*
check "needs only libc and libm" sh -c "! readelf -d lib/libtegula.so bin/tegula | grep NEEDED | grep -vE 'lib(tegula|c|m)\.so|ld-linux'"
check "needs glibc 2.35 at most" sh -c "! objdump -T lib/libtegula.so bin/tegula | grep -oE 'GLIBC_(2\.(3[6-9]|[4-9][0-9])|ABI_DT_RELR)'"
check "install" ./install.sh "$python"
cat > k.py <<'PY'
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n) + tl.load(y + o, mask=o < n), mask=o < n)
PY
for device in cpu sim; do
  check "command on $device" sh -c "bin/tegula run k.py::add --grid 'cdiv(n, BLOCK)' -a 'x=arange:f32[n]' -a 'y=ones:f32[n]' -a 'out=empty:f32[n]' \
    -a n=1000 -c BLOCK=256 -d $device --print out | grep -q '998, 999, 1000'"
done
check "code for a GPU" sh -c "bin/tegula compile k.py::add --sig 'x:*f32:16, y:*f32:16, out:*f32:16, n:i32, BLOCK:256' -t sm_90a --emit ptx | grep -q sm_90a"
here=$PWD
check "C++ project, configure" cmake -S examples/cpp -B "$work/cpp" -DCMAKE_PREFIX_PATH="$here" -DCMAKE_BUILD_TYPE=Release
check "C++ project, build" cmake --build "$work/cpp"
check "kernel in C++" "$work/cpp/kernel"
check "ahead of time" "$work/cpp/aot"
if command -v pkg-config > "$work/log"; then
  check "pkg-config" sh -c "g++ -std=c++20 examples/cpp/kernel.cpp -o '$work/by-pc' \$(PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs tegula) -Wl,-rpath,'$here/lib' && '$work/by-pc' cpu"
else
  echo "skipped: pkg-config (not installed)"
fi
check "conformance from the archive" env PYTHONPATH=python TEGULA_TEST_DEVICES=cpu,sim "$python" -m pytest -q -p no:cacheprovider --every 200 test/run
check "random programs from the archive" "$python" test/random/soak.py --seeds 0..20 --devices cpu,sim --jobs 1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
