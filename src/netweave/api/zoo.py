"""Zoo of nets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.api.reading import to_inference
from netweave.errors import UsageError
from netweave.files.output_files import replacing_file
from netweave.formats.mxnet.symbol import Symbol, zoo
from netweave.graph import Graph
from netweave.graph.costs import total_cost
from netweave.installation import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Published:
    """Published facts about a net.

    Attributes:
        title: Its name.
        year: When it was first published.
        build: Builds the net.
        image: Channels, height and width of an image.
        top1: Top-1 accuracy on the ImageNet validation set with one crop, in percent; None for a net
            of other images.
        source: Source of that figure, or the net's training data.
    """

    title: str
    year: int
    build: Callable[[], Symbol]
    image: tuple[int, int, int] = (3, 224, 224)
    top1: float | None = None
    source: str = ""


NETS = {
    "lenet": Published(
        "LeNet",
        1998,
        zoo.lenet,
        (1, 28, 28),
        None,
        "digits of MNIST; LeCun et al. 1998, widths of Caffe's example",
    ),
    "alexnet": Published(
        "AlexNet", 2012, zoo.alexnet, (3, 227, 227), 57.1, "BVLC, models/bvlc_alexnet/readme.md"
    ),
    "caffenet": Published(
        "CaffeNet", 2013, zoo.caffenet, (3, 227, 227), 57.4, "BVLC, models/bvlc_reference_caffenet/readme.md"
    ),
    "nin": Published(
        "Network in Network",
        2013,
        zoo.nin,
        (3, 224, 224),
        59.36,
        "Lin, gist of Caffe's Model Zoo (nin_imagenet)",
    ),
    "vgg16": Published("VGG-16", 2014, zoo.vgg, top1=71.59, source="torchvision, VGG16_Weights"),
    "googlenet": Published(
        "GoogLeNet", 2014, zoo.googlenet, top1=68.7, source="BVLC, models/bvlc_googlenet/readme.md"
    ),
    "inception-bn": Published(
        "Inception-BN", 2015, zoo.inception_bn, top1=72.7, source="Ioffe et al. 2015, figure 3, BN-Baseline"
    ),
    "inception-v3": Published(
        "Inception-v3", 2015, zoo.inception_v3, (3, 299, 299), 78.8, "Szegedy et al. 2015, table 3"
    ),
    "resnet18": Published(
        "ResNet-18", 2015, partial(zoo.resnet, 18), top1=69.57, source="facebook/fb.resnet.torch, README"
    ),
    "resnet50": Published(
        "ResNet-50",
        2015,
        partial(zoo.resnet, 50),
        top1=75.3,
        source="KaimingHe/deep-residual-networks, README",
    ),
    "resnet50-v2": Published(
        "ResNet-50 v2", 2016, partial(zoo.resnet, 50, version=2), top1=76.0, source="keras.io, applications"
    ),
    "squeezenet": Published(
        "SqueezeNet 1.0", 2016, zoo.squeezenet, top1=57.5, source="Iandola et al. 2016, table 2"
    ),
    "densenet121": Published(
        "DenseNet-121", 2016, zoo.densenet, top1=74.98, source="Huang et al. 2016, table 3"
    ),
    "mobilenet": Published(
        "MobileNet v1", 2017, zoo.mobilenet, top1=70.6, source="Howard et al. 2017, table 8"
    ),
    "mobilenet-v2": Published(
        "MobileNet v2", 2018, zoo.mobilenet_v2, top1=72.0, source="Sandler et al. 2018, table 4"
    ),
}
"""The nets by the name that ``zoo_costs`` takes; to add one, add its builder and a row."""

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that count as a layer of depth."""


@dataclass(frozen=True, slots=True)
class ZooNet:
    """One net of the zoo; costs are for one image.

    Attributes:
        name: Its name for ``zoo_costs``.
        title: Its display name.
        year: When it was first published.
        image: Channels, height and width of the image.
        depth: Number of layers with weights on the longest path.
        parameters: Number of learned parameters, without BatchNorm statistics.
        multiply_adds: Multiply-adds in convolutions and dense layers.
        activation_bytes: Size of all layer outputs, as float32.
        top1: Published top-1 accuracy on ImageNet with one crop, in percent; None for other images.
        source: Source of that figure.
    """

    name: str
    title: str
    year: int
    image: tuple[int, int, int]
    depth: int
    parameters: int
    multiply_adds: int
    activation_bytes: int
    top1: float | None
    source: str


def zoo_costs(names: Sequence[str] = ()) -> list[ZooNet]:
    """Return the cost of classic nets, computed from their graphs, with their published accuracy.

    Args:
        names: Names of some nets; all of them by default.

    Raises:
        UsageError: There is no net of that name.
    """
    unknown = [name for name in names if name not in NETS]
    if unknown:
        raise UsageError(f"no net {', '.join(map(repr, unknown))} in the zoo; it has {', '.join(NETS)}")
    return [_measured(name, NETS[name]) for name in names or NETS]


def _measured(name: str, published: Published) -> ZooNet:
    graph = to_inference(published.build().graph(data=(1, *published.image)))
    cost = total_cost(graph)
    return ZooNet(
        name=name,
        title=published.title,
        year=published.year,
        image=published.image,
        depth=_depth(graph),
        parameters=sum(parameter.size for parameter in graph.parameters.values() if parameter.trainable),
        multiply_adds=cost.multiply_adds,
        activation_bytes=cost.activation_bytes,
        top1=published.top1,
        source=published.source,
    )


def _depth(graph: Graph) -> int:
    """Return how many nodes with weights are on the longest way through a graph."""
    depths: dict[str | None, int] = {}
    for node in graph.nodes:
        before = max((depths.get(value.name, 0) for value in node.inputs if value is not None), default=0)
        here = before + (node.op_type in WEIGHTED)
        depths.update((value.name, here) for value in node.outputs)
    return max(depths.values(), default=0)


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
