# `make book` and `make test` do all the set-up; `make help` lists the rest. Any target may be interrupted and repeated.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv/bin
HTML := _build/html
REPORTS := _build/tests
COLAB := _build/colab/bin/python

NOTEBOOKS = $(wildcard notebooks/*.ipynb solutions/*/*.ipynb exercises/*/*.ipynb)
BAD_INPUT = $(wildcard tests/test_bad_input*.py)
HARDWARE := $(if $(shell command -v nvidia-smi 2>/dev/null),cuda or not cuda,not cuda)

# One thread a worker: two workers on two cores, each with two threads, would get in each other's way.
PYTEST = OMP_NUM_THREADS=1 $(VENV)/python -m pytest -q -n $(WORKERS) --dist loadfile

.PHONY: help book pdf serve test test-thorough test-colab check lab train record notebooks listings exercises slides repository clean
.PHONY: grade regrade review bench
.PHONY: environment lint sources html library-tests bad-input-tests notebook-tests

help:  ## list the targets
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'
	@echo "A Python other than python3: make TARGET PYTHON=/path/to/python3.12"

environment:
	@$(PYTHON) tools/environment.py

book: html  ## build the book's pages and print where they are
	@echo "The book is at $(CURDIR)/$(HTML)/index.html (make serve opens it)"

html: environment
	@rm -rf $(HTML) _build/.doctrees
	$(VENV)/jupyter-book build . --all -W -n --keep-going -q

pdf: html  ## print the whole book to _build/book.pdf (needs Chromium)
	$(VENV)/python -m tools.pdf

serve: environment  ## open the built book in a browser
	@test -e $(HTML)/index.html || $(MAKE) html
	@$(VENV)/python -m tools.serve $(PORT)

test: environment  ## run everything: lint, library, every notebook, the book (25 to 35 minutes on two cores)
	@rm -rf $(REPORTS)
	$(MAKE) lint
	$(MAKE) sources
	$(MAKE) html
	$(MAKE) library-tests bad-input-tests
	$(MAKE) notebook-tests
	@$(VENV)/python -m tools.totals $(REPORTS)/*.xml

check: environment lint sources  ## the version for before a commit: some minutes, without notebooks and slow tests
	$(PYTEST) -m "not slow and not cuda" tests $(BAD_INPUT:%=--ignore=%)
	$(if $(BAD_INPUT),TRANSFORMER_LIB_NO_SHAPES=1 $(PYTEST) -m "not slow and not cuda" $(BAD_INPUT))

lint: environment
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .

sources: environment
	$(VENV)/python -m tools

library-tests: environment
	TRANSFORMER_LIB_BOOK=$(HTML) $(PYTEST) -m "$(HARDWARE)" --junitxml=$(REPORTS)/library.xml tests $(BAD_INPUT:%=--ignore=%)

bad-input-tests: environment
	$(if $(BAD_INPUT),TRANSFORMER_LIB_NO_SHAPES=1 $(PYTEST) -m "$(HARDWARE)" --junitxml=$(REPORTS)/bad-input.xml $(BAD_INPUT))

notebook-tests: environment
	$(if $(NOTEBOOKS),$(PYTEST) --nbval --nbval-current-env --nbval-cell-timeout=120 --junitxml=$(REPORTS)/notebooks.xml $(NOTEBOOKS))

test-thorough: environment  ## the slow tests with all of their seeds, the contrast of every page (an hour)
	TRANSFORMER_LIB_THOROUGH=1 $(PYTEST) -m "slow and not cuda" tests $(BAD_INPUT:%=--ignore=%)

test-colab: environment  ## run every notebook with Colab's versions of Jupyter, NumPy and Matplotlib (own environment)
	@test -x $(COLAB) || $(PYTHON) -m venv _build/colab
	$(COLAB) -m pip install -q "$$(grep '^torch==' requirements.txt)" --extra-index-url https://download.pytorch.org/whl/cpu
	$(COLAB) -m pip install -q -r .github/colab-requirements.txt
	$(COLAB) -m pip install -q --no-build-isolation -e ".[translation]"
	OMP_NUM_THREADS=1 $(COLAB) -m pytest -q -n $(WORKERS) --dist loadfile --nbval --nbval-current-env --nbval-cell-timeout=120 $(NOTEBOOKS)

lab: environment  ## open the notebooks in JupyterLab
	$(VENV)/jupyter lab notebooks

train: environment  ## train the German-to-English translator (ARGS="..." is passed on)
	$(VENV)/python -m tools.train $(ARGS)

record: environment  ## make the full, recorded run of an experiment again (NAME=recall)
	$(VENV)/python -m tools.record $(NAME) --fresh

bench: environment  ## measure speed and memory beside other libraries, which go into _build/peers (ARGS="training ...")
	@test -e _build/peers/installed || { $(VENV)/python -m pip install -q --no-deps --target _build/peers \
	  -r benchmarks/requirements.txt && touch _build/peers/installed; }
	$(VENV)/python -m benchmarks $(ARGS)
	$(VENV)/python -m tools.speed --write

notebooks: environment  ## run the notebooks and write their outputs back (NAMES="02 07" for some)
	$(VENV)/python -m tools.notebooks --write $(NAMES)

listings: environment  ## copy the library's code into the notebooks' listings
	$(VENV)/python -m tools.listings --write

exercises: environment  ## cut the exercise notebooks out of the solutions
	$(VENV)/python -m tools.exercises --write

slides: environment  ## make the chapters' slides
	$(VENV)/python -m tools.slides

repository: environment  ## write the repository's address where it is needed (URL=https://github.com/NAME/REPO BRANCH=main)
	$(VENV)/python -m tools.repository --write $(if $(URL),"$(URL)" "$(or $(BRANCH),main)")

grade: environment  ## grade a folder of submissions (CHAPTER=02 SUBMISSIONS=dir ROSTER=file.csv; ARGS="..." is passed on)
	$(VENV)/python -m transformer_grader grade "$(CHAPTER)" "$(SUBMISSIONS)" "$(ROSTER)" $(ARGS)

regrade: environment  ## grade anew, and report whose marks changed and why (as make grade)
	$(VENV)/python -m transformer_grader regrade "$(CHAPTER)" "$(SUBMISSIONS)" "$(ROSTER)" $(ARGS)

review: environment  ## show open answers beside the rubric, then merge marks.csv into the tables (CHAPTER=02 ROSTER=file.csv)
	$(VENV)/python -m transformer_grader review "$(CHAPTER)" "$(ROSTER)" $(ARGS)

clean:  ## remove what was built (not .venv)
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
