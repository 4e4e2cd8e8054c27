# The verbs of this project. Hands, hooks and CI all use these.

# Both report usage to their makers unless switched off.
export DAGSTER_DISABLE_TELEMETRY := yes
export GX_ANALYTICS_ENABLED := false
# Where this is set, as many images of Python set it, every program compiles all of its modules anew: `strandline rules list`
# took 1.6 s instead of 0.7 s, and loading Dagster's definitions 3.0 s instead of 1.5 s. Empty means unset.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup guests demo ready test whole prove check fmt bench mutants wheel docs clean

help: ## show these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Several Pythons may be called python3 on one machine; the first that is new enough is taken.
setup: ## make .venv with packages, Java and jars (nothing to do: at once)
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    PYTHONPATH=infra exec "$$python" -m strandline_infra.setup; \
	  fi; \
	done; \
	echo "Strandline needs Python 3.11 or newer, and none was found." >&2; \
	echo >&2; \
	echo "hint: install one (Debian: apt install python3 python3-venv), then type the same again." >&2; \
	exit 1

demo: setup ## send 100,000 events, a tenth of them dirty, through the lake and account for each
	@$(BIN)/strandline demo

# A real browser reads the report (tests/e2e/test_report_page.py) and works with Dagster (tests/e2e/test_ui.py), and
# a real PostgreSQL keeps Dagster's history (tests/e2e/test_postgres.py). A machine of its own, such as CI's, gets both;
# where one may not install, those tests are skipped, with the reason. Prometheus scrapes the page of metrics
# (tests/infra/test_monitoring.py): its package is unpacked and not installed, because it would start a service.
guests:
	@wanted=; \
	command -v chromium >/dev/null || wanted="chromium"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || wanted="$$wanted postgresql"; \
	if [ -n "$$wanted" ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$wanted; } \
	    >/dev/null 2>&1 || echo "could not be installed: $$wanted; the tests that need it are skipped" >&2; \
	fi
	@if ! command -v promtool >/dev/null && [ ! -d .cache/prometheus ] && command -v apt-get >/dev/null; then \
	  mkdir -p .cache/deb && { cd .cache/deb && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } \
	    && dpkg -x prometheus_*.deb ../prometheus; } \
	    >/dev/null 2>&1 || echo "could not be fetched: prometheus; the tests that need it are skipped" >&2; \
	fi

# Lint and types have one core, the packages of guests wait for the network.
ready: setup
	@$(MAKE) --no-print-directory --jobs 2 check guests

# Workers have a Spark of their own; the tests of one file stay together and share their broker. There are three on two cores:
# with two, a quarter of both was idle; with four, they are in each other's way. Unless it may not
# reorder, xdist begins with the files that have many tests, which are the short ones. A worker that crashes is not replaced:
# beside the new one the others waited for ever, and what had failed was never printed [xdist 3.8].
WORKERS := -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test: ready ## lint, types, the direction of imports, and the suite: twenty minutes
	@$(BIN)/python -m pytest $(WORKERS)

# What the suite leaves out has the mark `whole`: what it runs is run by others as well (tests/README.md).
whole: ready ## the same with every test: an hour
	@$(BIN)/python -m pytest --whole $(WORKERS)

# Two hundred kills and two hundred logs take hours; the suite takes one of each (tests/support/proofs.py). A tenth of
# them: `.venv/bin/python -m pytest --prove 0.1`, with files or `-k` for a part; the report keeps what it has about others.
prove: setup ## run the long proofs and keep what they show in tests/proofs.md
	@$(BIN)/python -m pytest --prove

check: setup ## lint, types and the direction of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --cache-dir .cache/import-linter

fmt: setup ## format the code and repair what the linter can
	@$(BIN)/ruff check --fix --exit-zero --quiet
	@$(BIN)/ruff format

bench: setup ## measure against hand-written jobs and write the report
	@$(BIN)/python -m tests.benchmarks

mutants: setup ## plant faults in a copy, one at a time; each must turn a test red (ONLY="word word" chooses)
	@$(BIN)/python -m tests.mutants $(ONLY)

wheel: setup ## build the wheel that others install, in dist (infra/docs/package.md)
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

docs: setup ## build the pages as a site that opens without a network, in dist/docs
	@$(BIN)/python -m tests.docs.site dist/docs

clean: ## stop the broker; remove .venv, .lake, dist and every cache
	@if [ -x $(BIN)/strandline ]; then $(BIN)/strandline down || true; fi
	@rm -rf .venv .lake .cache .hypothesis dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
