"""The walk of one command through the source: which functions it enters, in which order, and how deep.

::

    python -m benchmarks walk compare a.prototxt b-symbol.json
    python -m benchmarks walk --within netweave.training.trainer.Trainer.step train solver.prototxt
    python -m benchmarks walk --functions compare a.prototxt b-symbol.json

runs ``netweave compare ...`` in this process, watches every call with ``sys.setprofile`` and prints five
numbers, all of them about Netweave's own source (calls into numpy, ONNX Runtime or rich are passed through):

- files: source files of which a function is entered;
- functions: different functions entered;
- depth: the most functions of Netweave that are open at once;
- up: calls that go from a layer to one above it, in the order of layers that ``pyproject.toml`` enforces. A
  closure that the command line hands down is such a call: whoever reads the code goes down, up and down;
- back: pairs of functions of which one calls the other from another file though the callee's file is open
  already, further up: the same way back, inside a layer.

With ``--within`` only what happens inside that function counts, such as one training step. Threads count
only if they are started after the watch begins.
"""

from __future__ import annotations

import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.record import Namespace, Record, option

if TYPE_CHECKING:
    from types import CodeType, FrameType


ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Netweave's source.

    Attributes:
        module: Its module, ``netweave.api.reading``.
        name: Its qualified name in the module; that of a closure holds ``<locals>``.
    """

    module: str
    name: str

    @property
    def layer(self) -> str:
        """The package below ``netweave`` that it stands in; a module of ``netweave`` itself is its own."""
        return [*self.module.split("."), ""][1]

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True)
class Walk:
    """What was entered while a call was watched.

    Attributes:
        functions: How often each function was entered, in the order of first entry.
        edges: How often one function called another, whatever lay between them outside of Netweave.
        depth: The most functions that were open at once.
        levels: How many were open at the first entry of each function.
        back: Calls into a file from another one that was itself entered from it.
    """

    functions: Counter[Function] = field(default_factory=Counter)
    edges: Counter[tuple[Function, Function]] = field(default_factory=Counter)
    depth: int = 0
    levels: dict[Function, int] = field(default_factory=dict)
    back: Counter[tuple[Function, Function]] = field(default_factory=Counter)

    def up(self, layers: Sequence[str]) -> Counter[tuple[Function, Function]]:
        """Return the calls that go from a layer to one above it.

        Args:
            layers: The layers, the uppermost first.
        """
        rank = {room: index for index, layer in enumerate(layers) for room in layer.split(" | ")}
        return Counter(
            {
                (caller, callee): count
                for (caller, callee), count in self.edges.items()
                if rank.get(callee.layer, len(rank)) < rank.get(caller.layer, len(rank))
            }
        )

    def to_json(self, layers: Sequence[str]) -> dict[str, int]:
        """Return the five numbers."""
        return {
            "files": len({function.module for function in self.functions}),
            "functions": len(self.functions),
            "depth": self.depth,
            "up": self.up(layers).total(),
            "back": len(self.back),
        }


class Watch:
    """Notes the functions of one package that are entered, through ``sys.setprofile``.

    Args:
        source: Folder of the package's source.
        within: Qualified name of the function inside which to watch; empty to watch from the start.
    """

    def __init__(self, source: Path, *, within: str = "") -> None:
        self.walk = Walk()
        self._root = f"{source.resolve()}/"
        self._package = source.name
        self._within = within
        self._known: dict[CodeType, Function | None] = {}
        self._open = threading.local()

    def run(self, call: Callable[[], Any]) -> Any:
        """Run a call under watch and return what it returns."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # None ends it, as for sys

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in {"call", "return"}:
            return
        function = self._function(frame.f_code)
        if function is None:
            return
        stack: list[Function] = self._open.__dict__.setdefault("stack", [])
        if event == "return":
            if stack and stack[-1] == function:
                stack.pop()
            return
        if stack or not self._within or str(function) == self._within:
            self._enter(function, stack)

    def _enter(self, function: Function, stack: list[Function]) -> None:
        walk = self.walk
        if stack:
            walk.edges[stack[-1], function] += 1
            if stack[-1].module != function.module and any(f.module == function.module for f in stack):
                walk.back[stack[-1], function] += 1
        stack.append(function)
        walk.functions[function] += 1
        walk.levels.setdefault(function, len(stack))
        walk.depth = max(walk.depth, len(stack))

    def _function(self, code: CodeType) -> Function | None:
        if code not in self._known:
            file = code.co_filename
            inside = file.startswith(self._root) and not code.co_name.startswith("<")
            module = file.removeprefix(self._root).removesuffix(".py").replace("/", ".")
            module = f"{self._package}.{module}".removesuffix(".__init__")
            # comprehensions, lambdas and the bodies of modules and classes are part of what holds them
            self._known[code] = Function(module, code.co_qualname) if inside else None
        return self._known[code]


def layers_of(pyproject: Path) -> list[str]:
    """Return the layers of the source, the uppermost first, from the contract that enforces them."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    return [layer.strip("()") for layer in layers]


OPTIONS = (
    option("--within", default="", metavar="FUNCTION", help="watch only inside this function"),
    option("--functions", default=False, help="list the functions in order of first entry"),
    option("command", nargs="...", help="arguments of netweave"),
)


def main(options: Namespace, record: Record) -> None:
    """Watch one command of ``netweave``."""
    import netweave
    from netweave import cli

    source = Path(netweave.__file__).parent
    watch = Watch(source, within=options.within)
    try:
        watch.run(lambda: cli.main(options.command))
    except SystemExit as ended:
        if ended.code not in {0, 1, 3, 4}:  # the verdicts of a comparison
            raise
    layers = layers_of(source.parents[1] / "pyproject.toml")
    numbers = watch.walk.to_json(layers)
    if options.functions:
        for function, count in watch.walk.functions.items():
            print(f"{'  ' * watch.walk.levels[function]}{function}  {count}")
    print(", ".join(f"{name} {value}" for name, value in numbers.items()))
    for (caller, callee), count in watch.walk.up(layers).most_common():
        print(f"up: {caller} -> {callee}  {count}")
    for (caller, callee), count in watch.walk.back.most_common():
        print(f"back: {caller} -> {callee}  {count}")
    record.save(numbers)
