"""A net as a picture: boxes in layers from the inputs downwards, as SVG.

The arrangement is Sugiyama's: a node stands below all that it reads, a long line passes the layers between
by bends, the order in a layer is that of the mean place of the neighbours, swept down and up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from netweave.formats.mxnet.symbol.registry import ROLES
from netweave.formats.mxnet.symbol.shapes import sized_graph
from netweave.formats.mxnet.symbol.vertex import Vertex, auxiliaries, sorted_vertices
from netweave.graph import known_shape

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.symbol import Symbol

WIDTH, HEIGHT, GAP_X, GAP_Y = 170, 40, 24, 34
"""Sizes of a box and of the spaces between boxes, in pixels."""

# The nets of the zoo have no crossing lines after one sweep. Random nets of 10 layers, which are harder, have
# 40 % of the crossings of the first order after one sweep, 36 % after eight, and no fewer after 32.
SWEEPS = 8
"""Times that the layers are sorted, down and up in turn."""

COLORS = {
    "null": "#8dd3c7",
    "Convolution": "#fb8072",
    "Deconvolution": "#fb8072",
    "FullyConnected": "#fb8072",
    "BatchNorm": "#bebada",
    "Activation": "#ffffb3",
    "LeakyReLU": "#ffffb3",
    "Pooling": "#80b1d3",
    "Concat": "#fdb462",
    "Flatten": "#fdb462",
    "Reshape": "#fdb462",
    "SoftmaxOutput": "#fccde5",
}
"""Fillings, after those of MXNet's own pictures; others are grey."""

Spot = tuple[int, Vertex | None]
"""A number, and the node that stands there; None where a line only passes."""


