"""Pruning of channels, and what it does to a net: parameters, multiply-adds, mean average precision."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.arguments import check_file
from netweave.api.nets import load
from netweave.api.testing import evaluate, load_phases
from netweave.errors import UsageError
from netweave.files import Source
from netweave.files.output_files import replacing_files
from netweave.formats import find_format
from netweave.formats.darknet.pruning import prune_channels
from netweave.graph import total_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class NetFigures:
    """Cost and accuracy of a net.

    Attributes:
        parameters: Stored elements.
        multiply_adds: Of one image.
        metrics: Outputs of its test by name; empty without data.
    """

    parameters: int
    multiply_adds: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The result of pruning.

    Attributes:
        net: The ``.cfg`` that was written.
        weights: The ``.weights`` that were written.
        before: The whole net.
        after: The net with fewer channels, before any fine-tuning.
        filters: Of each convolution, filters before and after.
        threshold: Scale of batch normalisation above which channels have stayed.
    """

    net: Path
    weights: Path
    before: NetFigures
    after: NetFigures
    filters: Mapping[str, tuple[int, int]]
    threshold: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {**asdict(self), "net": str(self.net), "weights": str(self.weights)}


def prune(
    net: str | Path,
    weights: str | Path,
    out: str | Path,
    *,
    keep: float = 0.5,
    least: float = 0.1,
    data: Mapping[str, str | Path] | str | Path | None = None,
    told: Told = lambda done, of: None,
) -> PruneResult:
    """Remove the channels of a Darknet net whose scales of batch normalisation are smallest.

    One threshold holds for all layers. Layers that a shortcut adds lose the same channels. Train the net with
    an L1 penalty on the scales before (``load_job(scale_l1=...)``), and once more afterwards.

    Args:
        net: The ``.cfg``.
        weights: Its ``.weights``.
        out: The ``.cfg`` to write; its ``.weights`` are written beside it.
        keep: Largest share of the multiply-adds to keep, above 0 and at most 1.
        least: Smallest share of the channels of each layer to keep.
        data: Where images are, as for ``load_job``, to test both nets on.
        told: Called with the number of batches of a test done and the total.

    Raises:
        SourceError: A file cannot be read, or files do not fit together.
        UsageError: The net is not Darknet's, nothing can be pruned, or not as much.
        WriteError: ``out`` cannot be written.
    """
    path, out = check_file(net, what="net"), check_file(out, what="out")
    weights = check_file(weights, what="weights")
    for name, value in (("keep", keep), ("least", least)):
        if not 0 < value <= 1:
            raise UsageError(f"{name} is {value:g}, expected a number above 0 and at most 1")
    if out.suffix != ".cfg":
        raise UsageError(f"cannot write {str(out)!r}: expected a name that ends in .cfg")
    if out.resolve() == path.resolve():
        raise UsageError(f"{out}: is the net itself; give another file to write")
    if not (row := find_format(Source(path))).runs.prunes:
        raise UsageError(f"{path}: is a net of {row.title}; channels of Darknet's nets can be pruned")
    pruned = prune_channels(path, Path(weights), keep=keep, least=least)
    target = out.with_suffix(".weights")
    with replacing_files(out) as folder:
        (folder / out.name).write_text(pruned.config)
        (folder / target.name).write_bytes(pruned.weights)
    return PruneResult(
        net=out,
        weights=target,
        before=_figures(path, Path(weights), data, told),
        after=_figures(out, target, data, told),
        filters=pruned.filters,
        threshold=pruned.threshold,
    )


def _figures(
    net: Path, weights: Path, data: Mapping[str, str | Path] | str | Path | None, told: Told
) -> NetFigures:
    cost = total_cost(load(net, weights))
    metrics: dict[str, float] = {}
    if data:
        (tested, *_) = evaluate(load_phases(net, data=data), weights, told=told)
        metrics = {name: values[0] for name, values in tested.outputs.items() if len(values) == 1}
    return NetFigures(cost.parameters, cost.multiply_adds, metrics)
