PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint bench clean

demo: .venv/ready
	$(BIN)/swerve demo

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m ""

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: .venv/ready
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/messages.py
	$(BIN)/python benchmarks/arhmm.py
	$(BIN)/python benchmarks/kalman.py
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/long_recording.py

.venv/ready: pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Swerve needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,files]' -e ./lab
	touch $@

clean:
	rm -rf .venv .envs runs
