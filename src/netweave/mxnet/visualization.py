"""``mx.viz``: a net as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netweave.errors import UsageError
from netweave.files.output_files import write_file
from netweave.formats.mxnet.symbol.symbol import Symbol
from netweave.formats.mxnet.symbol.vertex import sorted_vertices
from netweave.mxnet.executor import shapes_of, sized


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> int:
    """Print the layers with the sizes of their outputs, their arrays and what they read.

    Args:
        symbol: The net.
        shape: Sizes of inputs by name; without them no sizes are printed.
        line_length: Characters of a line.
        positions: Where columns end, as shares of a line.

    Returns:
        The number of elements of all arrays.

    Raises:
        UsageError: ``symbol`` is none.
    """
    if not isinstance(symbol, Symbol):
        raise UsageError(f"print_summary: expected a symbol, found {type(symbol).__name__}")
    ends = [int(line_length * share) for share in positions]
    graph = None if shape is None else sized(symbol, shape)
    sizes = {} if graph is None else shapes_of(graph)
    outputs = _output_sizes(symbol, shape)
    learnt = set() if graph is None else set(graph.parameters)
    print("_" * line_length)  # noqa: T201 - what the function is for
    print(_row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"], ends))  # noqa: T201
    print("=" * line_length)  # noqa: T201
    total = 0
    for vertex in sorted_vertices(symbol.outputs):
        if vertex.is_variable and (vertex.name in learnt or vertex.name not in sizes):
            continue
        own = [entry.vertex.name for entry in vertex.inputs if entry.vertex.name in learnt]
        states = symbol.list_auxiliary_states()
        count = sum(_elements(sizes[name]) for name in own if name not in states)
        total += count
        before = [
            e.vertex.name for e in vertex.inputs if not e.vertex.is_variable or e.vertex.name not in own
        ]
        shown = "x".join(map(str, outputs.get(vertex.name, ())[1:]))
        name = f"{vertex.name}({vertex.op})"
        print(_row([name, shown, str(count), before[0] if before else ""], ends))  # noqa: T201
        for other in before[1:]:
            print(_row(["", "", "", other], ends))  # noqa: T201
        print("_" * line_length)  # noqa: T201
    print(f"Total params: {total}")  # noqa: T201
    print("_" * line_length)  # noqa: T201
    return total


def _output_sizes(symbol: Symbol, shape: Any) -> dict[str, tuple[Any, ...]]:
    if shape is None:
        return {}
    internals = symbol.get_internals()
    vertices = [output.vertex.name for output in internals.outputs]
    return dict(zip(vertices, internals.infer_shape(**shape)[1], strict=True))


def _row(fields: Sequence[str], ends: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, ends, strict=True):
        line = (line + field)[:end].ljust(end)
    return line


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


class Picture:
    """A net as SVG; with the methods of graphviz's ``Digraph`` that scripts call.

    Attributes:
        source: The SVG.
    """

    def __init__(self, source: str, title: str) -> None:
        self.source, self._title = source, title

    def render(self, filename: str | None = None, directory: str | None = None, **kwargs: Any) -> str:
        """Write the picture as ``FILENAME.svg``; return its path.

        Raises:
            WriteError: The file cannot be written; the old one is untouched.
        """
        path = Path(directory or ".") / f"{filename or self._title}.svg"
        write_file(path, self.source)
        return str(path)

    save = render

    def view(self, filename: str | None = None, **kwargs: Any) -> str:
        """Write the picture; no viewer is opened."""
        return self.render(filename)

    def _repr_svg_(self) -> str:
        return self.source


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Any = None,
    node_attrs: Any = None,
    hide_weights: bool = True,
) -> Picture:
    """Return a picture of a net; it is SVG whatever ``save_format`` says.

    Args:
        symbol: The net.
        title: Its name.
        save_format: As MXNet has it.
        shape: Sizes of inputs by name, for the sizes on the lines.
        dtype: As MXNet has it.
        node_attrs: As MXNet has it.
        hide_weights: As MXNet has it; arrays are never drawn.
    """
    return Picture(symbol.plot(**dict(shape or {})), title)
