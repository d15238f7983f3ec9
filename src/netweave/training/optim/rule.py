"""Update rules and policies."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch

from netweave.deferred import Table
from netweave.errors import UsageError
from netweave.training.settings import from_settings, of_source

if TYPE_CHECKING:
    from netweave import job


# A rule is written once for every device: it acts on lists, so that a GPU gets few launches and a CPU gets
# blocks that stay in its cache (see ``updater``). To add one: a frozen dataclass of its settings under
# ``@rule("source.name")`` with ``update``, its formula cited; a NumPy transcription in the tests.

Tensors = list[torch.Tensor]


@dataclass(slots=True)
class Block:
    """Some elements of some parameters that share their multipliers.

    Attributes:
        weights: The elements; changed in place.
        gradients: Their gradients, to be read only.
        state: What the rule keeps for them, by name; changed in place.
        rate: Learning rate times multiplier.
        decay: Weight decay times multiplier.
        step: Number of this update, from 1.
        scale: Factor to be put on the gradients first.
        factors: What ``Rule.begin`` found out for this parameter, where ``by_parameter``.
        noise: Returns normal numbers for the elements; which ones depends on seed, step, parameter and
            element alone.
    """

    weights: Tensors
    gradients: Tensors
    state: dict[str, Tensors]
    rate: float
    decay: float
    step: int
    scale: float
    factors: tuple[float, ...] = ()
    noise: Callable[[], Tensors] | None = None

    def scaled(self) -> Tensors:
        """Return the gradients times ``scale``; to be read only."""
        return self.gradients if self.scale == 1.0 else torch._foreach_mul(self.gradients, self.scale)


@dataclass(frozen=True, slots=True)
class Multiplied:
    """The multipliers of a parameter, as a rule is told of them when an update begins.

    Attributes:
        key: The parameter's name.
        rate: Learning rate times multiplier.
        decay: Weight decay times multiplier.
        sums: What ``Rule.measure`` gave for all its elements, added up.
    """

    key: str
    rate: float
    decay: float
    sums: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Beginning:
    """Information about all parameters at the beginning of an update.

    Attributes:
        step: Number of this update, from 1.
        base_rate: Learning rate, before multipliers.
        accumulated: Number of batches whose gradients the gradients are the sum of.
        parameters: The trained parameters, in the order of the layout.
        memory: Numbers that the rule keeps from update to update; it starts empty.
    """

    step: int
    base_rate: float
    accumulated: int
    parameters: tuple[Multiplied, ...]
    memory: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """The settings and the arithmetic of one way to update; the settings have the source's names.

    An update has two parts. ``begin`` is called once, with sums over all gradients where the rule needs
    them; ``update`` changes elements, in any order, on whoever holds them.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that are kept for each parameter, in the order in which the source stores them."""

    by_parameter: ClassVar[bool] = False
    """Whether a block holds elements of one parameter only, as ``factors`` differ between them."""

    whole_parameters: ClassVar[bool] = False
    """Whether a block must be one whole parameter, so that no slice cuts one."""

    draws_noise: ClassVar[bool] = False
    """Whether an update draws numbers, by the places of elements in their parameter."""

    num_sums: ClassVar[int] = 0
    """How many sums ``measure`` gives."""

    @property
    @abstractmethod
    def decay(self) -> float:
        """Weight decay, before multipliers."""

    @property
    def measures(self) -> bool:
        """True if an update can only begin when all gradients are there."""
        return self.num_sums > 0

    @property
    def updates_before(self) -> int:
        """Updates that count as done before the first one, for the rule and for the learning rate."""
        return 0

    @property
    def in_one_pass(self) -> bool:
        """True if an update goes over the memory of a block once, so that it need not fit into the cache."""
        return False

    def measure(self, block: Block) -> torch.Tensor:
        """Return sums over the elements of a block, ``num_sums`` of them in float64.

        ``block.scale`` is one over the batches accumulated.
        """
        raise NotImplementedError

    def scale(self, beginning: Beginning) -> float:
        """Return the factor that all gradients are multiplied by first."""
        return 1.0 / beginning.accumulated

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factors of each parameter, and remember what the next update needs."""
        return {}

    @abstractmethod
    def update(self, block: Block) -> None:
        """Change weights and state by one step."""

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return the first value of a kept array: zeros of the weight's shape, type and layout."""
        return torch.zeros_like(weight)


def sum_of_squares(tensors: Tensors) -> torch.Tensor:
    """Return the sum of the squares of all elements, in float64."""
    return torch.stack(torch._foreach_norm(tensors)).double().square().sum()


MODULES = (
    "caffe",
    "darknet",
    "singa",
    "keras.policies",
    "keras.rules",
    "mxnet.adaptive",
    "mxnet.policies",
    "mxnet.rules",
)
"""The modules of rules, policies and fillers."""

RULES = Table[str, type[Rule]](__package__, MODULES)
"""The rules by kind, as a Job names them."""

R = TypeVar("R", bound=type[Rule])


