# Every task of a developer. Each target creates the environment that it needs.

.PHONY: help env demo serve frontend test test-slow test-all test-browser check docs lock clean

help:
	@echo "make serve      start the workbench, with PORT=... on this port (building its pages needs Node 20)"
	@echo "make frontend   build the pages of the viewer (needs Node 20)"
	@echo "make demo       compare two nets and fix one; train LeNet and convert the trained net"
	@echo "make test       run the tests (a few minutes)"
	@echo "make test-slow  run the tests and the slow ones (minutes), as CI does"
	@echo "make test-all   run every test, also those whose results the slow tests imply"
	@echo "make test-browser test the pages in Chromium (minutes)"
	@echo "make check      check format, lint, types and import layers"
	@echo "make docs       rewrite the generated pages and the output of the examples"
	@echo "make lock       pin what a release needs, with hashes (needs network)"
	@echo "make env        create .venv, or update it to match pyproject.toml"
	@echo "make clean      remove .venv, caches and build output"

env:
	@tools/environment

demo: env
	@.venv/bin/python -m examples.padding.demo
	@.venv/bin/python -m examples.lenet.demo

serve: frontend
	@tools/environment web hdf5
	@.venv/bin/netweave serve $(if $(PORT),--port $(PORT))

frontend:
	@tools/frontend

test:
	@tools/test $(if $(ALIKE),--except-alike=$(ALIKE))

test-slow:
	@tools/test --slow

test-all:
	@tools/test --all

test-browser: frontend
	@tools/test --browser

check: env
	@tools/check

docs: env
	@.venv/bin/python -m tools.docs

lock:
	@tools/lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
