"""Models of Hugging Face and their ports, shrunk: both are constructed from the same small configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from netweave.api.reading import ReadOptions, load
from netweave.comparison import Comparison
from netweave.comparison.result.comparison import Coverage, Unexercised
from netweave.errors import SourceError, UsageError, WeightError
from netweave.files import Source
from netweave.files.persistent_child import kept_children
from netweave.files.python_code import NetName, parse_net_name
from netweave.files.sandbox import scratch_folder
from netweave.graph import Graph

LIMITS = re.compile(r"layers|depth|window|position|chunk|seq_len|n_ctx|experts|dtype|quantization")
"""Settings of which the verdict says that their full size was not exercised."""

MOST_LIMITS = 4
"""So many of them."""


@dataclass(slots=True)
class TinyNets:
    """Nets in the place of large ones.

    Attributes:
        nets: How they are named.
        options: How they are read.
        changes: Which settings were changed, in words.
        folders: The shrunk folders, by the folders that they stand for.
    """

    nets: list[Any]
    options: ReadOptions
    changes: tuple[str, ...] = ()
    folders: dict[Path, Path] = field(default_factory=dict)

    def told(self, comparison: Comparison) -> Comparison:
        """Return a comparison that says what the large nets alone would show, and names their files."""
        for net in (comparison.a, comparison.b):
            if isinstance(net, Graph):
                self._show_files(net)
        sizes = [
            re.sub(r" to \S+$", "", change) for change in self.changes if LIMITS.search(change.split(" ")[0])
        ]
        reason = ", ".join(["both were shrunk; real weights", *dict.fromkeys(sizes[:MOST_LIMITS])])
        limit = Unexercised("the full size", "", reason, is_limit=True)
        coverage = (comparison.coverage or Coverage(0)).missing(limit)
        told = replace(comparison, notes=(self._note, *comparison.notes), coverage=coverage)
        if not comparison.equal and not comparison.same_structure:
            return told
        joint = "; " if "; not exercised: " in comparison.sentence else "; not exercised: "
        return replace(told, sentence=f"{comparison.sentence}{joint}{limit}")

    def named(self, net: Graph) -> Graph:
        """Return a net under the names of the large files, with a note of the changes."""
        self._show_files(net)
        net.notes = (self._note, *net.notes)
        return net

    @property
    def _note(self) -> str:
        return f"shrunk, with drawn weights: {'; '.join(self.changes)}"

    def _show_files(self, net: Graph) -> None:
        net.files = tuple(map(self._shown, net.files))

    def _shown(self, file: str) -> str:
        """Return the name of a file with the folder that a shrunk one stands for."""
        names = ((str(small), str(_beside(folder))) for folder, small in self.folders.items())
        for small, large in names:
            if file.startswith(small):
                return large + file.removeprefix(small)
        return file


def _beside(folder: Path) -> Path:
    """Return a folder's name as it is seen from the current one, if it lies in it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


@contextmanager
def tiny_nets(nets: Sequence[Any], options: ReadOptions) -> Iterator[TinyNets]:
    """Shrink the Hugging Face model folders among some nets, and give the others the shrunk configuration.

    A port is constructed as it would be from the folder: with the configuration (``config.json``) if its
    constructor takes settings, or with the shrunk folder where its arguments name the folder. It gets the
    weights that are drawn for the folder if their names fit, or loads them itself; if neither, they are
    copied when the nets are compared.

    Args:
        nets: Names of nets, as for ``load``.
        options: How they are read.

    Raises:
        UsageError: None of them is a folder, or one has weights or settings of its own.
        SourceError: A folder cannot be shrunk, or a port does not take the shrunk configuration.
    """
    names = [_name_of(net) for net in nets]
    with scratch_folder() as scratch:
        tiny = TinyNets(list(nets), options)
        for name in names:
            if _is_folder(name) and Path(name.file).resolve() not in tiny.folders:
                _shrink(name, scratch / str(len(tiny.folders)), tiny)
        if not tiny.folders:
            raise UsageError(
                "--tiny shrinks a Hugging Face model folder (config.json), and none of the nets is one: name "
                "the folder of the original, and the port as FILE.py:CLASS"
            )
        ports = [None if _is_folder(name) else _Port.of(name, tiny.folders) for name in names]
        if not any(port.reads for port in ports if port is not None):
            tiny.options = {**options, "config": _config(options, tiny.folders), "needs_config": True}
        with _folders_read_meanwhile(tiny):
            for at, (name, port) in enumerate(zip(names, ports, strict=True)):
                if port is None:
                    tiny.nets[at] = str(tiny.folders[Path(name.file).resolve()])
                else:
                    tiny.nets[at] = port.as_read(tiny)
        yield tiny


