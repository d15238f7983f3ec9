"""Results of a comparison."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.metric import OUTPUT_TOLERANCE
from netweave.comparison.result.causes import Cause, causes_of
from netweave.comparison.result.verdicts import Verdict
from netweave.errors import UsageError
from netweave.graph import Graph

if TYPE_CHECKING:
    from netweave.comparison.result.report import NetRecord


class Evidence(enum.Enum):
    """Why two groups of nodes are taken for each other, strongest first. A guess is no fact."""

    VALUES = "values agree"
    WEIGHTS = "same weights"
    STRUCTURE = "same structure"
    NAME = "same name"
    GUESS = "guess"


class Status(enum.Enum):
    """Result of comparing a group of A with its group of B."""

    EQUAL = "equal"
    MAPPED = "equal under the mapping"
    STRUCTURE = "same structure, weights not compared"
    LATENT = "different, without effect here"
    DIFFERENT = "different"
    PROPAGATED = "propagates an earlier difference"
    ONLY_A = "only in A"
    ONLY_B = "only in B"
    UNKNOWN = "not compared"


@dataclass(frozen=True, slots=True)
class TensorMapping(LayoutChange):
    """Mapping from a named tensor of A to its counterpart in B: a change of layout.

    Attributes:
        a: Name of the value in A.
        b: Name of the value in B.
        text: The change in words; empty for "as it is".
    """

    a: str
    b: str
    text: str = ""

    @classmethod
    def named(cls, a: str, b: str, change: LayoutChange, text: str) -> TensorMapping:
        """Return a change of layout as one between two tensors."""
        steps = {step.name: getattr(change, step.name) for step in fields(LayoutChange)}
        return cls(a, b, text=text, **steps)


NOT_IN_JSON = MappingProxyType({"json": False})
"""Marks a field that is for the page alone."""

INPUT_ORDER = "input order"
"""The setting of an ``Edit`` that puts a layer's inputs in another order, counted from 1 as they stand."""

OPERATOR = "operator"
"""The setting of an ``Edit`` that has a line of Python compute something else: what it calls, and with which
arguments (``F.leaky_relu(slope=0.1)``); without brackets the arguments of a class stay."""

OUTPUT = "output"
"""The setting of an ``Edit`` that computes one function more of what a net returns: which of its outputs,
counted from 1, how many it has, and the function with its arguments (``2 of 3: softmax(dim=1)``)."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A setting of a layer, as the source's own files spell it.

    Attributes:
        name: Name of the setting (``ceil_mode``).
        value: Its value, ready to be written (``True``).
    """

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference, explained as far as possible.

    Attributes:
        mismatch: Key of the known mismatch that explains it (``pool-rounding``); None if none does.
        cause: What differs, in the words of both sources.
        fix: What to change so that the two agree; empty if unknown.
        place_a: Where in A's files, as text.
        place_b: Where in B's files, as text.
        layer_a: Name of A's layer; empty if there is none.
        layer_b: Name of B's layer; empty if there is none.
        error: Largest difference relative to the rms of A's tensor, before the fix.
        error_fixed: The same with the fix tried on B; None if none was tried.
        latent: The difference is there and has no effect with these weights and inputs.
        edits: The settings of B's layer that the fix changes; empty if it takes more than settings.
        functions: What people call what the layers of A compute, and those of B, such as GELU and SiLU; empty
            where the finding is about something else.
    """

    mismatch: str | None
    cause: str
    fix: str = ""
    place_a: str = ""
    place_b: str = ""
    layer_a: str = ""
    layer_b: str = ""
    error: float | None = None
    error_fixed: float | None = None
    latent: bool = False
    edits: tuple[Edit, ...] = ()
    functions: tuple[str, str] = field(default=("", ""), compare=False, metadata=NOT_IN_JSON)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of A against nodes of B that compute the same, or should.

    Attributes:
        nodes_a: Names of A's nodes, in order; empty for ``ONLY_B``.
        nodes_b: Names of B's nodes, in order; empty for ``ONLY_A``.
        layers_a: Keys of A's layers that the nodes belong to.
        layers_b: Keys of B's layers that the nodes belong to.
        evidence: Why they are taken for each other.
        status: How they compare.
        error: Difference of the outputs, each net run on its own inputs, relative to the rms of A's.
        isolated_error: The same with A's real inputs fed to B's nodes, as no earlier difference then counts;
            None if that was not needed.
        mapping: How the output of A becomes that of B; None if not compared or the same.
        rounding_error: Where one net is rounded to fewer bits, the error that its rounding explains; None
            otherwise.
        finding: The explanation, where there is something to explain.
        values: What the group's output holds in both nets, where that was asked for.
        functions: What people call what several layers of A, and of B, compute together, such as LayerNorm;
            empty without such a name.
    """

    nodes_a: tuple[str, ...]
    nodes_b: tuple[str, ...]
    layers_a: tuple[str, ...]
    layers_b: tuple[str, ...]
    evidence: Evidence
    status: Status
    error: float | None = None
    isolated_error: float | None = None
    mapping: TensorMapping | None = None
    finding: Finding | None = None
    rounding_error: float | None = None
    values: TensorValues | None = field(default=None, repr=False, compare=False, metadata=NOT_IN_JSON)
    functions: tuple[str, str] = field(default=("", ""), compare=False, metadata=NOT_IN_JSON)

    @property
    def evidence_text(self) -> str:
        """Why they are taken for each other, in words: values of a rounded net are told with its rounding."""
        if self.evidence is not Evidence.VALUES or self.rounding_error is None:
            return self.evidence.value
        holds = self.status in {Status.EQUAL, Status.MAPPED}
        return f"{self.evidence.value} {'within' if holds else 'before'} rounding"

    @property
    def is_pair(self) -> bool:
        """True if both nets have something in it; weights alone have layers without nodes."""
        return bool((self.nodes_a or self.layers_a) and (self.nodes_b or self.layers_b))


