# Every target works in a fresh clone that has python3, pip and a C++ compiler; `make` alone lists them.
SYSTEM_PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# pip would compile all of it to bytecode; Python does that for what is imported, which is the lesser part.
PIP_INSTALL := $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Tools that pip put into the environment (cmake, ninja) go before those of the system.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Hundreds of processes import torch and this package; without bytecode on the disk each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

DEMO := -m monolith demo --seconds 30 --port 0
CPP := $(wildcard csrc/*/*.h csrc/*/*.cpp tests/csrc/*.h tests/csrc/*.cpp)
PYTEST_ARGS ?=
TEST_PROCESSES ?= 2
# pip and the compiler; a ninja that heeds make's limit needs a third for its second file.
SIDE_BY_SIDE := -j3

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-services test-csrc test-sanitize lint format pages bench bench-peers campaign-agree campaign-kill-cluster campaign-kill-online campaign-kill-save campaign-hostile campaign-mutate campaign-fuzz wheel wheel-build wheel-check clean compiler native csrc-tests stubs setup-dev programs-of-services services-ready peers-that-install

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-20s %s\n", $$1, $$2}'

setup: ## Create .venv, install what is needed, build the native core in place
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) $(VENV)/.installed native
	@$(MAKE) --no-print-directory stubs

# All packages at once, beside the compiler.
setup-dev:
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) $(VENV)/.dev native
	@$(MAKE) --no-print-directory stubs

demo: setup ## Run a whole live system on this machine: generator, trainer, server; about 50 seconds
	$(PYTHON) $(DEMO)

test: ## Run the tests: C++, Python, docstrings, README, benchmarks at tiny sizes
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) $(VENV)/.dev test-csrc
	@$(MAKE) --no-print-directory stubs
	$(PYTHON) -m pytest -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

test-services: services-ready ## Run the tests that are slow or need services, peers or a clean environment; installs those
	$(PYTHON) -m pytest -m services -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)
	@$(call FUZZ,build/dev,30)

# What service tests need, side by side: packages, the wheel in an environment of its own, and peers where they install.
services-ready: setup-dev programs-of-services
	@$(MAKE) --no-print-directory csrc-tests
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) $(VENV)/.services wheel-build peers-that-install

peers-that-install:
	-@$(MAKE) --no-print-directory bench-peers

lint: setup-dev ## Check style, types, layers, layout and the links of pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict monolith
	$(BIN)/lint-imports --no-logo
	$(PYTHON) -m pytest -q tests/test_layout.py tests/test_one_name.py tests/test_links.py
	$(BIN)/clang-format --dry-run --Werror $(CPP)

format: setup-dev ## Put Python and C++ into the form that lint asks for
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP)

pages: setup-dev ## Write the pages that are made from the source: docs/settings.md, docs/api, figures of docs/tuning.md
	$(PYTHON) -m monolith.train.config.settings_page > docs/settings.md
	$(PYTHON) -m tools.write_api
	$(PYTHON) -m benchmarks.ps.growth_page

bench: setup-dev ## Measure everything; `make bench-peers` first to compare with other systems
	for name in $$($(PYTHON) -c 'from benchmarks.registry import BENCHMARKS; print(*BENCHMARKS)'); do \
	  $(PYTHON) -m benchmarks $$name || exit; done

campaign-kill-online: KILLS ?= 50
campaign-kill-online: setup-dev ## Kill trainer and server of an online job 50 times, and a trainer that reads Kafka 50 times; the results go to benchmarks/results
	$(PYTHON) -m pytest -m services tests/e2e/test_kill.py --kills $(KILLS) --kills-report benchmarks/results/kill-online-$$(date +%F).json
	$(PYTHON) -m pytest -m services tests/e2e/test_kafka_live.py --kills $(KILLS) --kills-report benchmarks/results/kill-kafka-$$(date +%F).json

campaign-kill-cluster: KILLS ?= 210
campaign-kill-cluster: setup-dev ## Kill, freeze and cut off processes of jobs 210 times; a run that was stopped goes on; the result goes to benchmarks/results
	$(PYTHON) -m tests.e2e.kill_cluster --faults $(KILLS) --report benchmarks/results/kill-cluster-$$(date +%F).json

campaign-agree: ROUNDS ?= 1000
campaign-agree: setup-dev ## Compare servers, import_saved_model and Estimator.predict after 1000 rounds of training, with kills between; the result goes to benchmarks/results
	$(PYTHON) -m pytest -m services tests/agree --rounds $(ROUNDS) --rounds-report benchmarks/results/agree-$$(date +%F).json

campaign-kill-save: KILLS ?= 500
campaign-kill-save: setup-dev ## Kill a saving process 500 times, take its power away 2000 times; the result goes to benchmarks/results
	$(PYTHON) -m pytest tests/e2e/test_kill_save.py --kills $(KILLS) --kills-report benchmarks/results/kill-save-$$(date +%F).json
	$(PYTHON) -m pytest tests/checkpoint/power_loss --power-losses 2000 --power-losses-seed $$(date +%s)

SEED ?= 1

campaign-hostile: setup-dev $(VENV)/.services programs-of-services ## Attack with damaged files, checkpoints, deltas and requests, slow clients and strangers; the result goes to benchmarks/results
	$(PYTHON) -m tests.hostile --seed $(SEED) --report benchmarks/results/hostile-$$(date +%F).json

campaign-mutate: setup-dev ## Make every kept mistake in a copy of the tree, and see its tests fail; the result goes to benchmarks/results
	$(PYTHON) -m tests.mutation --report benchmarks/results/mutate-$$(date +%F).json

SECONDS ?= 600

campaign-fuzz: $(VENV)/.builder ## Read damaged records, table files and requests under the address sanitizer, for SECONDS=600
	cmake -S . -B build/asan -G Ninja -DMONOLITH_CSRC_TESTS=ON -DMONOLITH_SANITIZE=address >/dev/null
	cmake --build build/asan --target parse_fuzz_test record_frames_test table_file_fuzz_test wire_frame_test
	$(call FUZZ,build/asan,$(SECONDS))

# --- the environment and the native core -----------------------------------------------------------------------------

compiler:
	@command -v $${CXX:-c++} >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
	  { echo "no C++ compiler found: apt-get install g++ / dnf install gcc-c++ / xcode-select --install" >&2; exit 1; }

# Installed anew when the dependencies change. First what builds the native core, so that building and installing the
# rest can go side by side; the package itself is linked, without its native part: that one is built in place below,
# where a change of one source file costs the compilation of one file.
$(VENV)/.builder: | compiler
	@$(SYSTEM_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, $(SYSTEM_PYTHON) is %d.%d; say make SYSTEM_PYTHON=python3.x" % sys.version_info[:2])'
	test -x $(PYTHON) || $(SYSTEM_PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) nanobind scikit-build-core $$(command -v cmake >/dev/null || echo cmake) $$(command -v ninja >/dev/null || echo ninja)
	@touch $@

INSTALL_TREE := $(PIP_INSTALL) --no-build-isolation --config-settings wheel.cmake=false --config-settings editable.mode=inplace

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.builder
	$(INSTALL_TREE) -e '.[serving]'
	@touch $@

# What tests and lint need besides.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.builder
	$(INSTALL_TREE) -e '.[dev,serving,kafka,tensorboard,columnar,zookeeper,consul,primus]'
	@touch $(VENV)/.installed $@

# What service tests need besides: packages, and programs as COMMAND:DEBIAN-PACKAGE.
$(VENV)/.services: $(VENV)/.dev
	$(INSTALL_TREE) -e '.[services,ray]'
	@touch $@

SERVICE_PROGRAMS := openssl:openssl curl:curl mpirun:openmpi-bin /usr/share/zookeeper/bin/zkServer.sh:zookeeper

programs-of-services:
	@missing=; for one in $(SERVICE_PROGRAMS); do command -v $${one%%:*} >/dev/null || missing="$$missing $${one##*:}"; done; \
	test -z "$$missing" && exit; \
	root=$$(test $$(id -u) = 0 || command -v sudo || echo none); \
	command -v apt-get >/dev/null && test "$$root" != none && $$root apt-get -qq update && $$root apt-get -qq install --yes $$missing || \
	  echo "not installed, and not installable here:$$missing; tests that need them are skipped" >&2
	@command -v consul >/dev/null || tests/cluster/discovery/install_consul.sh $(CURDIR)/$(VENV)/consul || \
	  echo "no Consul agent can be had here; tests of a real one are skipped" >&2

build/dev/build.ninja: Makefile | $(VENV)/.builder
	cmake -S . -B build/dev -G Ninja -DMONOLITH_INPLACE=ON -DMONOLITH_CSRC_TESTS=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON) >/dev/null
	@touch $@

native: build/dev/build.ninja
	@cmake --build build/dev

# One build of the core, which the module and the tests link.
csrc-tests: build/dev/build.ninja
	@cmake --build build/dev --target native csrc_tests

stubs: native $(VENV)/.installed
	@$(PYTHON) tools/write_stubs.py

# --- C++ tests -------------------------------------------------------------------------------------------------------

CTEST := ctest --parallel 2 --output-on-failure --no-tests=ignore
FUZZ_SECONDS ?= 5
# The fuzz drivers of a build side by side, for so many seconds, with a seed that they print.
FUZZ = seed=$$(date +%s); $(1)/parse_fuzz_test --seconds $(2) --seed $$seed & parse=$$!; \
	$(1)/table_file_fuzz_test --seconds $(2) --seed $$seed & files=$$!; \
	$(1)/wire_frame_test --seconds $(2) --seed $$seed & requests=$$!; \
	$(1)/record_frames_test --seconds $(2) --seed $$seed; frames=$$?; \
	wait $$parse && wait $$files && wait $$requests && exit $$frames

test-csrc: csrc-tests ## Run the C++ tests
	$(CTEST) --test-dir build/dev
	@$(call FUZZ,build/dev,$(FUZZ_SECONDS))

test-sanitize: $(VENV)/.builder ## Run the C++ tests under the address and the thread sanitizer
	cmake -S . -B build/asan -G Ninja -DMONOLITH_CSRC_TESTS=ON -DMONOLITH_SANITIZE=address >/dev/null
	cmake --build build/asan --target csrc_tests
	$(CTEST) --test-dir build/asan
	@$(call FUZZ,build/asan,$(FUZZ_SECONDS))
	cmake -S . -B build/tsan -G Ninja -DMONOLITH_CSRC_TESTS=ON -DMONOLITH_SANITIZE=thread >/dev/null
	cmake --build build/tsan --target csrc_tests
	$(CTEST) --test-dir build/tsan

# --- systems to compare with, each in an environment of its own ------------------------------------------------------

bench-peers: .venv-fbgemm/.installed .venv-tfra/.installed .venv-tensorflow/.installed ## Install the systems that benchmarks compare with

PEER_INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile

# torchrec asks for a CUDA build of FBGEMM by name, hence --no-deps and its other needs by hand.
# protobuf is for the record parser of Monolith, which torch peers read with.
.venv-fbgemm/.installed:
	$(SYSTEM_PYTHON) -m venv --clear $(@D)
	$(PEER_INSTALL) torch==2.13.0 numpy==2.4.6 fbgemm-gpu-cpu==1.8.0 iopath pyre-extensions tensordict torchmetrics==1.0.3 tqdm protobuf==7.36.2
	$(PEER_INSTALL) --no-deps torchrec==1.8.0
	@touch $@

# TensorFlow 2.16 is the last version that the addons load with; they need the old Keras.
.venv-tfra/.installed:
	$(SYSTEM_PYTHON) -m venv --clear $(@D)
	$(PEER_INSTALL) tensorflow==2.16.2 tensorflow-recommenders-addons==0.8.1 tf-keras==2.16.0
	@touch $@

.venv-tensorflow/.installed:
	$(SYSTEM_PYTHON) -m venv --clear $(@D)
	$(PEER_INSTALL) tensorflow-cpu==2.21.0
	@touch $@

# --- a wheel, and the proof that it works elsewhere ------------------------------------------------------------------

wheel: setup-dev ## Build a wheel into dist/ and try it in a clean environment
	@$(MAKE) --no-print-directory wheel-build

wheel-build:
	rm -rf dist
	$(PYTHON) -m build --wheel --outdir dist
	@$(MAKE) --no-print-directory wheel-check

wheel-check: ## Install the wheel of dist/ into a clean environment and use it
	$(SYSTEM_PYTHON) -m venv --clear build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt dist/*.whl
	cd build/wheel-venv && bin/python -c 'import monolith._core, monolith.utils; print("imported", monolith.__file__)' && bin/monolith info

clean: ## Remove what was built; the environments stay (rm -rf .venv* removes those)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find monolith -name '*.so' -delete
