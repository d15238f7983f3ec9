"""The runner of all benchmarks: ``python -m benchmarks`` lists them, ``python -m benchmarks NAME`` runs one.

A benchmark is a module with ``OPTIONS`` and ``main(options, record)``: the runner reads the command line,
adds ``--json FILE``, and hands over a ``Record``, which writes the one form of results. ``NAME`` is the
module without ``benchmarks.`` and ``.run``.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import difflib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.record import Record

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent
OWN = "\nOPTIONS"
"""Text that tells a benchmark from the modules beside it."""


def benchmarks() -> dict[str, Path]:
    """Return the file of each benchmark by its name."""
    named = {}
    for path in sorted(HERE.rglob("*.py")):
        if OWN in path.read_text():
            parts = path.relative_to(HERE).with_suffix("").parts
            named[".".join(parts[:-1] if parts[-1] in {"run", "__main__"} else parts)] = path
    return named


def module_of(path: Path) -> str:
    """Return the name of a module by its file."""
    return ".".join(("benchmarks", *path.relative_to(HERE).with_suffix("").parts))


def summary(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def parser_of(name: str, module: ModuleType) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for one in module.OPTIONS:
        parser.add_argument(*one.names, **one.settings)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results, or add to them")
    return parser


def run(name: str, words: Sequence[str]) -> None:
    """Run a benchmark with the words of a command line.

    Raises:
        SystemExit: There is no benchmark of this name, or its options are wrong.
    """
    # as pip does where it installs: else each process that is measured compiles what it imports of Netweave
    compileall.compile_dir(HERE.parent / "src", quiet=2)
    known = benchmarks()
    if name not in known:
        near = difflib.get_close_matches(name, known)
        hint = f"did you mean {' or '.join(near)}?" if near else "`python -m benchmarks` lists them all"
        raise SystemExit(f"no benchmark {name!r}: {hint}")
    module = importlib.import_module(module_of(known[name]))
    options = parser_of(name, module).parse_args(words)
    module.main(options, Record.open(name, words, options.json))


def main(words: Sequence[str]) -> None:
    """Run what the command line names, or list what there is."""
    if words and words[0] not in {"-h", "--help"}:
        run(words[0], words[1:])
        return
    print("python -m benchmarks NAME [--help] [options]\n")
    known = benchmarks()
    width = max(map(len, known))
    for name, path in known.items():
        print(f"{name:{width}}  {summary(path)}")


if __name__ == "__main__":
    main(sys.argv[1:])
