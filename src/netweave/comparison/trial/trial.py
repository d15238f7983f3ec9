"""Both nets run on the same inputs, mapped from one to the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import Alignment, SignalPair
from netweave.comparison.align.contract import counterpart, in_order, is_moved
from netweave.comparison.align.layout import candidate_layouts, solve_layout
from netweave.comparison.align.turns import TURNS
from netweave.comparison.align.wording import describe_axes
from netweave.comparison.metric import OUTPUT_TOLERANCE, relative_error
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.result.verdict import OutputPair
from netweave.comparison.signals import Signals
from netweave.comparison.trial import probes
from netweave.passes.fitting import likely_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.comparison.result.comparison import TensorMapping
    from netweave.comparison.trial.inputs import InputRule
    from netweave.graph import Graph

OTHER_SEED = 100
"""Draws the inputs of a second run."""

Sizes = dict[str, tuple[int, ...]]
"""Sizes of A's inputs by name."""


@dataclass(slots=True)
class Trial:
    """Both nets run on one probe.

    Attributes:
        rules: How A's inputs became B's.
        alignment: Pairs of signals; the inputs, to begin with.
        tensors_a: Tapped tensors of A.
        tensors_b: Tapped tensors of B; its inputs alone if it could not be run.
        text: The probe in words.
        is_extended: Whether the alignment has grown by structure already.
    """

    rules: list[InputRule]
    alignment: Alignment
    tensors_a: Mapping[str, np.ndarray]
    tensors_b: Mapping[str, np.ndarray]
    text: str
    is_extended: bool = False

    @property
    def inputs(self) -> tuple[TensorMapping, ...]:
        """How A's inputs became B's, at these sizes and in words."""
        pairs = (self.alignment.of_a[rule.a] for rule in self.rules)
        return tuple(pair.mapping for pair in pairs if pair.mapping is not None)

    @property
    def num_proven(self) -> int:
        """How many signals of B besides its inputs are proven by values to be A's."""
        return len(self.alignment.of_a) - len(self.rules)

    def other_runs(self) -> list[Mapping[str, np.ndarray]]:
        """Return A's tensors on other inputs, if the probe has one sample, to show what depends on it."""
        inputs = [str(value.name) for value in self.alignment.a.graph.inputs]
        sizes = {name: self.tensors_a[name].shape for name in inputs}
        if any(size and size[0] > 1 for size in sizes.values()):
            return []
        probe = probes.draw(self.alignment.a.graph, sizes, seed=OTHER_SEED)
        return [probes.run_tapped(self.alignment.a.graph, probe, self.alignment.a.names)]

    def outputs(
        self, known: Mapping[str, str] | None = None, *, tolerance: float = OUTPUT_TOLERANCE
    ) -> list[OutputPair]:
        """Pair the outputs of both nets, and compare them.

        Args:
            known: B's output for an output of A, where that was found before.
            tolerance: Largest error that counts as none.
        """
        names_a = [str(value.name) for value in self.alignment.a.graph.outputs]
        names_b = [str(value.name) for value in self.alignment.b.graph.outputs]
        only_one = len(names_a) == len(names_b) == 1
        free_b = list(names_b)
        found = []
        for name_a in names_a:
            name_b = (known or {}).get(name_a) or (
                names_b[0] if only_one else counterpart(self.alignment, name_a, free_b)
            )
            if name_b is None:
                found.append(OutputPair(name_a, ""))
                continue
            free_b.remove(name_b)
            found.append(self._compare(name_a, name_b, tolerance))
        return found + [OutputPair("", name) for name in free_b]

    def _compare(self, name_a: str, name_b: str, tolerance: float) -> OutputPair:
        x, y = self.tensors_a[name_a], self.tensors_b.get(name_b)
        if y is None:
            return OutputPair(name_a, name_b)
        known = self.alignment
        solved = solve_layout(x, y, tolerance=tolerance, hints=known.hints(), turn=known.turn)
        if solved is not None:
            mapping, error = in_order(self.alignment, solved[0]), solved[1]
            error = error if mapping is solved[0] else relative_error(mapping.apply(x), y)
        else:
            counts = self.alignment.layouts
            layouts = sorted(
                candidate_layouts(x.shape, y.shape, turn=known.turn), key=lambda m: -counts[m.axes or ()]
            )
            if not layouts:
                return OutputPair(name_a, name_b, float("inf"))
            mapping, error = layouts[0], relative_error(layouts[0].apply(x), y)
        mapping = replace(mapping, a=name_a, b=name_b, text=describe_axes(mapping))
        return OutputPair(name_a, name_b, error, mapping, is_moved(self.alignment, name_a, name_b))


