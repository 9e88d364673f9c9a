#!/usr/bin/env bash
# Installs what a build needs on Debian 12: packages (as root), and a Python environment in build/venv. Quick when all is there.
# --without-tests leaves out what only the tests and the benchmark's peers need; --packages stops after the packages of --without-tests.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  # build
  g++ cmake ninja-build git clang-19 lld-19 llvm-19-dev libzstd-dev zlib1g-dev nlohmann-json3-dev libpcre2-dev ccache libgtest-dev
  # Python side
  python3 python3-dev python3-venv
)
requirements=scripts/requirements-demo.txt
if [[ ${1:-} != --without-tests && ${1:-} != --packages ]]; then
  packages+=(
    # tests; libsodium for signatures of bundles, which nothing is linked with
    libsodium23 libclang-rt-19-dev clang-format-14 gdb qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    # peers of the benchmark
    libopenblas-dev libdnnl-dev
  )
  requirements=scripts/requirements.txt
fi
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
[[ ${1:-} != --packages ]] || exit 0

# The stamp holds what was asked for last; a smaller set is there if the larger one is.
wanted=$(cat "$requirements" scripts/requirements-demo.txt)
stamp=build/venv/.$(basename "$requirements")
if [[ $(cat "$stamp" 2>/dev/null) != "$wanted" ]]; then
  echo "setup: Python environment in build/venv"
  [[ -x build/venv/bin/python ]] || /usr/bin/python3 -m venv build/venv
  build/venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
  echo "$wanted" >"$stamp"
fi
