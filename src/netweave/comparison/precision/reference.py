"""Reference arrays and faults in stored ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.rounding import Quantiser, StoredRounding
from netweave.graph.passes.rounding.formats import float_bound

if TYPE_CHECKING:
    from netweave.comparison.precision.measuring import ArrayPair, StoredInput


EXPLAINED = 0.999
"""Share of an array's elements that a fault must bring within rounding to be the cause."""

COARSE = 0.25
"""Rounding of a filter, relative to its rms, above which its scale is too coarse for it.

Eight bits hold a filter of its own scale to about 0.01. At 0.25 a filter has fewer than four steps for three
times its rms, which is what two bits hold.
"""

LOSING = 1 / 8
"""Share of a layer's filters that may be too small for the scale of all: some filters hardly do anything."""

MIN_ROW = 9
"""Elements of an output channel from which a factor or an offset of its own can be told: a 3 x 3 window."""

DEAD = 1 / 32
"""A filter with no element above this part of a step is taken for one that was not meant to pass anything."""


@dataclass(frozen=True, slots=True)
class StoredFault:
    """A fault of a stored array.

    Attributes:
        kind: Key of the known mismatch.
        cause: What is wrong, in words.
        fix: What to change.
    """

    kind: str
    cause: str
    fix: str


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedArray:
    """An array of integers against the real numbers that it should hold.

    Attributes:
        wanted: The reference's numbers, in the array's layout.
        rounding: How the array is stored.
        channel_axis: Axis of its output channels.
    """

    wanted: np.ndarray
    rounding: StoredRounding
    channel_axis: int

    @property
    def quantiser(self) -> Quantiser:
        """The quantiser of its numbers."""
        assert self.rounding.quantiser is not None
        return self.rounding.quantiser

    @property
    def integers(self) -> np.ndarray:
        """The stored integers."""
        assert self.rounding.integers is not None
        return self.rounding.integers.astype(np.int64)

    @property
    def has_rows(self) -> bool:
        """True if its output channels can be judged one by one: of few elements anything can be said."""
        channels = self.wanted.shape[self.channel_axis] if self.wanted.ndim else 1
        return channels > 1 and self.wanted.size >= MIN_ROW * channels

    @property
    def is_within(self) -> np.ndarray:
        """A mask of the elements that rounding explains."""
        return self.explains(self.quantiser.dequantised(self.integers))

    def explains(self, real: np.ndarray, *, quantiser: Quantiser | None = None) -> np.ndarray:
        """Return which elements of some real numbers are within rounding of the wanted ones."""
        rounding = self.rounding if quantiser is None else replace(self.rounding, quantiser=quantiser)
        return np.asarray(np.abs(real - self.wanted) <= rounding.bound(self.wanted))

    def rows(self, array: np.ndarray) -> np.ndarray:
        """Return an array as one row per output channel; as one row where a channel has too few elements."""
        full = np.broadcast_to(array, self.wanted.shape)
        if not self.has_rows:
            return full.reshape(1, -1)
        return np.moveaxis(full, self.channel_axis, 0).reshape(full.shape[self.channel_axis], -1)


def stored_fault(
    wanted: np.ndarray,
    rounding: StoredRounding,
    *,
    channel_axis: int,
    others: Sequence[tuple[str, np.ndarray]] = (),
) -> StoredFault | None:
    """Return what is wrong with an array of integers; None if rounding explains it, or nothing known does.

    Args:
        wanted: The reference's numbers, in the array's layout.
        rounding: How the array is stored.
        channel_axis: Axis of its output channels.
        others: Name and scales of the other arrays, one of which may have been taken by mistake.
    """
    array = QuantisedArray(wanted.astype(np.float64), rounding, channel_axis)
    within = array.is_within
    if within.mean() >= EXPLAINED and array.rows(within).all(axis=1).mean() >= EXPLAINED:
        return _coarse(array)
    for check in _CHECKS:
        fault = check(array)
        if fault is not None:
            return fault
    return _scales(array, others)


