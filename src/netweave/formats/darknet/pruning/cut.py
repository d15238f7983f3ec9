"""The text and the arrays of a net that some channels are cut out of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import UsageError
from netweave.files import Source, read_bytes
from netweave.formats.darknet.config import parse_config
from netweave.formats.darknet.pruning.channels import trace
from netweave.formats.darknet.pruning.choice import choose
from netweave.formats.darknet.reader import build
from netweave.formats.darknet.weights import encode_weights
from netweave.graph import stored_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.formats.darknet.config import Section
    from netweave.formats.darknet.pruning.channels import Channels, Convolution

OF_OUTPUTS = ("biases", "scales", "rolling_mean", "rolling_variance")


@dataclass(frozen=True, slots=True)
class PrunedNet:
    """A net with fewer channels.

    Attributes:
        config: The text of its ``.cfg``: that of the whole net with other numbers of filters.
        weights: The bytes of its ``.weights``; of no images seen, so that training begins anew.
        filters: Of each convolution by key, filters before and after.
        threshold: Scale above which channels have stayed.
    """

    config: str
    weights: bytes
    filters: Mapping[str, tuple[int, int]]
    threshold: float


def prune_channels(net: Path, weights: Path, *, keep: float, least: float) -> PrunedNet:
    """Remove the channels with the smallest scales of batch normalisation.

    Args:
        net: The ``.cfg``.
        weights: Its ``.weights``.
        keep: Largest share of the multiply-adds that is left, above 0 and at most 1.
        least: Smallest share of the channels of each layer that is left.

    Raises:
        SourceError: A file cannot be read, or they do not fit.
        UsageError: Nothing can be pruned, or not as much.
    """
    content = read_bytes(net)
    sections = parse_config(content, file=str(net))
    graph = build(sections, Source(net), weights).graph
    arrays = stored_arrays(graph)
    channels = trace(sections[1:], graph)
    scales = {one.key: arrays[f"{one.key}/scales"] for one in channels.convolutions if one.normalised}
    if not scales:
        raise UsageError(f"{net}: no layer has batch_normalize=1, so that there are no scales to prune by")
    choice = choose(channels, scales, keep=keep, least=least)
    cut = dict(arrays)
    for one in channels.convolutions:
        cut |= _cut(one, arrays, choice.kept)
    return PrunedNet(
        config=_text(content.decode("utf-8-sig"), sections, channels, choice.kept),
        weights=encode_weights([cut[key] for key in graph.parameters], seen=0),
        filters={
            one.key: (len(one.outputs), int(choice.kept[one.outputs].sum())) for one in channels.convolutions
        },
        threshold=choice.threshold,
    )


def _cut(one: Convolution, arrays: Mapping[str, np.ndarray], kept: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a convolution without the channels that do not stay."""
    outputs, inputs = np.flatnonzero(kept[one.outputs]), np.flatnonzero(kept[one.inputs])
    names = [f"{one.key}/{name}" for name in OF_OUTPUTS]
    found = {name: arrays[name][outputs] for name in names if name in arrays}
    filters = arrays[f"{one.key}/weights"][outputs]
    found[f"{one.key}/weights"] = filters if one.groups > 1 else filters[:, inputs]
    return found


def _text(text: str, sections: Sequence[Section], channels: Channels, kept: np.ndarray) -> str:
    """Return the text with other numbers of filters; all else, comments too, is as it was."""
    lines = text.splitlines()
    for one in channels.convolutions:
        section, count = sections[1 + one.index], int(kept[one.outputs].sum())
        changed = {"filters": count, **({"groups": count} if one.is_depthwise else {})}
        for name, number in changed.items():
            if number != section.integer(name, 1):
                lines[section.lines[name] - 1] = f"{name}={number}"
    return "\n".join(lines) + "\n"
