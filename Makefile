# make demo         train on the bundled Adult data, print certificates and times, draw the convergence
# make test         lint, format, types, import layers, pages and all tests: what CI runs
# make check-fast   the fast tests only
# make docs         the documentation site, in build/site
# make compat       scikit-learn's own tests of SVC and LinearSVC, on our classes
# make papers       the papers' experiments with verdicts, in docs/papers; QUICK=1: shorter, in build/papers
# make arena        maxmargin and its peers on the same problems, in docs/arena; QUICK=1: small sets, in build/arena
# make package      sdist and wheel in dist, and the tests run from both
# Each target makes .venv itself and needs only Python >= 3.11, pip, make and a C++ compiler.

PYTHON ?= python3
BIN := .venv/bin
# The build finds meson, ninja and cython by their names.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# The full path, so that an import which rebuilds a module finds cython without this Makefile.
export CYTHON := $(CURDIR)/.venv/bin/cython
SOURCES := pyproject.toml meson.build src/maxmargin/meson.build

.PHONY: demo test lint check check-docs check-fast compat docs papers arena package clean

demo: .venv/demo
	$(BIN)/python examples/adult.py

test: lint check-docs check

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/check_layers.py
	$(BIN)/python .ci/figures.py --check

check: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The tests of the modules that tests/conftest.py does not list as slow.
check-fast: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m fast tests

# scikit-learn's own tests of its support vector machines, run on our classes.
compat: .venv/dev
	cd tests/compat && $(CURDIR)/$(BIN)/python -m pytest -p swapped --pyargs sklearn.svm.tests

# Warnings are errors: a page without a link to it, a broken link, an example that fails.
SPHINX := sphinx-build -a -W --keep-going --quiet -c docs
docs: .venv/dev
	$(BIN)/$(SPHINX) -d build/doctrees . build/site
	@echo build/site/index.html

# The same without running the programs of the gallery, which the tests run.
check-docs: .venv/dev
	$(BIN)/$(SPHINX) -D plot_gallery=0 -d build/check-docs/doctrees . build/check-docs/site

papers: .venv/dev
	$(BIN)/python -m benchmarks.papers $(if $(QUICK),--quick)

arena: .venv/dev .venv-peers/failed.json
	$(BIN)/python -m benchmarks.arena $(if $(QUICK),--quick)

package: .venv/dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python .ci/test_package.py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/build: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet "meson-python>=0.17" "meson>=1.5" ninja "Cython>=3.1" scipy
	touch $@

.venv/demo: .venv/build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[demo]"
	touch $@

# A superset of .venv/demo.
.venv/dev: .venv/build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[dev]"
	touch .venv/demo $@

# Installs the peers into environments of their own; the file lists those that cannot be installed, with reasons.
.venv-peers/failed.json: benchmarks/arena/environments.py | .venv/dev
	$(BIN)/python -m benchmarks.arena.environments .venv-peers

clean:
	rm -rf .venv .venv-peers build dist
