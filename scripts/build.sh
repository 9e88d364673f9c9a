#!/usr/bin/env bash
# Configures and builds the release preset: scripts/build.sh [-j N] [target ...]. Shows one line of progress: rewritten in place on a terminal, a new
# line for each tenth elsewhere. Compiler messages and errors are shown whole.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
if [[ ${1:-} == -j ]]; then jobs=$2; shift 2; fi
cmake --preset release -Wno-dev --log-level=WARNING >/dev/null
NINJA_STATUS="[%f/%t] " ninja -C build -j "$jobs" "$@" 2>&1 | awk -v tty="$([[ -t 1 ]] && echo 1 || echo 0)" '
  match($0, /^\[[0-9]+\/[0-9]+\] /) {
    split(substr($0, 2, RLENGTH - 3), n, "/")
    if (tty) printf "\rbuild: %d of %d steps", n[1], n[2]
    else if (int(10 * n[1] / n[2]) > tenth) { tenth = int(10 * n[1] / n[2]); printf "build: %d of %d steps\n", n[1], n[2] }
    shown = 1; fflush(); next
  }
  /^ninja: (Entering directory|no work to do)/ { next }
  { if (tty && shown) print ""; print; shown = 0; fflush() }
  END { if (tty && shown) print "" }'
