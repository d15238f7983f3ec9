"""Changes of what nets compute along a sequence: rotary embeddings, attention, masks, heads, experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
import onnx_ir as ir

from netweave.comparison.dumps.variant import Arrays, Bypass, Variant, stored_array
from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.mismatch import node_named, together
from netweave.comparison.metric import Signals, constants_of, is_view
from netweave.graph import Graph, attributes_of, known_shape

THETAS = (10_000.0, 1_000_000.0, 500_000.0, 100_000.0, 50_000.0, 1_000.0)

FACTORS = (2.0, 4.0, 8.0, 0.5, 0.25, 0.125)


def rotary(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield rotary embeddings with other pairs, angles, positions or parts of the head."""
    if node.op_type != "RotaryEmbedding":
        return
    interleaved = attributes_of(node).get("interleaved", 0)
    own, other = ("neighbours", "halves") if interleaved else ("halves", "neighbours")
    change = set_attribute(node.name, "interleaved", 1 - interleaved)
    cause, fix = f"rotary pairs taken as {other}", f"take the {own} of a head as pairs"
    yield Variant("rotary-pairing", node, cause, fix, change, is_shared=True)
    cosines, sines = stored_array(node, 1), stored_array(node, 2)
    if cosines is None or sines is None or cosines.shape[-2] < 2:
        return
    count = cosines.shape[-1]
    steps = np.arange(cosines.shape[-2])[:, None]
    own_angles = np.angle(np.take(cosines, 1, -2) + 1j * np.take(sines, 1, -2)).reshape(-1, count)[0]
    shape = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    head = shape[-1] if shape is not None and shape[-1] else 2 * count
    others = [*_other_angles(own_angles), *_other_parts(own_angles, head)]
    for key, cause, fix, frequencies, start in others:
        sizes = (*cosines.shape[:-1], len(frequencies))
        angles = np.broadcast_to((steps + start) * frequencies, sizes)
        tables = [np.cos(angles).astype(cosines.dtype), np.sin(angles).astype(sines.dtype)]
        changes = [replace_constant(node.name, i, table) for i, table in enumerate(tables, 1)]
        if len(frequencies) != count:
            features = 2 * len(frequencies)
            changes.append(set_attribute(node.name, "rotary_dim", features if features < head else 0))
        yield Variant(key, node, cause, fix, together(*changes), is_shared=True)


Angles = tuple[str, str, str, np.ndarray, int]
"""Other angles of a rotary embedding: key, cause, fix, the angle of each pair, the first position."""


@dataclass(frozen=True, slots=True)
class _Frequencies:
    """The base of rotary frequencies, and their scaling: by ``clip(at_zero + slope * f, least, 1)``.

    That is Llama 3's: low frequencies are divided by a factor, high ones kept, those between interpolated.
    """

    theta: float
    at_zero: float = 1.0
    slope: float = 0.0
    least: float = 1.0

    @property
    def is_scaled(self) -> bool:
        """True if some frequencies are not those of the base."""
        return self.least < 1

    def of(self, count: int, *, theta: float = 0.0) -> np.ndarray:
        """Return scaled frequencies of another number of pairs, or of another base."""
        plain = (theta or self.theta) ** (-np.arange(count) / count)
        return plain * np.clip(self.at_zero + self.slope * plain, self.least, 1)

    @classmethod
    def behind(cls, own: np.ndarray) -> _Frequencies | None:
        """Return what frequencies were computed from; None if they are none of a known kind."""
        count = len(own)
        if count < 2 or own[1] <= 0:
            return None
        guessed = float(own[1] ** -count)
        for theta in (guessed, *THETAS):
            plain = theta ** (-np.arange(count) / count)
            ratios = own / plain
            if np.allclose(ratios, 1, rtol=1e-3):
                return cls(theta)
            least = float(ratios[-1])
            between = np.flatnonzero((ratios > least * 1.01) & (ratios < 0.99))
            is_flat = count > 2 and abs(ratios[-2] / least - 1) < 1e-3
            if not is_flat or not 0 < least < 1 or np.diff(ratios).max() > 1e-3 or abs(ratios[0] - 1) > 1e-3:
                continue
            f, r = plain[between], ratios[between]
            if len(f) > 1:
                slope = float((r[0] - r[-1]) / (f[0] - f[-1]))
            elif len(f) == 1:  # one step is not divided from four times the length on, as in Llama 3
                slope = float((1 - least) / 3 * (1 + 3 * (r[0] - least) / (1 - least)) / f[0])
            else:
                continue
            return cls(theta, float(r[0] - slope * f[0]), slope, least)
        return None


