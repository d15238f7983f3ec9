"""From the files of a net in MXNet to its Graph."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError, UsageError, WeightError
from netweave.files.json_text import read_json
from netweave.formats.mxnet import operators
from netweave.formats.mxnet.call import Call
from netweave.formats.mxnet.deduce import deduce
from netweave.formats.mxnet.ndarray import is_arrays, read_arrays
from netweave.formats.mxnet.registry import ROLES, find_reader
from netweave.formats.mxnet.settings import Settings
from netweave.formats.mxnet.symbol import Entry, Node, Symbol, parse_symbol
from netweave.formats.mxnet.upgrade import arguments_of, upgraded
from netweave.formats.mxnet.variables import Variables
from netweave.graph import Graph, GraphBuilder, Layer, Origin, layer_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from netweave.files import Source

_SYMBOL_HEAD = re.compile(rb'^\s*\{.*"(nodes|arg_nodes|node_row_ptr|heads)"\s*:\s*\[', re.DOTALL)


def match(source: Source) -> bool:
    """Whether the file is a symbol, or a list of arrays, of MXNet."""
    head = source.head()
    return is_arrays(head) or _SYMBOL_HEAD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(source: Source) -> Graph:
    """Read a net of MXNet: ``NET-symbol.json`` and, if there is one, ``NET-%04d.params``.

    Raises:
        ReadError: A file cannot be read or is damaged.
        UnsupportedError: The net has operators or settings that Netweave does not read.
        ShapeError: Sizes do not fit, or are not known and needed.
        WeightError: The stored arrays are not those of the net.
        UsageError: The caller gave sizes for an input that the net does not have.
    """
    if is_arrays(source.head()):
        raise ReadError(
            "holds arrays and no net; name the net's file (NAME-symbol.json) first, as in "
            f"NAME-symbol.json,{source.net.name}",
            place=str(source.net),
        )
    symbol = upgraded(parse_symbol(read_json(source.net), file=str(source.net)))
    weights = source.weights or find_weights(source.net)
    arrays = _by_bare_name(read_arrays(weights), str(weights)) if weights else None
    return _Build(symbol, source, arrays, str(weights or "")).graph()


def find_weights(net: Path) -> Path | None:
    """Return the arrays that lie beside a net: those of the last epoch, or None."""
    prefix = net.name.removesuffix(".json").removesuffix("-symbol")
    name = re.compile(re.escape(prefix) + r"-(\d{4,})\.params")
    epochs = {int(m[1]): path for path in net.parent.iterdir() if (m := name.fullmatch(path.name))}
    if epochs:
        return epochs[max(epochs)]
    alone = net.with_name(f"{prefix}.params")
    return alone if alone.exists() else None


def _by_bare_name(arrays: Mapping[str, np.ndarray], file: str) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        bare = name.removeprefix("arg:").removeprefix("aux:")
        if bare in found:
            raise WeightError(f"holds {bare!r} twice, as arg: and as aux:", place=file)
        found[bare] = array
    return found


class _Build:
    """A symbol on its way to a Graph."""

    def __init__(
        self, symbol: Symbol, source: Source, arrays: Mapping[str, np.ndarray] | None, file: str
    ) -> None:
        self._symbol = symbol
        self._source = source
        self._arrays = arrays
        self._file = file
        files = [symbol.file, file] if file else [symbol.file]
        name = source.net.name.removesuffix(".json").removesuffix("-symbol")
        self._builder = GraphBuilder(name, format="mxnet", files=files)
        self._variables = Variables(
            symbol,
            arrays,
            file=file,
            input_shapes=source.input_shapes,
            deduced=deduce(symbol, arrays or {}),
            builder=self._builder,
        )
        self._outputs: dict[int, Sequence[ir.Value]] = {}
        self._calls: Counter[str] = Counter()
        self._unknown_settings: list[str] = []

    def graph(self) -> Graph:
        """Read every node and return the Graph."""
        self._check_operators()
        self._check_arrays()
        for number, node in enumerate(self._symbol.nodes):
            if not node.is_variable:
                self._outputs[number] = self._read(node)
        if self._unknown_settings:
            raise UnsupportedError(
                f"settings that Netweave does not know: {'; '.join(self._unknown_settings)}",
                place=self._symbol.file,
            )
        graph = self._builder.finish(self._heads())
        self._check_input_shapes(graph)
        return graph

    def _read(self, node: Node) -> Sequence[ir.Value]:
        reader = find_reader(node.op)
        assert reader is not None
        place = self._symbol.place(node)
        settings = Settings(node.attributes, place=place)
        key = self._builder.layers.free_key(node.name)
        layer = Layer(
            key=key,
            name=node.name,
            type=node.op,
            settings=dict(node.attributes),
            origin=Origin(self._symbol.file, node.line),
            call=self._calls[node.name],
        )
        self._calls[node.name] += 1
        with self._builder.layer(layer):
            call = Call(
                node,
                place=place,
                settings=settings,
                names=reader.arguments(settings) if reader.arguments else None,
                inputs=[self._input(entry, node) for entry in node.inputs],
                variables=self._variables,
                builder=self._builder,
            )
            made = reader.read(call)
            values = [made] if isinstance(made, ir.Value) else made
            outputs = self._named(values, reader.output_names(node.name, len(values)), key)
        self._builder.layers.add(
            replace(
                layer,
                inputs=tuple(value.name or "" for value in call.read),
                outputs=tuple(value.name or "" for value in outputs),
                parameters=tuple(dict.fromkeys(call.parameters)),
            )
        )
        self._unknown_settings += [
            f"{name}={node.attributes[name]!r:.40} of {node.name!r} ({node.op}, line {node.line})"
            for name in settings.unread()
        ]
        return outputs

    def _named(self, values: Sequence[ir.Value], names: Sequence[str], key: str) -> list[ir.Value]:
        """Give an operator's outputs their names; a value that was there before gets a name of its own."""
        named: list[ir.Value] = []
        for value, name in zip(values, names, strict=True):
            producer = value.producer()
            own = producer is not None and key in layer_keys(producer) and value not in named
            made = value if own else self._builder.add("Identity", [value])
            self._builder.rename(made, name)
            named.append(made)
        return named

    def _input(self, entry: Entry, reading: Node) -> ir.Value | Node:
        node = self._symbol.nodes[entry.node]
        if node.is_variable and not entry.output:
            return node
        outputs = self._outputs.get(entry.node, ())
        if entry.output >= len(outputs):
            raise UnsupportedError(
                f"reads output {entry.output} of {node.name!r} ({node.op}), of which Netweave makes "
                f"{len(outputs)}",
                place=self._symbol.place(reading),
            )
        return outputs[entry.output]

    def _heads(self) -> list[ir.Value]:
        heads: list[ir.Value] = []
        for entry in self._symbol.heads:
            node = self._symbol.nodes[entry.node]
            found = self._input(entry, node)
            value = self._variables.value(found) if isinstance(found, Node) else found
            if value.producer() is None or value in heads:
                value = self._builder.add("Identity", [value], outputs=f"{node.name}_output")
            heads.append(value)
        return heads

    def _check_operators(self) -> None:
        """Refuse a net with unknown operators, naming each once with its nodes."""
        unknown: dict[str, list[str]] = {}
        for node in self._symbol.nodes:
            if not node.is_variable and find_reader(node.op) is None:
                unknown.setdefault(node.op, []).append(f"{node.name!r} in line {node.line}")
        if not unknown:
            return
        shown = "; ".join(
            f"{op} ({', '.join(nodes[:3])}{f' and {len(nodes) - 3} more' if len(nodes) > 3 else ''}"
            f"{operators.reason(op)})"
            for op, nodes in unknown.items()
        )
        raise UnsupportedError(
            f"{len(unknown)} operator{'s' if len(unknown) > 1 else ''} that Netweave does not read: {shown}; "
            f"see docs/how-to/add-an-mxnet-operator.md",
            place=self._symbol.file,
        )

    def _check_arrays(self) -> None:
        """Refuse stored arrays that leave out some that layers need, naming them all."""
        if self._arrays is None:
            return
        needed: list[str] = []
        for node in self._symbol.nodes:
            names = arguments_of(self._symbol, node) or ()
            for name, entry in zip(names, node.inputs, strict=False):
                source = self._symbol.nodes[entry.node]
                if name in ROLES and source.is_variable and not self._variables.is_input(source):
                    needed.append(source.name)
        missing = [name for name in dict.fromkeys(needed) if name not in self._arrays]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise WeightError(
                f"does not hold {', '.join(map(repr, missing[:5]))}{more}, which {self._symbol.file} needs; "
                f"it holds {', '.join(map(repr, list(self._arrays)[:3]))}, ...",
                place=self._file,
            )

    def _check_input_shapes(self, graph: Graph) -> None:
        inputs = [value.name for value in graph.inputs]
        unknown = [name for name in self._source.input_shapes if name not in inputs]
        if unknown:
            raise UsageError(
                f"{self._symbol.file}: no input named {', '.join(map(repr, unknown))}; "
                f"the inputs are {', '.join(map(repr, inputs))}"
            )
