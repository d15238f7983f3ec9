"""The graft test: feed A's real inputs of a group to B's nodes, and look at what comes out.

It separates the group that is wrong from the groups that only carry an earlier error. All groups of a
comparison are put into one graph and run at once, or into a few where they are very many.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.backends import prepare
from netweave.comparison.align.layout import candidate_layouts, solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.pieces import PieceBuilder
from netweave.comparison.result.comparison import Evidence, TensorMapping
from netweave.errors import NetweaveError, RunError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.signals import Signals


Sizes = tuple[int, ...]

MAX_TOGETHER = 1500
"""Groups in one run; what they make is held in memory together."""

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class Graft:
    """What a graft test found for one group.

    Attributes:
        error: Worst error of the group's outputs; None if it could not be run.
        feeds: A's inputs in B's layout, by B's signal.
        sizes: B's own values for what views in the group compute sizes from, by B's signal.
        sources: A's signal of each feed.
        layouts: How it became the feed.
        rewired: A's signal that A's nodes read where B's read another one, by B's signal.
        instead: Its tensor in B's layout.
        wanted: A's outputs in B's layout as far as it is known, by B's signal.
        mappings: Layout of each output, by B's signal, as far as it is known.
        reason: Why it could not be run.
    """

    error: float | None = None
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, TensorMapping] = field(default_factory=dict)
    rewired: dict[str, str] = field(default_factory=dict)
    instead: dict[str, np.ndarray] = field(default_factory=dict)
    wanted: dict[str, np.ndarray] = field(default_factory=dict)
    mappings: dict[str, TensorMapping] = field(default_factory=dict)
    reason: str = ""


class Grafter:
    """Runs graft tests.

    Args:
        alignment: The pairs of signals.
        tensors_a: Tapped tensors of A.
        tensors_b: Tapped tensors of B, for their sizes, as far as B could be run.
    """

    def __init__(
        self,
        alignment: Alignment,
        tensors_a: Mapping[str, np.ndarray],
        tensors_b: Mapping[str, np.ndarray],
    ) -> None:
        self._pairs = alignment
        self._tensors_a = tensors_a
        self._tensors_b = tensors_b

    def run(self, drafts: Sequence[Draft]) -> list[Graft]:
        """Test groups, many in one run; those in a run that fails again in two halves."""
        grafts = [self._feed(draft) for draft in drafts]
        ready = [(d, g) for d, g in zip(drafts, grafts, strict=True) if not g.reason]
        for start in range(0, len(ready), MAX_TOGETHER):
            self._run(ready[start : start + MAX_TOGETHER])
        return grafts

    def run_alone(self, nodes: Sequence[ir.Node], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Run nodes that only B has on A's values of what they read.

        Args:
            nodes: The nodes, in topological order; they read one signal.
            outputs: Signals that they make.

        Returns:
            What they read and make by B's signals; empty if A has no counterpart, or they do not run on it.
        """
        (name_b,) = _reads(self._pairs.b, nodes)
        pair = self._pairs.of_b.get(name_b)
        mapping = None if pair is None else self._layout(pair.a, name_b)
        if pair is None or mapping is None:
            return {}
        feeds = {name_b: mapping.apply(self._tensors_a[pair.a])}
        builder = PieceBuilder(self._pairs.b)
        try:
            fed = builder.add(nodes, outputs, {name_b: feeds[name_b].shape}, prefix="")
            feeds |= self._sizes([name for name in fed if name != name_b])
            return feeds | prepare(builder.finish()).run(feeds)
        except NetweaveError as error:
            _LOGGER.debug("not run alone: %s", error)
            return {}

    def _run(self, rows: Sequence[tuple[Draft, Graft]]) -> None:
        try:
            self._run_rows(rows)
        except NetweaveError as error:
            if len(rows) > 1:
                self._run(rows[: len(rows) // 2])
                self._run(rows[len(rows) // 2 :])
                return
            rows[0][1].reason = "B's layer does not run on A's inputs, whose sizes do not fit it"
            _LOGGER.debug("graft failed: %s", error)

    def _run_rows(self, rows: Sequence[tuple[Draft, Graft]]) -> None:
        builder = PieceBuilder(self._pairs.b)
        feeds: dict[str, np.ndarray] = {}
        for index, (draft, graft) in enumerate(rows):
            shapes = {name: x.shape for name, x in graft.feeds.items()}
            prefix = f"g{index}/"
            fed = builder.add(draft.nodes[1], [b for _, b in draft.outputs], shapes, prefix=prefix)
            graft.sizes = self._sizes([name for name in fed if name not in graft.feeds])
            feeds |= {prefix + name: {**graft.feeds, **graft.sizes}[name] for name in fed}
        found = prepare(builder.finish()).run(feeds)
        for index, (draft, graft) in enumerate(rows):
            self._judge(draft, graft, {b: found[f"g{index}/{b}"] for _, b in draft.outputs})

    def _sizes(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return B's own values of signals that only the sizes of views are computed from."""
        missing = [name for name in names if name not in self._tensors_b]
        if missing:
            raise RunError(f"B computes sizes from {', '.join(missing)}, which no layer of the group reads")
        return {name: self._tensors_b[name] for name in names}

    def _judge(self, draft: Draft, graft: Graft, found: Mapping[str, np.ndarray]) -> None:
        errors = []
        for name_a, name_b in draft.outputs:
            wanted, made = self._tensors_a[name_a], found[name_b]
            solved = solve_layout(
                wanted, made, tolerance=LOCAL_TOLERANCE, hints=self._pairs.hints(), turn=self._pairs.turn
            )
            mapping, error = solved or self._nearest(wanted, made)
            errors.append(error)
            graft.wanted[name_b] = wanted if mapping is None else mapping.apply(wanted)
            if mapping is not None:
                graft.mappings[name_b] = mapping
        graft.error = max(errors, default=None)

    def _nearest(self, wanted: np.ndarray, made: np.ndarray) -> tuple[TensorMapping | None, float]:
        """Return the likeliest layout of a tensor whose values differ, and the error under it."""
        mapping = self._likely(wanted.shape, made.shape)
        if mapping is None:
            return None, float("inf")
        return mapping, relative_error(mapping.apply(wanted), made)

    def _likely(self, shape_a: tuple[int, ...], shape_b: tuple[int, ...] | None) -> TensorMapping | None:
        """Return the layout that most of the net's tensors of such sizes have; sizes may differ."""
        counts = self._pairs.layouts
        hints, turn = self._pairs.hints(), self._pairs.turn
        layouts = list(candidate_layouts(shape_a, shape_b, hints, turn)) if shape_b else []
        if layouts:
            return max(layouts, key=lambda mapping: counts[mapping.axes or ()])
        if shape_b is not None and len(shape_a) != len(shape_b):
            return None
        known = [axes for axes, _ in counts.most_common() if len(axes) in {0, len(shape_a)}]
        fitting = [axes for axes in (*known, ()) if _keeps_channels(shape_a, shape_b, axes)]
        axes = next(iter((*fitting, *known)), ())
        return TensorMapping("", "", axes=axes or None)

    def _feed(self, draft: Draft) -> Graft:
        """Find A's tensors for what B's nodes read."""
        graft = Graft()
        if not draft.outputs:
            graft.reason = "no output of the group has a counterpart"
            return graft
        for name_a, name_b in self._frontier(draft, graft):
            if name_a is None:
                graft.reason = f"no counterpart of {name_b!r} is known"
                return graft
            mapping = self._layout(name_a, name_b)
            if mapping is None:
                graft.reason = f"{name_a!r} and {name_b!r} have different sizes"
                return graft
            graft.sources[name_b] = name_a
            graft.layouts[name_b] = mapping
            graft.feeds[name_b] = mapping.apply(self._tensors_a[name_a])
        for name_b, name_a in graft.rewired.items():
            mapping = self._layout(name_a, name_b)
            if mapping is not None:
                graft.instead[name_b] = mapping.apply(self._tensors_a[name_a])
        return graft

    def _layout(self, name_a: str, name_b: str) -> TensorMapping | None:
        """Return how A's tensor becomes B's: as proven, or else as most of the net's tensors do."""
        pair = self._pairs.of_b.get(name_b)
        if pair is not None and pair.a == name_a and pair.mapping is not None:
            return pair.mapping
        known = self._tensors_b.get(name_b)
        return self._likely(self._tensors_a[name_a].shape, None if known is None else known.shape)

    def _proven(self, name_a: str | None) -> bool:
        """Whether B is proven to have a signal of A."""
        pair = self._pairs.of_a.get(name_a or "")
        return pair is not None and pair.evidence is Evidence.VALUES

    def _frontier(self, draft: Draft, graft: Graft) -> list[tuple[str | None, str]]:
        """Return (signal of A, signal of B) for everything that B's nodes read from outside.

        What is proven to be another signal of A than A's nodes read is fed as what it is, and noted, if B has
        both: a layer that B lacks makes another finding.
        """
        reads = [
            _reads(signals, draft.nodes[side]) for side, signals in enumerate((self._pairs.a, self._pairs.b))
        ]
        found: dict[str, str] = {}
        free_a = list(reads[0])
        for name_b in reads[1]:
            pair = self._pairs.of_b.get(name_b)
            if pair is not None and pair.a in free_a:
                found[name_b] = pair.a
                free_a.remove(pair.a)
        free_b = [name for name in reads[1] if name not in found]
        if len(free_a) == len(free_b):
            found |= dict(zip(free_b, free_a, strict=True))
        for name_b in free_b:
            known = self._pairs.of_b.get(name_b)
            if known is not None and self._proven(known.a) and self._proven(found.get(name_b)):
                graft.rewired[name_b], found[name_b] = found[name_b], known.a
        return [(found.get(name), name) for name in reads[1]]


def _keeps_channels(shape_a: Sizes, shape_b: Sizes | None, axes: Sizes) -> bool:
    """Whether a permutation of axes can be right though the images have other sizes."""
    turned = [shape_a[axis] for axis in axes] if axes else shape_a
    return sum(x == y for x, y in zip(turned, shape_b or (), strict=False)) > 1


def _reads(signals: Signals, nodes: Sequence[ir.Node]) -> list[str]:
    inside = {name for node in nodes for name in signals.outputs_of(node)}
    read = [name for node in nodes for name in signals.inputs_of(node) if name not in inside]
    return list(dict.fromkeys(read))
