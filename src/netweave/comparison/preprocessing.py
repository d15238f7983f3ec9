"""Differences outside two nets: steps of the preprocessing of their image.

The steps are exchanged one at a time between A's preprocessing and B's, and A is run on each image that comes
of it (decision 0185). What B is given is looked at as A would see it: where B takes its channels in another
order, an image in that order is the same image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.comparison.metric import OUTPUT_TOLERANCE, relative_error
from netweave.comparison.result.comparison import Comparison, Evidence, Finding, Group, Status, TensorMapping
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import RunError
from netweave.graph import Graph
from netweave.graph.summary import ratio_text
from netweave.runtime.images.preprocessing import Preprocessing

Pixels = Callable[[str], np.ndarray]

_OTHER_ORDER = {"rgb": "bgr", "bgr": "rgb", "gray": "gray"}


@dataclass(frozen=True, slots=True)
class Steps:
    """A preprocessing in steps that can be exchanged with those of another one.

    Attributes:
        color: Order of the channels.
        fit: How the image is brought to the proportions of the input.
        resize: Side before the middle is cut out; 0 for that of the input.
        interpolation: How pixels between pixels are computed.
        mean: What is subtracted from the pixels of each colour: red, green and blue.
        gain: The factor of each colour afterwards.
    """

    color: str
    fit: str
    resize: int
    interpolation: str
    mean: tuple[float, ...]
    gain: tuple[float, ...]

    @classmethod
    def of(cls, given: Preprocessing, mapping: TensorMapping | None = None) -> Steps:
        """Return the steps of a preprocessing; of B's as A's input would have them, with the mapping to B's.

        Args:
            given: The preprocessing.
            mapping: How A's input becomes B's; None for A's own.
        """
        channels = 1 if given.color == "gray" else 3
        mean, std = (row if len(row) == channels else row * channels for row in (given.mean, given.std))
        factor = 1.0 if mapping is None else mapping.scale
        turn = -1 if given.color == "bgr" else 1
        is_turned = mapping is not None and mapping.channel_order == (2, 1, 0)
        return cls(
            _OTHER_ORDER[given.color] if is_turned else given.color,
            given.fit,
            given.resize,
            given.interpolation,
            tuple(m / given.scale for m in mean)[::turn],
            tuple(given.scale / s / factor for s in std)[::turn],
        )

    def preprocessing(self) -> Preprocessing:
        """Return the preprocessing that they make."""
        turn = -1 if self.color == "bgr" else 1
        return Preprocessing(
            color=self.color,
            fit=self.fit,
            scale=1.0,
            mean=self.mean[::turn],
            std=tuple(1 / gain for gain in self.gain[::turn]),
            resize=0 if self.fit == "letterbox" else self.resize,
            interpolation=self.interpolation,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A step that two preprocessings may do differently.

    Attributes:
        name: What it is called.
        setting: What it is called in a text of settings.
        fields: Its fields in ``Steps``.
    """

    name: str
    setting: str
    fields: tuple[str, ...]


STEPS = (
    Step("channel order", "order", ("color",)),
    Step("mean", "mean", ("mean",)),
    Step("scale", "scale", ("gain",)),
    Step("resize rule", "fit", ("fit",)),
    Step("crop", "resize", ("resize",)),
    Step("interpolation", "interpolation", ("interpolation",)),
)
"""The steps, in the order in which they are said where their effects are equal."""


def with_preprocessing(
    comparison: Comparison,
    a: Graph,
    pixels: Pixels,
    given: tuple[Preprocessing, Preprocessing],
    *,
    size: tuple[int, int],
    tolerance: float = OUTPUT_TOLERANCE,
) -> Comparison:
    """Return a comparison with what the preprocessing of one image adds to the differences of the nets.

    Args:
        comparison: The nets, compared on the image as A is given it.
        a: The first net.
        pixels: Returns the image in an order of channels.
        given: A's preprocessing and B's.
        size: Height and width of A's input.
        tolerance: Largest relative error of an output treated as equal.

    Raises:
        RunError: A cannot be run.
    """
    if not comparison.inputs:
        return comparison
    mapping = comparison.inputs[0]
    steps = Steps.of(given[0]), Steps.of(given[1], mapping)
    differing = [step for step in STEPS if not _is_same(steps, step)]
    if not differing:
        return comparison
    trial = _Trial(a, mapping.a, pixels, size)
    wanted = trial.outputs(steps[0])
    effect = trial.error(wanted, steps[1])
    rows = []
    for step in differing:
        alone = trial.error(wanted, _exchanged(steps[0], steps[1], step))
        without = trial.error(wanted, _exchanged(steps[1], steps[0], step))
        rows.append((alone, _finding(steps, step, mapping, alone, without, latent=alone <= tolerance)))
    findings = [finding for _, finding in sorted(rows, key=lambda row: -row[0])]
    return _decided(comparison, _groups(a, mapping, findings), effect, tolerance=tolerance)