def rule(kind: str) -> Callable[[R], R]:
    """Enter a rule in the table."""

    def enter(made: R) -> R:
        RULES[kind] = made
        return made

    return enter


def make_rule(kind: str, settings: Mapping[str, Any]) -> Rule:
    """Return a rule with its settings.

    Raises:
        UsageError: There is no such rule, it lacks a setting, does not have one, or one is out of range.
    """
    if kind not in RULES:
        known = ", ".join(of_source(kind, RULES))
        raise UsageError(f"unknown update rule {kind!r}; expected one of {known}")
    return from_settings(RULES[kind], f"update rule {kind!r}", settings)


# To add one: a dataclass of its settings under ``@policy("source.name")`` with ``rate``.


@dataclass(slots=True, kw_only=True)
class Policy(ABC):
    """A learning rate that changes; asked once for each iteration, in order.

    Attributes:
        base_rate: The rate that it starts from.
    """

    base_rate: float

    @abstractmethod
    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration.

        Args:
            iteration: Number of updates done before, from 0.
            loss: The smoothed loss before this update, for policies that look at it.
        """

    def state(self) -> dict[str, float]:
        """Return what the policy remembers, for checkpoints."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if not field.init}

    def restore(self, state: Mapping[str, float]) -> None:
        """Remember what ``state`` returned.

        Raises:
            UsageError: The state is of another policy.
        """
        if unknown := sorted(set(state) - set(self.state())):
            raise UsageError(
                f"the learning-rate policy of the checkpoint remembers {unknown[0]!r:.60}, that of the Job "
                "does not; resume with the solver that the checkpoint was written with"
            )
        for name, value in state.items():
            setattr(self, name, value)


POLICIES = Table[str, type[Policy]](__package__, MODULES)
"""The policies by kind, as a Job names them."""

P = TypeVar("P", bound=type[Policy])


def policy(kind: str) -> Callable[[P], P]:
    """Enter a policy in the table."""

    def enter(made: P) -> P:
        POLICIES[kind] = made
        return made

    return enter


def make_policy(wanted: job.Policy) -> Policy:
    """Return the policy that a Job asks for.

    Raises:
        UsageError: There is no such policy, it lacks a setting, does not have one, or one is out of range.
    """
    if wanted.kind not in POLICIES:
        known = ", ".join(of_source(wanted.kind, POLICIES))
        raise UsageError(f"unknown learning-rate policy {wanted.kind!r}; expected one of {known}")
    settings: dict[str, Any] = {"base_rate": wanted.base_rate, **wanted.settings}
    return from_settings(POLICIES[wanted.kind], f"learning-rate policy {wanted.kind!r}", settings)


# A slice is what is updated, summed over devices, sent, and owned as one. The layout is a pure function of
# the net and its solver, the same on every device and for every number of ranks and stages, so that no bit
# depends on timing; checkpoints keep it. Within a parameter elements stand as they lie in a net's memory,
# which is the same on all devices too (filters have their channels last).

SLICE_ELEMENTS = 1 << 20
"""Elements of a slice: 4 MB in float32, some 0.5 ms of an update, so that a task costs little beside it."""

FIRST_ELEMENTS = (1 << 16, 1 << 18)
"""Where the first slice is cut once more, unless slices are as small anyway. Its gradients are the last to be
there, and the next forward pass begins with its parameters: what waits for them waits for a slice as a whole.
"""

ALIGNED_ELEMENTS = 64
"""A parameter begins at a multiple of this. A cut then falls between whole vectors of any processor, whose
kernels round the last, incomplete vector of a run otherwise than the others."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some elements of a parameter, in the order in which they lie in memory.

    Attributes:
        key: The parameter.
        start: The first element.
        stop: The one after the last.
    """

    key: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """Positions of the parameters, and the elements of each slice.

    Attributes:
        offsets: Place of each parameter's first element in the row, by key, in order.
        slices: The elements of each slice.
        slice_elements: Most elements of a slice; 0 where no slice cuts a parameter.
    """

    offsets: Mapping[str, int]
    slices: tuple[tuple[Span, ...], ...]
    slice_elements: int

    def slices_of(self, key: str) -> tuple[int, ...]:
        """Return the numbers of the slices that hold elements of a parameter."""
        return tuple(
            number for number, spans in enumerate(self.slices) if any(span.key == key for span in spans)
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"offsets": dict(self.offsets), "slice_elements": self.slice_elements}


