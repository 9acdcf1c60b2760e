PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
STAMP := .venv/.installed
UNCOMPILED := '/(tests|transformers/models)/'  # a third of the packages' code, which nothing here imports
DOCS_STAMP := .venv/.docs-installed

.PHONY: help venv demo docs test test-fast soak test-all lint format bench clean

help:
	@echo "make venv      set up .venv: accelify, its extras and the test tools, all pinned"
	@echo "make demo      rewrite two real scripts, prove that they train the same models"
	@echo "make docs      build the documentation site in build/site; a broken link is an error"
	@echo "make test      run the tests"
	@echo "make test-fast run the tests of the codemod's facts, in less than 30 seconds"
	@echo "make soak      the slow proofs: 200 killed runs instead of three, 600 composed scripts and random programs instead of 20, every fixture verified"
	@echo "make test-all  run the codemod's tests on every Python from 3.10 that is installed"
	@echo "make bench     measure speed, as ratios to a floor or a peer"
	@echo "make lint      check style and types"
	@echo "make format    put the code into the style that lint checks"

venv: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "accelify needs Python 3.10 or later: make venv PYTHON=...")'
	@test -x $(BIN)/python || { echo "1/4 creating .venv with `$(PYTHON) --version`"; $(PYTHON) -m venv .venv; }
	@echo "2/4 installing `grep -c == requirements/dev.txt` pinned packages, torch among them; pip shows how far it is"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile --requirement requirements/dev.txt
	@echo "3/4 compiling them"
	@$(BIN)/python -m compileall -qq -j 0 -x $(UNCOMPILED) .venv/lib || true  # on all cores; some packages hold files of other Pythons
	@echo "4/4 installing accelify itself"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m pip check --disable-pip-version-check
	@echo "ready: .venv/bin/accelify --help"
	@touch $@

demo: venv
	@$(BIN)/python fixtures/demo.py

$(DOCS_STAMP): $(STAMP) requirements/docs.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/docs.txt
	@touch $@

docs: $(DOCS_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "built: build/site/index.html; to search it: $(BIN)/python -m http.server --directory build/site"

# Compiled once, here, and not by each of the many processes that the tests start where Python may write no bytecode.
test: venv
	@$(BIN)/python -m compileall -q -j 0 accelify tests
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

# Without torch, other processes and whole rewrites, on one core.
test-fast: venv
	@$(BIN)/python -m pytest -m "not slow" $(filter-out %/rules/ %/__pycache__/,$(wildcard tests/codemod/*/))

soak: venv
	@ACCELIFY_TEST_KILLS=200 $(BIN)/python -m pytest tests/runtime/checkpoint/test_killed.py tests/launch/test_elastic.py
	@ACCELIFY_TEST_EVERY=1 $(BIN)/python -m pytest tests/codemod/test_determinism.py
	@ACCELIFY_TEST_CELLS=20000 $(BIN)/python -m pytest tests/test_cli.py -k thousand_cells
	@$(BIN)/python -m pytest --timeout 3600 tests/test_accelerate_examples.py
	@ACCELIFY_TEST_KERNELS=1 $(BIN)/python -m pytest tests/test_notebooks.py -k accelerate
	@ACCELIFY_TEST_EXAMPLES=600 $(BIN)/python -m pytest --timeout 3600 tests/test_composed.py tests/test_random_programs.py
	@ACCELIFY_TEST_INSTRUCTION_SETS=default,avx2,avx512 $(BIN)/python -m pytest --timeout 3600 tests/test_demo.py

lint: venv
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: venv
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test-all:
	@.ci/test-all

bench: venv
	@for name in rewrite step loader two_processes edges launch; do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:
	rm -rf .venv .venv-* dist build
