"""Gradients of two nets: where one is missing, cut, or a multiple of the other's, and what cuts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netweave.comparison.result.comparison import Finding
from netweave.comparison.training_step.pairing import WeightPair, copies
from netweave.comparison.training_step.record import Arrays, Cut, TrainingRecord
from netweave.graph.summary import list_names, ratio_text

TOLERANCES = {True: 1e-7, False: 2e-3}
"""Largest difference that counts as rounding, relative to the rms; by whether both are in double
precision."""

NEGLIGIBLE = 1e-3
"""Share of the tolerance, relative to the largest gradient of the net, that no difference counts below: the
bias before a norm has a gradient that is all rounding."""

SAME_FACTOR = 1e-4
"""Factors that differ by less than this are one."""

ROUNDING = {"round", "floor", "ceil", "sign", "trunc", "argmax", "bucketize", "heaviside"}
"""Functions whose gradient is zero, and that nets give the gradient of the identity."""


@dataclass(slots=True)
class Ratio:
    """A gradient of B beside A's.

    Attributes:
        pair: Whose it is.
        error: Largest difference relative to the rms of A's; infinite where only one of them is there.
        factor: What B's is of A's, if it is one number: 0 where it is not there.
    """

    pair: WeightPair
    error: float
    factor: float | None


@dataclass(frozen=True, slots=True)
class GradientPairs:
    """Gradients of two nets for one loss, weight by weight.

    Attributes:
        a: Those of A.
        b: Those of B.
        pairs: Weights that belong together.
        tolerance: Largest difference that counts as rounding.
    """

    a: Arrays
    b: Arrays
    pairs: Sequence[WeightPair]
    tolerance: float

    @property
    def floor(self) -> float:
        """The size below which a gradient is rounding."""
        largest = max((_largest(x) for x in (*self.a.values(), *self.b.values())), default=0.0)
        return self.tolerance * NEGLIGIBLE * largest

    def of_a(self, pair: WeightPair) -> np.ndarray | None:
        """Return a gradient of A in B's layout."""
        return pair.change.apply(self.a[pair.a]).astype(np.float64) if pair.a in self.a else None

    def is_negligible(self, pair: WeightPair) -> bool:
        """Return whether neither net has a gradient of a weight but for rounding."""
        both = (self.a.get(pair.a), self.b.get(pair.b))
        return all(x is None or _largest(x) <= self.floor for x in both)

    def differing(self) -> list[Ratio]:
        """Return the gradients that differ by more than rounding."""
        floor, found = self.floor, []
        for pair in self.pairs:
            x, y = self.of_a(pair), self.b.get(pair.b)
            is_none = [each is None or _largest(each) <= floor for each in (x, y)]
            if all(is_none):
                continue
            if any(is_none):
                found.append(Ratio(pair, float("inf"), 0.0 if is_none[1] else None))
                continue
            assert x is not None
            assert y is not None
            if float(np.abs(x - y).max()) > max(self.tolerance * _rms(x), floor):
                found.append(_ratio(pair, x, y.astype(np.float64)))
        return found

    def common_factor(self, differing: Sequence[Ratio]) -> float | None:
        """Return what B's gradients are of A's, if all differ, and by one factor."""
        compared = [pair for pair in self.pairs if not self.is_negligible(pair)]
        factor = one_factor(differing)
        return factor if factor and len(differing) == len(compared) else None


def one_factor(ratios: Sequence[Ratio]) -> float | None:
    """Return the factor that all have; None if there is no such one."""
    factors = [ratio.factor for ratio in ratios]
    first = factors[0] if factors else None
    if first is None:
        return None
    same = all(f is not None and abs(f - first) <= SAME_FACTOR * abs(first) for f in factors)
    return first if same else None


