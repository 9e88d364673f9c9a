#!/usr/bin/env bash
# Tests tegula under torch.compile, by PyTorch in an environment of its own, build/venv-torch (some GB the first time): scripts/test_torch.sh [pytest's arguments].
# Which index PyTorch comes from is pip's configuration (PIP_INDEX_URL). Another Python that has PyTorch and pytest: TEGULA_TORCH_PYTHON=python.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${TEGULA_TORCH_PYTHON:-build/venv-torch/bin/python}
if [[ -z ${TEGULA_TORCH_PYTHON:-} ]]; then
  wanted=$(cat scripts/requirements-torch.txt scripts/requirements-demo.txt)
  stamp=build/venv-torch/.requirements
  if [[ $(cat "$stamp" 2>/dev/null) != "$wanted" ]]; then
    echo "test_torch: Python environment in build/venv-torch"
    [[ -x $python ]] || /usr/bin/python3 -m venv build/venv-torch
    build/venv-torch/bin/pip install --quiet --disable-pip-version-check -r scripts/requirements-torch.txt
    echo "$wanted" >"$stamp"
  fi
fi

# Caches of this run alone: what an earlier compiler made proves nothing.
caches=$(mktemp -d)
trap 'rm -rf "$caches"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$caches/inductor TEGULA_CACHE_DIR=$caches/tegula PYTHONPATH=$PWD/build/python
"$python" -m tegula -m pytest -q -p no:cacheprovider --tb=short --show-capture=no "${@:-test/torch}"