class _Trial:
    def __init__(self, net: Graph, name: str, pixels: Pixels, size: tuple[int, int]) -> None:
        self._name = name
        self._pixels = pixels
        self._size = size
        self._net = net
        self._fitted: Graph | None = None

    def outputs(self, steps: Steps) -> dict[str, np.ndarray]:
        """Return what A computes of the image after some steps."""
        preprocessing = steps.preprocessing()
        x = preprocessing.apply(self._pixels(preprocessing.color), *self._size)
        if self._fitted is None:
            self._fitted = memory_budget.resized(self._net, {self._name: x.shape})
        if self._fitted is None:
            raise RunError(
                f"net {self._net.name!r} does not take an image of {self._size[0]} x {self._size[1]}"
            )
        return memory_budget.run_tapped(self._fitted, memory_budget.Probe({self._name: x}, ""), [])

    def error(self, wanted: dict[str, np.ndarray], steps: Steps) -> float:
        """Return how far the outputs after some steps are from those wanted."""
        outputs = self.outputs(steps)
        return max(relative_error(x, outputs[name]) for name, x in wanted.items() if name != self._name)


def _is_same(steps: tuple[Steps, Steps], step: Step) -> bool:
    return all(_alike(*(getattr(one, field) for one in steps)) for field in step.fields)


def _alike(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(
            abs(x - y) <= 1e-4 * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
        )
    return a == b


def _exchanged(own: Steps, other: Steps, step: Step) -> Steps:
    """Return some steps with one of them as the other preprocessing does it."""
    changed = {field: getattr(other, field) for field in step.fields}
    exchanged = replace(own, **changed)
    if exchanged.fit == "letterbox":
        return replace(exchanged, resize=0)
    return exchanged


def _finding(
    steps: tuple[Steps, Steps],
    step: Step,
    mapping: TensorMapping,
    alone: float,
    without: float,
    *,
    latent: bool,
) -> Finding:
    said = [_in_words(one, step) for one in steps]
    fix = said[0]
    if step.setting == "order" and mapping.channel_order == (2, 1, 0):
        fix = _OTHER_ORDER[fix]
    return Finding(
        mismatch="preprocessing",
        cause=f"{step.name} of the image: {said[0]} before A, {said[1]} before B",
        fix=f"in B's preprocessing: {step.setting} {fix}",
        layer_a=mapping.a,
        layer_b=mapping.b,
        error=alone,
        error_fixed=without,
        latent=latent,
    )


def _in_words(steps: Steps, step: Step) -> str:
    value = getattr(steps, step.fields[0])
    if step.setting == "resize":
        return f"{value}, then the middle" if value else "none but to the size of the input"
    if not isinstance(value, tuple):
        return str(value)
    numbers = [f"{number:.5g}" for number in value]
    if len(set(numbers)) == 1:
        return numbers[0]
    return f"{';'.join(numbers)} for red, green and blue"


def _groups(a: Graph, mapping: TensorMapping, findings: Sequence[Finding]) -> tuple[Group, ...]:
    layers = tuple(key for key, layer in a.layers.items() if mapping.a in layer.outputs and not layer.inputs)
    return tuple(
        Group(
            nodes_a=(),
            nodes_b=(),
            layers_a=layers,
            layers_b=(),
            evidence=Evidence.NAME,
            status=Status.LATENT if finding.latent else Status.DIFFERENT,
            error=finding.error,
            finding=finding,
        )
        for finding in findings
    )


def _decided(
    comparison: Comparison, groups: tuple[Group, ...], effect: float, *, tolerance: float
) -> Comparison:
    """Return the comparison with the findings, and a verdict that counts them."""
    result = replace(comparison, groups=(*groups, *comparison.groups))
    first = groups[0].finding
    if effect <= tolerance or first is None:
        note = (
            f"the preprocessing differs, and changes the outputs by {ratio_text(effect)} of the rms at most"
        )
        return replace(result, notes=(*comparison.notes, note))
    before = f"different before the net: {first.cause}"
    more = (
        f". {len(groups) - 1} more difference{'s' * (len(groups) > 2)} of the preprocessing"
        if groups[1:]
        else ""
    )
    size = f". Preprocessing changes the outputs by {ratio_text(effect)} times their rms"
    if comparison.same_structure:
        sentence = f"{before}{more}{size}. The nets themselves are {comparison.sentence}. Fix: {first.fix}"
    else:
        sentence = f"{comparison.sentence}. Also {before}{more}{size}"
    verdict = Verdict.DIFFERENT if comparison.same_structure else comparison.verdict
    return replace(result, verdict=verdict, sentence=sentence, error=max(effect, comparison.error or 0.0))
