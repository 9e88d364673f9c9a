#!/usr/bin/env bash
# The reference of the C and C++ interface, from the headers: build/docs/html/index.html. Installs Doxygen where it is missing (as root).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v doxygen >/dev/null; then
  if [[ $(id -u) != 0 ]]; then
    echo "docs: doxygen is missing; install it as root" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends doxygen >/dev/null
fi
mkdir -p build/docs
doxygen docs/Doxyfile
for name in classtegula_1_1v0_1_1Buffer classtegula_1_1v0_1_1Context tegula_8h; do
  [[ -f build/docs/html/$name.html ]] || { echo "docs: $name.html was not made" >&2; exit 1; }
done
echo "build/docs/html/index.html"
