# Every target installs what it needs, once, and keeps all downloads in .venv and .cache.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
KAFKA := $(CACHE)/kafka
PROGRAMS := $(CACHE)/programs
JAVA_SOURCES := $(wildcard tests/compat/java/*.java)

# Options: `make torture ROUNDS=20`, `make simulate SEEDS=5000`, `make test TESTS=tests/unit`,
# `make run SECONDS=20`, `make run NODES=3`.
ROUNDS ?= 100
SEEDS ?= 1000
FROM ?= 0
TESTS ?= tests
WORKERS ?= 2
SECONDS ?=
NODES ?=

# ---------------------------------------------------------------------------------------------- for users

.PHONY: help
help: ## show this help
	@echo "Penstock: an event streaming platform that speaks Kafka's protocol"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(VENV)/.installed ## create .venv with all dependencies and compile the kernel

.PHONY: run
run: install java ## start a broker, live orders and a Spark pipeline, until Ctrl-C (SECONDS=60, NODES=3)
	@$(BIN)/penstock demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(NODES),--nodes $(NODES))

.PHONY: test
test: install test-tools ## run all tests, with real clients and a real Apache Kafka (TESTS=tests/unit: only these)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(TESTS) $(PYTEST_OPTIONS)

.PHONY: lint
lint: install ## check style, types and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: bench
bench: install $(KAFKA)/.jars ## compare Penstock with Apache Kafka in one run, as ratios
	@$(BIN)/python -m bench $(BENCH_OPTIONS)

.PHONY: dist
dist: install ## build a source distribution and a wheel in dist/
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .
	@ls -l dist

.PHONY: torture
torture: install $(KAFKA)/classes/.compiled ## kill -9 under load, many rounds: no record lost or duplicated (ROUNDS=100, SEED=n, OF=groups, OF=cluster, OF=partitions; OF=spark MINUTES=5 QUERIES=counting)
	@.ci/need ip:iproute2
	@PYTHONPATH=src:tests $(BIN)/python -m torture --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(if $(OF),--of $(OF)) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(QUERIES),--queries $(QUERIES))

.PHONY: simulate
simulate: install ## run whole nodes and clusters on a simulated clock, network and disk (SEEDS=1000 FROM=0, or SEED=n; OF=nodes, OF=clusters)
	@$(BIN)/python -m pytest $(if $(SEED),--seed $(SEED),-n $(WORKERS) --seeds $(SEEDS) --seed $(FROM)) \
	  $(if $(filter clusters,$(OF)),,tests/simulation/test_promises.py::test_every_promise_is_kept) \
	  $(if $(filter nodes,$(OF)),,tests/simulation/test_clusters.py::test_every_promise_of_a_cluster_is_kept) $(PYTEST_OPTIONS)

.PHONY: explore
explore: install test-tools ## run property tests with new random input (ROUNDS=20: twenty times)
	@for round in $$(seq $(ROUNDS)); do \
	  HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n $(WORKERS) -m hypothesis tests/unit -q $(PYTEST_OPTIONS) || exit 1; \
	done

.PHONY: clean
clean: ## remove everything installed, downloaded or built
	rm -rf $(VENV) $(CACHE) build dist bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name '*.egg-info' -prune -exec rm -rf {} +
	find src tests -name __pycache__ -prune -exec rm -rf {} +
	rm -f src/penstock/records/*.c src/penstock/records/*.so

# ---------------------------------------------------------------------------------------- internal targets

$(VENV)/.installed: pyproject.toml setup.py $(wildcard src/penstock/records/*.pyx src/penstock/records/*.pxd)
	@echo "installing into $(VENV): PySpark, other dependencies and the compiled kernel; takes minutes the first time ..."
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || .ci/need :python3-venv
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Penstock needs Python 3.11 or later: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --editable '.[dev]' | .ci/progress
	@touch $@

# Spark needs Java. If it cannot be installed, `penstock demo` says so and runs without the pipeline.
.PHONY: java
java: install
	@$(BIN)/python -m penstock.spark.java >/dev/null 2>&1 || .ci/need :default-jre-headless || true

# For tests with real clients: kcat, a JDK, Kafka's jars and our few Java classes, kafka-python of 2019, the clients of
# Node and Go, and pyright, the type checker of many editors.
.PHONY: test-tools
test-tools: $(KAFKA)/.jars $(KAFKA)/classes/.compiled $(CACHE)/kafka-python-1.4.7/.installed \
  $(PROGRAMS)/kafkajs/.installed $(PROGRAMS)/franz-go/members $(PROGRAMS)/pyright/.installed
	@.ci/need kcat:kcat java:default-jdk-headless systemd-analyze:systemd

$(KAFKA)/.jars: tests/compat/java/pom.xml
	@.ci/need java:default-jdk-headless mvn:maven
	@echo "downloading Apache Kafka's jars ..."
	@rm -rf $(KAFKA)/libs $(KAFKA)/old $(KAFKA)/spark
	@mvn --quiet --batch-mode -Dstyle.color=never --file $< generate-resources -Dcache=$(CURDIR)/$(KAFKA)
	@touch $@

$(KAFKA)/classes/.compiled: $(JAVA_SOURCES) $(KAFKA)/.jars
	@.ci/need javac:default-jdk-headless
	@echo "compiling the Java test classes ..."
	@mkdir -p $(@D)
	@javac -nowarn -d $(@D) -cp '$(KAFKA)/libs/*' $(JAVA_SOURCES)
	@touch $@

# With its optional codecs, and `six` instead of its vendored copy, which Python 3.12 cannot import.
$(CACHE)/kafka-python-1.4.7/.installed: Makefile
	@echo "installing kafka-python 1.4.7 ..."
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check kafka-python==1.4.7 python-snappy lz4 xxhash six
	@touch $@

$(PROGRAMS)/kafkajs/.installed: $(wildcard tests/compat/programs/kafkajs/package*.json)
$(PROGRAMS)/pyright/.installed: $(wildcard tests/typing/pyright/package*.json)

$(PROGRAMS)/%/.installed:
	@.ci/need node:nodejs npm:npm
	@echo "installing $* ..."
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@cd $(@D) && npm ci --loglevel=error --no-audit --no-fund >/dev/null
	@touch $@

$(PROGRAMS)/franz-go/members: $(wildcard tests/compat/programs/franz-go/*)
	@.ci/need go:golang-go
	@echo "building the members of franz-go ..."
	@mkdir -p $(@D)
	@cd tests/compat/programs/franz-go && go build -buildvcs=false -o $(CURDIR)/$@ .