@dataclass(frozen=True, slots=True)
class Precision:
    """The error that rounding to fewer bits causes in a net (decision 0184).

    Attributes:
        side: The net that is rounded, ``A`` or ``B``; the other one is the reference. ``A and B`` where
            both are rounded, each in its own way: then the losses are the sums of both.
        formats: The formats that it rounds to, such as ``float16`` or ``int8``.
        seen: Largest difference of an output from the net without rounding, relative to its rms.
        expected: The same with the reference's weights rounded to these formats, and ranges that fit.
    """

    side: str
    formats: tuple[str, ...]
    seen: float
    expected: float

    @property
    def text(self) -> str:
        """The formats in words."""
        return " and ".join(self.formats)

    @property
    def holding(self) -> str:
        """The number format, in words: integers need scales."""
        return f"{self.text} with these scales" if "int" in self.text else self.text


READING = "read"
"""The stage in which both nets are read, before they are compared."""

EQUAL_VERDICTS = frozenset({Verdict.IDENTICAL, Verdict.EQUAL, Verdict.LATENT})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two nets: where they agree, where they differ, and why.

    Attributes:
        a: The first net, as compared; what was kept of it in a comparison that was opened.
        b: The second net, likewise.
        verdict: The result.
        sentence: The result in one sentence.
        groups: All groups, in A's order, what is only in B at its place.
        inputs: How A's inputs become B's.
        outputs: How A's outputs become B's.
        error: Largest difference of an output over all probes, relative to its rms.
        precision: What rounding costs, where one net is rounded to fewer bits than the other; None otherwise.
        coverage: What the inputs exercised, where the outputs agree; None otherwise.
        probes: What the nets were run on, in words (``data 1x3x24x31, noise``).
        notes: What else the reader should know, one sentence each.
        seconds: Time of each stage, by name; they do not overlap. The nets' reading is ``READING``.
    """

    a: Graph | NetRecord
    b: Graph | NetRecord
    verdict: Verdict
    sentence: str
    groups: tuple[Group, ...] = ()
    inputs: tuple[TensorMapping, ...] = ()
    outputs: tuple[TensorMapping, ...] = ()
    error: float | None = None
    probes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    precision: Precision | None = None
    coverage: Coverage | None = None

    def __bool__(self) -> NoReturn:
        """Refuse to be true or false, which a comparison of different nets would be as well.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "a Comparison is neither true nor false: write 'comparison.equal', or "
            "'comparison.same_structure' for nets without weights"
        )

    @property
    def equal(self) -> bool:
        """True if the nets compute the same with their own weights, also under a stated mapping."""
        return self.verdict in EQUAL_VERDICTS

    @property
    def is_strictly_equal(self) -> bool:
        """True if the nets are equal, without any difference, be it small, hidden or not exercised.

        A setting that both nets state alike, as the upper bound of the same Clip, need not be exercised.
        """
        inputs = [each for each in self.coverage.not_exercised if not each.layer] if self.coverage else []
        differs = self.verdict is Verdict.LATENT or bool(self.findings)
        return self.equal and not differs and not inputs

    def strictly(self) -> Comparison:
        """Return the comparison with *not decidable* for nets that are equal, but not strictly so."""
        if not self.equal or self.is_strictly_equal:
            return self
        sentence = f"not decidable (strict): {self.sentence}"
        return replace(self, verdict=Verdict.UNDECIDED, sentence=sentence)

    @property
    def same_structure(self) -> bool:
        """True if the nets compute the same given the same weights; their own need not be compared."""
        return self.equal or self.verdict is Verdict.STRUCTURE

    @property
    def exit_status(self) -> int:
        """0 equal, 1 different, 3 not decidable, 4 same structure, but weights were not compared."""
        return self.verdict.exit_status

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The explained differences, in A's order; a latent one is among them."""
        return tuple(group.finding for group in self.groups if group.finding)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The explained differences by cause, each with its places; latent ones last."""
        return causes_of(self.findings)

    @property
    def headline(self) -> str:
        """The verdict in at most twenty words."""
        from netweave.comparison.result.causes import headline

        return headline(self)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the nets themselves as JSON values."""
        from netweave.comparison.result.report import comparison_to_json

        return comparison_to_json(self)

    def __repr__(self) -> str:
        return f"Comparison: {self.sentence}"

    def _repr_html_(self) -> str:
        from netweave.comparison.result.html import comparison_html
        from netweave.graph.html import drawn

        return drawn(self, comparison_html(self))


