"""Drawn weights under which every tensor of a net keeps unit scale.

Weights drawn layer by layer let a deep net grow until its softmax is saturated, and then any two nets agree.
So each filter is scaled by what it makes on a probe (as in layer-sequential unit-variance initialisation,
Mishkin and Matas 2016), and variances are drawn so small in some channels that an epsilon shows.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.chains import chain_from
from netweave.comparison.align.weights import FILTERED, set_values
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.tapped_values import TappedValues
from netweave.comparison.metric import Signals, constants_of
from netweave.errors import RunError
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import onnx_ir as ir

    from netweave.comparison.execution.tapped_values import ValueStore
    from netweave.comparison.metric import SignalValues

MAX_ROUNDS = 6
"""So many runs at most; two are enough unless a tensor overflows."""

SETTLED = 4.0
"""Tensors whose rms is between the inverse of this and this are left as they are."""

OVERFLOW = 1e3
"""What a filter is divided by whose output is not finite, before it is looked at again."""

LEAST_VARIANCE = 1e-3
"""Variances are drawn from here to 1: beside small ones the usual epsilons, 1e-5 and 1e-3, differ visibly."""

LEAST_FACTOR = 0.5
"""Factors whose rms is below this were drawn as biases are."""

BOUNDED = frozenset(
    {
        "Sigmoid", "HardSigmoid", "Tanh", "Softmax", "LogSoftmax", "Softsign", "Erf", "LSTM", "GRU", "RNN",
        "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
        "MeanVarianceNormalization", "LpNormalization",
    }
)  # fmt: skip
"""Operators whose output does not grow with their input."""

SUMS = frozenset({"Add", "Sub", "Sum", "Mean", "Concat", "Max", "Min"})
"""Operators whose output is as large as the larger of their inputs, or their sum."""


def keep_unit_scale(
    signals: Signals, sizes: Mapping[str, Sequence[int]], keys: AbstractSet[str], store: ValueStore
) -> None:
    """Scale the drawn weights of a net, in place; a net that does not run is left as it is.

    Args:
        signals: The net.
        sizes: Sizes of its inputs, by name.
        keys: Keys of the parameters whose values are drawn.
        store: Holds what the net computes.
    """
    _draw_factors(signals, keys)
    _draw_variances(signals, keys)
    for _ in range(MAX_ROUNDS):
        graph = memory_budget.resized(
            signals.graph, sizes
        )  # again in each round, since the weights have changed
        if graph is None:
            return
        fitted = Signals.of(graph)
        probe = memory_budget.draw(graph, sizes, seed=0)
        try:
            factors = _factors(fitted, TappedValues(graph, probe, fitted.names, store), keys)
        except RunError:
            return  # the comparison itself says why
        if not factors:
            return
        weights = signals.graph.model.graph.initializers
        for name, factor in factors.items():
            _scale(weights[name], factor)


def _draw_factors(signals: Signals, keys: AbstractSet[str]) -> None:
    """Draw factors per channel around 1: a file that does not tell them from biases has them around 0.

    Tens of factors around 0, each with a bias behind it, leave nothing of the input.
    """
    for node in signals.nodes:
        for value in constants_of(node).values() if node.op_type == "Mul" else ():
            if _key(value, keys) is None or value.const_value is None or value.const_value.size < 2:
                continue
            array = value.const_value.numpy()
            size = _norm(array.reshape(-1).tolist()) / np.sqrt(array.size)
            if 0 < size < LEAST_FACTOR:
                set_values(value, 1 + 0.25 * np.tanh(array / size))


def _draw_variances(signals: Signals, keys: AbstractSet[str]) -> None:
    """Draw the variances of BatchNorms anew, and make up for their size in the gamma."""
    drawn: set[str] = set()
    for node in signals.nodes:
        constants = constants_of(node)
        if node.op_type != "BatchNormalization" or 4 not in constants:
            continue
        variance = constants[4]
        key, gamma = _key(variance, keys), _gamma(signals, node, keys)
        if key is None or key in drawn or gamma is None or variance.const_value is None:
            continue
        drawn.add(key)
        generator = np.random.default_rng(zlib.crc32(key.encode()))
        values = LEAST_VARIANCE ** generator.random(variance.const_value.size)
        set_values(variance, values)
        _scale(gamma, np.sqrt(values))


def _gamma(signals: Signals, node: ir.Node, keys: AbstractSet[str]) -> ir.Value | None:
    """Return the drawn factor per channel of a BatchNorm: its own, or that of the scale behind it."""
    holders = [constants_of(node)[1]]
    for scaling in chain_from(signals, node)[1:]:
        holders += constants_of(scaling).values() if scaling.op_type == "Mul" else []
    return next((value for value in holders if _key(value, keys) is not None), None)


def _key(value: ir.Value, keys: AbstractSet[str]) -> str | None:
    """Return the key of the parameter that a constant is, if it is drawn."""
    sources = source_keys(value)
    return sources[0] if len(sources) == 1 and sources[0] in keys else None


def _factors(signals: Signals, tensors: SignalValues, keys: AbstractSet[str]) -> dict[str, float]:
    """Return what to multiply weights by, by the initializer's name; nothing if all outputs have unit scale.

    One run tells the factors of all filters: those before are taken into account.
    """
    factors: dict[str, float] = {}
    growth: dict[str, float] = {}
    settled = True
    for node in signals.nodes:
        outputs = signals.outputs_of(node)
        expected = _expected(node, signals.inputs_of(node), tensors, growth)
        weight = constants_of(node).get(1) if node.op_type in FILTERED else None
        if weight is not None and _key(weight, keys) is not None:
            size = _rms(tensors[outputs[0]])
            settled &= 1 / SETTLED < size < SETTLED or size == 0
            factor = factors.get(str(weight.name))
            if factor is None:
                factor = 1 / OVERFLOW if not np.isfinite(size) else 1 / (size * expected) if size else 1.0
                factors[str(weight.name)] = factor
            expected *= factor
        growth.update(dict.fromkeys(outputs, expected))
    return {} if settled else factors


def _expected(
    node: ir.Node, reads: Sequence[str], tensors: SignalValues, growth: Mapping[str, float]
) -> float:
    """Return how many times larger a node's output will be when its inputs are."""
    grown = [growth.get(name, 1.0) for name in reads]
    if not grown or node.op_type in BOUNDED:
        return 1.0
    if node.op_type in {"Mul", "MatMul"}:
        return float(np.prod(grown))
    if node.op_type in SUMS and len(grown) > 1:
        sizes = [_rms(tensors[name]) for name in reads]
        before, after = _norm(sizes), _norm(g * size for g, size in zip(grown, sizes, strict=True))
        return after / before if 0 < before < float("inf") else 1.0
    return grown[0]


def _norm(sizes: Iterable[float]) -> float:
    return float(np.sqrt(sum(size * size for size in sizes)))


def _rms(x: np.ndarray) -> float:
    """Return the rms of a tensor, without the sample of the probe that is made large."""
    if x.dtype.kind != "f" or not x.size:
        return 1.0
    usual = x[:2] if x.ndim and x.shape[0] == memory_budget.NUM_SAMPLES else x
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(usual, dtype=np.float64))))


def _scale(value: ir.Value, factor: float | np.ndarray) -> None:
    """Multiply a stored array, in place, by one factor or one for each element."""
    if value.const_value is not None:
        array = value.const_value.numpy()
        factors = np.reshape(factor, array.shape) if np.size(factor) > 1 else factor
        set_values(value, array * factors)
