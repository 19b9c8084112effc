# Needs python3 (3.11 or newer, with venv and ensurepip), make and git. The rest goes into .venv.
#
#   make demo              what the library is for, in half a minute
#   make test              lint, format and the quick tests of every folder (a few minutes)
#   make test-full         lint, format, types and all tests, with Ray and the type checkers (half an hour)
#   make docs              the documentation site, into build/site
#   make bench             gradtape beside JAX, PyTorch, TensorFlow and autograd (installs them apart)
#   make bench-curves      total time from the first call to call k, beside its peers (half an hour)
#   make figures           the pictures of README and site, from the committed results of both
#   make format            fix format and order of imports
#   make lint, make types  only these checks
#   make clean             remove the environments and all that was built
#   make help-all          what maintainers run: fuzzers, other versions, other modes
#
##   make test-all          all tests on every Python, with the oldest versions, both recorders, without
##                          libmvec and on one core; says what is not installed here
##   make coverage          all tests, and an error if they reach fewer lines than before
##   make test-scalar       all tests without libmvec: libm lane by lane
##   make test-own          all tests without libmvec: our own polynomials
##   make test-recorder-python, test-recorder-native   all tests with one of the two recorders
##   make test-one-core     all tests on one core
##   make test-native-memory   the tests of functions, recording and native code with an allocator that
##                          fills freed memory and a collection at every allocation (an hour)
##   make test-threads      64 threads on the same functions and variables, for 30 s
##   make test-oldest       all tests with the oldest supported versions (in .venv-oldest)
##   make test-mkl          all tests with MKL (in .venv-mkl)
##   make fuzz              compiled programs against NumPy, 20,000 at random (some minutes)
##   make bench-sparse      a Jacobian of 95,529 x 55,710 in four forms, under 1 GB each (minutes)
##   make fuzz-jacobians    every way to a Jacobian against the others, 16,000 random functions
##   make fuzz-functions    gt.function while its surroundings change: 5,000 random programs
##   make fuzz-numpy        every NumPy function on tensors with every parameter, 30,000 calls
##   make fuzz-bad-input    every public callable on bad arguments, 20,000 calls (some minutes)
##   make sweep-bad-input   every parameter with every senseless value (half a minute)
##   make fuzz-derivatives  every way to a derivative against the others: each op, random compositions
##   make conformance-hips HIPS=path   the tests of a checkout of HIPS autograd, run on gradtape
##   make fuzz-memory       10,000 structures, functions, index patterns … made and dropped (an hour)
##   make fuzz-checkpoints  SIGKILL at 200 random moments of a checkpointing run (some minutes)
##   make fuzz-storage      1,000 damaged files of each of ten kinds
##   make bench-scaling     1, 2 and 4 workers of a local Ray cluster, and the model of docs/scaling.md
##   make bench-storage     saving beside the disk's rate, training beside a save, gt.fit
##   make fuzz-interrupts   Ctrl-C at 1,000 random moments of training loops
##   make bench-recording   what recording costs, beside a peer (installs the peer in .venv-peers)

PYTHON    ?= python3
VENV      ?= .venv
WORKERS   ?= 2
PIP_ARGS  ?=
TEST_ARGS ?=
# For example --quick, or --only square --peers jax,torch
BENCH_ARGS ?=

PEERS_VENV    ?= .venv-peers
TORCH_VERSION := 2.13.0

# Stamps: an environment is installed again only when pyproject.toml or a version changed.
MADE       := $(VENV)/.made
RUN_READY  := $(VENV)/.installed-run
DEMO_READY := $(VENV)/.installed-demo
DOCS_READY := $(VENV)/.installed-docs
DEV_READY  := $(VENV)/.installed-dev
FULL_READY := $(VENV)/.installed-dev-full
PEERS_MADE := $(PEERS_VENV)/.made
PEER_READY := $(PEERS_VENV)/.installed-torch-$(TORCH_VERSION)
PEERS_READY := $(PEERS_VENV)/.installed-peers-torch-$(TORCH_VERSION)

BIN := $(VENV)/bin
PIP  = $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS)

.DEFAULT_GOAL := help
.PHONY: help help-all demo docs figures test test-full test-all coverage test-recorder-python test-recorder-native test-scalar test-own test-one-core test-native-memory test-threads test-oldest test-mkl fuzz lint types format bench bench-recording clean
# Targets share one environment, so they are made one after another even with -j.
.NOTPARALLEL:

help:
	@sed -n 's/^#   //p' Makefile

help-all:
	@sed -n 's/^##*   //p' Makefile

demo: $(DEMO_READY)
	@$(BIN)/python examples/demo.py

# Strict: a warning, such as a link that leads nowhere, is an error.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "The site is in build/site; open build/site/index.html."

# A file runs in one process, which compiles its programs once and starts one cluster of Ray.
PYTEST = -m pytest -n $(WORKERS) --dist loadfile $(TEST_ARGS)

test: lint
	$(BIN)/python $(PYTEST) -m "not slow"