@dataclass(frozen=True, slots=True)
class OutputPair:
    """An output of A against one of B.

    Attributes:
        a: Name of A's output; empty if only B has it.
        b: Name of B's output; empty if only A has it.
        error: Difference relative to the rms; None if they cannot be compared.
        mapping: How A's becomes B's.
        moved: Whether it stands in another place among B's outputs.
    """

    a: str
    b: str
    error: float | None = None
    mapping: TensorMapping | None = None
    moved: bool = False

    def agrees(self, tolerance: float = OUTPUT_TOLERANCE) -> bool:
        """Return whether the two are equal under the mapping."""
        return self.error is not None and self.error <= tolerance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorValues:
    """The values of one tensor in A and in B, in B's layout.

    Attributes:
        name_a: Name of the tensor in A.
        name_b: Name of the tensor in B.
        shape: Its shape, batch first.
        place: Index of the element with the largest difference; what follows is of its sample and channel.
        value_a: A's value there.
        value_b: B's value there.
        rms: The rms of A's tensor in that sample.
        channel_errors: The largest difference in each channel (axis 1) over all samples, relative to the
            rms of A's tensor in the sample; empty for a tensor without channels.
        block: Height and width of the blocks that one element of the maps stands for.
        map_a: A's values in the worst channel, 2-D: of each block the element that differs most.
        map_b: B's values at the same elements.
        worst: Row and column of the worst element in the maps.
        low: Beginning of the range of the counts.
        high: End of that range.
        counts_a: How many values of A lie in each equal part of the range.
        counts_b: The same of B.
    """

    name_a: str
    name_b: str
    shape: tuple[int, ...]
    place: tuple[int, ...]
    value_a: float
    value_b: float
    rms: float
    channel_errors: tuple[float, ...]
    block: tuple[int, int]
    map_a: np.ndarray
    map_b: np.ndarray
    worst: tuple[int, int]
    low: float
    high: float
    counts_a: tuple[int, ...]
    counts_b: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unexercised:
    """Something that the inputs did not exercise.

    Attributes:
        setting: What it is: an operator and its setting (``Clip max``), or a property of the inputs.
        layer: Name of A's layer; empty for the inputs.
        reason: Why it did not show, in words (``no value is above 6``).
        differs: The nets differ in it, so that it stands in the way of *identical*.
        is_limit: The verdict names it, though nothing says that the nets differ in it.
    """

    setting: str
    layer: str
    reason: str
    differs: bool = False
    is_limit: bool = False

    def __str__(self) -> str:
        where = f" of {self.layer}" if self.layer else ""
        return f"{self.setting}{where} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The settings of A that the inputs exercised: changing one would have changed the output of its layer.

    Attributes:
        num_settings: Number of settings, the constants that layers decide by among them.
        not_exercised: Those that the inputs did not exercise.
    """

    num_settings: int
    not_exercised: tuple[Unexercised, ...] = ()

    @property
    def num_exercised(self) -> int:
        """Number of settings that were exercised."""
        return self.num_settings - sum(bool(each.layer) for each in self.not_exercised)

    @property
    def is_complete(self) -> bool:
        """True if all was exercised."""
        return not self.not_exercised

    @property
    def differing(self) -> tuple[Unexercised, ...]:
        """Settings that differ between the nets and were not exercised."""
        return tuple(each for each in self.not_exercised if each.differs)

    @property
    def limits(self) -> tuple[Unexercised, ...]:
        """Limits of what was exercised, such as lengths, that the verdict names."""
        return tuple(each for each in self.not_exercised if each.is_limit)

    def missing(self, *missed: Unexercised) -> Coverage:
        """Return the coverage with more that was not exercised, before the rest."""
        return replace(self, not_exercised=(*missed, *self.not_exercised))

    def __str__(self) -> str:
        counts = f"{self.num_exercised:,} of {self.num_settings:,} settings exercised"
        if self.is_complete:
            return counts
        shown = [str(each) for each in self.not_exercised[:MAX_SHOWN]]
        if (more := len(self.not_exercised) - len(shown)) > 0:
            shown.append(f"{more:,} more")
        missing = f"not exercised: {'; '.join(shown)}"
        return f"{counts}; {missing}" if self.num_settings else missing  # of nets that differ none is counted


MAX_SHOWN = 4
"""So many are named in a line; JSON has all."""
