"""Measurements, each with the command that repeats it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

MAIN = '__name__ == "__main__"'


def _refuse_what_is_no_program() -> None:
    """Exit with status 2 if Python is to run a module of this package that would do nothing.

    Python imports a package before it runs a module of it with ``-m``, and meanwhile ``sys.argv`` begins with
    ``-m``. Where a benchmark is no program of its own, the message has the command that runs it.
    """
    if sys.argv[:1] != ["-m"] or "-m" not in sys.orig_argv:
        return
    name = sys.orig_argv[sys.orig_argv.index("-m") + 1]
    spec = find_spec(name) if name.startswith(f"{__name__}.") else None
    if spec is None or spec.origin is None or spec.submodule_search_locations is not None:
        return
    if MAIN in Path(spec.origin).read_text():
        return
    from benchmarks.__main__ import benchmarks

    runs = [short for short, path in benchmarks().items() if path == Path(spec.origin)]
    hint = (
        f"run it with `python -m benchmarks {runs[0]}`"
        if runs
        else "`python -m benchmarks` lists the benchmarks"
    )
    print(f"{name} is not a program: {hint}", file=sys.stderr)
    sys.exit(2)


_refuse_what_is_no_program()
