"""The server: tools over the public API in the folders that the user allows, and long texts as resources."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from netweave import api
from netweave.agents.answers import comparison_answer, fix_answer, layer_answer, net_answer
from netweave.api.dumps import PREFIX
from netweave.errors import NetweaveError, UsageError
from netweave.files.python_code import literal_arguments, parse_net_name
from netweave.graph import graph_to_json
from netweave.installation import need
from netweave.viewer import comparison_document, document_markdown

INSTRUCTIONS = """\
Netweave compares two implementations of a neural net, in any frameworks, and says whether they compute
the same, which layer of the port is the first wrong one, why, and what to change.
A is the original, B the port. A net is FILE or FILE,WEIGHTS; for code FILE.py:CLASS(ARGUMENTS).
Compare after each change, and say that a port is done only if compare says so."""

MAX_KEPT = 32
"""Long texts and comparisons that are kept; the oldest goes."""

Shapes = dict[str, list[int]]

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Session:
    """State that the tools share: allowed folders, comparisons made so far, texts to be read as resources.

    One tool runs at a time: comparisons take all cores.
    """

    folders: AllowedFolders
    texts: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _compared: OrderedDict[Any, tuple[api.Comparison, str, Stamp]] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _count: int = 0

    def compare(self, a: str, b: str, input_shapes: Shapes | None = None, strict: bool = False) -> str:
        """Compare net A (the original) with net B (the port): verdict, first wrong layer, cause, tested fix.

        Args:
            a: The original: FILE or FILE,WEIGHTS, or FILE.py:CLASS(ARGUMENTS),WEIGHTS.
            b: The port, likewise.
            input_shapes: Sizes of inputs by name, if the files do not give them: {"x": [1, 3, 224, 224]}.
            strict: Accept only nets that differ in nothing, not even without effect.
        """
        comparison, page = self._comparison(a, b, input_shapes, strict=strict)
        return comparison_answer(comparison, page=page)

    def explain(self, a: str, b: str, layer: str, input_shapes: Shapes | None = None) -> str:
        """Explain one layer of a comparison: its settings in both nets, its error alone, cause and fix.

        Args:
            a: The original, as for compare.
            b: The port.
            layer: Name of a layer of either net, as compare or inspect spell it.
            input_shapes: As for compare.
        """
        comparison, page = self._comparison(a, b, input_shapes, again=False)
        return layer_answer(comparison, layer, page=page)

    def fix(self, a: str, b: str, output: str = "", input_shapes: Shapes | None = None) -> str:
        """Return the fixes of net B as a patch; with an output, write the mended file and compare again.

        Args:
            a: The original, as for compare.
            b: The port, a file of source code or text; it is not changed.
            output: A new file for the mended port.
            input_shapes: As for compare.
        """
        target = self.folders.new_file(output) if output else None
        comparison, _ = self._comparison(a, b, input_shapes, again=False)
        fixed = None
        if target is not None:
            fixed = api.fix_port(a, b, comparison, target, input_shapes=input_shapes)
        mended = api.mend(comparison) if fixed is None else fixed.mended
        return fix_answer(mended, fixed, page=self._keep("patch", mended.diff))

    def inspect(self, net: str, input_shapes: Shapes | None = None) -> str:
        """List the layers of a net: inputs, outputs, each layer's type, place in the source and sizes.

        Args:
            net: The net, as for compare.
            input_shapes: As for compare.
        """
        graph = api.load_for_inspection(self.folders.net(net), input_shapes=input_shapes)
        page = self._keep("net", json.dumps(graph_to_json(graph), indent=1, default=str))
        return net_answer(graph, page=page)

    def convert(self, net: str, output: str, to: str = "", input_shapes: Shapes | None = None) -> str:
        """Write a net in another format, read it back and compare: a right port to start from.

        Args:
            net: The net, as for compare.
            output: A new file: .onnx, .prototxt, -symbol.json, or .py for PyTorch source.
            to: keras for .py files with Keras source.
            input_shapes: As for compare.
        """
        target = self.folders.new_file(output)
        graph = api.load(self.folders.net(net), input_shapes=input_shapes)
        comparison = api.convert_and_verify(graph, target, to=to or None)
        return comparison_answer(comparison, page=self._keep_comparison(comparison))

    def _comparison(
        self, a: str, b: str, input_shapes: Shapes | None, *, strict: bool = False, again: bool = True
    ) -> tuple[api.Comparison, str]:
        """Compare two nets; a comparison that was made of the same files is taken unless it is to be new."""
        names = self.folders.net(a), self.folders.net(b)
        key = (*names, json.dumps(input_shapes, sort_keys=True), strict)
        known = self._compared.get(key)
        if known is not None and not again and known[2] == _stamp(known[0]):
            return known[:2]
        comparison = api.compare(*names, strict=strict, input_shapes=input_shapes)
        page = self._keep_comparison(comparison)
        self._compared[key] = comparison, page, _stamp(comparison)
        while len(self._compared) > MAX_KEPT:
            self._compared.popitem(last=False)
        return comparison, page

    def _keep_comparison(self, comparison: api.Comparison) -> str:
        return self._keep("comparison", document_markdown(comparison_document(comparison)))

    def _keep(self, kind: str, text: str) -> str:
        """Keep a text that is read as a resource, and return its URI."""
        self._count += 1
        uri = f"netweave://{kind}/{self._count}"
        self.texts[uri] = text
        while len(self.texts) > MAX_KEPT:
            self.texts.popitem(last=False)
        return uri

    def alone(self, tool: Callable[..., str], failure: type[Exception]) -> Callable[..., str]:
        """Return a tool that runs while no other does, and raises an SDK's error instead of ours."""

        @wraps(tool)
        def run(*args: Any, **kwargs: Any) -> str:
            with self._lock:
                try:
                    return tool(*args, **kwargs)
                except NetweaveError as error:
                    raise failure(" ".join(str(error).split())) from error

        return run

    def text(self, uri: str) -> str:
        """Return a text that is kept.

        Raises:
            KeyError: It is not, or no longer.
        """
        return self.texts[uri]


