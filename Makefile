# `make` alone shows what there is. Everything runs in .venv, made on first use; PYTHON=NAME says of
# which Python.
export PYTHON
# Tests and benchmarks start hundreds of processes, which need not compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
# pip is silent until it has finished, which may take minutes: $(call install,EXTRAS,WHAT).
comma := ,
define install
	@echo "installing hlo-tools$(2) into .venv ..." >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.$(1)'
	@echo "installed hlo-tools$(2) into .venv" >&2
	@touch $@
endef

.PHONY: help run test lint format operations compatibility fuzz sweep jax-tests bench gpu-check gpu-model models docs dist clean
help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(BIN)/python:
	./dev

$(BIN)/hlo-run: pyproject.toml | $(BIN)/python
	$(call install)

$(BIN)/pytest: $(BIN)/hlo-run
	$(call install,[test$(comma)dev], with what tests and lint need)

run: $(BIN)/hlo-run  ## set up, then run an example model on random inputs
	$(BIN)/hlo-run examples/resnet20.hlo --seed 1

test: $(BIN)/pytest  ## set up, then run the tests; TESTS=... says which
	$(BIN)/pytest -q -n auto $(TESTS)

lint: $(BIN)/pytest  ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(BIN)/pytest  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

operations: $(BIN)/pytest  ## write docs/operations.md and docs/factor-rules.md
	$(BIN)/python -m docs.operations > docs/operations.md.new
	mv docs/operations.md.new docs/operations.md
	$(BIN)/python -m docs.factor_rules > docs/factor-rules.md.new
	mv docs/factor-rules.md.new docs/factor-rules.md

compatibility: $(BIN)/pytest  ## ask the installed jaxlib what it takes, write docs/compatibility.md
	$(BIN)/python -m tests.sweeps.drift --record
	$(BIN)/python -m docs.compatibility > docs/compatibility.md.new
	mv docs/compatibility.md.new docs/compatibility.md

fuzz: $(BIN)/pytest  ## mutated modules: 20,000 parsed and verified, 10,000 valid ones compiled and run
	$(BIN)/python -m tests.sweeps.fuzz --count 20000
	$(BIN)/python -m tests.sweeps.fuzz_run --count 8000 --quick
	$(BIN)/python -m tests.sweeps.fuzz_run --first 8000 --count 2000
	$(BIN)/python -m tests.sweeps.fuzz_protos --count 5000
	$(BIN)/python -m tests.sweeps.fuzz_stablehlo --count 20000
	$(BIN)/python -m tests.sweeps.fuzz_bytecode --count 20000
	$(BIN)/python -m tests.sweeps.fuzz_files --count 5000
	$(BIN)/python -m tests.sweeps.edit_texts $$(find examples tests/filetests -name '*.hlo') --count 40

sweep: $(BIN)/pytest  ## random modules of all operations: optimized, compiled, interpreted, on XLA:CPU
	$(BIN)/python -m tests.sweeps.compare_generated --count 1000 --xla
	$(BIN)/python -m tests.sweeps.compare_large --count 25
	$(BIN)/python -m tests.sweeps.compare_gpu --count 100
	$(BIN)/python -m tests.sweeps.compare_gpu --count 100 --low-limits
	$(BIN)/python -m tests.sweeps.compare_reshards --count 300
	$(BIN)/python -m tests.sweeps.compare_generated --count 250 --passes default
	$(BIN)/python -m tests.sweeps.compare_generated --count 1000 --quick --low-limits
	$(BIN)/python -m tests.sweeps.compare_passes --count 1250
	JAX_PLATFORMS=hlo XLA_FLAGS=--xla_force_host_platform_device_count=2 $(BIN)/python -m tests.sweeps.jax_features
	$(BIN)/python -m tests.sweeps.divergences --count 300
	$(BIN)/python -m tests.sweeps.jax_divergences --count 150
	$(BIN)/python -m tests.sweeps.jax_divergences --count 100 --seed 1 --plant
	$(BIN)/python -m tests.sweeps.find_nan --count 100
	$(BIN)/python -m tests.sweeps.find_nan_models --count 5 examples/*.hlo
	$(BIN)/python -m tests.sweeps.compare_layouts --count 10
	$(BIN)/python -m tests.sweeps.compare_protos --count 100
	$(BIN)/python -m tests.sweeps.compare_stablehlo
	$(BIN)/python -m tests.sweeps.compare_bytecode --count 30
	$(BIN)/python -m tests.sweeps.write_bytecode --count 30
	$(BIN)/python -m tests.sweeps.compare_stablehlo_forms
	$(BIN)/python -m tests.sweeps.compare_exchanges --count 300
	$(BIN)/python -m tests.sweeps.compare_partitioned --count 100 --native 10
	$(BIN)/python -m tests.sweeps.guard_pages --count 300
	$(BIN)/python -m tests.sweeps.guard_pages --count 300 --quick --threads 4
	$(BIN)/python -m tests.sweeps.mpi_failures --count 200
	$(BIN)/python -m tests.sweeps.compare_launchers --count 100

jax-tests: $(BIN)/pytest  ## 6,000 of JAX's own tests, TREE=its checkout; OPTIONS='--platform cpu' on XLA:CPU
	$(BIN)/python -m tests.sweeps.jax_suite $(TREE) $(OPTIONS)

bench: $(BIN)/pytest  ## timings beside XLA's in the same run
	$(BIN)/python bench/run.py
	$(BIN)/python bench/passes.py
	$(BIN)/python bench/collectives.py
	$(BIN)/python bench/mpi.py

gpu-check: $(BIN)/pytest  ## check and time everything on a GPU; OPTIONS=--require-device fails without
	$(BIN)/python -m tests.gpu.check $(OPTIONS)

gpu-model: $(BIN)/pytest  ## what the timed programs take on an H100, by the model of speed
	$(BIN)/python bench/gpu_model.py

models: $(BIN)/pytest  ## instructions, traffic and peak memory of the examples, beside XLA's
	$(BIN)/python bench/models.py

$(BIN)/sphinx-build: $(BIN)/hlo-run
	$(call install,[docs], with Sphinx)

docs: $(BIN)/sphinx-build  ## build the documentation and API reference in site/; broken links fail
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto docs site

dist: $(BIN)/pytest  ## wheel and source archive in dist/, with man pages and completions
	$(BIN)/python docs/share.py share
	$(BIN)/python -m build

clean:  ## remove what the other commands made
	rm -rf .venv build dist share site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