def _other_angles(own: np.ndarray) -> Iterator[Angles]:
    count = len(own)
    known = _Frequencies.behind(own)
    for theta in THETAS:
        angles = known.of(count, theta=theta) if known is not None else theta ** (-np.arange(count) / count)
        if not np.allclose(angles, own, rtol=1e-3):
            yield "rotary-theta", f"theta {theta:,.0f} in its rotary embedding", "use A's theta", angles, 0
    if known is not None and known.is_scaled:
        cause = "a rotary embedding without A's scaling of its frequencies"
        plain = known.theta ** (-np.arange(count) / count)
        yield "rotary-scaling", cause, "scale the frequencies as A does", plain, 0
    for factor in FACTORS:
        cause = f"the angles of its rotary embedding times {factor:g}"
        yield "rotary-scaling", cause, "scale the frequencies as A does", own * factor, 0
    for start in (1, -1):
        yield (
            "rotary-position",
            f"a rotary embedding whose positions start at {start}",
            "start at position 0",
            own,
            start,
        )
    yield "rotary-sign", "a rotary embedding in the other direction", "negate the sines", -own, 0
    yield "rotary-missing", "no rotary embedding", "rotate queries and keys", own * 0, 0


def _other_parts(own: np.ndarray, head: int) -> Iterator[Angles]:
    """Yield rotations of another part of the head, with the same angles or with the same base of them."""
    count = len(own)
    known = _Frequencies.behind(own)
    for features in (head, head // 2, head // 4):
        pairs = features // 2
        if pairs == count or pairs < 1 or known is None:
            continue
        cause = f"a rotary embedding of {features} features of a head of {head}"
        fix = f"rotate {2 * count} features"
        yield "rotary-part", cause, fix, known.of(pairs), 0
        if pairs < count:
            yield "rotary-part", f"{cause}, by its first angles", fix, own[:pairs], 0
            first = np.concatenate([known.of(pairs), np.zeros(count - pairs)])
            yield "rotary-part", f"{cause}, as pairs of neighbours", fix, first, 0


def attention(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield attention with another scale, without its soft cap, or with another mask."""
    if node.op_type != "Attention":
        return
    settings = attributes_of(node)
    query = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    size = query[-1] if query is not None and len(query) == 4 else None
    own = settings.get("scale", 1 / sqrt(size) if size else None)
    scales = {"1": 1.0} | ({"1 / head size": 1 / size, "1 / sqrt(head size)": 1 / sqrt(size)} if size else {})
    for said, scale in scales.items():
        if own is not None and abs(scale - own) > 1e-6:
            yield Variant(
                "attention-scale",
                node,
                f"scores scaled by {said}",
                f"scale by {own:g}",
                set_attribute(node.name, "scale", scale),
                is_shared=True,
            )
    if settings.get("softcap", 0.0):
        yield Variant(
            "attention-softcap",
            node,
            "no soft cap of its scores",
            f"softcap={settings['softcap']:g}",
            set_attribute(node.name, "softcap", 0.0),
            is_shared=True,
        )
    shapes = [known_shape(value) if value is not None else None for value in node.inputs[:2]]
    if any(shape is None or len(shape) < 2 or not shape[-2] for shape in shapes):
        return
    queries, keys = (int(shape[-2] or 1) for shape in shapes if shape is not None)
    for key, said, seen in _other_masks(queries, keys):
        yield Variant(key, node, said, "mask as A does", _Mask(node.name, seen), is_shared=True)


HIDDEN = -1e4
"""Scores below are those of steps that are masked."""

MAX_WINDOW = 16


def _other_masks(queries: int, keys: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield masks that implementations often have: key, words, and which keys each query sees."""
    steps = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
    yield "causal-mask", "no causal mask", steps < keys
    yield "causal-mask", "a causal mask without a window", steps <= 0
    yield "causal-mask", "a mask that shows one later step", steps <= 1
    yield "causal-mask", "a mask that hides the step itself", (steps < 0) | (steps == steps.min())
    for width in range(1, min(queries, MAX_WINDOW + 1)):
        yield "sliding-window", f"a causal window of {width} steps", (steps <= 0) & (steps > -width)


def masks(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other masks where scores are masked by a node of their own: a choice, or a sum."""
    if node.op_type not in {"Where", "Add"}:
        return
    masked = stored_array(node, 1)
    hides = masked is not None and masked.size == 1 and bool(masked.reshape(-1)[0] < HIDDEN)
    for index in constants_of(node):
        array = stored_array(node, index)
        if array is None or array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
            continue
        own = array.reshape(-1, *array.shape[-2:])[0]
        if own.dtype != np.bool_ and not (own < HIDDEN).any():
            continue
        for key, said, seen in _other_masks(*own.shape):
            if own.dtype == np.bool_:
                other = ~seen if hides else seen
            else:
                other = np.where(seen, own.dtype.type(0), own.min())
            if not np.array_equal(other, own):
                full = np.ascontiguousarray(np.broadcast_to(other, array.shape))
                change = replace_constant(node.name, index, full)
                yield Variant(key, node, said, "mask as A does", change, is_shared=True)


class _Mask:
    """Gives attention a mask of its own."""

    def __init__(self, node: str | None, seen: np.ndarray) -> None:
        self._node, self._seen = node, seen

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        node.attributes.pop("is_causal", None)
        if len(node.inputs) < 4:
            node.resize_inputs(4)
        hidden = np.where(self._seen, np.float32(0), np.float32(-1e30))
        replace_constant(self._node, 3, hidden)(graph)


def heads(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield other orders of heads that several queries share."""
    places = stored_array(node, 1) if node.op_type == "Gather" else None
    if places is None or places.ndim != 1:
        return
    count = int(places.max(initial=0)) + 1
    heads, times = np.arange(count), places.size // count
    orders = {"repeated in place": np.repeat(heads, times), "tiled": np.tile(heads, times)}
    for said, order in orders.items():
        if times > 1 and order.size == places.size and not np.array_equal(order, places):
            change = replace_constant(node.name, 1, order.astype(places.dtype))
            cause = f"the heads {said}"
            yield Variant("head-order", node, cause, "repeat them as A does", change, is_shared=True)


def joined_heads(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield heads that are joined in another order of axes before a dense layer."""
    if node.op_type not in {"MatMul", "Gemm"} or not constants_of(node):
        return
    value = node.inputs[0]
    while value is not None and (maker := value.producer()) is not None and is_view(maker):
        perm = list(attributes_of(maker).get("perm", ()))
        if maker.op_type == "Transpose" and perm == [0, 2, 1, 3]:
            for said, other in (("without a transposition", [0, 1, 2, 3]), ("by features", [0, 2, 3, 1])):
                change = set_attribute(maker.name, "perm", other)
                cause, fix = f"its heads joined {said}", "join the heads as A does"
                yield Variant("head-order", node, cause, fix, change, is_shared=True)
        value = maker.inputs[0]


def experts(signals: Signals, node: ir.Node, values: Arrays) -> Iterator[Variant]:
    """Yield routers that choose fewer experts, or that do not normalise the shares of the chosen ones."""
    if node.op_type == "TopK":
        chosen = values.get(str(node.outputs[0].name))
        total = chosen.shape[-1] if chosen is not None else 0
        for count in range(1, total):
            shown = (np.arange(total) < count).astype(np.float32)
            cause, fix = f"the top {count} experts alone", "choose as many experts as A does"
            yield Variant("expert-count", node, cause, fix, _First(node.name, shown), is_shared=True)
    read = [value.producer() if value is not None else None for value in node.inputs]
    total = read[1] if node.op_type == "Div" else None
    if total is not None and total.op_type == "ReduceSum" and total.inputs[0] is node.inputs[0]:
        cause, fix = "shares that are not normalised (no division by their sum)", "divide by their sum"
        yield Variant("expert-shares", node, cause, fix, Bypass(node.name), is_shared=True)


class _First:
    """Makes all but the first values that a node chooses zero."""

    def __init__(self, node: str | None, shown: np.ndarray) -> None:
        self._node, self._shown = node, shown

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        value = node.outputs[0]
        uses = list(value.uses())
        name = f"{node.name}/first"
        made = ir.Node("", "Mul", [value, None], name=name)
        made.outputs[0].name = name
        graph.model.graph.insert_after(node, [made])
        for use in uses:
            use.node.replace_input_with(use.idx, made.outputs[0])
        replace_constant(name, 1, self._shown)(graph)
