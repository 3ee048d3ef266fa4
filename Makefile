# make run, make check, make test; and lesson, edit, install, bench, image, clean; for maintainers what CONTRIBUTING.md lists.
# Variables: PORT, HOST, PYTHON, TORCH_INDEX, VENV (where to install), CHROMIUM (the browser of the tests).
PORT ?= 7860
# Not from the environment, where some shells put the machine's name.
HOST = 127.0.0.1
# Where CPU builds of torch come from; empty: from where everything else does.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# The first one that runs and is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)

NEW_ENOUGH = import sys; sys.exit(sys.version_info < (3, 11))
VENV ?= .venv
VENV_PYTHON = $(VENV)/bin/python
CONSTRAINTS = -c constraints.txt
PIP = -m pip install -qq --disable-pip-version-check
# Without a screen there is no browser to open, and a text one would take the terminal.
HEADLESS = $(if $(filter-out Linux,$(shell uname -s))$(DISPLAY)$(WAYLAND_DISPLAY)$(BROWSER),,--headless)

# A worker per core, each with a server and a browser of its own; what one has left at the end, another takes over.
# Byte code is kept whatever the shell says: without it each worker compiles all tests anew.
WORKERS = -n logical --maxprocesses 4 --dist worksteal
PYTEST = PYTHONDONTWRITEBYTECODE= $(VENV_PYTHON) -m pytest $(WORKERS)

.PHONY: run edit lesson install check test tests static bench parity parity-trainer parity-ray jupyter documents faults engines \
	fuzz image wheel static-space fresh lowest resolves metamorphic mutants check-cpu clean

run: $(VENV)/.installed-page
	@exec $(VENV_PYTHON) serve.py --host '$(HOST)' --port '$(PORT)'

# The page, and the whole idea in eight cells, as notebooks.
edit: NOTEBOOK = app.py
lesson: NOTEBOOK = examples/lesson.py
edit lesson: $(VENV)/.installed-page
	@exec $(VENV_PYTHON) -m marimo -y edit --skip-update-check $(NOTEBOOK) --host '$(HOST)' --port '$(PORT)' --no-sandbox $(HEADLESS)

install: $(VENV)/.installed-page
	@echo "$(VENV) is ready"

# What is slow is left out, of a test with many cases one runs, which the commit chooses, and
# properties are tried on few examples.
check: static
	$(PYTEST) -m "not slow" --one-case --hypothesis-profile=dev

# At night with OPTIONS=--hypothesis-profile=night, which tries properties on more examples, and tests marked as night.
# What reads the code only runs beside the tests, which are waited for in any case.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 static tests

tests: $(VENV)/.installed-dev
	@$(VENV_PYTHON) -c 'import sys; from benchmarks.browser import find_chromium; sys.exit(not find_chromium())' || \
		echo "No chromium here: the tests in a browser are skipped. On Debian: apt-get install chromium"
	$(PYTEST) $(OPTIONS)

static: $(VENV)/.installed-dev
	$(VENV_PYTHON) -m ruff check
	$(VENV_PYTHON) -m ruff format --check
	$(VENV_PYTHON) -m mypy
	$(VENV_PYTHON) -m marimo check --strict app.py examples/lesson.py examples/audit.py examples/board.py

bench: $(VENV)/.installed-bench
	$(VENV_PYTHON) -m benchmarks

# Our correctness and types against BFCL's own checker, our advantages against the training frameworks' code. Only
# their code is needed; the frameworks' lies apart, since it brings modules named tests and scripts. With Python 3.12 or
# newer it is axolotl 0.21, which asks for that, and with 3.11 axolotl 0.19: versions do not count as a difference.
parity: $(VENV)/.installed-parity .parity/.installed
	$(VENV_PYTHON) $(PIP) --no-deps $(CONSTRAINTS) bfcl-eval
	$(VENV_PYTHON) -m pytest tests/parity_bfcl.py tests/parity_check.py -s
	$(VENV_PYTHON) -m tests.parity
	$(VENV_PYTHON) -m scripts.make_matrix
	git diff --exit-code --unified=0 -I'"made"' -I'"how"' data/matrix.json  # each line is what a trainer does otherwise now

.parity/.installed: $(VENV)/.installed-parity constraints.txt
	@rm -rf .parity
	$(VENV_PYTHON) $(PIP) --no-deps $(CONSTRAINTS) --target .parity trl verl ms_swift axolotl
	@touch $@

