"""Layers that are written differently in both nets, and the inputs that can tell them apart.

Ordinary inputs show every difference of a convolution or a sum. They do not show one of a layer that decides
by a threshold, saturates, overflows or looks up a table: such a layer is tested alone, on inputs that are
aimed at what it decides by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution.draws import draw_array
from netweave.comparison.execution.input_domains import Domain, domain_of
from netweave.comparison.explain.coverage import ruled_settings
from netweave.comparison.explain.known_mismatches.attributes import differences
from netweave.comparison.metric import constants_of, differing
from netweave.graph import attributes_of
from netweave.graph.passes.value_ranges import range_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.value_matching import Draft
    from netweave.comparison.prepare import Side


@dataclass(frozen=True, slots=True)
class Draw:
    """Settings for drawing the inputs of an isolated test.

    Attributes:
        scale: Factor on the usual size of floating-point numbers.
        sign: Sign of all of them; 0 for both.
        are_near: Whether they differ from one another in their last bits alone.
    """

    scale: float = 1.0
    sign: int = 0
    are_near: bool = False


DRAWS = (
    # the usual scale, that of pixels, and others
    *(Draw(scale) for scale in (1.0, 64.0, 1000.0, 0.001)),
    # a largest element is rarely negative
    *(Draw(scale, sign) for scale in (1.0, 1000.0) for sign in (1, -1)),
)

DRAWS_OF_CHOICES = (Draw(1e-9), Draw(are_near=True))
"""Further draws for layers before a choice: numbers that many functions round to equal ones."""

CHOOSING = frozenset({"ArgMax", "ArgMin", "Hardmax", "TopK"})
"""Operators that choose the largest or smallest of some numbers, of equal ones the first."""

SHOWN_BY_NOISE = frozenset(
    {
        "Abs", "Add", "Attention", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvTranspose",
        "DepthToSpace", "Div", "Einsum", "Erf", "Expand", "Flatten", "GRU", "Gelu", "Gemm",
        "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "Identity", "InstanceNormalization",
        "LRN", "LSTM", "LayerNormalization", "LeakyRelu", "LogSoftmax", "LpNormalization", "MatMul",
        "MaxPool", "Mean", "MeanVarianceNormalization", "Mul", "Neg", "PRelu", "Pad", "Pow",
        "RMSNormalization", "RNN", "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceSum", "Relu", "Reshape", "Resize", "RotaryEmbedding", "Sigmoid", "Softmax", "Softsign",
        "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tanh", "Tile", "Transpose",
        "Unsqueeze", "Upsample",
    }
)  # fmt: skip
"""Operators every setting of which shows on noise of both signs: linear, smooth, or bent at zero alone."""

BENT_AT_ZERO = frozenset({"Abs", "LeakyRelu", "PRelu", "Relu"})
"""Those of them that compute nothing, or a multiple, where what they read has one sign."""

HIDING = frozenset(
    {
        "Attention", "Erf", "GRU", "Gelu", "GlobalMaxPool", "LSTM", "LogSoftmax", "MaxPool", "RNN",
        "ReduceMax", "ReduceMin", "Sigmoid", "Softmax", "Softsign", "Swish", "Tanh",
    }
)  # fmt: skip
"""Those of them that select or saturate, and so may show nothing of a layer of another sign before them."""

LEAST_SHARE = 0.1
"""Largest value of one sign, relative to that of the other, of which products still show something."""

SMALL = 64
"""Elements of a constant that is held against the other net's exactly, as it stands."""


def is_written_alike(draft: Draft, *, largest: int | None = SMALL) -> bool:
    """Return whether the layers of a group have the same operators, settings and constants in both nets.

    Args:
        draft: The group.
        largest: Elements of the largest constant that is looked at; None for all.
    """
    return len(draft.nodes_a) == len(draft.nodes_b) and all(
        (a.domain, a.op_type) == (b.domain, b.op_type)
        and _has_same_settings(a, b)
        and _has_same_constants(a, b, largest)
        for a, b in zip(draft.nodes_a, draft.nodes_b, strict=True)
    )


