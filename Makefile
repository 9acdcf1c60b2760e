PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PYTHONS ?= python3.10 python3.11 python3.12 python3.13 python3.14
TORCH_FREE_TESTS := tests/codemod tests/report tests/test_architecture.py tests/test_cli.py tests/test_workers.py

.PHONY: help venv test test-all lint format clean

help:
	@echo "make venv      set up .venv: accelify, its extras and the test tools, all pinned"
	@echo "make test      run the tests"
	@echo "make test-all  run the codemod's tests on every Python from 3.10 that is installed"
	@echo "make lint      check style and types"
	@echo "make format    put the code into the style that lint checks"

venv: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "accelify needs Python 3.10 or later: make venv PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m pip check --disable-pip-version-check
	@touch $@

test: venv
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: venv
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: venv
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test-all: $(PYTHONS:%=test-with-%)

# A Python that is not installed, or only as a name that does not start, is passed over and said so.
test-with-%:
	@if $* -c '' 2>/dev/null; then $(MAKE) --no-print-directory run-with-$*; else echo "$*: not installed"; fi

run-with-%:
	@echo "$*: $$($* --version)"
	@test -x .venv-$*/bin/python || $* -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements/dev.txt \
		hatchling editables pytest pytest-timeout hypothesis jsonschema psutil pyflakes types-PyYAML
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements/dev.txt \
		--no-build-isolation --editable .
	@.venv-$*/bin/python -m pytest $(TORCH_FREE_TESTS) $(PYTEST_ARGS)

clean:
	rm -rf .venv .venv-* dist build