# An environment beside $(VENV), named as its target: what is in $(VENV), and the checkout. The checkout by itself, since
# Python follows no .pth file of a folder that came by one, and $(VENV) has it by such a file.
PACKAGES = import sysconfig; print(sysconfig.get_path("purelib"))
define beside
@test -x .$@/bin/python || $(VENV_PYTHON) -m venv .$@
@{ $(VENV_PYTHON) -c '$(PACKAGES)'; pwd; } > "$$(.$@/bin/python -c '$(PACKAGES)')/venv.pth"
endef

# The callback and the experiments inside TRL's own trainer, which needs transformers and more: two minutes at first.
parity-trainer: $(VENV)/.installed-parity
	$(beside)
	.$@/bin/python $(PIP) $(CONSTRAINTS) trl
	.$@/bin/python -m pytest tests/parity_callback.py tests/parity_experiments.py tests/parity_refusals.py \
		tests/parity_tutorial.py -s

parity-ray: $(VENV)/.installed-parity
	$(beside)
	.$@/bin/python $(PIP) $(CONSTRAINTS) ray
	.$@/bin/python -m pytest tests/parity_ray.py

# The board in JupyterLab and Jupyter Notebook, which find the browser's half of a widget in their own environment alone.
jupyter: $(VENV)/.installed-dev
	$(beside)
	.$@/bin/python $(PIP) jupyterlab notebook
	.$@/bin/python $(PIP) --ignore-installed --no-deps anywidget ipywidgets jupyterlab_widgets widgetsnbextension
	.$@/bin/python -m pytest -p no:xdist tests/jupyter_board.py

# Every command that README.md, docs/ and experiments/ name, in a new clone of what is committed; some minutes.
documents: $(VENV)/.installed-dev
	$(VENV_PYTHON) -m pytest -p no:xdist -v tests/documents.py

# What goes wrong around a server and a command, each tried for real; some minutes. It needs chromium.
faults: $(VENV)/.installed-dev
	$(VENV_PYTHON) -m pytest -p no:xdist -v $(wildcard tests/faults_*.py)

# The page in Firefox and in WebKit. On Debian: apt-get install firefox-esr webkit2gtk-driver xvfb. PICTURES=FOLDER keeps
# a picture of each chapter in each.
engines: $(VENV)/.installed-dev
	$(VENV_PYTHON) -m pytest -p no:xdist -v tests/engines.py

# Each door that a stranger's bytes come in by, for so many seconds.
SECONDS = 120
fuzz: $(VENV)/.installed-dev
	$(VENV_PYTHON) $(PIP) atheris
	$(VENV_PYTHON) -m tests.fuzz --seconds '$(SECONDS)'

# Faults put at random into logs, recipe and findings, others for each commit: how many do the tests of `make check` catch?
FAULTS = 60
mutants: $(VENV)/.installed-dev
	$(VENV_PYTHON) -m scripts.mutants --faults '$(FAULTS)' --seed "$$(git rev-parse HEAD)" \
		--jobs "$$(nproc 2>/dev/null || echo 2)"

# Builds the container and looks at it as a cautious host runs it; BUILD: further options of the build. podman leaves the
# HEALTHCHECK out of any other format.
ENGINE ?= $(shell for e in docker podman; do $$e info >/dev/null 2>&1 && echo $$e && break; done)
image:
	@test -n '$(ENGINE)' || \
		{ echo "make image needs a running docker or podman; neither answers here" >&2; exit 1; }
	$(ENGINE) build $(if $(findstring podman,$(ENGINE)),--format docker) $(BUILD) \
		--build-arg TORCH_INDEX='$(TORCH_INDEX)' -t reward-policy-intuition .
	@$(or $(wildcard $(VENV_PYTHON)),'$(PYTHON)') scripts/check_image.py '$(ENGINE)' reward-policy-intuition

