#!/usr/bin/env bash
# A C++ project on a machine that has nothing: makes a bare Debian 12 by debootstrap (as root, about 400 MB in the temporary folder), installs a compiler and CMake there, unpacks the
# archive of scripts/dist.py in it, and builds and runs examples/cpp with that alone, by CMake and by pkg-config.
# usage: scripts/test_bare.sh [build folder] [bare system that is there already]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
[[ -x $build/venv/bin/python ]] && python=$build/venv/bin/python
"$python" "$root/scripts/dist.py" --build "$build" --out "$work/dist"
bare=${2:-$work/bare}
if [[ ! -x $bare/bin/sh ]]; then
  command -v debootstrap >/dev/null || { echo "test_bare: debootstrap is missing; install it as root" >&2; exit 1; }
  debootstrap --variant=minbase --include=g++,cmake,make,pkg-config bookworm "$bare" http://deb.debian.org/debian >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; exit 1; }
fi
rm -rf "$bare/opt/tegula" "$bare/tmp/project"
mkdir -p "$bare/opt/tegula"
tar xf "$work"/dist/tegula-*.tar.xz -C "$bare/opt/tegula" --strip-components=1
cp -r "$root/examples/cpp" "$bare/tmp/project"
cat >"$bare/tmp/project/build.sh" <<'SH'
set -eu
cd /tmp/project
export HOME=/tmp/project
cmake -S . -B out -DCMAKE_PREFIX_PATH=/opt/tegula -DCMAKE_BUILD_TYPE=Release >log 2>&1 && cmake --build out >>log 2>&1 || { cat log; exit 1; }
out/kernel cpu
out/kernel sim
out/jit && out/aot && out/tuned && out/space
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=/opt/tegula/lib/pkgconfig
  export PKG_CONFIG_PATH
  g++ -std=c++20 kernel.cpp -o by-pc $(pkg-config --cflags --libs tegula) -Wl,-rpath,/opt/tegula/lib
  ./by-pc cpu
fi
SH
# Programs find what lies beside them ($ORIGIN) by /proc/self/exe.
mount -t proc proc "$bare/proc"
trap 'umount "$bare/proc"; rm -rf "$work"' EXIT
"$(command -v chroot || echo /usr/sbin/chroot)" "$bare" /usr/bin/env -i PATH=/usr/bin:/bin /bin/sh /tmp/project/build.sh
echo "a bare machine builds and runs examples/cpp"