def _saturated(array: QuantisedArray) -> StoredFault | None:
    """Values beyond the range of the integers lie at its ends."""
    low, high = array.quantiser.limits
    outside = ~array.is_within
    # symmetric quantisers leave the lowest integer out
    at_end = (array.integers >= high) | (array.integers <= low + 1)
    real = array.quantiser.dequantised(array.integers)
    cut = at_end & (np.abs(array.wanted) > np.abs(real))
    if not cut[outside].mean() >= EXPLAINED:
        return None
    channels = np.flatnonzero((array.rows(outside)).any(axis=1))
    largest = float(np.abs(array.wanted).max())
    held = float(np.abs(real)[outside].max())
    return StoredFault(
        "quantised-saturation",
        f"{outside.mean():.1%} of the values{_in_channels(channels, array)} lie beyond what the scale can "
        f"hold and are cut off: up to {largest:.4g} is needed, {held:.4g} is held",
        f"quantise again with a scale of {largest / high:.4g}",
    )


def _zero_point(array: QuantisedArray) -> StoredFault | None:
    """All integers are off by one number of steps."""
    steps = array.quantiser.steps(array.wanted.shape)
    off = (array.wanted - array.quantiser.dequantised(array.integers)) / steps
    rows = array.rows(off)
    medians = np.rint(np.median(rows, axis=1))
    moved = array.quantiser.dequantised(array.integers) + _per_channel(medians, array) * steps
    if not medians.any() or array.explains(moved).mean() < EXPLAINED:
        return None
    channels = np.flatnonzero(medians)
    zeros = array.quantiser.zero_point.reshape(-1)
    stored = int(zeros[channels[0]] if zeros.size > 1 else zeros[0])
    right = stored - int(medians[channels[0]])
    return StoredFault(
        "quantised-zero-point",
        f"the zero point{_in_channels(channels, array)} is {stored}, the values were quantised with {right}",
        f"zero_point={right}",
    )


