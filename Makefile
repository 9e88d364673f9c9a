# The two commands of the README, each complete on a fresh Debian 12: `make demo`, `make test`. The real build is CMake's.
JOBS ?= $(shell nproc)
PY := build/venv/bin/python

.PHONY: all setup build demo test check-quick test-torch bench check dist docs goldens clean

all: build

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh -j $(JOBS)

# Only what the demo needs: the library, the command, the Python package and examples/llm/generate. Its Python environment, which no compilation needs, is made meanwhile.
demo:
	@scripts/setup.sh --packages
	@scripts/setup.sh --without-tests & environment=$$!; scripts/build.sh -j $(JOBS) libtegula tegula tegula_core llm-generate && wait $$environment
	@PYTHONPATH=build/python $(PY) scripts/demo.py

test: build
	@$(PY) scripts/run_tests.py

# For daily work: about five minutes.
check-quick: build
	@$(PY) scripts/run_tests.py --quick

# torch.compile: operators, models and programs of PyTorch, in an environment of its own (some GB; docs/pytorch.md).
test-torch: build
	@scripts/test_torch.sh

# ZOO=1: the kernels of bench/zoo beside numpy and torch instead.
bench: build
	@PYTHONPATH=build/python $(PY) $(if $(ZOO),bench/zoo/run.py --device cpu --json build/bench/zoo.json --picture build/bench/zoo.png,bench/run.py)

# The archive for machines with a GPU: build/dist/tegula-*.tar.xz
dist: build
	@$(PY) scripts/dist.py --jobs $(JOBS)

# Reference of the C and C++ interface: build/docs/html/index.html
docs:
	@scripts/docs.sh

check:
	@scripts/check

goldens: build
	@$(PY) scripts/update_goldens.py

clean:
	rm -rf build build-dev build-asan build-tsan
