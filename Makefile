# `make run` and `make test` set up everything they need in .venv, once, and again when requirements.lock changes.
# Paths are relative throughout, so that a checkout may stand in a folder with a space in its name.

.PHONY: run test test-slow check test-logs test-wheel test-versions sbom test-slurm test-slurm-guard test-slurm-hour test-pbs test-server test-pages test-crash test-mpi collector fuzz lint bench clean setup docs reference pictures
.DEFAULT_GOAL := run

PYTHON := .venv/bin/python
STAMP := .venv/.installed
CHECK := .venv-check
CONFIG ?= configs/sample.toml

run: $(STAMP)
	@$(PYTHON) -m flows.cli run "$(CONFIG)"

TEST_MINUTES ?= 80
# A test has ten minutes (pyproject.toml), and all of them together these: a run that stands still ends.
test: lint
	@timeout --kill-after=30 $(TEST_MINUTES)m $(PYTHON) -m pytest -m "not slow" --numprocesses=auto --maxprocesses=4 --dist=loadfile

# Random examples of every reader and fit, rates over many series, deaths at every step, the commands of the documents.
test-slow: $(STAMP)
	@timeout --kill-after=30 $(TEST_MINUTES)m $(PYTHON) -m pytest -m slow --numprocesses=auto --maxprocesses=4 --dist=loadfile

# Every real log beside the checkout, whatever its size, against plain readers of the formats.
test-logs: $(STAMP)
	@WALLTIME_ALL_LOGS=1 $(PYTHON) -m pytest -rs tests/unit/ingest/test_independent_readers.py

# Code that security tools doubt, and locked packages with known vulnerabilities; the latter asks the index of packages,
# and says so where that does not answer.
check: $(CHECK)/.installed
	@$(CHECK)/bin/bandit --quiet --recursive pipeline flows walltime
	@$(CHECK)/bin/python -m tests.audit_packages $(CHECK)/bin/pip-audit requirements.lock

# A real Slurm on this machine, where shared/slurm/up.sh stands beside the checkout; as root, for its packages and users.
test-slurm: $(STAMP)
	@WALLTIME_TEST_SLURM=1 $(PYTHON) -m pytest -rs tests/slurm

# The plug-in and the guard alone on a real Slurm, then their trial: 300 jobs while everything fails in turn (half an hour).
# WALLTIME_TRIAL_TRUE=1 has the guard away for ten minutes and slurmctld for five (more than half an hour).
test-slurm-guard: $(STAMP)
	@WALLTIME_TEST_SLURM=1 WALLTIME_TEST_SLURM_TRIAL=1 $(PYTHON) -m pytest -rs -s \
		tests/slurm/test_guard.py tests/slurm/test_guard_trial.py

MINUTES ?= 60
# Served every minute on a real Slurm, with everything killed in the middle; MINUTES=6 for a short trial.
test-slurm-hour: $(STAMP)
	@WALLTIME_TEST_SLURM_HOUR=1 WALLTIME_HOUR_MINUTES=$(MINUTES) $(PYTHON) -m pytest -rs -s tests/slurm

# A real OpenPBS, which is built once (minutes) where shared/pbs/up.sh stands beside the checkout; as root, like the above.
test-pbs: $(STAMP)
	@WALLTIME_TEST_PBS=1 $(PYTHON) -m pytest -rs --log-cli-level=INFO tests/pbs

# A standing Prefect server on SQLite, and on PostgreSQL where it is installed; its pages where chromium is.
test-server: $(STAMP)
	@WALLTIME_TEST_SERVER=1 $(PYTHON) -m pytest -rs tests/prefect_server

# The pages in chromium, where it and playwright are installed; npm fetches axe-core once.
test-pages: $(STAMP)
	@WALLTIME_TEST_PAGES=1 $(PYTHON) -m pytest -rs tests/pages

KILLS ?= 200
STORES ?= 2
# Runs killed with -9 at random instants, of as many stores at once; full and read-only disks; as root, for its small disks.
test-crash: $(STAMP)
	@WALLTIME_TEST_CRASH=1 WALLTIME_CRASH_KILLS=$(KILLS) WALLTIME_CRASH_STORES=$(STORES) $(PYTHON) -m pytest -rs -s -o timeout=0 tests/crash

# The sample's run from the wheel in a clean environment, which compiles every kernel (minutes).
test-wheel: $(STAMP)
	@WALLTIME_TEST_WHEEL=1 $(PYTHON) -m pytest -rs tests/wheel