def is_same(alignment: Alignment, draft: Draft) -> bool:
    """Return whether the layers of a group are the same in both nets.

    They are if they are written alike and have equal weights and inputs.

    Nothing needs to be run to know that these compute the same. Weights of zeros are none: behind them nobody
    can tell which layer reads which.
    """
    a, b = alignment.sides
    if not is_written_alike(draft, largest=None) or any(map(_has_weights_of_zeros, draft.nodes_a)):
        return False
    for node_a, node_b in zip(draft.nodes_a, draft.nodes_b, strict=True):
        read_a, read_b = a.signals.inputs_of(node_a), b.signals.inputs_of(node_b)
        sources = [pair.a if (pair := b.pairs.get(name)) is not None else None for name in read_b]
        if sources != read_a:
            return False
    return True


def needs_aim(alignment: Alignment, draft: Draft) -> bool:
    """Return whether layers of a group are written differently and inputs may not tell them apart."""
    if is_written_alike(draft):
        return False
    rows = [(side, node) for side in alignment.sides for node in draft.nodes_of(side)]
    operators = {node.op_type for _, node in rows}
    if not operators <= SHOWN_BY_NOISE or (operators & BENT_AT_ZERO and operators & HIDING):
        return True
    if any(node.op_type in BENT_AT_ZERO and not _reads_both_signs(side, node) for side, node in rows):
        return True
    return any(setting.reason for side, node in rows for setting in ruled_settings(side, node))


def _reads_both_signs(side: Side, node: ir.Node) -> bool:
    """Return whether what a layer reads has both signs, neither lost beside the other."""
    name = next(iter(side.signals.inputs_of(node)), None)
    if name is None or name not in side.tensors:
        return True
    x = side.tensors[name]
    low, high = -x.min(initial=0), x.max(initial=0)
    return bool(min(low, high) > LEAST_SHARE * max(low, high))


def draws_for(draft: Draft) -> tuple[Draw, ...]:
    """Return how inputs are drawn that can tell the layers of a group apart."""
    chooses = any(node.op_type in CHOOSING for node in (*draft.nodes_a, *draft.nodes_b))
    return (*DRAWS, *DRAWS_OF_CHOICES) if chooses else DRAWS


def operators_in_words(draft: Draft) -> str:
    """Return what the layers of a group compute in both nets."""
    a, b = (", then ".join(node.op_type for node in nodes) for nodes in (draft.nodes_a, draft.nodes_b))
    return f"both compute {a}, with other constants" if a == b else f"A computes {a}, B computes {b}"


def aimed_inputs(
    alignment: Alignment, draft: Draft, names: Sequence[str], draw: Draw, *, seed: int
) -> dict[str, np.ndarray]:
    """Return inputs of A's layers of a group, drawn from what the layers of both nets decide by.

    Args:
        alignment: Both nets, run.
        draft: The group.
        names: Signals that A's layers read.
        draw: In what manner.
        seed: What they are drawn by.
    """
    generator = np.random.default_rng(seed)
    domains = _domains(alignment, draft)
    drawn = {}
    for name in names:
        if name not in alignment.a.tensors:
            continue
        x = alignment.a.tensors[name]
        domain, thresholds = domains.get(name, (Domain(kind="size"), ()))
        # what sets a size stays as it is: the layer might not run with another
        keeps = domain.kind == "size" or x.dtype.kind not in "fiub"
        drawn[name] = x if keeps else draw_array(domain, x.dtype, x.shape, generator, scale=draw.scale)
        if not keeps and draw.sign and x.dtype.kind == "f":
            drawn[name] = draw.sign * np.abs(drawn[name])
        if not keeps and x.dtype.kind == "f":
            _put_exactly(drawn[name], thresholds, generator)
        if not keeps and x.dtype.kind != "b":
            low, high = range_of(alignment.a.graph.find([name])[name])
            drawn[name] = _within(drawn[name], low, high, generator).astype(x.dtype)
        if not keeps and draw.are_near and x.dtype.kind == "f":
            drawn[name] = _near(drawn[name], generator)
    return drawn