@contextmanager
def _folders_read_meanwhile(tiny: TinyNets) -> Iterator[None]:
    """Read the shrunk folders beside what the context does, if children stay for the comparison.

    Their children import Transformers meanwhile. An error is left to the comparison, which reads them again
    with the sizes that it is given.
    """
    children = kept_children()
    if children is None:
        yield
        return
    started = [
        children.threads.submit(copy_context().run, partial(load, str(folder), **tiny.options))
        for folder in tiny.folders.values()
    ]
    try:
        yield
    finally:
        wait(started)


def _name_of(net: Any) -> NetName:
    if not isinstance(net, str | Path):
        raise UsageError("--tiny constructs nets anew: name folders and files of code, not a net in memory")
    return parse_net_name(str(net))


def _is_folder(name: NetName) -> bool:
    return not name.is_module and (Path(name.file) / "config.json").is_file()


def _shrink(name: NetName, scratch: Path, tiny: TinyNets) -> None:
    from netweave.formats.pytorch.reader import write_tiny

    source = Source(Path(name.file), entry=name.factory, trust=tiny.options.get("trust", False))
    folder = scratch / (source.net.resolve().name or "model")
    folder.mkdir(parents=True)
    changes = write_tiny(source, folder)
    tiny.changes += tuple(change for change in changes if change not in tiny.changes)
    tiny.folders[source.net.resolve()] = folder


def _moved(text: str, folders: Mapping[Path, Path]) -> str | None:
    """Return the name of a file in a folder, or of the folder, for the shrunk one; None for another name."""
    path, colon, key = text.partition(":")
    if not Path(path).exists():
        return None
    resolved = Path(path).resolve()
    for folder, small in folders.items():
        if resolved.is_relative_to(folder):
            moved = small / resolved.relative_to(folder)
            if resolved.suffix == ".safetensors":  # one of several, perhaps
                moved = small / "model.safetensors"
            return f"{moved}{colon}{key}"
    return None


def _config(options: ReadOptions, folders: Mapping[Path, Path]) -> str:
    """Return the shrunk configuration for ports that take settings."""
    config = options.get("config") or next(iter(folders)) / "config.json"
    moved = _moved(str(config), folders)
    if moved is None:
        raise UsageError(
            f"--tiny gives the port the shrunk settings of the folder, not those of {config}: leave out "
            "--config, or name the folder's config.json"
        )
    return moved


@dataclass(frozen=True, slots=True)
class _Port:
    """A port of a folder.

    Attributes:
        name: How it is given.
        net: How it is read, without weights.
        weights: The shrunk folder's weights, if it is given those of the folder.
        reads: Whether its arguments name the folder or a file in it.
        loads: Whether they name more than its configuration: it has its weights from there.
    """

    name: NetName
    net: str
    weights: str | None
    reads: bool
    loads: bool

    @classmethod
    def of(cls, name: NetName, folders: Mapping[Path, Path]) -> _Port:
        """Return a port with the shrunk folder in the place of the folder.

        Raises:
            UsageError: It has weights of its own.
        """
        weights = _moved(name.weights, folders) if name.weights is not None else None
        if name.weights is not None and weights is None:
            raise UsageError(
                f"--tiny draws the weights of both: leave out {name.weights!r}, which are of the full size"
            )
        arguments = _Moved(folders)
        call = arguments.visit(ast.parse(f"f({name.arguments})", mode="eval").body)
        factory = f":{name.factory}({ast.unparse(call)[2:-1]})" if name.factory else ""
        loads = any(not path.endswith(".json") for path in arguments.paths)
        return cls(name, f"{name.file}{factory}", weights, bool(arguments.paths), loads)

    def as_read(self, tiny: TinyNets) -> str:
        """Return how it is read, with weights if they fit its names, after it was read so.

        Raises:
            SourceError: It does not take the shrunk configuration or weights.
        """
        weights = self.weights
        if weights is None and not self.loads:
            weights = str(next(iter(tiny.folders.values())) / "model.safetensors")
        net = f"{self.net},{weights}" if weights else self.net
        try:
            load(net, **tiny.options)
        except SourceError as error:
            if isinstance(error, WeightError) and self.weights is None and "sizes: " not in error.message:
                return self.net  # its arrays have names of its own
            if not error.open_inputs:
                raise type(error)(
                    f"{error.message}; with --tiny it is given a shrunk config.json, and has to take all of "
                    "its sizes from there",
                    place=self.name.file,
                ) from error
        return net


class _Moved(ast.NodeTransformer):
    """Names the shrunk folder where the arguments of a port name the folder.

    Attributes:
        paths: The names that it has put there.
    """

    def __init__(self, folders: Mapping[Path, Path]) -> None:
        self._folders = folders
        self.paths: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Replace a text."""
        moved = _moved(node.value, self._folders) if isinstance(node.value, str) and node.value else None
        if moved is None:
            return node
        self.paths.append(moved)
        return ast.Constant(moved)
