# make demo, test, bench, lint, format: each does all the set-up it needs, and little when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

BUILD_PACKAGES := scikit-build-core nanobind "numpy>=2" ninja
RUN_PACKAGES := onnx onnxruntime ml_dtypes rich
# The site and the notebooks in it.
DOCS_PACKAGES := "mkdocs<2" mkdocs-material mkdocstrings-python nbclient nbformat ipykernel
TEST_PACKAGES := mpmath onnxruntime-extensions pytest pytest-xdist playwright pyte $(DOCS_PACKAGES)
# The build of torch that needs no CUDA.
TORCH_PACKAGES := torch==2.13.0 onnxscript expecttest
SKLEARN_PACKAGES := scikit-learn skl2onnx skops pandas
PLOT_PACKAGES := matplotlib
LINT_PACKAGES := ruff mypy clang-format clang-tidy check-jsonschema

SOURCES := $(shell find include ops src python cmake -type f -not -name '*.pyc') \
	CMakeLists.txt pyproject.toml LICENSE README.md

# The C++ tests are run where they are built.
ifeq ($(wildcard build/CTestTestfile.cmake),)
$(shell rm -f $(VENV)/.installed)
endif

.PHONY: demo test test-full test-matrix test-asan test-tsan test-aarch64 fuzz bench bench-plots plots docs docs-serve \
	lint format wheel release clean
.DELETE_ON_ERROR:

demo: $(VENV)/.runs
	@$(BIN)/python examples/pyop/demo.py

test: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@echo "== C++ tests"
	@ctest --test-dir build --output-on-failure --progress -j 2
	@echo "== Python tests"
	@$(BIN)/python -m pytest -n 2 --dist loadscope --max-worker-restart 0 \
		-m "not exhaustive" $(PYTEST_OPTIONS)

# The same, with the sweeps that take long and find what the others have found before.
test-full:
	@$(MAKE) test PYTEST_OPTIONS='-m "exhaustive or not exhaustive" $(PYTEST_OPTIONS)'

test-matrix: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@$(BIN)/python tests/matrix.py

# Both in builds of their own, build/asan and build/tsan.
test-asan: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@$(BIN)/python tests/sanitize.py address $(PYTEST_OPTIONS)

test-tsan: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@$(BIN)/python tests/sanitize.py thread $(PYTEST_OPTIONS)

# Built for aarch64 in build/aarch64, run under qemu.
test-aarch64: $(VENV)/.packages $(VENV)/.cross
	@$(BIN)/python tests/aarch64.py

fuzz: $(VENV)/.clang
	@$(BIN)/python tests/fuzz.py