def flat_layout(
    sizes: Mapping[str, int], *, slice_elements: int = SLICE_ELEMENTS, whole_parameters: bool = False
) -> FlatLayout:
    """Return the layout of parameters: slices of one size, but smaller ones at the beginning.

    Args:
        sizes: Elements of each parameter by key, in order.
        slice_elements: Most elements of a slice, a multiple of 64.
        whole_parameters: Let no slice cut a parameter; one may then have more elements.

    Raises:
        UsageError: The size of a slice is no such multiple.

    >>> [len(spans) for spans in flat_layout({"a": 100, "b": 30, "c": 5}, slice_elements=128).slices]
    [1, 2]
    """
    if slice_elements < ALIGNED_ELEMENTS or slice_elements % ALIGNED_ELEMENTS:
        raise UsageError(f"a slice has {slice_elements} elements, expected a multiple of {ALIGNED_ELEMENTS}")
    offsets: dict[str, int] = {}
    end = 0
    for key, size in sizes.items():
        offsets[key] = end
        end += -(-size // ALIGNED_ELEMENTS) * ALIGNED_ELEMENTS
    borders = [first for first in FIRST_ELEMENTS if first < slice_elements]
    borders += range(slice_elements, end + slice_elements, slice_elements)
    rows: dict[int, list[Span]] = {}
    for key, size in sizes.items():
        offset = offsets[key]
        start = 0
        while start < size:
            number = bisect_right(borders, offset if whole_parameters else offset + start)
            stop = size if whole_parameters else min(size, borders[number] - offset)
            rows.setdefault(number, []).append(Span(key, start, stop))
            start = stop
    slices = tuple(tuple(rows[number]) for number in sorted(rows))
    return FlatLayout(offsets, slices, 0 if whole_parameters else slice_elements)


# On a CPU the arithmetic of a rule is several passes over memory. A slice is therefore cut so that a block
# with its gradients and state stays in the cache while the passes are made; small parameters are put
# together. On other devices a block is all of a slice that shares its multipliers, so that there are few
# launches.

BLOCK_ELEMENTS = 1 << 18
"""Most elements in one block on a CPU; whole vectors of any processor, so that cutting changes no bit."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A parameter that an updater changes.

    Attributes:
        key: Its name; unique.
        tensor: Its values; the gradient is in ``tensor.grad``, none counts as zeros.
        lr_mult: Factor on the learning rate; with 0 the parameter is left alone.
        decay_mult: Factor on the weight decay.
        gradient_mult: Factor on the gradient, before the decay is added.
    """

    key: str
    tensor: torch.Tensor
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    gradient_mult: float = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a parameter, in the order in which they lie in memory.

    Attributes:
        parameter: The parameter.
        start: First element.
        stop: The one after the last.
        whole: Whether these are all elements, which keep their shape.
    """

    parameter: Trained
    start: int
    stop: int
    whole: bool

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return these elements of a tensor that lies in memory as the parameter does."""
        if self.whole:
            return tensor
        return tensor.as_strided((self.stop - self.start,), (1,), tensor.storage_offset() + self.start)


def plan(
    spans: Sequence[Span],
    parameters: dict[str, Trained],
    *,
    by_parameter: bool,
    whole: bool,
    in_one_pass: bool = False,
) -> list[list[Piece]]:
    """Return the blocks of a slice; all pieces of a block have equal multipliers, device and type.

    Args:
        spans: The elements of the slice.
        parameters: The parameters by key.
        by_parameter: Let no block have elements of two parameters.
        whole: Let each block be a whole parameter.
        in_one_pass: Leave blocks as large as they are: the rule reads and writes each element once.
    """
    if whole:
        return [[piece_of(parameters[span.key], span)] for span in spans]
    groups: dict[tuple[object, ...], list[Span]] = {}
    for span in spans:
        parameter = parameters[span.key]
        tensor = parameter.tensor
        multipliers = (parameter.lr_mult, parameter.decay_mult, parameter.gradient_mult)
        shared = (*multipliers, tensor.device, tensor.dtype)
        groups.setdefault((span.key,) if by_parameter else shared, []).append(span)
    blocks: list[list[Piece]] = []
    for group in groups.values():
        if parameters[group[0].key].tensor.device.type == "cpu" and not in_one_pass:
            blocks.extend(_pack(piece for span in group for piece in _cut(parameters[span.key], span)))
        else:
            blocks.append([piece_of(parameters[span.key], span) for span in group])
    return blocks


def like(tensor: torch.Tensor | None, model: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values, laid out in memory as another of the same shape; zeros for None."""
    if tensor is None:
        return torch.zeros_like(model)
    pairs = zip(tensor.shape, tensor.stride(), model.stride(), strict=True)
    if all(here == there for size, here, there in pairs if size > 1):
        return tensor
    return torch.empty_like(model).copy_(tensor)


def piece_of(parameter: Trained, span: Span) -> Piece:
    """Return the elements of a span as one piece."""
    return _piece(parameter, span.start, span.stop)


def _piece(parameter: Trained, start: int, stop: int) -> Piece:
    return Piece(parameter, start, stop, whole=stop - start == parameter.tensor.numel())


def _cut(parameter: Trained, span: Span) -> Iterator[Piece]:
    for start in range(span.start, span.stop, BLOCK_ELEMENTS):
        yield _piece(parameter, start, min(start + BLOCK_ELEMENTS, span.stop))


def _pack(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    block: list[Piece] = []
    room = BLOCK_ELEMENTS
    for piece in pieces:
        size = piece.stop - piece.start
        if block and size > room:
            yield block
            block, room = [], BLOCK_ELEMENTS
        block.append(piece)
        room -= size
    if block:
        yield block


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie side by side, in whatever order of axes."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True
