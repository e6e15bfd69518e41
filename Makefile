# The commands of this project. `make` alone prints them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help setup build demo test wheel reference bench format lint asan tsan clean

PYTHON_ENV := .venv/bin/python
JOBS ?= $(shell nproc)
# A clone in another folder finds the objects of an equal source in the compiler cache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

help: ## print this list
	@awk -F ': .*## ' '/^[a-z -]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' Makefile

setup: .venv/.setup ## install the Debian packages that are missing and the Python environment .venv

.venv/.setup: packages.txt requirements.txt tools/setup.sh
	@tools/setup.sh
	@touch $@

build: setup ## build the library, the tests and the Python module (build/release, python/flambeau)
	@start=$$SECONDS; \
	mkdir -p build; \
	cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; \
	cmake --build --preset release -j $(JOBS); \
	$(PYTHON_ENV) -c 'import flambeau'; \
	echo "build: $$((SECONDS - start)) s"

demo: build ## train a network on handwritten digits (fetched on the first run)
	@$(PYTHON_ENV) tools/fetch_mnist.py
	@$(PYTHON_ENV) examples/digits.py

test: build ## build and run every test: C++, Python, layering, reference values
	@$(PYTHON_ENV) tools/run_tests.py

wheel: build ## build the wheel (build/dist), and run a program where nothing else is installed
	@$(PYTHON_ENV) tools/check_wheel.py

reference: build ## write the stub and the reference pages from the operator table (build/reference)
	@$(PYTHON_ENV) tools/make_reference.py

bench: build .bench-venv/.setup ## time this library and torch by turns; writes docs/benchmarks.md
	@$(PYTHON_ENV) benchmarks/compare.py --peer $(BENCH_PYTHON)

# The peer lives in its own environment. BENCH_PYTHON names another interpreter that has it.
BENCH_PYTHON ?= .bench-venv/bin/python
.bench-venv/.setup: benchmarks/requirements.txt | setup
ifeq ($(BENCH_PYTHON),.bench-venv/bin/python)
	@test -x $(BENCH_PYTHON) || $(PYTHON_ENV) -m venv .bench-venv
	@$(BENCH_PYTHON) -m pip install -q --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@
endif

CPP_FILES = $(shell git ls-files -co --exclude-standard '*.cpp' '*.h')

format: setup ## format the C++ and Python sources
	@clang-format-19 -i $(CPP_FILES)
	@$(PYTHON_ENV) -m ruff format -q
	@$(PYTHON_ENV) -m ruff check -q --fix --select I

lint: setup ## check formatting, Python, the layers, and that each header stands alone
	@clang-format-19 --dry-run -Werror $(CPP_FILES)
	@$(PYTHON_ENV) -m ruff format -q --check
	@$(PYTHON_ENV) -m ruff check -q
	@$(PYTHON_ENV) tools/check_layering.py --headers

asan tsan: setup ## C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer, or ThreadSanitizer
	@cmake --preset $@ >/dev/null
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@

clean: ## remove what was built; the environments and fetched data stay
	@rm -rf build python/flambeau/_C*.so