test-full: $(FULL_READY) lint types
	$(BIN)/python $(PYTEST)

test-scalar test-own: test-%: $(FULL_READY)
	GRADTAPE_VECTOR_MATH=$* $(BIN)/python $(PYTEST)

test-recorder-python test-recorder-native: test-recorder-%: $(FULL_READY)
	GRADTAPE_RECORDER=$* $(BIN)/python $(PYTEST)

test-one-core: $(FULL_READY)
	taskset -c 0 $(BIN)/python -m pytest $(TEST_ARGS)

# Percent of the lines of src/gradtape that the tests must run. 77 was measured with 2,837 of the
# tests (all examples in docstrings and eight other files); after a run of all of them with
# `make coverage COVERAGE_FLOOR=0`, put the whole number below the total here.
COVERAGE_FLOOR ?= 77

coverage: $(FULL_READY)
	$(BIN)/python $(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE_FLOOR)

PYTHONS ?= python3.11 python3.12 python3.13 python3.14
ALL_TESTS := test-oldest test-recorder-python test-recorder-native test-scalar test-one-core

# Goes on after a failure, and ends with one line for each run.
test-all:
	@passed=; failed=; skipped=; \
	for python in $(PYTHONS); do \
	  if command -v $$python >/dev/null 2>&1 && $$python -c 'import venv, ensurepip' 2>/dev/null; then \
	    if $(MAKE) PYTHON=$$python VENV=.venv-$$python test-full; \
	    then passed="$$passed $$python"; else failed="$$failed $$python"; fi; \
	  else skipped="$$skipped $$python"; fi; \
	done; \
	for target in $(ALL_TESTS); do \
	  if [ $$target = test-one-core ] && ! command -v taskset >/dev/null 2>&1; \
	  then skipped="$$skipped $$target"; \
	  elif $(MAKE) $$target; \
	  then passed="$$passed $$target"; else failed="$$failed $$target"; fi; \
	done; \
	echo "test-all passed: $${passed:- nothing}"; \
	echo "test-all skipped, not installed here: $${skipped:- nothing}"; \
	echo "test-all failed: $${failed:- nothing}"; \
	[ -z "$$failed" ]

STRESS_SECONDS ?= 30

# Native code reads memory of CPython's objects: see src/gradtape/compiler/cpython/__init__.py.
NATIVE_TESTS ?= tests/contract tests/jit tests/trace tests/compiler/cpython

test-native-memory: $(DEV_READY)
	GRADTAPE_RECORDER=native PYTHONMALLOC=debug GRADTAPE_TEST_COLLECT=1 GRADTAPE_OWNERSHIP_ROUNDS=20 \
	  $(BIN)/python -X dev -X faulthandler -m pytest -n $(WORKERS) $(TEST_ARGS) $(NATIVE_TESTS)

test-threads: $(DEV_READY)
	GRADTAPE_STRESS_SECONDS=$(STRESS_SECONDS) $(BIN)/python -m pytest -q tests/programs/test_threads.py

# The lower bounds in pyproject.toml.
OLDEST := $(shell sed -n 's/^ *"\(numpy\|scipy\|llvmlite\)>=\([0-9.]*\)",/\1==\2.*/p' pyproject.toml)

test-oldest test-mkl: test-%:
	$(require_python)
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS) \
	  --editable '.[dev-full]' $(if $(filter oldest,$*),$(OLDEST),mkl)
	.venv-$*/bin/python $(PYTEST)

FUZZ ?= 20000

fuzz: $(DEV_READY)
	GRADTAPE_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n $(WORKERS) tests/compiler/test_differential.py

JACOBIAN_FUZZ ?= 20

.PHONY: fuzz-interrupts
fuzz-interrupts: $(DEV_READY)
	$(BIN)/python -m tests.programs.interrupts --count 1000

CHECKPOINT_FUZZ ?= 200
STORAGE_FUZZ ?= 1000

.PHONY: fuzz-checkpoints fuzz-storage bench-storage
fuzz-checkpoints: $(DEV_READY)
	$(BIN)/python -m tests.training.storage.kills --count $(CHECKPOINT_FUZZ) --workers $(WORKERS)

fuzz-storage: $(DEV_READY)
	$(BIN)/python -m tests.training.storage.damage --count $(STORAGE_FUZZ)

bench-storage: $(DEV_READY)
	$(BIN)/python -m benchmarks.storage

MEMORY_FUZZ ?= 10000

.PHONY: fuzz-memory
fuzz-memory: $(DEV_READY)
	$(BIN)/python -m tests.programs.growth --count $(MEMORY_FUZZ)

.PHONY: fuzz-jacobians
fuzz-jacobians: $(DEV_READY)
	GRADTAPE_JACOBIAN_FUZZ=$(JACOBIAN_FUZZ) $(BIN)/python -m pytest -n $(WORKERS) tests/autodiff/test_jacobians.py

DERIVATIVE_FUZZ ?= 3000

