# Every target sets up what it needs: Python 3.11+, Java 17+ and make are all that has to be there.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Every test starts processes: what has been compiled once is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
RELEASE := .venv-release/bin
LAYERS := model activities kinds workflows worker api examples

.PHONY: help env demo test thorough check chaos chaos-spark faults dst mutants house peers temporal airflow bench sparks tables format docs dist extras types schema lock histories clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: .venv/.ready ## Make the environment in .venv

define INSTALL_REQUIREMENTS
@$(PYTHON) scripts/check_prerequisites.py
@test -x $(BIN)/python || $(PYTHON) -m venv .venv
@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
@touch $@
endef

define INSTALL_CHECKOUT
@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --editable . 2>&1 | grep -iE '^error|failed' ; test $${PIPESTATUS[0]} -eq 0
@touch $@
endef

.venv/.requirements: requirements-test.lock
	$(INSTALL_REQUIREMENTS)

# The demo needs less than the tests; where they have run, everything is there.
.venv/.demo-requirements: requirements-demo.lock
	$(if $(wildcard .venv/.requirements),@touch $@,$(INSTALL_REQUIREMENTS))

# The checkout as it is when installed, for those that read packages from a folder: all layers below `tidemill`.
build/types/tidemill: Makefile $(wildcard tidemill/*.py*)
	@rm -rf $@ && mkdir -p $@ && ln -sfnr $(addprefix $(CURDIR)/,$(LAYERS)) $(wildcard $(CURDIR)/tidemill/*.py*) $(CURDIR)/tidemill/py.typed $@/
	@touch $@

.venv/.ready: .venv/.requirements pyproject.toml setup.py build/types/tidemill
	$(INSTALL_CHECKOUT)

.venv/.demo-ready: .venv/.demo-requirements pyproject.toml setup.py
	$(INSTALL_CHECKOUT)

# Airflow pins what the web does not: it has an environment of its own, in which tidemill is the one of .venv.
.venv-airflow/.ready: requirements-airflow.lock .venv/.ready
	@test -x .venv-airflow/bin/python || $(PYTHON) -m venv .venv-airflow
	@.venv-airflow/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	@.venv-airflow/bin/python scripts/share_environment.py .venv
	@touch $@

.venv-mutants/.ready: requirements-mutants.lock .venv/.ready
	@test -x .venv-mutants/bin/python || $(PYTHON) -m venv .venv-mutants
	@.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@.venv-mutants/bin/python scripts/share_environment.py .venv
	@touch $@

.venv-release/.ready: requirements-release.lock
	@test -x .venv-release/bin/python || $(PYTHON) -m venv .venv-release
	@.venv-release/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

demo: .venv/.demo-ready ## Catch up on a week of real flights with Spark, and look at the result
	@$(BIN)/tidemill demo $(ARGS)

# When a process of the tests crashes, pytest-xdist 3.8 waits for its files for ever if it has started another one.
WITHOUT_RESTARTS := --max-worker-restart 0

PYTEST := $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(WITHOUT_RESTARTS)

test: env .venv-airflow/.ready .venv-release/.ready ## Run the checks, and the tests of everything in its shortest form
	@$(BIN)/python scripts/check_prerequisites.py
	@$(MAKE) --no-print-directory check
	@$(PYTEST) -m "not long and not thorough" $(ARGS)

thorough: env .venv-airflow/.ready .venv-release/.ready ## Run the tests that `make test` leaves out for their time, as CI does
	@$(PYTEST) -m "thorough and not long" $(ARGS)

SCHEMA := $(BIN)/python -P -c "import json; from tidemill.model.spec.schema import dag_schema; print(json.dumps(dag_schema(), indent=1))"

check: env ## Format, lint, strict types, names and imports, and the links and blocks of the documentation
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(SCHEMA) | cmp --silent - docs/dag.schema.json || { echo "docs/dag.schema.json is not of these models: run 'make schema'"; exit 1; }
	@MYPYPATH=build/types $(BIN)/mypy --config-file= --strict --follow-imports=silent tests/typing_cases.py
	@$(SITE)
	@$(BIN)/python -m pytest -q --no-header tests/test_words.py tests/test_layers.py tests/test_skips.py > build/house.log 2>&1 || { cat build/house.log; exit 1; }
	@$(BIN)/python -m pytest -q --no-header -k "blocks or commands or links or settings_files or manifests" tests/test_docs.py > build/docs.log 2>&1 || { cat build/docs.log; exit 1; }

format: env ## Format the code, and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

build/kubelite: tests/kubelite/go.mod tests/kubelite/main.go scripts/build_kubelite.sh
	@scripts/build_kubelite.sh

build/spark-operator/.ready: tests/sparkoperator/go.mod scripts/build_spark_operator.sh
	@scripts/build_spark_operator.sh

build/yarn/.ready: tests/yarn/pom.xml scripts/fetch_yarn.sh
	@scripts/fetch_yarn.sh

clusters: env build/kubelite build/spark-operator/.ready build/yarn/.ready ## Run Spark on a real Kubernetes API and a real YARN, which are built once in minutes (needs Go, kubectl, Maven and root)
	@$(BIN)/python -m pytest -q -m spark -k "kubernetes or operator or yarn" tests/spark $(ARGS)

SPARKS := 3.5.6 4.1.4
build/sparks/.ready: Makefile
	@mkdir -p build/sparks
	@for release in $(SPARKS); do $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --target build/sparks/$$release pyspark==$$release py4j || exit 1; done
	@touch $@

sparks: env build/sparks/.ready ## Run Spark tasks on other releases of Spark, which are fetched once (800 MB)
	@$(BIN)/python -m pytest -q -m spark tests/spark/test_other_releases.py $(ARGS)

# The table formats work with Spark 4.1 only.
ICEBERG := org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
build/tables/.ready: Makefile
	@command -v mvn > /dev/null || { echo "Maven is needed: apt-get install maven" >&2; exit 1; }
	@mvn --batch-mode --quiet org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=$(ICEBERG) -DoutputDirectory=$(CURDIR)/build/tables
	@touch $@

house: env ## Print how the code grows and how far changes reach; shown, not enforced
	@$(BIN)/python -P scripts/house.py $(ARGS)

tables: env build/sparks/.ready build/tables/.ready ## Publish tables of Iceberg, which is fetched once (50 MB, with the other releases of Spark; needs Maven)
	@$(BIN)/python -m pytest -q -m "spark and long" tests/spark/test_tables.py $(ARGS)

peers: env .venv-airflow/.ready ## Run the tests that Airflow's people wrote for its web against tidemill dev (needs npm and Chromium; half an hour)
	@$(BIN)/python -P tests/peers/run_suites.py $(ARGS)

chaos: env ## Kill workers and the server at random for a long while, then check every history
	@$(BIN)/python -P tests/chaos/storm.py $(ARGS)
	@AWAY_SECONDS=120 $(BIN)/python -m pytest -q tests/workflows/test_outages.py
	@$(BIN)/python -m pytest -q -m long

chaos-spark: env ## Kill workers, drivers, executors, the Connect server and Temporal's under Spark tasks, then compare every row
	@$(BIN)/python -P tests/chaos/spark_storm.py $(ARGS)

faults: env ## Break what is no process: stores, disks, homes, folders, archives, workflows, clocks, deploys
	@$(BIN)/python -m pytest -q -m faults $(ARGS)

dst: env ## Simulate whole installations under seeds; ARGS="--minutes 5", ARGS="--seed 17 --trace"
	@$(BIN)/python -P tests/dst/main.py $(ARGS)

mutants: env .venv-mutants/.ready ## Change the engine's rules line by line, and count which changes a test notices
	@.venv-mutants/bin/python -P scripts/find_mutants.py $(ARGS)

temporal: env ## Run the engine's tests on older releases of Temporal's server
	@$(BIN)/python -P scripts/try_temporal.py $(ARGS)

airflow: .venv-airflow/.ready ## Run every example DAG file of Airflow, and compare with Airflow's own dag.test()
	@$(BIN)/python -P tests/airflow/run_examples.py $(ARGS)

bench: env ## Measure: prints a table, writes build/bench.json
	@$(BIN)/python -P benchmarks/run.py $(ARGS)

histories: env ## Record histories for the replay tests (adds, never replaces)
	@$(BIN)/python -P tests/record_histories.py $(ARGS)

docs: env ## Write what the documentation has from the code, and build the site in build/site
	@$(BIN)/python -P scripts/write_arguments.py
	@$(BIN)/python -P scripts/write_contract.py
	@$(BIN)/python -P scripts/write_reference.py
	@$(BIN)/python -P scripts/write_properties.py
	@$(BIN)/python -P scripts/write_spark_modes.py
	@$(SITE)

SITE = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: env .venv-release/.ready ## Build wheel and sdist, check them, and write the bill of materials (SBOM) of the locked packages
	@rm -rf build/dist && $(RELEASE)/python -m build --no-isolation --outdir build/dist . > build/dist.log 2>&1 || { tail -20 build/dist.log; exit 1; }
	@$(RELEASE)/twine check --strict build/dist/*
	@$(RELEASE)/cyclonedx-py requirements --output-reproducible --of JSON -o build/dist/tidemill.cdx.json requirements.lock
	@ls build/dist

extras: dist ## Install the wheel with each extra in an environment of its own
	@$(BIN)/python -P scripts/try_extras.py $(ARGS)

types: dist ## Check by pyright's verifier that all of the public face is typed
	@$(BIN)/python -P scripts/verify_types.py

schema: env ## Write docs/dag.schema.json from the models
	@$(SCHEMA) > docs/dag.schema.json

PIN = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links
COMPILE = $(PIN) pyproject.toml

# What the environment with Airflow takes from the one beside it.
SHARED_WITH_AIRFLOW = pyspark pyspark-client temporalio pandas numpy pyarrow

lock: ## Pin what pyproject.toml asks for: for workers, for the demo, for tests, for releases, for mutants
	@$(BIN)/python -m pip install --quiet uv
	@$(COMPILE) --extra spark --extra s3 --extra otel --extra openlineage --extra api --extra postgresql --group pyproject.toml:image --output-file requirements.lock
	@$(COMPILE) --extra test --constraint requirements.lock --output-file requirements-test.lock
	@$(COMPILE) --extra demo --extra api --constraint requirements-test.lock --output-file requirements-demo.lock
	@$(COMPILE) --extra test-airflow $(addprefix --no-emit-package ,$(SHARED_WITH_AIRFLOW)) --output-file requirements-airflow.lock
	@$(PIN) --group pyproject.toml:release --output-file requirements-release.lock
	@$(PIN) --group pyproject.toml:mutants --output-file requirements-mutants.lock

clean: ## Remove what was built, and the environment
	@rm -rf .venv .venv-airflow .venv-mutants .venv-release build .mypy_cache .ruff_cache .pytest_cache .hypothesis