bench: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@for bench in bench/*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

# Measures what the README's plots show, and draws them; plots draws them again from that data.
bench-plots: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn $(VENV)/.plots
	@$(BIN)/python bench/plots/make.py --measure

plots: $(VENV)/.plots
	@$(BIN)/python bench/plots/make.py

# The command's help and the docstrings are taken from the package that is installed.
docs: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build -q
	@echo "== the site is in build/site: open build/site/index.html"

docs-serve: $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

lint: $(VENV)/.lint $(VENV)/.installed $(VENV)/.torch $(VENV)/.sklearn
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/folder_order.py
	@# actionlint knows more of workflows than their schema. It is no package of Python.
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-issue-forms \
		.github/ISSUE_TEMPLATE/[!c]*.yml
	@if command -v actionlint > /dev/null; then actionlint; fi
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cc' '*.h')
	@# Its own configuration: Clang cannot read the headers that GCC has compiled.
	@PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/lint -G Ninja -DOPGRAFT_UNITY=OFF \
		-DOPGRAFT_CUDA=OFF -DOPGRAFT_TESTS=ON -DPython_EXECUTABLE=$(abspath $(BIN))/python > build/lint.log
	$(BIN)/clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build/lint \
		$$(git ls-files 'ops/*.cc' 'src/*.cc' | grep -v _test.cc)

format: $(VENV)/.lint
	$(BIN)/ruff check --fix --exit-zero -q .
	$(BIN)/ruff format -q .
	$(BIN)/clang-format -i $$(git ls-files '*.cc' '*.h')

# In dist/. The wheel is for the Python of .venv; from 3.12 on, also for later ones.
wheel: $(VENV)/.packages
	@$(BIN)/python tests/wheels.py wheel

# The wheels of all Pythons and the source archive, checked and tried.
release: $(VENV)/.packages
	@$(BIN)/python tests/wheels.py release

clean:
	rm -rf $(VENV) build dist

# What the system must have. Its packages are installed where we may, named where we may not.
$(VENV)/.system:
	@mkdir -p $(VENV)
	@missing=""; \
	test -f /usr/include/protozero/pbf_reader.hpp || missing="$$missing libprotozero-dev"; \
	test -f /usr/include/gtest/gtest.h || missing="$$missing libgtest-dev"; \
	command -v g++ > /dev/null || missing="$$missing g++"; \
	command -v cmake > /dev/null || missing="$$missing cmake"; \
	$(PYTHON) -c "import ensurepip" 2> /dev/null || missing="$$missing python3-venv"; \
	test -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
		|| missing="$$missing python3-dev"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ]; then \
			echo "These system packages are missing. Install them, then run make again:"; \
			echo "    sudo apt-get install$$missing"; exit 1; \
		fi; \
		echo "== installing the system packages$$missing"; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive \
			apt-get -q install -y --no-install-recommends $$missing; \
	fi
	@touch $@

$(VENV)/.packages: $(VENV)/.system Makefile
	@echo "== Python environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q $(BUILD_PACKAGES) $(RUN_PACKAGES)
	@touch $@

# The tests of pages open them in Chromium, and the site's C++ reference needs Doxygen; where they are
# not there and cannot be installed, those tests skip.
$(VENV)/.test_packages: $(VENV)/.packages
	@$(BIN)/python -m pip install -q $(TEST_PACKAGES)
	@missing=""; for one in chromium doxygen; do \
		command -v $$one > /dev/null || missing="$$missing $$one"; done; \
	if [ "$$(id -u)" = 0 ] && [ -n "$$missing" ]; then \
		echo "== installing$$missing"; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive \
			apt-get -q install -y --no-install-recommends $$missing \
			|| echo "missing, so that tests of pages will be skipped:$$missing"; \
	fi
	@touch $@

INSTALL := $(BIN)/python -m pip install -q --no-build-isolation --no-deps --force-reinstall \
	--config-settings=build-dir=build

$(VENV)/.installed: $(VENV)/.test_packages $(SOURCES)
	@echo "== building and installing opgraft"
	@$(INSTALL) --config-settings=cmake.define.OPGRAFT_TESTS=ON \
		--config-settings=cmake.define.OPGRAFT_PACKS=ON .
	@touch $(VENV)/.runs $@

# What the demo runs: no packs, nothing for GPUs, no tests. `make test` goes on from there.
$(VENV)/.runs: $(VENV)/.packages $(SOURCES)
	@echo "== building and installing what the demo runs"
	@rm -f $(VENV)/.installed
	@$(INSTALL) --config-settings=cmake.define.OPGRAFT_TESTS=OFF \
		--config-settings=cmake.define.OPGRAFT_PACKS=OFF .
	@touch $@

# The fuzzer is part of Clang.
$(VENV)/.clang: $(VENV)/.packages
	@if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' | \
		$${CLANG:-clang++} -fsanitize=fuzzer,address -x c++ - -o /dev/null 2> /dev/null; then \
		if [ "$$(id -u)" != 0 ]; then \
			echo "Clang with its fuzzer is missing. Install it, then run make again:"; \
			echo "    sudo apt-get install clang"; exit 1; \
		fi; \
		echo "== installing clang"; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y clang; \
	fi
	@touch $@

# A compiler for aarch64, and qemu, which runs what it makes.
$(VENV)/.cross: $(VENV)/.packages
	@missing=""; \
	command -v aarch64-linux-gnu-g++ > /dev/null || missing="$$missing g++-aarch64-linux-gnu"; \
	command -v qemu-aarch64-static > /dev/null || command -v qemu-aarch64 > /dev/null \
		|| missing="$$missing qemu-user-static"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ]; then \
			echo "These system packages are missing. Install them, then run make again:"; \
			echo "    sudo apt-get install$$missing"; exit 1; \
		fi; \
		echo "== installing the system packages$$missing"; \
		apt-get -q update && DEBIAN_FRONTEND=noninteractive \
			apt-get -q install -y --no-install-recommends $$missing; \
	fi
	@touch $@

$(VENV)/.torch: $(VENV)/.packages
	@$(BIN)/python -m pip install -q $(TORCH_PACKAGES)
	@touch $@

$(VENV)/.sklearn: $(VENV)/.packages
	@$(BIN)/python -m pip install -q $(SKLEARN_PACKAGES)
	@touch $@

$(VENV)/.lint: $(VENV)/.packages
	@$(BIN)/python -m pip install -q $(LINT_PACKAGES)
	@touch $@

$(VENV)/.plots: $(VENV)/.packages
	@$(BIN)/python -m pip install -q $(PLOT_PACKAGES)
	@touch $@
