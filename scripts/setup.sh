#!/usr/bin/env bash
# Installs what a build needs on Debian 12: packages (as root), and a Python environment in build/venv. Quick when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  # build
  g++ cmake ninja-build git clang-19 lld-19 llvm-19-dev libclang-rt-19-dev libzstd-dev zlib1g-dev ccache
  # tests
  libgtest-dev gdb qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  # Python side
  python3 python3-dev python3-venv
  # peers of the benchmark
  libopenblas-dev libdnnl-dev
)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
done
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]]; then
    echo "setup: these Debian packages are missing; install them as root: ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

stamp=build/venv/.requirements
if ! cmp -s scripts/requirements.txt "$stamp"; then
  echo "setup: Python environment in build/venv"
  /usr/bin/python3 -m venv build/venv
  build/venv/bin/pip install --quiet -r scripts/requirements.txt
  cp scripts/requirements.txt "$stamp"
fi
