"""Ranges of values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.comparison.precision.reference import StoredFault
from netweave.graph.passes.rounding import MOVING, Quantiser, RoundingPoint, array_of
from netweave.graph.passes.rounding.formats import FLOATS

BOUNDED = {"HardSigmoid": 1.0, "Sigmoid": 1.0, "Softmax": 1.0, "Tanh": 1.0}
"""Functions whose values are no larger, which TFLite's specification prescribes as the range."""

ROUNDING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""What stands between a function and the place, where integers are brought to another type."""

AVERAGING = frozenset({"AveragePool", "GlobalAveragePool", "Resize"})
"""Operators that TFLite's specification gives the range of their input, however little they fill it."""

ONE_STEP = 1.02
"""The range may end a step beyond the bounds: 255 steps of 1/256 do not reach 1, those of 1/127 pass it."""


def has_given_range(point: RoundingPoint) -> bool:
    """Return whether the range at a place is no larger than its rule gives, or an earlier rounding has it.

    A classifier that is not sure of anything fills little of the range from 0 to 1, which is no fault.
    """
    if point.quantiser is not None and _is_range_of(point.value, point.quantiser):
        return True
    maker = _computed_by(point.value, through=MOVING | ROUNDING)
    if maker is None or point.quantiser is None:
        return False
    if maker.op_type in BOUNDED:
        low, high = point.quantiser.range
        bound = BOUNDED[maker.op_type] * ONE_STEP
        return -bound <= low and high <= bound  # integers without a zero point go as far below zero
    maker = _computed_by(point.value)
    return maker is not None and maker.op_type in AVERAGING and _is_range_of(maker.inputs[0], point.quantiser)


def _computed_by(value: ir.Value | None, *, through: Collection[str] = MOVING) -> ir.Node | None:
    """Return the node that computed what a value holds, through those that only move or round elements."""
    maker = value.producer() if value is not None else None
    while maker is not None and maker.op_type in through:
        value = maker.inputs[0]
        maker = value.producer() if value is not None else None
    return maker


def _is_range_of(value: ir.Value | None, quantiser: Quantiser) -> bool:
    """Return whether a value was rounded with the same scale and zero point before."""
    back = _computed_by(value)
    if back is None or back.op_type != "DequantizeLinear":
        return False
    scale, zero = (array_of(operand) for operand in back.inputs[1:3])
    if scale is None or zero is None:
        return False
    return np.array_equal(scale, quantiser.scale) and np.array_equal(zero, quantiser.zero_point)


CLIPPED = 0.02
"""Part of a tensor's rms that cutting off may take: calibration by percentile or entropy takes less.

Measured as the rms of what is cut off. Rounding to 8 bits takes 0.01.
"""

SMALL = 0.55
"""A range of this part of what is needed, as the net's other ranges show it, is not one that was calibrated.

Inputs that are drawn are not those of the calibration: all ranges then look too small or too large alike, and
single ones by up to a third.
"""

LARGE = 8.0
"""A range this many times what is needed, likewise: three of eight bits are never used."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of a quantisation range to the values that it must hold.

    Attributes:
        point: Where they are rounded.
        low: The smallest value on any input.
        high: The largest.
        ratios: The range as a multiple of what each input needs.
        clipped: The rms of what is cut off, relative to the rms of all, on the input where it is most.
        rounding: The rms of rounding, likewise.
        earlier: The node that made these values of rounded ones, where they were rounded before.
    """

    point: RoundingPoint
    low: float
    high: float
    ratios: tuple[float, ...]
    clipped: float
    rounding: float
    earlier: ir.Node | None

    @property
    def quantiser(self) -> Quantiser:
        """The quantiser that rounds the values."""
        assert self.point.quantiser is not None
        return self.point.quantiser

    def relative_to(self, usual: Sequence[float]) -> Fit:
        """Return the fit with ratios relative to those that are usual in the net."""
        ratios = tuple(ratio / other for ratio, other in zip(self.ratios, usual, strict=True))
        return replace(self, ratios=ratios, low=self.low * usual[0], high=self.high * usual[0])

    def width(self, fits: Sequence[Fit]) -> float:
        """Return how many times the range is what is needed, or what an earlier rounding has left of it."""
        before = next(
            (fit.ratios for fit in fits if self.earlier in fit.point.backs), (1.0,) * len(self.ratios)
        )
        return min(ratio / max(other, 1.0) for ratio, other in zip(self.ratios, before, strict=True))