def _near(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return an array in each row of which all numbers are the first one but for its last two bits."""
    first = x[..., :1] if x.ndim else x
    steps = generator.integers(0, 4, x.shape) * np.finfo(x.dtype).eps / 2
    near: np.ndarray = (first * (1 - steps)).astype(x.dtype)
    return near


def _put_exactly(x: np.ndarray, numbers: Sequence[float], generator: np.random.Generator) -> None:
    """Put some numbers into an array, each at a place of its own, in place.

    A whole net is not given them: what it computes before a threshold is rounded, and falls on either side.
    """
    count = min(len(numbers), x.size // 2)
    x.reshape(-1)[generator.choice(x.size, count, replace=False)] = numbers[:count]


def _within(x: np.ndarray, low: float, high: float, generator: np.random.Generator) -> np.ndarray:
    """Return values within a range: those beyond are spread over it, or put on its bounds if it is open."""
    inside: np.ndarray = np.clip(x, low, high)
    if not np.isfinite([low, high]).all() or low >= high:
        return inside
    spread = generator.uniform(low, high, x.shape)
    result: np.ndarray = np.where((inside != x) & (generator.random(x.shape) < 0.9), spread, inside)
    return result


def _domains(alignment: Alignment, draft: Draft) -> dict[str, tuple[Domain, Sequence[float]]]:
    """Return the values that A's layers of a group can read, by signal, as far as B's can read them too.

    With each come the thresholds that layers of both nets decide by.
    """
    own = {side.name: {id(node) for node in draft.nodes_of(side)} for side in alignment.sides}
    a, b = alignment.sides
    free_b = b.signals.reads_from_outside(draft.nodes_b)
    domains: dict[str, tuple[Domain, Sequence[float]]] = {}
    for name in a.signals.reads_from_outside(draft.nodes_a):
        value = next(iter(a.graph.find([name]).values()), None)
        if value is None:
            continue
        domain = domain_of(value, lambda node: _is_within(node, own["A"]))
        pair = a.pairs.get(name)
        partner = pair.b if pair is not None and pair.b in free_b else free_b[0] if len(free_b) == 1 else None
        value_b = None if partner is None else b.graph.find([partner]).get(partner)
        domain_b = (
            domain_of(value_b, lambda node: _is_within(node, own["B"])) if value_b is not None else Domain()
        )
        shared = sorted({*domain.landmarks} & {*domain_b.landmarks})
        domains[name] = (domain if value_b is None else domain.merged(domain_b)), shared
    return domains


def _is_within(node: ir.Node, own: set[int]) -> bool:
    from netweave.comparison.metric import is_view

    return id(node) in own or is_view(node)


def _has_weights_of_zeros(node: ir.Node) -> bool:
    arrays = [value.const_value.numpy() for value in constants_of(node).values() if value.const_value]
    return any(x.size > 1 and x.dtype.kind == "f" and not x.any() for x in arrays)


def _has_same_settings(a: ir.Node, b: ir.Node) -> bool:
    if attributes_of(a) == attributes_of(b):  # mostly so, and the defaults need not be filled in then
        return True
    return not differences(a, b) and not differences(b, a)


def _has_same_constants(a: ir.Node, b: ir.Node, largest: int | None) -> bool:
    """Return whether two nodes have equal constants of a size."""
    arrays_a, arrays_b = constants_of(a), constants_of(b)
    if arrays_a.keys() != arrays_b.keys():
        return False
    for index, value in arrays_a.items():
        x, y = (
            None if each.const_value is None else each.const_value.numpy()
            for each in (value, arrays_b[index])
        )
        if x is None or y is None or (largest is not None and max(x.size, y.size) > largest):
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if not np.array_equal(x, y) and (x.dtype.kind != "f" or differing(x, y).any()):
            return False
    return True