# The wheel and the source archive for an index, in dist/, and the wheel in an empty environment; two minutes at first.
# Where it is published only who calls knows: REPOSITORY=https://github.com/OWNER/NAME.
wheel:
	@test -n '$(REPOSITORY)' || { echo "make wheel needs REPOSITORY=, the address of the repository" >&2; exit 1; }
	rm -rf dist
	'$(PYTHON)' -m venv --clear .wheel
	.wheel/bin/python $(PIP) $(CONSTRAINTS) setuptools
	.wheel/bin/python -m scripts.make_wheel --repository '$(REPOSITORY)'
	TORCH_INDEX='$(TORCH_INDEX)' .wheel/bin/python scripts/check_wheel.py dist/*.whl

# docs/space-static/, a Space of files alone; SPACE=OWNER/NAME links it to that of the page.
static-space: $(VENV)/.installed-page
	$(VENV_PYTHON) -m scripts.make_space --space '$(SPACE)'

# The newest version of every dependency against `make check`, in an environment of its own.
fresh:
	@rm -rf .fresh
	@$(MAKE) check VENV=.fresh CONSTRAINTS=

# Transformed logs, alone, in all pairs, and in one of PARTS parts of all threes, another one each day.
PARTS = 4
metamorphic: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(VENV_PYTHON) -m tests.metamorphic --pairs --threes \
		--part "$$(($$(date +%s) / 86400 % $(PARTS)))/$(PARTS)" --jobs "$$(nproc 2>/dev/null || echo 2)"

# The other end: the library's tests with the lowest version of what the library asks for, and of the frames it takes.
lowest:
	'$(PYTHON)' -m venv --clear .lowest
	.lowest/bin/python $(PIP) uv
	.lowest/bin/python -m uv pip install -q $(if $(TORCH_INDEX),--torch-backend cpu) --resolution lowest-direct \
		-e '.[audit]' 'pandas>=2.2' 'pyarrow>=19'
	.lowest/bin/python -m uv pip install -q pytest pytest-xdist hypothesis jsonschema
	.lowest/bin/python -m pytest $(WORKERS) tests gdpo_core gdpo_audit -m "not slow" --hypothesis-profile=dev

# Whether the library can be installed beside each trainer, and with which versions; half a minute.
TRAINERS = axolotl==0.21.0 verl[vllm]==0.9.1 verl[fsdp]==0.9.1 ms-swift==4.6.0 trl==1.16.0
resolves: $(VENV)/.installed-page
	$(VENV_PYTHON) $(PIP) uv
	@failed=; for trainer in $(TRAINERS); do echo "$$trainer:"; \
		found=$$(printf '%s\n' "$$trainer" '.[audit]' | $(VENV_PYTHON) -m uv pip compile -q --no-header --no-annotate \
			--python-version 3.12 -) || failed="$$failed $$trainer"; \
		echo "$$found" | grep -E '^(torch|numpy|polars|typer)=='; \
	done; test -z "$$failed" || { echo "not beside$$failed" >&2; exit 1; }

# The fast tests as other processors would round, and in other locales, homes and time zones; all run, whatever fails.
SETTINGS = MKL_CBWR=COMPATIBLE MKL_CBWR=AVX2 MKL_CBWR=AUTO ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 \
	OMP_NUM_THREADS=1 OMP_NUM_THREADS=2 LC_ALL=C LC_ALL=tr_TR.UTF-8 HOME=/proc/nowhere TZ=Nowhere/Never
check-cpu: $(VENV)/.installed-dev
	@failed=; for setting in $(SETTINGS); do echo "$$setting"; \
		env $$setting $(PYTEST) -m 'not slow' --hypothesis-profile=dev || failed="$$failed $$setting"; \
	done; test -z "$$failed" || { echo "not green under$$failed" >&2; exit 1; }

clean:
	rm -rf .fuzz .venv .fresh .lowest .wheel .parity .parity-trainer .parity-ray .jupyter build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

# One stamp for the page and one for each further extra; pip does nothing for what is there already. torch comes from
# TORCH_INDEX, where that answers, since Linux's plain wheel brings gigabytes of CUDA. It comes alone, and right before
# what it needs: whatever pip installs in between, it would say at length what torch lacks.
$(addprefix $(VENV)/.installed-,page dev bench parity): $(VENV)/.installed-%: pyproject.toml constraints.txt
	@'$(PYTHON)' -c '$(NEW_ENOUGH)' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed; name it with PYTHON=/path/to/python3" >&2; exit 1; }
	@$(VENV_PYTHON) -m pip --version >/dev/null 2>&1 || '$(PYTHON)' -m venv --clear $(VENV)
	@echo "Installing into $(VENV); the first time, this takes a minute or two"
	@failed() { echo "The install failed; pip says why above (no network?). The same command tries again." >&2; exit 1; }; \
	$(VENV_PYTHON) $(PIP) $(CONSTRAINTS) setuptools || failed; \
	test -z '$(TORCH_INDEX)' || $(VENV_PYTHON) $(PIP) $(CONSTRAINTS) --no-deps --retries 0 --timeout 8 \
		--index-url '$(TORCH_INDEX)' torch || echo "TORCH_INDEX $(TORCH_INDEX) gave no torch: going on without it"; \
	$(VENV_PYTHON) $(PIP) $(CONSTRAINTS) --no-build-isolation -e '.[page,$*]' || failed
	@touch $@
