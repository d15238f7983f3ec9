"""The reference's numbers in the place of those that rounding explains, and what is wrong with the rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.precision.stored_faults import StoredFault, stored_fault
from netweave.graph.passes.rounding import StoredRounding
from netweave.graph.passes.rounding.formats import float_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from netweave.comparison.precision.pairing import ArrayPair, StoredInput


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
    found = ReferenceArrays()
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
        found.channel_axes[name] = channel_axis(place)
        fault = None
        if rounding.quantiser is not None:
            own = str(place.node.name)
            others = [(other, scale) for other, scale in scales if other != own]
            fault = stored_fault(wanted, rounding, channel_axis=channel_axis(place), others=others)
        if fault is not None and not place.is_filters:
            fault = replace(fault, cause=f"of the {_role(place)}, {fault.cause}")
        if fault is not None:
            found.faults[name] = place.node, fault
            found.arrays[name] = wanted.astype(np.float32)
            continue
        found.arrays[name] = _nearest(wanted, real, rounding, place)
        found.num_within += bool((np.abs(wanted - real) <= rounding.bound(wanted)).all())
    _drop_biases_of_scales(found, pairs)
    return found


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
"""What may have been done to filters on the way, besides rounding."""