def _sign(array: QuantisedArray) -> StoredFault | None:
    """Integers were written as signed and are read as unsigned, or the other way round."""
    span = 2**array.rounding.dtype.bitwidth
    low, _ = array.quantiser.limits
    steps = array.quantiser.steps(array.wanted.shape)
    integers = array.integers
    other = np.where(integers >= span // 2, integers - span, integers) if low == 0 else integers % span
    for zero in (0, span // 2, -(span // 2), int(array.quantiser.zero_point.reshape(-1)[0])):
        if array.explains((other - zero) * steps).mean() >= EXPLAINED:
            was, now = ("signed", "unsigned") if low == 0 else ("unsigned", "signed")
            return StoredFault(
                "quantised-sign",
                f"the integers were written as {was} and are read as {now}",
                f"read them as {was}, with zero_point={zero}",
            )
    return None


def _axis(array: QuantisedArray) -> StoredFault | None:
    """The scales run along another axis than the one they were made for."""
    quantiser, shape = array.quantiser, array.wanted.shape
    if quantiser.is_per_tensor or quantiser.block_size:
        return None
    for axis in range(len(shape)):
        if axis == quantiser.axis or shape[axis] != quantiser.scale.size:
            continue
        turned = replace(quantiser, axis=axis)
        if array.explains(turned.dequantised(array.integers), quantiser=turned).mean() >= EXPLAINED:
            return StoredFault(
                "quantised-axis",
                f"the scales are applied along axis {quantiser.axis}, the values were quantised along {axis}",
                f"axis={axis}",
            )
    return None


_CHECKS: tuple[Callable[[QuantisedArray], StoredFault | None], ...] = (_axis, _saturated, _zero_point, _sign)


def _scales(array: QuantisedArray, others: Sequence[tuple[str, np.ndarray]]) -> StoredFault | None:
    """Some scales are wrong by a factor."""
    real = array.quantiser.dequantised(array.integers)
    rows, wanted = array.rows(real), array.rows(array.wanted)
    squares = np.einsum("ij,ij->i", rows, rows)
    factors = np.where(squares > 0, np.einsum("ij,ij->i", rows, wanted) / np.maximum(squares, 1e-300), 1.0)
    if array.quantiser.is_per_tensor and np.ptp(factors) > 0.05 * abs(factors).max():
        factors = np.full(len(rows), float((rows * wanted).sum() / max(float(squares.sum()), 1e-300)))
    elif array.quantiser.is_per_tensor:
        factors = np.full(len(rows), float(np.median(factors)))
    is_right = array.rows(array.is_within).mean(axis=1) >= EXPLAINED
    factors = np.where(is_right, 1.0, factors)
    factor = _per_channel(factors, array)
    scaled = (
        np.abs(real * factor - array.wanted)
        <= array.rounding.bound(array.wanted) * np.maximum(np.abs(factor), 1e-3) * (1 + 1e-3)
        + np.abs(array.wanted) * 2e-3
    )
    if (factors <= 0).any() or scaled.mean() < EXPLAINED:
        return None
    channels = np.flatnonzero(~is_right)
    scales = array.quantiser.scale.reshape(-1).astype(np.float64)
    scales = np.broadcast_to(scales if len(scales) in {1, len(rows)} else scales[:1], len(rows))
    right = scales * factors
    owner = next((name for name, own in others if _same_scales(own, right)), None)
    first = channels[0]
    whose = f", that of {owner!r} would fit" if owner else ""
    return StoredFault(
        "quantised-scale-swapped" if owner else "quantised-scale",
        f"the scale{_in_channels(channels, array)} is {scales[first]:.4g}, which is {1 / factors[first]:.3g} "
        f"times what the values were quantised with{whose}",
        f"a scale of {right[first]:.4g}" if not owner else f"the scale of {owner!r}",
    )


def _coarse(array: QuantisedArray) -> StoredFault | None:
    """One scale for filters of very different size leaves the small ones hardly any steps."""
    quantiser = array.quantiser
    if not quantiser.is_per_tensor or array.wanted.ndim < 2 or array.rounding.dtype.bitwidth > 8:
        return None
    rows = array.rows(array.wanted)
    step = float(quantiser.scale.reshape(-1)[0])
    rms = np.sqrt(np.mean(rows**2, axis=1))
    is_alive = np.abs(rows).max(axis=1) > step * DEAD
    errors = np.sqrt(np.mean((array.rows(quantiser.dequantised(array.integers)) - rows) ** 2, axis=1))
    losing = np.flatnonzero(is_alive & (errors > COARSE * rms))
    if losing.size <= LOSING * is_alive.sum():
        return None
    worst = losing[np.argmax(errors[losing] / rms[losing])]
    return StoredFault(
        "quantised-per-tensor",
        f"one scale for all {len(rows)} filters leaves too few steps for {len(losing)} of them: the largest "
        f"weight of filter {worst} is {np.abs(rows[worst]).max() / step:.2g} steps, and rounding changes the "
        f"filter by {errors[worst] / rms[worst]:.0%}",
        "quantise these weights per channel",
    )


def _per_channel(numbers: np.ndarray, array: QuantisedArray) -> np.ndarray:
    if not array.has_rows:
        return numbers.reshape(())
    return numbers.reshape(-1, *[1] * (array.wanted.ndim - 1 - array.channel_axis))


def _in_channels(channels: np.ndarray, array: QuantisedArray) -> str:
    """Say which channels are meant, where it is not all of them."""
    if not array.has_rows or array.quantiser.is_per_tensor:
        return ""
    count = array.wanted.shape[array.channel_axis]
    if len(channels) >= count:
        return ""
    if len(channels) == 1:
        return f" of channel {channels[0]}"
    return f" of {len(channels)} of {count} channels, channel {channels[0]} first,"


def _same_scales(own: np.ndarray, right: np.ndarray) -> bool:
    own = own.reshape(-1).astype(np.float64)
    if own.size not in {1, right.size}:
        return False
    return bool(np.allclose(np.broadcast_to(own, right.shape), right, rtol=2e-2))


@dataclass(slots=True)
class ReferenceArrays:
    """Stored arrays of the rounded net as they are without rounding.

    Attributes:
        arrays: The numbers by initializer: the reference's where rounding or a fault of it explains the rest.
        faults: What is wrong with how an array is quantised, and the node that reads it.
        channel_axes: The axis of the output channels of each.
        num_within: Arrays that rounding explains.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    faults: dict[str, tuple[ir.Node, StoredFault]] = field(default_factory=dict)
    channel_axes: dict[str, int] = field(default_factory=dict)
    num_within: int = 0


def reference_arrays(
    pairs: Mapping[str, ArrayPair],
    stored: Mapping[str, StoredRounding],
    of_reference: Mapping[str, StoredRounding],
) -> ReferenceArrays:
    """Return the stored arrays of a rounded net without rounding, and the faults of their quantisers.

    Args:
        pairs: Its arrays and those of the net in full precision, by initializer of the rounded net.
        stored: How its arrays are stored, by initializer.
        of_reference: How those of the other net are stored, if that is rounded too.
    """
    reference = ReferenceArrays()
    scales = [
        (str(pairs[name].place.node.name), rounding.quantiser.scale)
        for name, rounding in stored.items()
        if name in pairs and rounding.quantiser is not None and pairs[name].place.is_filters
    ]
    for name, pair in pairs.items():
        place, wanted = pair.place, pair.wanted
        rounding = _rounding(pair, stored.get(name), of_reference.get(str(pair.reference.value.name)))
        if rounding is None or place.value.const_value is None:
            continue
        real = place.value.const_value.numpy()
        reference.channel_axes[name] = channel_axis(place)
        fault = None
        if rounding.quantiser is not None:
            own = str(place.node.name)
            others = [(other, scale) for other, scale in scales if other != own]
            fault = stored_fault(wanted, rounding, channel_axis=channel_axis(place), others=others)
        if fault is not None and not place.is_filters:
            fault = replace(fault, cause=f"of the {_role(place)}, {fault.cause}")
        if fault is not None:
            reference.faults[name] = place.node, fault
            reference.arrays[name] = wanted.astype(np.float32)
            continue
        reference.arrays[name] = _nearest(wanted, real, rounding, place)
        reference.num_within += bool((np.abs(wanted - real) <= rounding.bound(wanted)).all())
    _drop_biases_of_scales(reference, pairs)
    return reference


def _rounding(
    pair: ArrayPair, own: StoredRounding | None, of_reference: StoredRounding | None
) -> StoredRounding | None:
    """Return how an array is rounded against the reference's, which may be rounded itself."""
    if of_reference is None or pair.reference.value.const_value is None:
        return own
    bound = of_reference.bound(pair.reference.value.const_value.numpy())
    exact = StoredRounding(ir.DataType.FLOAT)
    return replace(own or exact, uncertainty=pair.laid_out(bound))


def _role(place: StoredInput) -> str:
    return "bias" if place.is_bias else f"stored array {place.value.name!r}"


def channel_axis(place: StoredInput) -> int:
    """Return the axis of the output channels of a stored array."""
    if not place.is_filters:
        return 0
    node = place.node
    if node.op_type == "MatMul":
        return len(place.value.shape or ()) - 1
    if node.op_type == "Gemm":
        turned = node.attributes.get("transB")
        return 0 if turned is not None and turned.as_int() else 1
    return 1 if node.op_type == "ConvTranspose" else 0


def _drop_biases_of_scales(found: ReferenceArrays, pairs: Mapping[str, ArrayPair]) -> None:
    """Leave out faults of biases whose filters have one: their scale follows from that of the filters."""
    filters = {id(node) for name, (node, _) in found.faults.items() if pairs[name].place.is_filters}
    for name, (node, _) in list(found.faults.items()):
        if not pairs[name].place.is_filters and id(node) in filters:
            del found.faults[name]


def _nearest(
    wanted: np.ndarray, real: np.ndarray, rounding: StoredRounding, place: StoredInput
) -> np.ndarray:
    """Return the reference's numbers where rounding explains an array's, and the array's own elsewhere.

    The reference is also tried turned, mirrored and with its filters in another order or scaled, so that what
    is wrong beside the rounding stands out exactly, and its cause can be found as in a net without rounding.
    """
    within = np.abs(wanted - real) <= rounding.bound(wanted)
    if within.all():
        return wanted.astype(np.float32)
    best = np.where(within, wanted, real)
    if not place.is_filters:
        return _scaled_row(wanted.reshape(-1), real.reshape(-1), best.reshape(-1), rounding).reshape(
            real.shape
        )
    share = within.mean()
    for turn in _TURNS:
        turned = turn(wanted)
        if turned is None or turned.shape != real.shape:
            continue
        candidate, fits = _by_rows(turned, real, rounding, channel_axis(place))
        if fits > share:
            best, share = candidate, fits
    return np.asarray(best, np.float32)


def _by_rows(
    wanted: np.ndarray, real: np.ndarray, rounding: StoredRounding, axis: int
) -> tuple[np.ndarray, float]:
    """Return an array filter by filter as one of the reference's, and the share that is exact."""
    rows_real = np.moveaxis(real, axis, 0).reshape(real.shape[axis], -1).astype(np.float64)
    rows_wanted = np.moveaxis(wanted, axis, 0).reshape(rows_real.shape).astype(np.float64)
    bounds = np.moveaxis(np.broadcast_to(rounding.bound(wanted), wanted.shape), axis, 0).reshape(
        rows_real.shape
    )
    within = np.abs(rows_real - rows_wanted) <= bounds
    result = np.where(within, rows_wanted, rows_real)
    fits = int(within.sum())
    wrong = np.flatnonzero(~within.all(axis=1))
    if wrong.size:
        units = [
            rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
            for rows in (rows_real, rows_wanted)
        ]
        nearest = np.argmax(units[0][wrong] @ units[1].T, axis=1)
        for row, partner in zip(wrong, nearest, strict=True):
            scaled = _scaled_row(rows_wanted[partner], rows_real[row], result[row], rounding)
            fits += int((scaled != rows_real[row]).sum()) - int(within[row].sum())
            result[row] = scaled
    shape = np.moveaxis(real, axis, 0).shape
    return np.moveaxis(result.reshape(shape), 0, axis), fits / real.size


def _scaled_row(
    wanted: np.ndarray, real: np.ndarray, otherwise: np.ndarray, rounding: StoredRounding
) -> np.ndarray:
    """Return the reference's row times one factor if that rounds to the row, else the row as it is."""
    square = float(wanted.astype(np.float64) @ wanted)
    factor = float(real.astype(np.float64) @ wanted) / square if square else 0.0
    factor = float(f"{factor:.2g}") if abs(factor - float(f"{factor:.2g}")) < 1e-3 * abs(factor) else factor
    scaled = wanted * factor
    if rounding.quantiser is None:
        bound = float_bound(scaled, rounding.dtype) * (1 + 1e-6)
    else:
        bound = np.asarray(float(rounding.quantiser.scale.max()) * 0.51)
    if rounding.uncertainty is not None:
        bound = bound + float(rounding.uncertainty.max())
    return np.asarray(scaled if factor and (np.abs(scaled - real) <= bound).all() else otherwise)


_TURNS: tuple[Callable[[np.ndarray], np.ndarray | None], ...] = (
    lambda x: x,
    lambda x: x.swapaxes(-1, -2) if x.ndim >= 2 and x.shape[-1] == x.shape[-2] else None,
    lambda x: x[..., ::-1] if x.ndim == 4 else None,
    lambda x: x[..., ::-1, :] if x.ndim == 4 else None,
    lambda x: x[..., ::-1, ::-1] if x.ndim == 4 else None,
    lambda x: x[:, ::-1] if x.ndim == 4 else None,
)
"""Changes of filters on the way, besides rounding."""