class Bench:
    """Runs both nets at one size; A is run once, B under each rule that is tried.

    Args:
        a: The first net; it may be left with the shapes of this size.
        b: The second net; likewise.
        sizes: Sizes of A's inputs.
        tapped: Whether every signal is wanted, and not the outputs alone.
        probe: A's inputs of these sizes; drawn if there are none.
        seed: Seed of the draw.
    """

    def __init__(
        self,
        a: Signals,
        b: Signals,
        sizes: Sizes,
        *,
        tapped: bool = True,
        probe: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
    ) -> None:
        self._b = b
        self._seed = seed
        self._sizes = sizes
        self._tapped = tapped
        self._a = _fitted(a, sizes)
        self._probe: probes.Probe | None = None
        self._given = probe
        self._tensors_a: Mapping[str, np.ndarray] = {}

    def trial(self, rules: Sequence[InputRule], *, turn: str = "", without_b: bool = False) -> Trial | None:
        """Run B under these rules; None if one of the nets does not take the size.

        Args:
            rules: How A's inputs become B's.
            turn: What that does to the images, a key of ``TURNS``.
            without_b: Leave B unrun, for a net that takes no size that A takes.
        """
        if self._a is None:
            return None
        b = self._b if without_b else self.fit(rules)
        if b is None:
            return None
        probe = self._run_a(self._a)
        tensors_b: Mapping[str, np.ndarray]
        inputs = [rule.mapping(probe.inputs[rule.a].shape) for rule in rules]
        tensors_b = {mapping.b: mapping.apply(probe.inputs[mapping.a]) for mapping in inputs}
        if not without_b:
            tensors_b = probes.run_tapped(b.graph, probes.Probe(tensors_b, ""), self._taps(b))
        alignment = Alignment(self._a, b, turn=turn)
        if TURNS[turn].swap:
            alignment.layouts[0, 1, 3, 2] += 1
        for mapping in inputs:
            alignment.pair_signals(SignalPair(mapping.a, mapping.b, Evidence.VALUES, mapping, 0.0))
        return Trial(list(rules), alignment, self._tensors_a, tensors_b, probe.text)

    def fit(self, rules: Sequence[InputRule]) -> Signals | None:
        """Return B with the shapes that it has under these rules; None if it does not take the size."""
        return _fitted(self._b, {rule.b: rule.sizes_of_b(self._sizes[rule.a]) for rule in rules})

    def _run_a(self, signals: Signals) -> probes.Probe:
        if self._probe is None:
            given = self._given
            probe = (
                probes.draw(signals.graph, self._sizes, seed=self._seed)
                if given is None
                else probes.given(given)
            )
            self._tensors_a = probes.run_tapped(signals.graph, probe, self._taps(signals))
            self._probe = probe  # last: a run that failed leaves none
        return self._probe

    def _taps(self, signals: Signals) -> list[str]:
        return signals.names if self._tapped else []


def _fitted(signals: Signals, sizes: Sizes) -> Signals | None:
    graph = probes.with_sizes(signals.graph, sizes)
    if graph is None:
        return None
    return signals if graph is signals.graph else Signals.of(graph)


def declared_sizes(a: Graph, b: Graph, rules: Sequence[InputRule]) -> Sizes:
    """Return input sizes of A: as A declares them, else as B does, else what fits.

    A batch that one net leaves open is that of the other; one that both leave open is ``NUM_SAMPLES``.
    """
    sizes_a, sizes_b = probes.base_sizes(a), probes.base_sizes(b)
    pairs = [(rule.a, sizes_a[rule.a], rule.sizes_of_a(sizes_b[rule.b])) for rule in rules]
    batch = _batch([(own[0], other[0]) for _, own, other in pairs if own and other])
    found = {}
    for name, own, other in pairs:
        if len(own) != len(other):
            other = (None,) * len(own)
        both = [x if x is not None else y for x, y in zip(own, other, strict=True)]
        both[:1] = [batch if x is None else x for x in both[:1]]
        size = likely_size(a) or likely_size(b) or probes.OPEN_SIZE if None in both else 0
        found[name] = tuple(size if x is None else x for x in both)
    return found


def _batch(firsts: Sequence[tuple[int | None, int | None]]) -> int:
    """Return the batch of both nets from the first sizes of their inputs, None where it is open."""
    for own, other in firsts:
        if (own is None) != (other is None):
            return own or other or 1
    return probes.NUM_SAMPLES if all(first == (None, None) for first in firsts) else 1


def oblong(sizes: Sizes) -> Sizes:
    """Return sizes whose images are neither square nor even, so that rules show that depend on it."""
    return {
        name: (*size[:2], size[2] + 5, size[3] + 12) if len(size) == 4 else size
        for name, size in sizes.items()
    }