class GradientCheck:
    """The gradients of the first update.

    Args:
        a: The record of A.
        b: The record of B.
        pairs: Weights that belong together, in A's order.

    Attributes:
        gradients: Those of both nets.
    """

    def __init__(self, a: TrainingRecord, b: TrainingRecord, pairs: Sequence[WeightPair]) -> None:
        self.a, self.b, self.pairs = a, b, pairs
        self.tolerance = TOLERANCES[a.is_double and b.is_double]
        self.gradients = GradientPairs(a.gradients[0], b.gradients[0], pairs, self.tolerance)
        self._differing = self.gradients.differing()

    @property
    def has_same_outputs(self) -> bool:
        """True if both return the same in training mode, in the order of their outputs."""
        outputs = zip(self.a.outputs, self.b.outputs, strict=False)
        return all(x.shape == y.shape and self._error(x, y) <= self.tolerance for x, y in outputs)

    def _error(self, x: np.ndarray, y: np.ndarray) -> float:
        scale = _rms(x)
        apart = float(np.abs(x.astype(np.float64) - y).max(initial=0.0))
        return apart / scale if scale else float("inf") if apart else 0.0

    def findings(self) -> Iterator[Finding]:
        """Yield what differs, each difference explained once."""
        yield from self._dropout()
        if not self.has_same_outputs:
            yield Finding(
                "training-forward",
                "in training mode the outputs differ before any update",
                fix="compare the nets as they predict first (netweave compare); if they are equal, a layer "
                "computes something else in training",
                error=1.0,
            )
        loss = self._loss_scale() or self._loss()
        if loss is not None:
            yield loss  # whatever else there is, its gradients do not show
            return
        left = self._differing
        for explain in (self._frozen, self._by_cut, self._by_output, self._tied, self._rows):
            explained = list(explain(left))
            yield from (finding for finding, _ in explained)
            names = {name for _, of in explained for name in of}
            left = [ratio for ratio in left if ratio.pair.a not in names]
        if left:
            yield self._rest(left)

    def _loss(self) -> Finding | None:
        """Return that the losses are two functions of the same outputs."""
        if not self.has_same_outputs or not self._differing:
            return None
        for number, x in self.a.output_gradients.items():
            y = self.b.output_gradients.get(number)
            if y is None or x.shape != y.shape or self._error(x, y) <= self.tolerance:
                continue
            rows = (
                np.abs(x - y).reshape(len(x), -1).max(1) > self.tolerance * _rms(x)
                if x.ndim
                else np.ones(1, bool)
            )
            some = "" if rows.all() else f", for samples {list_names(map(str, np.flatnonzero(rows)))}"
            values = ""
            if self.a.losses and self.b.losses:
                values = f" ({self.a.losses[0]:.6g} in A, {self.b.losses[0]:.6g} in B)"
            return Finding(
                "loss",
                f"the losses are two functions of the same outputs{values}: the gradient by output "
                f"{int(number) + 1} differs{some}",
                fix="compare how the losses treat targets: smoothing, weights of classes, what is ignored",
                error=self._error(x, y),
            )
        return None

    def _loss_scale(self) -> Finding | None:
        """Return what B's loss is of A's, if all gradients are the same multiple."""
        factor = self.gradients.common_factor(self._differing)
        if factor is None:
            return None
        losses = [record.losses[0] if record.losses else 0.0 for record in (self.a, self.b)]
        whose = (
            "the loss of B is" if abs(losses[1] - factor * losses[0]) <= 1e-3 * abs(losses[1]) else "B has"
        )
        what = "that of A, and so are all gradients" if whose.startswith("the loss") else "the gradients of A"
        return Finding(
            "loss-scale",
            f"{whose} {_times(factor, self.a.batch)} {what}",
            fix=_fix_of_scale(factor, self.a.batch),
            error=abs(factor - 1),
        )

    def _dropout(self) -> Iterator[Finding]:
        a, b = self.a.dropouts, self.b.dropouts
        if len(a) != len(b):
            side, more = ("B", b) if len(b) > len(a) else ("A", a)
            place = more[min(len(a), len(b))].place
            yield Finding(
                "dropout",
                f"A has {len(a) or 'no'} dropout{'s' * (len(a) != 1)}, B {len(b) or 'none'}",
                place_a=place if side == "A" else "",
                place_b=place if side == "B" else "",
                error=1.0,
            )
            return
        for x, y in zip(a, b, strict=True):
            if x.rate != y.rate:
                yield Finding(
                    "dropout",
                    f"dropout zeroes with probability {x.rate:g} in A, {y.rate:g} in B",
                    fix=f"p={x.rate:g}",
                    place_a=x.place,
                    place_b=y.place,
                    error=abs(x.rate - y.rate),
                )

    def _frozen(self, left: Sequence[Ratio]) -> Iterator[tuple[Finding, set[str]]]:
        """Yield weights that learn in one net alone, since the other says so."""
        for side, record, other in (("B", self.b, "A"), ("A", self.a, "B")):
            pairs = [
                each.pair for each in left if (each.pair.b if side == "B" else each.pair.a) in record.frozen
            ]
            if not pairs:
                continue
            names = [pair.b if side == "B" else pair.a for pair in pairs]
            does, learns = ("does", "learns") if len(names) == 1 else ("do", "learn")
            yield (
                Finding(
                    "frozen",
                    f"{list_names(names)} {does} not require a gradient in {side}, but {learns} in {other}",
                    fix="requires_grad_(True)" if side == "B" else "requires_grad_(False)",
                    layer_a=pairs[0].a,
                    layer_b=pairs[0].b,
                    error=1.0,
                ),
                {pair.a for pair in pairs},
            )

    def _by_cut(self, left: Sequence[Ratio]) -> Iterator[tuple[Finding, set[str]]]:
        """Yield the function that cuts a gradient: where it lets the gradient through, both nets agree."""
        names = {ratio.pair.a for ratio in left}
        best: tuple[int, str, Cut, set[str]] | None = None
        for side, record in (("B", self.b), ("A", self.a)):
            for cut, passed in zip(record.cuts, record.passed, strict=False):
                a, b = (passed, self.b.gradients[0]) if side == "A" else (self.a.gradients[0], passed)
                still = {
                    ratio.pair.a for ratio in GradientPairs(a, b, self.pairs, self.tolerance).differing()
                }
                if len(names - still) > (best[0] if best else 0) and not still - names:
                    best = len(names - still), side, cut, names - still
        if best is None:
            return
        _, side, cut, agreeing = best
        ratios = [ratio for ratio in left if ratio.pair.a in agreeing]
        is_whole = all(np.isinf(ratio.error) for ratio in ratios)
        part = "no gradient reaches" if is_whole else "part of the gradient is missing for"
        shown = list_names(ratio.pair.b if side == "B" else ratio.pair.a for ratio in ratios)
        yield (
            Finding(
                "no-gradient" if is_whole else "partial-gradient",
                f"{part} {shown} in {side}: {_cutting(cut)}",
                fix=_fix_of(cut) if side == "B" else f"{cut.function} as A does",
                place_a=cut.place if side == "A" else "",
                place_b=cut.place if side == "B" else "",
                layer_a=ratios[-1].pair.a,
                layer_b=ratios[-1].pair.b,
                error=max(ratio.error for ratio in ratios),
            ),
            agreeing,
        )

    def _by_output(self, left: Sequence[Ratio]) -> Iterator[tuple[Finding, set[str]]]:
        """Yield outputs whose part of the gradient is a multiple of the other net's."""
        if not left or len(self.a.by_output) != len(self.b.by_output):
            return
        names = {ratio.pair.a for ratio in left}
        for index, (a, b) in enumerate(zip(self.a.by_output, self.b.by_output, strict=True)):
            ratios = [
                ratio
                for ratio in GradientPairs(a, b, self.pairs, self.tolerance).differing()
                if ratio.pair.a in names
            ]
            factor = one_factor(ratios)
            if factor is None:
                continue
            shown = list_names(ratio.pair.b for ratio in ratios)
            sign = ", with another sign" if factor < 0 else ""
            yield (
                Finding(
                    "gradient-scale",
                    f"output {index + 1} gives {shown} {_times(factor, 0)} the gradient that it gives "
                    f"in A{sign}",
                    fix=f"multiply the gradient of output {index + 1} by {1 / factor:.6g} there"
                    if factor
                    else "",
                    layer_a=ratios[-1].pair.a,
                    layer_b=ratios[-1].pair.b,
                    error=max(ratio.error for ratio in ratios),
                ),
                {ratio.pair.a for ratio in ratios},
            )

    def _tied(self, left: Sequence[Ratio]) -> Iterator[tuple[Finding, set[str]]]:
        """Yield weights that one net uses in two places, and that the other net has twice."""
        reversed_pairs = [WeightPair(pair.b, pair.a, pair.change) for pair in self.pairs]
        names = {ratio.pair.a: ratio for ratio in left}
        for side, other, pairs, weights in (
            ("A", "B", list(self.pairs), self.b.weights),
            ("B", "A", reversed_pairs, self.a.weights),
        ):
            for pair, copy in copies(pairs, weights):
                a, b = (pair.a, pair.b) if side == "A" else (pair.b, pair.a)
                if a in names:
                    yield (
                        Finding(
                            "tied-weights",
                            f"{pair.a} is one weight in {side}, used in two places; {other} has a copy of "
                            f"it, {copy}, which learns by itself",
                            fix=f"share the weight: {copy} = {pair.b}" if side == "A" else "",
                            layer_a=a,
                            layer_b=b,
                            error=names[a].error,
                        ),
                        {a},
                    )

    def _rows(self, left: Sequence[Ratio]) -> Iterator[tuple[Finding, set[str]]]:
        """Yield tables of which a few rows alone learn otherwise: the padding of an embedding."""
        for ratio in left:
            x, y = self.gradients.of_a(ratio.pair), self.b.gradients[0].get(ratio.pair.b)
            if x is None or y is None or y.ndim != 2 or x.shape != y.shape:
                continue
            apart = np.flatnonzero(np.abs(x - y).max(1) > self.tolerance * _rms(x))
            if not 0 < len(apart) <= max(1, len(y) // 8):
                continue
            less = "B" if _rms(y[apart]) < _rms(x[apart]) else "A"
            shown = list_names(map(str, apart))
            yield (
                Finding(
                    "padding-row",
                    f"of the rows of {ratio.pair.b}, only {shown} learn less in {less}: "
                    f"{less} has padding_idx={shown}",
                    fix="padding_idx=None" if less == "B" else f"padding_idx={shown}",
                    layer_a=ratio.pair.a,
                    layer_b=ratio.pair.b,
                    error=ratio.error,
                ),
                {ratio.pair.a},
            )

    def _rest(self, left: Sequence[Ratio]) -> Finding:
        """Return what is said of gradients that nothing known explains."""
        last = left[-1].pair
        names = list_names(ratio.pair.b for ratio in left)
        factor = one_factor(left)
        error = max(ratio.error for ratio in left)
        if factor == 0:
            text = f"no gradient reaches {names} in B"
        elif factor is not None:
            text = f"the gradients of {names} are {_times(factor, self.a.batch)} those of A"
        else:
            apart = [ratio.error for ratio in left if np.isfinite(ratio.error)]
            by = f" by up to {ratio_text(max(apart))} times their rms" if apart else ""
            text = f"the gradients of {names} differ{by}"
        if last is not self.pairs[-1]:
            text += f"; that of {last.b} is the last of them, those behind it agree"
        return Finding(
            "gradient" if factor is None else "no-gradient" if factor == 0 else "gradient-scale",
            text,
            layer_a=last.a,
            layer_b=last.b,
            error=error,
        )


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max(initial=0.0))


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.square(x.astype(np.float64)).mean())) if x.size else 0.0


