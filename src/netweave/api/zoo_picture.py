"""The classic nets as a picture: what is reached against what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.files.atomic import replacing_file
from netweave.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from netweave.api.zoo import ZooNet

AREA = 14.0
"""Points of area for a million parameters."""

GAP, WIDTH, LINE = 5, 7.0, 13
"""Points between a spot and its title, of a letter's width and of a line's height, widely."""

HEIGHTS = (6, -8, 18, -20)
"""Points above a spot at which its title may stand, the first before others."""

YEARS = "viridis"
"""Colours of the years."""


def save_zoo_picture(nets: Sequence[ZooNet], path: str | Path) -> None:
    """Draw nets by multiply-adds and published accuracy; areas are parameters, colours are years.

    Nets without a published accuracy are left out.

    Args:
        nets: The nets.
        path: The picture; the end of its name says of which kind it is (``.png``, ``.svg``, ``.pdf``).

    Raises:
        UsageError: Matplotlib is not installed, the kind is unknown, or there is nothing to draw.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib: {install_command('curves')}") from error
    file, shown = Path(path), [(net, net.top1) for net in nets if net.top1 is not None]
    if not shown:
        raise UsageError("none of these nets has a published accuracy on ImageNet to draw")
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    kinds = FigureCanvasAgg(figure).get_supported_filetypes()
    if file.suffix.removeprefix(".") not in kinds:
        known = ", ".join(sorted(f".{kind}" for kind in kinds))
        raise UsageError(f"{file}: pictures are drawn as {known}")
    axes = figure.add_subplot()
    billions = [net.multiply_adds / 1e9 for net, _ in shown]
    drawn = axes.scatter(
        billions,
        [top1 for _, top1 in shown],
        s=[AREA * net.parameters / 1e6 for net, _ in shown],
        c=[net.year for net, _ in shown],
        cmap=YEARS,
        alpha=0.7,
    )
    axes.set_xscale("log")
    axes.margins(0.14)
    axes.set_xlabel("multiply-adds for an image, billions")
    axes.set_ylabel("published top-1 on ImageNet, one crop, %")
    axes.set_title("Areas are parameters")
    axes.grid(alpha=0.3)
    figure.colorbar(drawn, label="year", format="%d")
    figure.draw_without_rendering()  # so that places in points are known
    _add_titles(axes, [(net.title, x, top1) for (net, top1), x in zip(shown, billions, strict=True)])
    with replacing_file(file) as new:
        figure.savefig(new)


def _add_titles(axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    spots = [(title, *axes.transData.transform((x, y))) for title, x, y in points]
    for (title, x, y), (side, height) in zip(points, _places(spots), strict=True):
        axes.annotate(
            title,
            (x, y),
            xytext=(GAP * side, height),
            textcoords="offset points",
            fontsize=8,
            va="center",
            ha="left" if side > 0 else "right",
        )


def _places(spots: Sequence[tuple[str, float, float]]) -> list[tuple[int, int]]:
    """Return the side of each spot and the height above it at which its title covers the fewest others."""
    taken: list[tuple[float, float, float]] = []
    places = []
    for title, x, y in spots:
        length = WIDTH * len(title)
        boxes = {
            (side, height): (x + GAP if side > 0 else x - GAP - length, y + height, length)
            for height in HEIGHTS
            for side in (1, -1)
        }
        best = min(boxes, key=lambda place: sum(_overlap(boxes[place], other) for other in taken))
        taken.append(boxes[best])
        places.append(best)
    return places


def _overlap(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    (x, y, length), (other_x, other_y, other_length) = one, other
    return abs(y - other_y) < LINE and x < other_x + other_length and other_x < x + length