def _stamp(comparison: api.Comparison) -> Stamp:
    """Return what changes when a file of the two nets does."""
    paths = [Path(file) for net in (comparison.a, comparison.b) for file in net.files]
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths if path.exists())


def make_server(folders: AllowedFolders, *, version: str) -> Any:
    """Return a server of the SDK with the tools, which is not running yet.

    Raises:
        UsageError: The SDK is not installed.
    """
    sdk = need("mcp.server", "tools for agents", extra="mcp")
    errors = need("mcp.server.mcpserver.exceptions", "tools for agents", extra="mcp")
    server = sdk.MCPServer("netweave", version=version, instructions=INSTRUCTIONS)
    session = Session(folders)
    for tool in (session.compare, session.explain, session.fix, session.inspect, session.convert):
        server.add_tool(session.alone(tool, errors.ToolError), structured_output=False)

    @server.resource("netweave://{kind}/{number}", mime_type="text/plain")  # type: ignore[untyped-decorator]  # the SDK is not followed
    def read(kind: str, number: str) -> str:
        """Read a long text that a tool named."""
        try:
            return session.text(f"netweave://{kind}/{number}")
        except KeyError:
            raise errors.ResourceNotFoundError(f"netweave://{kind}/{number} is not kept any longer") from None

    return server


def serve(*, version: str, allow: Iterable[str | Path] = (), port: int | None = None) -> None:
    """Serve the tools until the client leaves.

    Args:
        version: Version of Netweave, which clients are told.
        allow: Folders that the tools may use; by default the working directory.
        port: Port of the loopback interface for streamable HTTP, instead of standard input and output.

    Raises:
        UsageError: The SDK is not installed, or a folder is none.
    """
    server = make_server(AllowedFolders.of(allow), version=version)
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """Folders, resolved, with everything below them."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[str | Path]) -> AllowedFolders:
        """Return folders by their names; the working directory if there are none.

        Raises:
            UsageError: One is no folder.
        """
        named = [Path(folder) for folder in folders] or [Path()]
        for folder in named:
            if not folder.is_dir():
                raise UsageError(
                    f"{folder}: is no folder; --allow takes folders whose files the tools may use"
                )
        return cls(tuple(folder.resolve() for folder in named))

    def net(self, name: str) -> str:
        """Return the name of a net, all of whose files lie in these folders.

        Raises:
            UsageError: A file lies elsewhere, or the name is that of a module, which may lie anywhere.
        """
        parsed = parse_net_name(name.removeprefix(PREFIX))
        if parsed.is_module:
            raise UsageError(
                f"{name}: name the file of the module (net.py:Net), so that it is clear which is read"
            )
        files = [parsed.file, *(parsed.weights or "").split(",")]
        for file in filter(None, files):
            self.file(file)
        arguments, named = literal_arguments(parsed.arguments) if parsed.arguments else ((), {})
        for text in _strings((arguments, named)):
            if Path(text).is_absolute() or ".." in Path(text).parts or Path(text).exists():
                self.file(text)
        return name

    def file(self, name: str) -> Path:
        """Return a file in these folders, wherever links lead.

        Raises:
            UsageError: It lies elsewhere.
        """
        path = Path(name).resolve()
        if not any(path.is_relative_to(folder) for folder in self.folders):
            allowed = ", ".join(map(str, self.folders))
            raise UsageError(f"{name}: lies outside the allowed folders ({allowed}); see --allow")
        return path

    def new_file(self, name: str) -> Path:
        """Return a file to write in these folders; neither it nor what is written beside it exists.

        Raises:
            UsageError: It lies elsewhere, or would replace something.
        """
        path = self.file(name)
        stem = path.stem
        beside = sorted(path.parent.glob(f"{_escaped(stem)}[.-]*")) if path.parent.is_dir() else []
        if path.exists() or beside:
            taken = path if path.exists() else beside[0]
            raise UsageError(f"{name}: {taken.name} exists, and tools replace nothing; give another name")
        return path


def _escaped(stem: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in stem)


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in literals."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings([*value.keys(), *value.values()])
    elif isinstance(value, tuple | list | set):
        for item in value:
            yield from _strings(item)
