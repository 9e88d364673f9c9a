#!/usr/bin/env bash
# A C++ project on a machine that has nothing: makes a bare Debian 12 by debootstrap (as root, about 1 GB in the temporary folder) with compilers and CMake, and does there what the section
# "A project of your own" of docs/cpp.md says, line by line: with the installed tree, and with the archive of scripts/dist.py.
# usage: scripts/test_bare.sh [build folder] [bare system that is there already] [archive that is there already]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
[[ -x $build/venv/bin/python ]] && python=$build/venv/bin/python
archive=${3:-}
if [[ -z $archive ]]; then
  "$python" "$root/scripts/dist.py" --build "$build" --out "$work/dist"
  archive=$(echo "$work"/dist/tegula-*.tar.xz)
fi
bare=${2:-$work/bare}
if [[ ! -x $bare/bin/sh ]]; then
  debootstrap=$(command -v debootstrap || echo /usr/sbin/debootstrap)
  [[ -x $debootstrap ]] || { echo "test_bare: debootstrap is missing; install it as root" >&2; exit 1; }
  "$debootstrap" --variant=minbase --include=g++,cmake,make,pkg-config,clang-19 bookworm "$bare" http://deb.debian.org/debian >"$work/log" 2>&1 || { tail -5 "$work/log" >&2; exit 1; }
fi
# The commands of the section, one a line, and the CMakeLists.txt that it shows.
section=$(sed -n '/^## A project of your own/,/^## Launches/p' "$root/docs/cpp.md")
commands=$(sed -n '/^```sh/,/^```/{/^```/!p}' <<<"$section")
shown=$(sed -n '/^```cmake/,/^```/{/^```/!p}' <<<"$section")
(($(wc -l <<<"$commands") > 10)) && [[ -n $shown ]] || { echo "test_bare: the section of docs/cpp.md has no commands" >&2; exit 1; }
# Programs find what lies beside them ($ORIGIN) by /proc/self/exe.
mkdir -p "$bare/proc"
mount -t proc proc "$bare/proc"
trap 'umount "$bare/proc"; rm -rf "$work"' EXIT
there() { "$(command -v chroot || echo /usr/sbin/chroot)" "$bare" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp/project /bin/sh -euc "cd /tmp/project; $1"; }
for from in "installed tree" archive; do
  rm -rf "$bare/opt/tegula" "$bare/tmp/project"
  mkdir -p "$bare/opt/tegula"
  if [[ $from == archive ]]; then
    tar xf "$archive" -C "$bare/opt/tegula" --strip-components=1
    cp -r "$bare/opt/tegula/examples/cpp" "$bare/tmp/project"
  else
    cmake --install "$build" --prefix "$bare/opt/tegula" >"$work/log" || { tail -5 "$work/log" >&2; exit 1; }
    cp -r "$root/examples/cpp" "$bare/tmp/project"
  fi
  echo "--- $from"
  there "set -x
$commands"
  there "gcc/jit && gcc/aot && gcc/tuned && gcc/space
mkdir mine && cp kernel.cpp mine"
  printf '%s\n' "$shown" >"$bare/tmp/project/mine/CMakeLists.txt"
  there "cmake -S mine -B mine/out -DCMAKE_PREFIX_PATH=/opt/tegula && cmake --build mine/out && mine/out/kernel cpu"
done
echo "a bare machine builds and runs examples/cpp"