.PHONY: fuzz-derivatives
fuzz-derivatives: $(DEV_READY)
	$(BIN)/python -W ignore -m tests.programs.derivatives --count $(DERIVATIVE_FUZZ)

.PHONY: conformance-hips
conformance-hips: $(DEV_READY)
	$(BIN)/python -m tests.conformance.hips $(HIPS)

FUNCTION_FUZZ ?= 5000

.PHONY: fuzz-functions
fuzz-functions: $(DEV_READY)
	$(BIN)/python -m tests.jit.outside.fuzz --count $(FUNCTION_FUZZ) --workers $(WORKERS)

.PHONY: bench-scaling
bench-scaling: $(FULL_READY)
	$(BIN)/python -m benchmarks.scaling

.PHONY: bench-sparse
bench-sparse: $(DEV_READY)
	$(BIN)/python -m benchmarks.bundle_adjustment

NUMPY_FUZZ ?= 30000

.PHONY: fuzz-numpy
fuzz-numpy: $(DEV_READY)
	$(BIN)/python -m tests.interop.numpy_protocols.surface --count $(NUMPY_FUZZ)

BAD_INPUT_FUZZ ?= 20000

.PHONY: fuzz-bad-input
fuzz-bad-input: $(DEV_READY)
	$(BIN)/python -m tests.contract.bad_input --count $(BAD_INPUT_FUZZ) --workers $(WORKERS)

.PHONY: sweep-bad-input
sweep-bad-input: $(DEV_READY)
	$(BIN)/python -m tests.contract.bad_input --sweep

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(FULL_READY)
	$(BIN)/mypy

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Peers never enter the library's environment: the benchmarks start them as other processes.
bench: $(RUN_READY) $(PEERS_READY)
	GRADTAPE_PEERS_PYTHON=$(PEERS_VENV)/bin/python $(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: bench-curves
bench-curves: $(DOCS_READY) $(PEERS_READY)
	GRADTAPE_PEERS_PYTHON=$(PEERS_VENV)/bin/python $(BIN)/python -m benchmarks.curves $(BENCH_ARGS)

figures: $(DOCS_READY)
	$(BIN)/python -m benchmarks.figures

bench-recording: $(RUN_READY) $(PEER_READY)
	GRADTAPE_PEERS_PYTHON=$(PEERS_VENV)/bin/python $(BIN)/python benchmarks/recording.py

clean:
	rm -rf $(VENV) $(PEERS_VENV) .venv-oldest .venv-mkl $(PYTHONS:%=.venv-%) build dist .coverage htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

define require_python
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "gradtape needs Python 3.11 or newer, and '$(PYTHON)' was not found." >&2; \
	  echo "Install it, or name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gradtape needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo "Name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  package=$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
	  echo "'$(PYTHON)' has no venv or no ensurepip, so it cannot create an environment." >&2; \
	  echo "Install the package $$package (Debian, Ubuntu: sudo apt install $$package)," >&2; \
	  echo "or name another Python: make PYTHON=python3.12 ..." >&2; exit 1; }
endef

$(MADE):
	$(require_python)
	$(PYTHON) -m venv $(VENV)
	@touch $@

# An editable install has no bytecode, and some environments never write any.
BYTECODE = $(BIN)/python -m compileall -q src

$(RUN_READY): pyproject.toml $(MADE)
	$(PIP) --editable .
	@$(BYTECODE)
	@touch $@

# The demo draws pictures.
$(DEMO_READY): pyproject.toml $(MADE)
	$(PIP) --editable '.[plot]'
	@$(BYTECODE)
	@touch $(RUN_READY) $@

# What the developer's install holds includes what running needs.
$(DEV_READY): pyproject.toml $(MADE)
	$(PIP) --editable '.[dev]'
	@$(BYTECODE)
	@touch $(RUN_READY) $@

$(FULL_READY): pyproject.toml $(MADE)
	$(PIP) --editable '.[dev-full]'
	@$(BYTECODE)
	@touch $(RUN_READY) $(DEV_READY) $@

# The site runs its pages, so it needs the library and what draws figures, but no tests and no checkers.
$(DOCS_READY): pyproject.toml $(MADE)
	$(PIP) --editable '.[docs]'
	@$(BYTECODE)
	@touch $(RUN_READY) $@

$(PEERS_MADE):
	$(require_python)
	$(PYTHON) -m venv $(PEERS_VENV)
	@touch $@

$(PEER_READY): $(PEERS_MADE)
	$(PEERS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS) \
	  torch==$(TORCH_VERSION) numpy
	@touch $@

# One resolution for all peers. Where tensorflow-cpu has no wheel, tensorflow is the same for us.
$(PEERS_READY): $(PEERS_MADE)
	@for tensorflow in tensorflow-cpu tensorflow; do \
	  $(PEERS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS) \
	    torch==$(TORCH_VERSION) numpy jax autograd $$tensorflow && exit 0; \
	done; exit 1
	@touch $(PEER_READY) $@
