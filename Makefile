# Everything that is done by hand. Each target makes the environment by itself; nothing else is typed first.

.PHONY: help env demo serve frontend test test-slow test-all test-browser check docs clean

help:
	@echo "make serve      the workbench: compare nets in the browser (needs Node 20 once, to build its pages)"
	@echo "make frontend   build the pages of the viewer (needs Node 20)"
	@echo "make demo       compare two nets and mend one; train LeNet and convert what it learnt"
	@echo "make test       run the tests (a few minutes)"
	@echo "make test-slow  run the slow tests as well (minutes), as CI does"
	@echo "make test-all   with those whose result the slow tests imply"
	@echo "make test-browser run the tests of the pages in chromium (minutes)"
	@echo "make check      format, lint, types, layers"
	@echo "make docs       write the generated pages anew"
	@echo "make env        make .venv, or bring it up to date with pyproject.toml"
	@echo "make clean      remove .venv and what the tools left behind"

env:
	@tools/environment

demo: env
	@.venv/bin/python -m examples.padding.demo
	@.venv/bin/python -m examples.lenet.demo

serve: frontend env
	@.venv/bin/netweave serve

frontend:
	@tools/frontend

test:
	@tools/test

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

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