def range_faults(
    points: Sequence[RoundingPoint], runs: Sequence[Mapping[str, np.ndarray]], *, is_drawn: bool
) -> dict[str, StoredFault]:
    """Return what is wrong with the ranges of activations, by the name of the node that rounds.

    Args:
        points: The places where activations are rounded.
        runs: The values that are rounded, as the net computes them without rounding, by name, of each input.
        is_drawn: Whether the inputs were drawn, and are not the user's own.
    """
    faults: dict[str, StoredFault] = {}
    fits = []
    ranges: dict[ir.Node | None, tuple[float, float]] = {
        back: p.quantiser.range for p in points if p.quantiser is not None for back in p.backs
    }
    for point in points:
        name = str(point.value.name)
        tensors = [run[name] for run in runs if name in run]
        if len(tensors) < len(runs):
            continue
        earlier = _computed_by(point.value)
        if earlier in ranges:  # what is cut off there is not cut off a second time
            tensors = [np.clip(tensor, *ranges[earlier]) for tensor in tensors]
        fault = _overflow(point, tensors) if point.dtype in FLOATS else _misread(point)
        if fault is not None:
            faults[str(point.there.name)] = fault
        elif point.quantiser is not None:
            fits.append(_fit(point, point.quantiser, tensors, earlier))
    if is_drawn and len(fits) > 2:
        calibrated = [fit for fit in fits if not has_given_range(fit.point)] or fits
        usual = np.median([fit.ratios for fit in calibrated], axis=0).tolist()
        fits = [fit.relative_to(usual) for fit in fits]
    for fit in fits:
        fault = _judged(fit, fits, is_drawn=is_drawn)
        if fault is not None:
            faults[str(fit.point.there.name)] = fault
    return faults


def fitting_range(low: float, high: float, quantiser: Quantiser) -> tuple[float, int]:
    """Return the scale and zero point that just hold some values and zero, of the kind of a quantiser."""
    smallest, largest = quantiser.limits
    low, high = min(low, 0.0), max(high, 0.0)
    if smallest < 0 and not quantiser.zero_point.any():
        return max(-low, high, 1e-30) / largest, 0
    scale = max(high - low, 1e-30) / (largest - smallest)
    return scale, round(smallest - low / scale)


def range_ratio(values: np.ndarray, bounds: tuple[float, float]) -> float:
    """Return a range as a multiple of what some values and zero need, at the end where it is least.

    An end that hardly any value reaches needs nothing.
    """
    finite = values[np.isfinite(values)]
    least, most = min(float(finite.min(initial=0)), 0.0), max(float(finite.max(initial=0)), 0.0)
    ends = [
        abs(end / own)
        for end, own in zip(bounds, (least, most), strict=True)
        if abs(own) > 0.05 * (most - least) > 0
    ]
    return min(ends, default=1.0)


def _overflow(point: RoundingPoint, tensors: Sequence[np.ndarray]) -> StoredFault | None:
    largest = max((float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in tensors), default=0.0)
    limit = float(point.dtype.max)
    if largest <= limit:
        return None
    return StoredFault(
        "float-overflow",
        f"values of up to {largest:.3g} are beyond the largest of {FLOATS[point.dtype]}, {limit:.6g}",
        "compute this layer in float32 or bfloat16, or scale what it reads",
    )