def _ratio(pair: WeightPair, x: np.ndarray, y: np.ndarray) -> Ratio:
    factor = float((x * y).sum() / (x * x).sum())
    is_factor = float(np.abs(factor * x - y).max()) <= SAME_FACTOR * _largest(y)
    return Ratio(pair, float(np.abs(x - y).max()) / _rms(x), factor if is_factor else None)


def _times(factor: float, batch: int) -> str:
    if batch > 1 and abs(factor - batch) < 1e-3 * batch:
        return f"{batch} times (the number of samples)"
    if batch > 1 and abs(factor * batch - 1) < 1e-3:
        return f"1/{batch} (one over the number of samples) of"
    return f"{factor:.4g} times"


def _fix_of_scale(factor: float, batch: int) -> str:
    if batch > 1 and abs(factor - batch) < 1e-3 * batch:
        return "average the loss over the samples: reduction='mean'"
    if batch > 1 and abs(factor * batch - 1) < 1e-3:
        return "sum the loss over the samples: reduction='sum'"
    return f"multiply the loss by {1 / factor:.6g}"


def _cutting(cut: Cut) -> str:
    if cut.function in ROUNDING:
        return f"the gradient of {cut.function} is zero, and nothing passes it on"
    return f"{cut.function} cuts it"


def _fix_of(cut: Cut) -> str:
    if cut.function in ROUNDING:
        return f"pass the gradient straight through: x + ({cut.function}(x) - x).detach()"
    return f"remove {cut.function}"
