"""Exchange of gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed

from netweave.errors import UsageError
from netweave.training.parallel.link import LANE, Channel, fastest_update_s
from netweave.training.parallel.plan import IN_FLIGHT, first_slices, plan, prioritised_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from torch.distributed import Work

    from netweave.runtime.engine import Engine, Variable
    from netweave.training.optim.rule import FlatLayout, Span
    from netweave.training.parallel.plan import ExchangePlan, ExchangeSettings, SliceInfo
    from netweave.training.parallel.world import Group, World


# ``2bit`` is MXNet's rule (``src/kvstore/gradient_compression-inl.h`` at 1.9.1): what could not be sent is
# kept as a residual and added to the next gradient, so that nothing is lost, only later.

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Types on the link by the name of the compression."""

CODES_PER_WORD = 16
"""Two-bit codes in a word of 32 bits."""

CODES_PER_BYTE = 4

_PACK = 1 << 30 | 1 << 20 | 1 << 10 | 1
"""Times four codes in the bytes of a word, the first in the lowest: its highest byte is the four codes."""


def num_code_bytes(num_elements: int) -> int:
    """Return the bytes of the codes of so many elements: whole words."""
    return -(-num_elements // CODES_PER_WORD) * 4


def quantize_2bit(gradient: Tensor, residual: Tensor, threshold: float) -> Tensor:
    """Return the codes of a gradient, and keep in ``residual`` what they leave out.

    Args:
        gradient: Elements in one row.
        residual: As many; what was left out before. Changed in place.
        threshold: What a code stands for.

    Returns:
        uint8, ``num_code_bytes`` of them: four codes in a byte, the first in its highest bits.
    """
    # a code is 3 for plus and 2 for minus the threshold, else 0 (MXNet's 11, 10 and 00); on numbers of one
    # byte, and four at a time, as passes over floats are what takes time
    residual.add_(gradient)
    plus, minus = residual >= threshold, residual <= -threshold
    residual.sub_(plus.view(torch.int8) - minus.view(torch.int8), alpha=threshold)
    codes = torch.zeros(num_code_bytes(len(residual)), dtype=torch.int32, device=residual.device)
    of_elements = codes.view(torch.uint8)[: len(residual)]
    torch.bitwise_or(plus, minus, out=of_elements.view(torch.bool))
    of_elements.bitwise_left_shift_(1).bitwise_or_(plus.view(torch.uint8))
    return codes.mul_(_PACK).view(torch.uint8)[3::CODES_PER_BYTE].contiguous()


def sum_2bit(rows: Sequence[Tensor], num_elements: int, threshold: float, dtype: torch.dtype) -> Tensor:
    """Return the sum of what several rows of codes stand for: a multiple of the threshold, rounded once.

    Args:
        rows: As ``quantize_2bit`` returns them, at most 127.
        num_elements: How many elements they are of.
        threshold: What a code stands for.
        dtype: Type of the elements.
    """
    total = _signs(rows[0], num_elements)
    for row in rows[1:]:
        total += _signs(row, num_elements)
    return total.to(dtype).mul_(threshold)


def _signs(codes: Tensor, num_elements: int) -> Tensor:
    """Return 1, 0 or -1 for each element."""
    words = codes.to(torch.int32)
    spread = words >> 6
    for shift, mask in ((4, 3 << 8), (14, 3 << 16), (24, 3 << 24)):
        spread |= (words << shift) & mask
    of_elements = spread.view(torch.int8)[:num_elements]
    return ((of_elements & 1) << 1) - (of_elements >> 1)


class FlatRow:
    """A row of elements, and views of it that lie in memory as the parameters do.

    Args:
        layout: Where each parameter stands.
        parameters: The parameters by key; each a run of memory without holes.

    Attributes:
        row: All elements.

    Raises:
        UsageError: Parameters differ in type or device.
    """

    def __init__(self, layout: FlatLayout, parameters: Mapping[str, Tensor]) -> None:
        kinds = {(tensor.dtype, tensor.device) for tensor in parameters.values()}
        if len(kinds) > 1:
            raise UsageError(
                "parameters of several types or devices cannot be exchanged: "
                + ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            )
        self._layout = layout
        self._parameters = parameters
        self._bounds = [
            (
                min(layout.offsets[span.key] + span.start for span in spans),
                max(layout.offsets[span.key] + span.stop for span in spans),
            )
            for spans in layout.slices
        ]
        dtype, device = next(iter(kinds), (torch.float32, torch.device("cpu")))
        self.row = torch.zeros(max((stop for _, stop in self._bounds), default=0), dtype=dtype, device=device)
        self._runs = [
            [
                self.row[layout.offsets[span.key] + span.start : layout.offsets[span.key] + span.stop]
                for span in spans
            ]
            for spans in layout.slices
        ]

    def slice(self, number: int) -> Tensor:
        """Return the elements of a slice, as one contiguous tensor that shares their memory."""
        start, stop = self._bounds[number]
        return self.row[start:stop]

    def view(self, key: str) -> Tensor:
        """Return the elements of a parameter with its shape and strides."""
        tensor = self._parameters[key]
        return self.row.as_strided(tensor.size(), tensor.stride(), self._layout.offsets[key])

    def load(self, number: int, tensors: Mapping[str, Tensor | None], *, scale: float = 1.0) -> None:
        """Copy the elements of a slice into the row; zeros where a tensor is None.

        Args:
            number: The slice.
            tensors: By key, laid out in memory as the parameters.
            scale: Factor on what is copied.
        """
        with torch.no_grad():
            for span, target in zip(self._layout.slices[number], self._runs[number], strict=True):
                source = tensors[span.key]
                if source is None:
                    target.zero_()
                elif scale == 1.0:
                    target.copy_(_run(source, span))
                else:
                    torch.mul(_run(source, span), scale, out=target)

    def store(self, number: int, tensors: Mapping[str, Tensor]) -> None:
        """Copy the elements of a slice out of the row."""
        with torch.no_grad():
            for span, source in zip(self._layout.slices[number], self._runs[number], strict=True):
                _run(tensors[span.key], span).copy_(source)


class GradientRow(FlatRow):
    """A row into which the gradients of the parameters go: what is sent or summed is a run of it.

    Args:
        layout: Where each parameter stands.
        parameters: The parameters by key; each a run of memory without holes.

    Attributes:
        views: The view of each parameter's gradient.
    """

    def __init__(self, layout: FlatLayout, parameters: Mapping[str, Tensor]) -> None:
        super().__init__(layout, parameters)
        # kept, since a view takes longer to make than a small gradient to copy
        self.views = {key: self.view(key) for key in parameters}
        self._own: dict[str, Tensor | None] = {}  # the gradients of backward, until they are in the row
        self._left: dict[str, int] = {}  # how many slices of each are still to be copied
        self._num_slices = {key: len(layout.slices_of(key)) for key in parameters}

    def take(self, number: int, *, scale: float = 1.0) -> Tensor:
        """Copy the gradients of a slice into the row, put views of the row in their place; return the slice.

        Args:
            number: The slice.
            scale: Factor on what is copied.
        """
        keys = [span.key for span in self._layout.slices[number]]
        for key in keys:
            parameter, view = self._parameters[key], self.views[key]
            is_view = parameter.grad is view
            if is_view and key in self._own:
                continue
            self._own[key] = (
                None if is_view else laid_out(parameter.grad, parameter)
            )  # a view is of an old one
            self._left[key] = self._num_slices[key]
            parameter.grad = view
        self.load(number, self._own, scale=scale)
        for key in keys:
            self._left[key] -= 1
            if not self._left[key]:  # let go of it now: backward goes on in memory that is in the cache still
                del self._own[key]
        return self.slice(number)


def copy_slice(
    layout: FlatLayout, number: int, source: Mapping[str, Tensor], target: Mapping[str, Tensor]
) -> None:
    """Copy the elements of a slice from tensors to others that lie in memory as they do."""
    with torch.no_grad():
        for span in layout.slices[number]:
            _run(target[span.key], span).copy_(_run(source[span.key], span), non_blocking=True)


def laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """Return a gradient that lies in memory as its parameter does."""
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _run(tensor: Tensor, span: Span) -> Tensor:
    """Return elements of a dense tensor in the order in which they lie in memory."""
    flat = tensor.detach()
    return flat.as_strided((span.stop - span.start,), (1,), flat.storage_offset() + span.start)


FIRST_MEASURED, MEASURED = 3, 3
"""An order by priority is made from these updates; the first ones allocate and are slower than the rest."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One collective of those that a slice goes through.

    Attributes:
        name: For messages and traces.
        channel: Where its collectives are in order.
        begin: Begins it for a slice; returns None where this rank takes no part.
        end: Called for a slice when it is done.
    """

    name: str
    channel: Channel
    begin: Callable[[int], Work | None]
    end: Callable[[int], None] = lambda number: None


class Exchange:
    """Makes the mean of all ranks' gradients, slice by slice.

    Args:
        world: The ranks.
        settings: How.
        layout: The slices.
        parameters: The trained parameters by key.
        slices: What the plan needs to know of each slice.
        engine: Where tasks run.

    Attributes:
        plan: Owners and order.
        residuals: With 2-bit codes, what of each slice was not sent yet; a view of one row.
    """

    def __init__(
        self,
        world: World,
        settings: ExchangeSettings,
        layout: FlatLayout,
        parameters: Mapping[str, Tensor],
        slices: Sequence[SliceInfo],
        *,
        engine: Engine,
    ) -> None:
        self._world, self._settings, self._layout = world, settings, layout
        self._parameters, self._engine = parameters, engine
        self.plan: ExchangePlan = plan(settings, slices, world.size)
        self._gradients = GradientRow(layout, parameters)
        self._wire: dict[int, Tensor] = {}
        self._num_pushed = 0
        self._ready: dict[int, dict[int, float]] = {}
        self.residuals = FlatRow(layout, parameters) if settings.compression == "2bit" else None
        self._threshold = settings.threshold or 0.0
        self._hops = self._gradient_hops("gradients")
        self._first: frozenset[int] = frozenset()
        if settings.kind == "prioritised":
            self._first = first_slices([one.elements for one in slices])
            self._first_hops = self._gradient_hops("first gradients")
        self._values = FlatRow(layout, parameters) if settings.has_owners else None
        self._send_back = (
            self._broadcast_hop("parameters", world.group("parameters")) if self._values else None
        )

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows, and of what is on the wire when every slice is at once."""
        rows = [row.row for row in (self._gradients, self.residuals, self._values) if row is not None]
        elements = [len(self._gradients.slice(number)) for number in range(len(self._layout.slices))]
        kind = self._settings.compression
        wire = 0
        if kind in HALF:
            wire = HALF[kind].itemsize * sum(elements)
        elif kind == "2bit":
            wire = (self._world.size + 1) * sum(map(num_code_bytes, elements))
        return sum(int(row.nbytes) for row in rows) + wire

    def owns(self, number: int) -> bool:
        """Return whether this rank updates a slice."""
        return not self.plan.owners or self.plan.owners[number] == self._world.rank

    def push_gradients(self, step: int, gradients: Sequence[Variable]) -> None:
        """Push the exchange of all gradients; push it after the backward passes, before the updates.

        Args:
            step: Number of the update, for traces.
            gradients: The variable of each slice's gradient.
        """
        first = list(gradients) if self._settings.kind == "blocking" else []
        if self._settings.kind == "prioritised":
            self._prioritise(gradients)
        for number in self.plan.order:
            own = gradients[number]
            self.push_slice(step, number, own, reads=[variable for variable in first if variable is not own])
            first = []

    def push_slice(
        self, step: int, number: int, gradient: Variable, *, reads: Sequence[Variable] = ()
    ) -> None:
        """Push the exchange of a slice; all ranks must do so in the order of the plan.

        Args:
            step: Number of the update, for traces.
            number: Of the slice.
            gradient: Its variable.
            reads: What it must wait for besides.
        """
        for hop in self._hops_of(number):
            hop.channel.push(
                partial(hop.begin, number),
                gradient,
                end=partial(hop.end, number),
                reads=reads,
                name=f"{hop.name} {step}, slice {number}",
            )
            reads = ()

    def push_parameters(self, step: int, parameters: Sequence[Variable]) -> None:
        """Push the way of updated slices from their owners to all ranks, in the order of their gradients.

        The first layers' slices, which the next forward pass reads first, are updated last: if they went
        first, all others would wait for them while the link has nothing to carry.
        """
        hop = self._send_back
        if hop is None:
            return
        for number in self.plan.order:
            hop.channel.push(
                partial(hop.begin, number),
                parameters[number],
                end=partial(hop.end, number),
                name=f"{hop.name} {step}, slice {number}",
            )

    def collect(self, arrays: Mapping[str, Tensor]) -> None:
        """Give all ranks what the owners have of arrays that are laid out as the parameters; wait for it.

        Args:
            arrays: By key of the parameter; changed where another rank is the owner.
        """
        row = FlatRow(self._layout, arrays)
        group = self._world.group("collect")
        with self._world.watched("collecting the solver's state"):
            for number, owner in enumerate(self.plan.owners):
                if self.owns(number):
                    row.load(number, arrays)
                distributed.broadcast(row.slice(number), owner, group=group)
                if not self.owns(number):
                    row.store(number, arrays)

    def gather_residuals(self) -> dict[int, np.ndarray]:
        """Return, on rank 0, what each rank has not sent yet, by rank; empty where all is sent at once."""
        if self.residuals is None:
            return {}
        row = self.residuals.row
        is_first = self._world.rank == 0
        rows = [torch.empty_like(row) for _ in range(self._world.size)] if is_first else None
        with self._world.watched("collecting residuals"):
            distributed.gather(row, rows, dst=0, group=self._world.group("collect"))
        return {rank: one.cpu().numpy() for rank, one in enumerate(rows or [])}

    def restore_residuals(self, residuals: Mapping[int, np.ndarray]) -> None:
        """Go on with residuals; where there were other ranks, each takes an equal share of their sum.

        Raises:
            UsageError: They are of another layout.
        """
        if self.residuals is None or not residuals:
            return
        row, size = self.residuals.row, self._world.size
        if any(one.shape != tuple(row.shape) for one in residuals.values()):
            raise UsageError("the checkpoint's residuals are of another layout of slices")
        if len(residuals) == size:
            row.copy_(torch.from_numpy(residuals[self._world.rank]))
        else:
            row.copy_(torch.from_numpy(sum(residuals.values()) / size))

    # The order by priority.

    def _prioritise(self, gradients: Sequence[Variable]) -> None:
        """Note in the first updates when gradients are there; then fix an order for the rest of the run."""
        self._num_pushed += 1
        if FIRST_MEASURED <= self._num_pushed < FIRST_MEASURED + MEASURED:
            for number, variable in enumerate(gradients):
                note = partial(self._note_ready, self._num_pushed, number)
                self._engine.push(note, [variable], lane=LANE, name="note that a gradient is there")
        elif self._num_pushed == FIRST_MEASURED + MEASURED:
            for variable in gradients:  # what was measured is all there
                self._engine.wait_for(variable)
            order = prioritised_order(*self._measured()) if self._world.rank == 0 else ()
            shared = self._world.share(order, "order of the exchange")
            first = [number for number in self.plan.order if number in self._first]
            others = [number for number in shared if number not in self._first]
            self.plan = replace(self.plan, order=(*first, *others))

    def _note_ready(self, update: int, number: int) -> None:
        self._ready.setdefault(update, {})[number] = perf_counter()

    def _measured(self) -> tuple[list[float], list[float]]:
        """Return when the gradient of each slice is there, from the first one on, and how long it is sent.

        The link's time is the shortest that was seen: with one that is too long, slices that come late would
        have an early place in the order, and all others would wait for them.
        """
        since = [
            {number: time_s - min(times.values()) for number, time_s in times.items()}
            for times in self._ready.values()
        ]
        numbers = range(len(self._layout.slices))
        ready = [median(times[number] for times in since) for number in numbers]
        channels = [self._hops[0].channel, self._first_hops[0].channel]
        intervals = sorted(interval for channel in channels for interval in channel.intervals)
        elements = [len(self._gradients.slice(number)) for number in numbers]
        seconds_per_element = fastest_update_s(intervals, max(1, len(elements))) / max(1, sum(elements))
        return ready, [size * seconds_per_element for size in elements]

    # The hops of a gradient.

    def _hops_of(self, number: int) -> list[Hop]:
        """Return the hops of a slice.

        What the next forward waits for first has an order and connections of its own. In one order with all
        others it would have a fixed place behind those that the link was expected to have sent by then, and
        wait for them on a slower link; and on their connections it would stand behind what is on its way.
        """
        return self._first_hops if number in self._first else self._hops

    def _gradient_hops(self, name: str) -> list[Hop]:
        kind, world = self._settings.kind, self._world
        if kind == "two-level":
            return self._two_levels()
        channel = self._channel(name)
        group = world.group(name)
        if self._settings.compression == "2bit":
            return [Hop("gather", channel, partial(self._begin_codes, group), self._end_codes)]
        if self._settings.has_owners:
            return [
                Hop("reduce", channel, partial(self._begin_reduce, group, self.plan.owners), self._receive)
            ]
        return [Hop("all-reduce", channel, partial(self._begin_sum, group), self._receive)]

    def _two_levels(self) -> list[Hop]:
        world = self._world
        inside = [world.group(f"machine {ranks[0]}", ranks) for ranks in world.machines]
        leaders = [ranks[0] for ranks in world.machines]
        back = [world.group(f"back to machine {ranks[0]}", ranks) for ranks in world.machines]
        between = world.group("leaders", leaders)
        own = next(index for index, ranks in enumerate(world.machines) if world.rank in ranks)
        leader = leaders[own]
        owners = [leader] * len(self._layout.slices)
        return [
            Hop("reduce", self._channel("sums inside"), partial(self._begin_reduce, inside[own], owners)),
            Hop("all-reduce", self._channel("sums between"), partial(self._sum_between, between, leaders)),
            Hop(
                "broadcast",
                self._channel("sums back"),
                lambda number: distributed.broadcast(
                    self._on_wire(number), leader, group=back[own], async_op=True
                ),
                self._receive,
            ),
        ]

    def _channel(self, name: str) -> Channel:
        return Channel(self._world, self._engine, name, in_flight=IN_FLIGHT)

    def _begin_sum(self, group: Group, number: int) -> Work:
        self._send(number)
        return distributed.all_reduce(self._on_wire(number), group=group, async_op=True)

    def _begin_reduce(self, group: Group, owners: Sequence[int], number: int) -> Work:
        self._send(number)
        return distributed.reduce(self._on_wire(number), owners[number], group=group, async_op=True)

    def _sum_between(self, group: Group, leaders: Sequence[int], number: int) -> Work | None:
        if self._world.rank not in leaders:
            return None
        return distributed.all_reduce(self._on_wire(number), group=group, async_op=True)

    def _send(self, number: int) -> None:
        """Lay this rank's share of the mean on the wire."""
        self._take(number)
        dtype = HALF.get(self._settings.compression)
        if dtype is not None:
            self._wire[number] = self._gradients.slice(number).to(dtype)

    def _on_wire(self, number: int) -> Tensor:
        return self._wire.get(number, self._gradients.slice(number))

    def _receive(self, number: int) -> None:
        wire = self._wire.pop(number, None)
        if wire is not None:
            self._gradients.slice(number).copy_(wire)

    def _take(self, number: int) -> Tensor:
        """Return this rank's share of the mean of a slice's gradients."""
        return self._gradients.take(number, scale=1.0 / self._world.size)

    # Two bits for each element.

    def _begin_codes(self, group: Group, number: int) -> Work:
        assert self.residuals is not None
        contribution = self._take(number)
        codes = quantize_2bit(contribution, self.residuals.slice(number), self._threshold)
        gathered = codes.new_empty(self._world.size * len(codes))
        self._wire[number] = gathered
        return distributed.all_gather_single(gathered, codes, group=group, async_op=True)

    def _end_codes(self, number: int) -> None:
        target = self._gradients.slice(number)
        rows = self._wire.pop(number).reshape(self._world.size, num_code_bytes(len(target)))
        target.copy_(sum_2bit(rows.unbind(), len(target), self._threshold, target.dtype))

    # Parameters back from their owners.

    def _broadcast_hop(self, name: str, group: Group) -> Hop:
        row, owners = self._values, self.plan.owners
        assert row is not None

        def begin(number: int) -> Work:
            if self.owns(number):
                row.load(number, self._parameters)
            return distributed.broadcast(row.slice(number), owners[number], group=group, async_op=True)

        def end(number: int) -> None:
            if not self.owns(number):
                row.store(number, self._parameters)

        return Hop("broadcast", self._channel(name), begin, end)