# The sample under the oldest and the newest packages that pyproject.toml allows, in an environment each (an hour).
test-versions: $(STAMP)
	@WALLTIME_TEST_VERSIONS=1 $(PYTHON) -m pytest -rs tests/versions

# The wheel, and a list of what it is made of and needs as CycloneDX JSON, for scanners.
sbom: $(STAMP)
	@rm -rf build/wheel && mkdir -p build/wheel
	@$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation \
	    --wheel-dir build/wheel .
	@$(PYTHON) -m tools.sbom requirements.lock pyproject.toml build/wheel/walltime-*.whl > build/walltime.cdx.json
	@echo "build/walltime.cdx.json describes the wheel in build/wheel, with its hash and the locked packages."

# The collector of MPI traces under a real Open MPI; as root where its packages have to be installed.
test-mpi: $(STAMP)
	@WALLTIME_TEST_MPI=1 $(PYTHON) -m pytest -rs --log-cli-level=INFO tests/mpi

MPICC ?= mpicc
# The library that records MPI calls: preload it, or link a program with it.
collector: build/libwalltime_mpi_trace.so

build/libwalltime_mpi_trace.so: collector/walltime_mpi_trace.c
	@command -v $(MPICC) >/dev/null || { \
	    echo "The collector needs an MPI compiler, and $(MPICC) was not found: install one (Debian: apt-get install libopenmpi-dev), or name it by MPICC=..." >&2; exit 1; }
	@mkdir -p build
	$(MPICC) -std=c11 -O2 -Wall -Wextra -shared -fPIC -pthread -o $@ $<

LINES ?= 200000
CUTS ?= 20000
SEED ?= $(shell date +%s)
# Fresh examples on every run; `make test` has the same ones every time.
fuzz: $(STAMP)
	@WALLTIME_EXAMPLES=fresh $(PYTHON) -m pytest tests/properties --hypothesis-seed=$(SEED)
	@$(PYTHON) -m tests.fuzz.mutate --lines $(LINES) --seed $(SEED)
	@$(PYTHON) -m tests.fuzz.cut --cuts $(CUTS) --seed $(SEED)
	@$(PYTHON) -m tests.fuzz.splice --lines $(LINES) --seed $(SEED)

lint: $(STAMP)
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m mypy
	@$(PYTHON) -c "from importlinter.cli import lint_imports_command as lint; lint()" --no-logo

bench: $(STAMP)
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(PYTHON) "$$file"; done

DOCS := .venv-docs
# The documents as a site in site/, without external fonts or scripts; a warning is an error.
docs: $(DOCS)/.installed
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet
	@echo "Wrote site/index.html"

# The pages of the documents that come from the code.
reference: $(STAMP)
	@$(PYTHON) -m docs.tools.reference

# Pictures of the pages that commands write, from a run of the sample; needs chromium.
pictures: $(STAMP)
	@$(PYTHON) -m docs.tools.pictures

# Not out/: a config without an output_dir publishes there.
clean:
	rm -rf .venv $(CHECK) $(DOCS) site out/sample build .mypy_cache .ruff_cache .import_linter_cache .hypothesis

setup: $(STAMP)

# The tools of `make check` share no package with Walltime.
$(CHECK)/.installed: requirements-check.lock $(STAMP)
	@$(PYTHON) -m venv --clear $(CHECK)
	@$(CHECK)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-check.lock
	@touch $(CHECK)/.installed

# The generator of the documents shares no package with Walltime.
$(DOCS)/.installed: requirements-docs.lock $(STAMP)
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.lock
	@touch $(DOCS)/.installed

# The first Python of 3.11 or newer; pip checks every download against the hashes in requirements.lock.
$(STAMP): requirements.lock pyproject.toml
	@set -e; \
	for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	    if command -v $$candidate >/dev/null 2>&1 && $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then python=$$candidate; break; fi; \
	done; \
	if [ -z "$${python:-}" ]; then \
	    echo "Walltime needs Python 3.11 or newer, and found none: install one (Debian: apt-get install python3)." >&2; exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "Python has no venv module here: install it (Debian: apt-get install python3-venv)." >&2; exit 1; \
	fi; \
	echo "Setting up .venv with $$($$python --version); this is done once and takes a few minutes."; \
	$$python -m venv .venv; \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock; \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	echo "Compiling the kernels with a run over the sample, so that no later command waits for it."; \
	trial=$$(mktemp -d); \
	$(PYTHON) -m flows.cli run configs/sample.toml --plain --out "$$trial" >/dev/null \
	    || echo "Some kernels are not compiled yet; the first run does that." >&2; \
	rm -rf "$$trial"; \
	touch $(STAMP)
