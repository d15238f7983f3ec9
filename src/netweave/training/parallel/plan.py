"""Owners of slices, the order in which slices are exchanged, and that of a pipeline's passes: pure functions.

Orders of exchange
    ``blocking``: all slices when backward is done.
    ``overlapped``: each slice as soon as its gradient is there, beside the backward of earlier layers.
    ``prioritised``: as ``overlapped``, but what the next forward reads first overtakes what it reads last, so
    that the next forward begins while late layers are still on their way.
    ``owner``: each slice is reduced to its owner, updated there and sent back; slices of equal size, in turn.
    ``owner-by-layer``: likewise, layer i of L on rank floor(i * n / L), as in Minerva.
    ``two-level``: summed inside each machine, then between machines.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXCHANGES = ("blocking", "overlapped", "prioritised", "owner", "owner-by-layer", "two-level")

COMPRESSIONS = ("none", "fp16", "bf16", "2bit")

FIRST_SHARE = 8
"""One part in so many of the elements overtakes all others: in nets of images the convolutions at the
beginning, which are the first to be needed and take most of the computation."""

IN_FLIGHT = 3
"""Collectives at the same time: one alone leaves the link idle between two, many make priorities idle."""


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """Settings of the gradient exchange.

    Attributes:
        kind: One of ``EXCHANGES``.
        compression: One of ``COMPRESSIONS``.
        threshold: What one 2-bit code stands for, > 0 (MXNet's ``threshold``); needed with ``2bit`` alone.
            There is no default: the size of gradients depends on the net, and on whether its loss is a mean.
        owners: The rank that updates each slice, where a cluster says it; ``kind`` is ``owner`` then.

    Raises:
        UsageError: A name is unknown, or they do not go together.
    """

    kind: str = "overlapped"
    compression: str = "none"
    threshold: float | None = None
    owners: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in EXCHANGES:
            raise UsageError(f"unknown exchange {self.kind!r}; expected one of {', '.join(EXCHANGES)}")
        if self.compression not in COMPRESSIONS:
            raise UsageError(
                f"unknown compression {self.compression!r}; expected one of {', '.join(COMPRESSIONS)}"
            )
        if (self.compression == "2bit") != (self.threshold is not None):
            raise UsageError(
                f"compression {self.compression!r} with threshold {self.threshold}: 2-bit codes, and only "
                "they, need a threshold, which one code stands for, such as 0.005 (--threshold); "
                "begin with the size of the largest gradients"
            )
        if self.threshold is not None and not self.threshold > 0:
            raise UsageError(f"the threshold of 2-bit compression is {self.threshold}, expected more than 0")
        if self.compression == "2bit" and self.kind not in {"blocking", "overlapped", "prioritised"}:
            raise UsageError(
                f"2-bit codes are gathered by all ranks and do not go with exchange {self.kind!r}; take "
                "blocking, overlapped or prioritised"
            )

    @property
    def has_owners(self) -> bool:
        """True if a slice is updated by one rank only."""
        return self.kind.startswith("owner")


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """Properties of a slice that a plan needs.

    Attributes:
        elements: Its size.
        layer: Number of the first layer whose parameters it holds, among the layers with parameters.
        stage: The stage whose backward, the last of those that add to its gradient, completes it.
    """

    elements: int
    layer: int
    stage: int


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """Who does what.

    Attributes:
        owners: The rank that updates each slice; empty if all ranks update all.
        order: Numbers of the slices in the order in which they are exchanged, the same on all ranks.
    """

    owners: tuple[int, ...]
    order: tuple[int, ...]


def plan(settings: ExchangeSettings, slices: Sequence[SliceInfo], num_ranks: int) -> ExchangePlan:
    """Return owners and order of the exchange of an update.

    Args:
        settings: How gradients are exchanged.
        slices: All slices, in the order of the layout.
        num_ranks: Number of ranks, >= 1.
    """
    numbers = range(len(slices))
    order = tuple(sorted(numbers, key=lambda number: (-slices[number].stage, -number)))
    if settings.kind == "owner":
        return ExchangePlan(settings.owners or _owners_by_size(slices, num_ranks), order)
    if settings.kind == "owner-by-layer":
        return ExchangePlan(owners_by_layer([one.layer for one in slices], num_ranks), order)
    return ExchangePlan((), order)


def owners_by_layer(layers: Sequence[int], num_owners: int) -> tuple[int, ...]:
    """Return owners by Minerva's rule: layer i of L belongs to owner floor(i * n / L).

    Args:
        layers: The layer of each array or slice, by any rising numbers.
        num_owners: How many ranks or devices there are.

    >>> owners_by_layer([0, 0, 1, 5, 5], 2)
    (0, 0, 0, 1, 1)
    """
    place = {layer: index for index, layer in enumerate(sorted(set(layers)))}
    return tuple(place[layer] * num_owners // len(place) for layer in layers)


def _owners_by_size(slices: Sequence[SliceInfo], num_ranks: int) -> tuple[int, ...]:
    """Return owners with like numbers of elements: each slice goes to who has least so far.

    Neighbours have different owners, so that a link carries something both ways all the time.
    """
    loads = [0] * num_ranks
    owners = []
    for one in slices:
        owner = loads.index(min(loads))
        owners.append(owner)
        loads[owner] += one.elements
    return tuple(owners)


def first_slices(elements: Sequence[int]) -> frozenset[int]:
    """Return the slices that hold the first eighth of all elements, which overtake all others.

    Args:
        elements: Size of each slice.

    >>> sorted(first_slices([1, 3, 8, 8, 8]))
    [0, 1]
    """
    before = [0, *accumulate(elements)]
    return frozenset(number for number, sum_ in enumerate(before[:-1]) if sum_ * FIRST_SHARE < before[-1])


def prioritised_order(
    ready_s: Sequence[float], transfer_s: Sequence[float], *, in_flight: int = IN_FLIGHT
) -> tuple[int, ...]:
    """Return the order in which a link takes slices, where lower numbers overtake higher ones that wait.

    All ranks must begin collectives in one order, so it is fixed beforehand from measured times instead of
    being decided anew at each moment. The order decides about time only, never about bits.

    Args:
        ready_s: When the gradient of each slice is there.
        transfer_s: How long each takes on the link.
        in_flight: Collectives at the same time, which share the link.

    >>> prioritised_order([3.0, 2.0, 1.0], [2.0, 2.0, 2.0], in_flight=1)
    (2, 0, 1)
    """
    arrivals = sorted(range(len(ready_s)), key=lambda number: (ready_s[number], number))
    waiting: list[int] = []
    ends: list[float] = []  # of those in flight
    order: list[int] = []
    now_s = 0.0
    while len(order) < len(ready_s):
        while arrivals and ready_s[arrivals[0]] <= now_s:
            heapq.heappush(waiting, arrivals.pop(0))
        ends = [end for end in ends if end > now_s]
        if waiting and len(ends) < in_flight:
            number = heapq.heappop(waiting)
            order.append(number)
            ends.append(max([now_s, *ends]) + transfer_s[number])  # the link is one, transfers add up
            continue
        now_s = min([*ends, *(ready_s[number] for number in arrivals[:1])]) if ends or arrivals else now_s
    return tuple(order)


PIPELINES = ("1f1b", "gpipe")
"""Orders of passes: forwards and backwards in turns, or all forwards first."""

FORWARD, BACKWARD = "forward", "backward"


def passes_of(order: str, stage: int, num_stages: int, num_micro_batches: int) -> list[tuple[str, int]]:
    """Return the passes of a stage in an update, each with its micro-batch, in their order.

    With ``1f1b`` a stage computes one forward for each stage behind it, and then a forward and a backward in
    turns (PipeDream-Flush), so that it holds the activations of as many micro-batches as there are stages
    from it on. With ``gpipe`` it holds those of all.

    >>> [f"{kind[0]}{number}" for kind, number in passes_of("1f1b", 0, 2, 3)]
    ['f0', 'f1', 'b0', 'f2', 'b1', 'b2']
    >>> [f"{kind[0]}{number}" for kind, number in passes_of("gpipe", 0, 2, 3)]
    ['f0', 'f1', 'f2', 'b0', 'b1', 'b2']
    """
    ahead = num_held(order, stage, num_stages, num_micro_batches) - 1
    passes = [(FORWARD, number) for number in range(ahead)]
    for number in range(num_micro_batches):
        if ahead + number < num_micro_batches:
            passes.append((FORWARD, ahead + number))
        passes.append((BACKWARD, number))
    return passes


def num_held(order: str, stage: int, num_stages: int, num_micro_batches: int) -> int:
    """Return of how many micro-batches a stage holds the activations at most."""
    return num_micro_batches if order == "gpipe" else min(num_micro_batches, num_stages - stage)
