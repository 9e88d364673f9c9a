# The two commands of the README, each complete on a fresh Debian 12: `make demo`, `make test`. The real build is CMake's.
JOBS ?= $(shell nproc)
PY := build/venv/bin/python

.PHONY: all setup build demo test bench check dist goldens clean

all: build

setup:
	@scripts/setup.sh

build: setup
	@cmake --preset release -Wno-dev --log-level=WARNING >/dev/null
	@cmake --build build -j $(JOBS) -- --quiet

demo: build
	@PYTHONPATH=build/python $(PY) scripts/demo.py

test: build
	@$(PY) scripts/run_tests.py

bench: build
	@PYTHONPATH=build/python $(PY) bench/run.py

# The archive for machines with a GPU: build/dist/tegula-*.tar.xz
dist: build
	@$(PY) scripts/dist.py --jobs $(JOBS)

check:
	@scripts/check

goldens: build
	@$(PY) scripts/update_goldens.py

clean:
	rm -rf build build-dev build-asan build-tsan
