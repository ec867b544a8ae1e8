# make demo   train on the bundled Adult data, print the certificate, leave a convergence plot
# make test   lint, format, types, import layers, the pages, all tests
# make check-fast   the tests that take no time
# make docs   the documentation site, in build/site
# make papers   every experiment of the papers, with a verdict; QUICK=1 for a short run
# make arena   ours and its peers on the same problems, with pages; QUICK=1 for a short run
# They need only Python >= 3.11, pip, make and a C++ compiler: each makes .venv by itself.

PYTHON ?= python3
BIN := .venv/bin
# meson, ninja and cython are found by name when the compiled modules are built.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# By its full name, so that an import which builds again finds it without this Makefile.
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

# The tests of modules that tests/conftest.py does not list as slow.
check-fast: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m fast tests

# scikit-learn's own tests of its support vector machines, with our classes in their place.
compat: .venv/dev
	cd tests/compat && $(CURDIR)/$(BIN)/python -m pytest -p swapped --pyargs sklearn.svm.tests

# Warnings are errors: a page that nothing links to, a link that leads nowhere, an example that fails.
SPHINX := sphinx-build -a -W --keep-going --quiet -c docs
docs: .venv/dev
	$(BIN)/$(SPHINX) -d build/doctrees . build/site
	@echo build/site/index.html

# The same without the pictures of the gallery, whose programs the tests run.
check-docs: .venv/dev
	$(BIN)/$(SPHINX) -D plot_gallery=0 -d build/check-docs/doctrees . build/check-docs/site

# The experiments of the papers with verdicts, in docs/papers; QUICK=1: smaller ones, in build/papers.
papers: .venv/dev
	$(BIN)/python -m benchmarks.papers $(if $(QUICK),--quick)

# Ours and every peer that can be installed, in docs/arena; QUICK=1: small sets, in build/arena.
arena: .venv/dev .venv-peers/failed.json
	$(BIN)/python -m benchmarks.arena $(if $(QUICK),--quick)

# An sdist and a wheel in dist/, and the tests run from each of them.
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

# All that .venv/demo has, and more.
.venv/dev: .venv/build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[dev]"
	touch .venv/demo $@

# The peers, each in one of two environments; what cannot be installed is left out, and the file says why.
.venv-peers/failed.json: benchmarks/arena/environments.py | .venv/dev
	$(BIN)/python -m benchmarks.arena.environments .venv-peers

clean:
	rm -rf .venv .venv-peers build dist