def _misread(point: RoundingPoint) -> StoredFault | None:
    made, read = point.quantiser, point.read_as
    if made is None or read is None:
        return None
    if made.has_scales_of(read):
        return None
    if not np.array_equal(made.scale, read.scale):
        factor = float(read.scale.reshape(-1)[0] / made.scale.reshape(-1)[0])
        return StoredFault(
            "quantised-scale",
            f"the integers are made with a scale of {made.scale.reshape(-1)[0]:.4g} and read with one of "
            f"{read.scale.reshape(-1)[0]:.4g}, {factor:.3g} times as large",
            f"a scale of {made.scale.reshape(-1)[0]:.4g} where they are read",
        )
    was, now = made.zero_point.reshape(-1)[0], read.zero_point.reshape(-1)[0]
    return StoredFault(
        "quantised-zero-point",
        f"the integers are made with the zero point {was} and read with {now}",
        f"zero_point={was} where they are read",
    )


def _fit(
    point: RoundingPoint, quantiser: Quantiser, tensors: Sequence[np.ndarray], earlier: ir.Node | None
) -> Fit:
    low, high = quantiser.range
    clipped, rounding, ratios = [0.0], [0.0], []
    least = most = 0.0
    for tensor in tensors:
        x = tensor[np.isfinite(tensor)].astype(np.float64)
        ratios.append(range_ratio(x, (low, high)))
        rms = float(np.sqrt(np.mean(x**2))) if x.size else 0.0
        if not rms:
            continue
        least, most = min(least, float(x.min())), max(most, float(x.max()))
        cut = np.maximum(x - high, 0) + np.maximum(low - x, 0)
        clipped.append(float(np.sqrt(np.mean(cut**2))) / rms)
        rounding.append(float(quantiser.scale.max()) / 12**0.5 / rms)
    return Fit(point, least, most, tuple(ratios), max(clipped), max(rounding), earlier)


def _judged(fit: Fit, fits: Sequence[Fit], *, is_drawn: bool) -> StoredFault | None:
    quantiser = fit.quantiser
    low, high = quantiser.range
    cuts = fit.clipped > CLIPPED and (not is_drawn or max(fit.ratios) < SMALL)
    if not cuts and (fit.width(fits) <= LARGE or has_given_range(fit.point)):
        return None
    scale, zero = fitting_range(fit.low, fit.high, quantiser)
    wanted = f"scale={scale:.4g}, zero_point={zero}"
    needs = f"values from {fit.low:.4g} to {fit.high:.4g}"
    owner = _owner(fit, fits)
    whose = f"; it is the range of {owner!r}" if owner else ""
    if cuts and fit.low == 0 and low < -high / 2:
        return StoredFault(
            "quantised-sign",
            f"{needs} are held in signed integers with the zero point {quantiser.zero_point.reshape(-1)[0]}, "
            f"of which only those from 0 to {high:.4g} are left",
            f"unsigned integers, or {wanted}",
        )
    if cuts:
        return StoredFault(
            "quantised-range",
            f"the range from {low:.4g} to {high:.4g} cuts {needs}; {fit.clipped:.0%} of their rms is lost"
            f"{whose}",
            wanted,
        )
    return StoredFault(
        "quantised-range",
        f"the range from {low:.4g} to {high:.4g} is {min(fit.ratios):.2g} times what {needs} need: few of "
        f"the {quantiser.limits[1] - quantiser.limits[0]} steps are used{whose}",
        wanted,
    )


def _owner(fit: Fit, fits: Sequence[Fit]) -> str:
    """Return the value that a range is taken from: one of the same range, or one to change places with."""
    mine, (_, high) = fit.quantiser, fit.quantiser.range
    candidates = []
    for other in fits:
        own = other.quantiser
        if other is fit:
            continue
        if own.has_scales_of(mine):
            return str(other.point.value.name)
        if _fits(high, other.high) and _fits(own.range[1], fit.high):
            candidates.append(str(other.point.value.name))
    return candidates[0] if len(candidates) == 1 else ""


def _fits(end: float, largest: float) -> bool:
    """Return whether a range ends where some values do."""
    return 0.8 * largest < end < 1.25 * largest