def draw(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the picture of a net; weights are left out.

    Args:
        symbol: The net.
        shapes: Sizes of inputs; if there are any, lines carry those of their values.

    Raises:
        SourceError: Sizes do not fit.
    """
    vertices = _shown(symbol)
    lines = [(entry.vertex, v) for v in vertices for entry in v.inputs if entry.vertex in set(vertices)]
    layers, chains = _layered(vertices, lines)
    _order(layers, chains)
    places = _places(layers)
    labels = _labels(symbol, shapes, vertices) if shapes else {}
    return _svg(layers, chains, places, labels)


def _shown(symbol: Symbol) -> list[Vertex]:
    """Return the nodes but for the variables that are learnt."""
    vertices = sorted_vertices(symbol.outputs)
    hidden = auxiliaries(vertices)
    for vertex in vertices:
        names = vertex.argument_names() or ()
        pairs = zip(names, vertex.inputs, strict=False)
        hidden |= {entry.vertex for name, entry in pairs if name in ROLES and entry.vertex.is_variable}
    return [vertex for vertex in vertices if vertex not in hidden]


def _layered(
    vertices: Sequence[Vertex], lines: Iterable[tuple[Vertex, Vertex]]
) -> tuple[list[list[Spot]], list[list[Spot]]]:
    """Return the spots of each layer, and each line as the spots that it passes, from top to bottom."""
    rank: dict[Vertex, int] = {}
    above: dict[Vertex, list[Vertex]] = defaultdict(list)
    for source, target in lines:
        above[target].append(source)
    for vertex in vertices:
        rank[vertex] = 1 + max((rank[source] for source in above[vertex]), default=-1)
    for source, target in reversed([(s, t) for t in vertices for s in above[t]]):
        if not above[source]:  # an input stands just above its first reader
            rank[source] = min(rank[target] - 1, rank[source] or rank[target] - 1)
    layers: list[list[Spot]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    spots: dict[Vertex, Spot] = {}
    for number, vertex in enumerate(vertices):
        spots[vertex] = (number, vertex)
        layers[rank[vertex]].append(spots[vertex])
    chains: list[list[Spot]] = []
    number = len(vertices)
    for target, sources in above.items():
        for source in sources:
            chain = [spots[source]]
            for level in range(rank[source] + 1, rank[target]):
                chain.append((number, None))
                layers[level].append(chain[-1])
                number += 1
            chains.append([*chain, spots[target]])
    return layers, chains


def _order(layers: list[list[Spot]], chains: Iterable[Sequence[Spot]]) -> None:
    """Sort each layer by the mean place of its neighbours, down and up in turn."""
    up: dict[Spot, list[Spot]] = defaultdict(list)
    down: dict[Spot, list[Spot]] = defaultdict(list)
    for chain in chains:
        for a, b in pairwise(chain):
            up[b].append(a)
            down[a].append(b)
    for sweep in range(SWEEPS):
        near, order = (up, layers) if sweep % 2 == 0 else (down, layers[::-1])
        place: dict[Spot, float] = {}
        for layer in order:
            for index, spot in enumerate(layer):
                beside = [place[other] for other in near[spot] if other in place]
                place[spot] = sum(beside) / len(beside) if beside else index - (len(layer) - 1) / 2
            layer.sort(key=lambda spot: place[spot])
            for index, spot in enumerate(layer):
                place[spot] = index - (len(layer) - 1) / 2


def _places(layers: Sequence[Sequence[Spot]]) -> dict[Spot, tuple[float, float]]:
    """Return the middle of each spot; layers are centred, a bend takes little room."""
    widths = [[WIDTH if vertex else GAP_X for _, vertex in layer] for layer in layers]
    full = max((sum(w) + GAP_X * (len(w) - 1) for w in widths), default=0)
    places: dict[Spot, tuple[float, float]] = {}
    for level, (layer, sizes) in enumerate(zip(layers, widths, strict=True)):
        x = (full - sum(sizes) - GAP_X * (len(sizes) - 1)) / 2 + GAP_X
        for spot, width in zip(layer, sizes, strict=True):
            places[spot] = (x + width / 2, GAP_Y + level * (HEIGHT + GAP_Y) + HEIGHT / 2)
            x += width + GAP_X
    return places


def _labels(
    symbol: Symbol, shapes: Mapping[str, Sequence[int]], vertices: Iterable[Vertex]
) -> dict[Vertex, str]:
    values = sized_graph(symbol, shapes).values()
    first = {vertex: values.get(vertex.output_names()[0]) for vertex in vertices}
    sizes = {vertex: known_shape(value) for vertex, value in first.items() if value is not None}
    return {vertex: "×".join(map(str, shape)) for vertex, shape in sizes.items() if shape}


def _svg(
    layers: Sequence[Sequence[Spot]],
    chains: Iterable[Sequence[Spot]],
    places: Mapping[Spot, tuple[float, float]],
    labels: Mapping[Vertex, str],
) -> str:
    width = max((x + WIDTH / 2 for x, _ in places.values()), default=0) + GAP_X
    height = GAP_Y + len(layers) * (HEIGHT + GAP_Y)
    parts = [_line([places[spot] for spot in chain]) for chain in chains]
    boxes = {vertex: places[number, vertex] for layer in layers for number, vertex in layer if vertex}
    parts += [_box(vertex, x, y, labels.get(vertex)) for vertex, (x, y) in boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11">'
        + "".join(parts)
        + "</svg>"
    )


def _line(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    y += HEIGHT / 2
    path = [f"M{x:.0f} {y:.0f}"]
    for number, (next_x, middle) in enumerate(rest):
        end = middle - HEIGHT / 2
        half = (y + end) / 2
        path.append(f"C{x:.0f} {half:.0f} {next_x:.0f} {half:.0f} {next_x:.0f} {end:.0f}")
        if number < len(rest) - 1:
            end += HEIGHT
            path.append(f"L{next_x:.0f} {end:.0f}")
        x, y = next_x, end
    return f'<path d="{" ".join(path)}" fill="none" stroke="#999"/>'


def _box(vertex: Vertex, x: float, y: float, label: str | None) -> str:
    left, top = x - WIDTH / 2, y - HEIGHT / 2
    fill = COLORS.get(vertex.op, "#d9d9d9")
    second = "" if vertex.is_variable else _cut(" ".join([vertex.op, *_settings(vertex)]))
    lines = [_cut(vertex.name), second] if second else [_cut(vertex.name)]
    first = y + 4 - 7 * (len(lines) - 1)
    text = "".join(
        f'<text x="{x:.0f}" y="{first + 14 * number:.0f}" text-anchor="middle">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    if label:
        text += f'<text x="{x + 5:.0f}" y="{top + HEIGHT + 13:.0f}" fill="#777">{label}</text>'
    title = escape(f"{vertex.name}: {vertex.op} {dict(vertex.attributes)}")
    return (
        f'<g><title>{title}</title><rect x="{left:.0f}" y="{top:.0f}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="{HEIGHT // 2 if vertex.is_variable else 4}" fill="{fill}" stroke="#777"/>{text}</g>'
    )


def _settings(vertex: Vertex) -> list[str]:
    """Return the settings that tell most: windows, strides and widths."""
    shown = ("kernel", "stride", "num_filter", "num_hidden", "act_type", "pool_type", "p", "dim", "scalar")
    texts = [vertex.attributes[key] for key in shown if key in vertex.attributes]
    return [text.strip("()").replace(", ", "×") for text in texts]


def _cut(text: str, length: int = 28) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
