"""Measurement of what the inputs of a comparison exercise in a net.

A setting is exercised if changing it would have changed what its layer computes. For operators that decide by
a threshold, a bound or a table, this follows from the values that they read. For the others it holds as soon
as their values depend on the inputs; a sample of their settings is changed, and the layer run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.comparison.explain.known_mismatches.attributes import IGNORED, canonical, set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.metric import constants_of
from netweave.comparison.result.comparison import Coverage, Unexercised
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError
from netweave.graph import layer_keys
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.input_domains import Variation
    from netweave.comparison.prepare import Side
    from netweave.graph import Graph

    Change = Callable[[Graph], None]
    Trial = tuple[ir.Node, Callable[[str], Change]]

MAX_MUTATED = 6
"""Settings that no rule judges and that are changed, in one run of their layers."""

LARGEST_MUTATED = 1 << 20
"""Elements of the inputs of a layer that is run again; larger ones take long, and show as much."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a layer, and whether the inputs exercised it.

    Attributes:
        name: The setting, in the words of ONNX.
        reason: Why it was not exercised; empty if it was.
    """

    name: str
    reason: str = ""


def measure_coverage(side: Side, variation: Variation) -> Coverage:
    """Return which settings of a net its inputs exercised.

    Args:
        side: The net, run.
        variation: Which of its signals depend on the inputs.
    """
    missed: list[Unexercised] = []
    count = 0
    open_settings: list[tuple[ir.Node, str, Any]] = []
    for node in side.signals.nodes:
        is_ruled = node.op_type in RULES
        settings = ruled_settings(side, node) if is_ruled else _plain(side, node, variation)
        count += len(settings)
        missed += [_missed(side, node, setting) for setting in settings if setting.reason]
        if not is_ruled and not any(setting.reason for setting in settings):
            open_settings += _mutable(node)
    chosen = open_settings[:: len(open_settings) // MAX_MUTATED + 1]
    trials: list[Trial] = [
        (node, partial(set_attribute, name=name, value=value)) for node, name, value in chosen
    ]
    for (node, name, _), is_idle in zip(chosen, _are_idle(side, trials), strict=True):
        if is_idle:
            missed.append(_missed(side, node, Setting(name, "another value changes nothing here")))
    return Coverage(count, tuple(missed))


def ruled_settings(side: Side, node: ir.Node) -> list[Setting]:
    """Return what a node decides by, judged by what it read; nothing if it has no rule."""
    rule = RULES.get(node.op_type)
    return list(rule(Reading(side, node))) if rule is not None else []


def _missed(side: Side, node: ir.Node, setting: Setting) -> Unexercised:
    layers = side.graph.layers_of(node)
    name = layers[0].name if layers else next(iter(layer_keys(node)), str(node.name))
    return Unexercised(f"{node.op_type} {setting.name}", name, setting.reason)


@dataclass(frozen=True, slots=True)
class Reading:
    """Inputs and outputs of a node in one run."""

    side: Side
    node: ir.Node

    def input(self, index: int) -> np.ndarray | None:
        """Return an input by its place; None if there is none, or its values are not known."""
        if index >= len(self.node.inputs):
            return None
        return self._value(self.node.inputs[index])

    def output(self) -> np.ndarray | None:
        """Return the first output."""
        return self._value(self.node.outputs[0])

    def is_constant(self, index: int) -> bool:
        """Return whether an input is stored in the net."""
        return index in constants_of(self.node)

    def number(self, index: int) -> float | None:
        """Return an input that is one stored number; None if it is not."""
        x = self.input(index) if self.is_constant(index) else None
        return float(x.reshape(-1)[0]) if x is not None and x.size == 1 and x.dtype.kind in "fiu" else None

    def _value(self, value: ir.Value | None) -> np.ndarray | None:
        if value is None:
            return None
        if value.const_value is not None:
            return value.const_value.numpy()
        tensors = self.side.tensors
        name = self.side.signals.root.get(str(value.name), str(value.name))
        return tensors.get(name)


def _sides(x: np.ndarray | None, bound: float, name: str) -> Iterator[Setting]:
    """Yield one setting that shows only if values lie on both sides of a bound."""
    if x is None or not x.size:
        yield Setting(name, "its values are not known")
    elif not (x > bound).any():
        yield Setting(name, f"no value is above {bound:.7g}")
    elif not (x < bound).any():
        yield Setting(name, f"no value is below {bound:.7g}")
    else:
        yield Setting(name)


def _clip(read: Reading) -> Iterator[Setting]:
    x = read.input(0)
    for index, name in ((1, "min"), (2, "max")):
        bound = read.number(index)
        if bound is not None and abs(bound) < float(np.finfo(np.float32).max):
            yield from _sides(x, bound, name)


def _bent_at(*bounds: float) -> Callable[[Reading], Iterator[Setting]]:
    def rule(read: Reading) -> Iterator[Setting]:
        for bound in bounds:
            yield from _sides(read.input(0), bound, f"bend at {bound:g}")

    return rule


def _thresholded(read: Reading) -> Iterator[Setting]:
    yield from _sides(read.input(0), float(canonical(read.node).get("alpha", 1.0)), "alpha")


def _hard_sigmoid(read: Reading) -> Iterator[Setting]:
    values = canonical(read.node)
    alpha, beta = float(values.get("alpha", 0.2)), float(values.get("beta", 0.5))
    for limit in (0.0, 1.0) if alpha else ():
        yield from _sides(read.input(0), (limit - beta) / alpha, f"limit at {limit:g}")


def _against_a_number(read: Reading) -> Iterator[Setting]:
    """Judge the constant of a comparison, or of a minimum or maximum: values must lie on both sides."""
    for index in range(len(read.node.inputs)):
        bound = read.number(index)
        others = [i for i in range(len(read.node.inputs)) if i != index]
        if bound is not None and others:
            yield from _sides(read.input(others[0]), bound, "constant")


def _compared(read: Reading) -> Iterator[Setting]:
    made = read.output()
    if made is None or not made.size:
        yield Setting("outcome", "its values are not known")
    else:
        same = "always true" if made.all() else "never true" if not made.any() else ""
        yield Setting("outcome", f"it is {same}" if same else "")


def _where(read: Reading) -> Iterator[Setting]:
    condition = read.input(0)
    if condition is None or not condition.size:
        yield Setting("branches", "its condition is not known")
    elif condition.all() or not condition.any():
        yield Setting("branches", f"only the {'first' if condition.all() else 'second'} is ever chosen")
    else:
        yield Setting("branches")


def _rounded(read: Reading) -> Iterator[Setting]:
    x = read.input(0)
    shows = x is not None and x.dtype.kind == "f" and (x != np.floor(x)).any()
    yield Setting("rounding", "" if shows else "every value is an integer")


def _modulus(read: Reading) -> Iterator[Setting]:
    x, divisor = read.input(0), read.input(1)
    if x is None or divisor is None or not x.size:
        yield Setting("divisor", "its values are not known")
        return
    yield Setting("divisor", "" if (np.abs(x) >= np.abs(divisor).min()).any() else "no value reaches it")
    yield Setting("fmod", "" if (x < 0).any() or (divisor < 0).any() else "no value is negative")


def _table(read: Reading) -> Iterator[Setting]:
    """Judge the rows of a table that is looked up by computed places."""
    ids, table = read.input(1), read.input(0)
    if ids is None or table is None or not read.is_constant(0) or read.is_constant(1):
        yield Setting("axis")
        return
    rows = table.shape[int(canonical(read.node).get("axis", 0))]
    seen = len(np.unique(ids % rows)) if rows else 0
    yield Setting("rows", "" if seen == rows else f"{seen:,} of {rows:,} rows were looked up")


def _suppression(read: Reading) -> Iterator[Setting]:
    """Judge the limits of non-maximum suppression by changing each."""
    names = {2: "max_output_boxes_per_class", 3: "iou_threshold", 4: "score_threshold"}
    for index, name in names.items():
        number, stored = read.number(index), read.input(index)
        if number is None or stored is None:
            continue
        others = (number + 1, max(number - 1, 0)) if index == 2 else (number / 2, (1 + number) / 2)
        trials: list[Trial] = [
            (read.node, partial(replace_constant, index=index, values=np.full_like(stored, other)))
            for other in others
        ]
        idle = all(is_idle for trial in trials for is_idle in _are_idle(read.side, [trial]))
        yield Setting(name, "another value changes nothing here" if idle else "")


RULES: Mapping[str, Callable[[Reading], Iterator[Setting]]] = {
    "Abs": _bent_at(0.0),
    "Ceil": _rounded,
    "Celu": _bent_at(0.0),
    "Clip": _clip,
    "Elu": _bent_at(0.0),
    "Equal": _compared,
    "Floor": _rounded,
    "Gather": _table,
    "Greater": _compared,
    "GreaterOrEqual": _compared,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _bent_at(-3.0, 3.0),
    "LeakyRelu": _bent_at(0.0),
    "Less": _compared,
    "LessOrEqual": _compared,
    "Max": _against_a_number,
    "Min": _against_a_number,
    "Mod": _modulus,
    "NonMaxSuppression": _suppression,
    "PRelu": _bent_at(0.0),
    "Relu": _bent_at(0.0),
    "Round": _rounded,
    "Selu": _bent_at(0.0),
    "ThresholdedRelu": _thresholded,
    "Where": _where,
}
"""What must have been read for a setting to show, by operator; to add one, add a row."""


def _plain(side: Side, node: ir.Node, variation: Variation) -> list[Setting]:
    """Return the settings of an operator without a rule: they show if its values depend on the inputs."""
    names = [name for name in canonical(node) if name not in IGNORED]
    names += [f"input {index}" for index in constants_of(node)]
    outputs = side.signals.outputs_of(node)
    flaw = variation.flaw(outputs[0]) if outputs else "not read"
    if flaw and names:  # one line says it for all, and counts once: none of them is exercised
        return [Setting("settings", f"its values are {flaw}")]
    return [Setting(name) for name in names]


def _mutable(node: ir.Node) -> Iterator[tuple[ir.Node, str, Any]]:
    """Yield the settings of a node that may have no effect, each with another value: flags and factors."""
    for name, attribute in node.attributes.items():
        if name in IGNORED:
            continue
        value = attribute.value
        if isinstance(value, float):
            yield node, name, value * 1.5 + 0.1
        elif isinstance(value, int) and value in {0, 1} and name in FLAGS:
            yield node, name, 1 - value


FLAGS = frozenset({"ceil_mode", "count_include_pad", "exclude_outside", "is_causal", "linear_before_reset"})
"""Settings that are on or off; other integers are sizes and axes, which show in the shapes."""


def _are_idle(side: Side, trials: Sequence[Trial]) -> list[bool]:
    """Return which changes leave what their layers compute as it is; one run tries all whose values are held.

    Args:
        side: The net, run.
        trials: Nodes, each with what makes a change of it, given its name.
    """
    if side.tensors.is_held or len(trials) < 2:
        try:
            return _tried(side, trials)
        except (NetweaveError, KeyError):  # a change that a layer does not bear would have shown
            if len(trials) < 2:
                return [False] * len(trials)
    return [is_idle for trial in trials for is_idle in _are_idle(side, [trial])]


def _tried(side: Side, trials: Sequence[Trial]) -> list[bool]:
    builder = SubgraphBuilder(side.signals)
    feeds: dict[str, np.ndarray] = {}
    changes: list[Change] = []
    wanted: list[dict[str, str]] = []
    for index, (node, change_of) in enumerate(trials):
        read = side.signals.reads_from_outside([node])
        outputs = [name for name in side.signals.outputs_of(node) if name in side.tensors]
        wanted.append({})
        if not outputs or any(name not in side.tensors for name in read):
            continue
        shapes = {name: side.tensors.shape_of(name) or () for name in read}
        if sum(map(prod, shapes.values())) > LARGEST_MUTATED:
            continue
        prefix = f"g{index}/"
        fed = builder.add([node], outputs, shapes, prefix=prefix)
        feeds |= {f"{prefix}{name}": side.tensors[name] for name in fed}
        changes.append(change_of(f"{prefix}{node.name}"))
        wanted[-1] = {f"{prefix}{name}": name for name in outputs}
    if not changes:
        return [False] * len(trials)
    graph = builder.finish()
    for change in changes:
        change(graph)
    made = prepare(graph).run(feeds)
    del feeds  # a net that is not held may have to be run again for what it computed
    return [
        bool(names)
        and all(np.array_equal(made[name], side.tensors[own], equal_nan=True) for name, own in names.items())
        for names in wanted
    ]
