"""A run or a training step as torch makes it: what is allocated when, and until when it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph import parameter_key
from netweave.graph.costs import sizes_of
from netweave.runtime.memory_plan.behaviour import Behaviour, behaviour_of, is_stored, pixel_strides
from netweave.runtime.memory_plan.lifetimes import Buffer, Timeline

if TYPE_CHECKING:
    from netweave.runtime.memory_plan.net import Net


@dataclass(slots=True)
class _Storage:
    """Memory while its last use is not known yet."""

    name: str
    kind: str
    num_bytes: int
    first: int
    last: int

    def use(self, step: int) -> None:
        self.last = max(self.last, step)


def timeline(net: Net, recomputed: Collection[ir.Value] | None = None) -> Timeline:
    """Return what a run or a step allocates.

    Args:
        net: The net.
        recomputed: Values of ``net.kept_values()`` that backward computes again in a planned step; None for a
            step without a plan.
    """
    masked = {} if recomputed is None else net.masked
    return _Writer(net, frozenset(recomputed or ()), masked).write()


@dataclass(slots=True)
class _Writer:
    """Walks a net once forward and once backward."""

    net: Net
    recomputed: frozenset[ir.Value]
    masked: Mapping[ir.Node, ir.Node]
    steps: list[tuple[str, str]] = field(default_factory=list)
    storages: list[_Storage] = field(default_factory=list)
    of_value: dict[ir.Value, _Storage] = field(default_factory=dict)
    again: dict[ir.Value, _Storage] = field(default_factory=dict)
    extras: dict[ir.Node, _Storage] = field(default_factory=dict)
    pixels: dict[tuple[ir.Value, tuple[int, ...]], _Storage] = field(default_factory=dict)
    gradients: dict[ir.Value, _Storage] = field(default_factory=dict)
    holders: Counter[int] = field(default_factory=Counter)
    slices: set[ir.Value] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    given: list[_Storage] = field(default_factory=list)
    stage: int = 0
    multiply_adds: int = 0
    touched: int = 0

    def write(self) -> Timeline:
        kept = self.net.kept_values()
        for node in self.net.nodes:
            self._end_forward_of_stage(before=self.net.stages.get(node, self.stage))
            self._forward(node)
        self._end_forward_of_stage()
        if self.net.backward:
            self._begin_backward()
            passed = set(self.masked.values())
            for node in reversed(self.net.nodes):
                self._enter_stage(self.net.stages.get(node, self.stage))
                if node in passed:
                    self._pass_on(node)
                elif node in self.net.backward:
                    self._backward(node, kept)
            self._enter_stage(-1)
        end = len(self.steps) - 1
        for value in self.net.wanted:
            if value in self.of_value:
                self.of_value[value].use(end)
        for storage in self.storages:
            if storage.kind == "parameter gradient":
                storage.use(end)
        buffers = [Buffer(s.name, s.kind, s.num_bytes, s.first, s.last) for s in self.storages if s.num_bytes]
        return Timeline(self.steps, buffers, self.multiply_adds, self.touched)

    def _end_forward_of_stage(self, *, before: int | None = None) -> None:
        """Hold the values that a stage was given until its forward is done, as who calls it does."""
        if before == self.stage:
            return
        for value, stages in self.net.crossing.items():
            if self.stage == max(stages):
                self._use(value, len(self.steps) - 1)
        self.stage = -1 if before is None else before

    def _forward(self, node: ir.Node) -> None:
        step = self._step(node, "forward")
        behaviour = behaviour_of(node)
        for value in self.net.inputs[node]:
            self._use(value, step)
        self._outputs(node, step, self.of_value)
        self._extra(node, behaviour, step)
        if strides := pixel_strides(node):
            self._pixels(node, strides, step)

    def _outputs(self, node: ir.Node, step: int, table: dict[ir.Value, _Storage]) -> None:
        """Give the outputs of a node memory: an input's, or new."""
        overwritten = self.net.overwritten(node)
        given = self.net.inputs[node]
        shares = overwritten if overwritten is not None else given[0] if given else None
        for index, value in enumerate(self.net.outputs[node]):
            storage = self._found(shares, table) if shares is not None and index == 0 else None
            if storage is not None and (overwritten is not None or behaviour_of(node).view):
                table[value] = storage
                storage.use(step)
                if overwritten is not None:
                    storage.name = value.name or ""
            elif not (index == 0 and behaviour_of(node).view):
                table[value] = self._new(value.name or "", "value", self.net.bytes_of(value), step)

    def _found(self, value: ir.Value, table: dict[ir.Value, _Storage]) -> _Storage | None:
        return table.get(value) or self.of_value.get(value)

    def _extra(self, node: ir.Node, behaviour: Behaviour, step: int) -> None:
        batch = self.net.batch
        if not self.net.trained.isdisjoint(self.net.outputs[node]):
            size = behaviour.kept(node, batch)
            self.extras[node] = self._new(f"{node.name}: kept for backward", "kept", size, step)
            workspace = behaviour.training_workspace(node, batch)
        else:
            workspace = behaviour.workspace(node, batch)
        self._new(f"{node.name}: workspace", "workspace", workspace, step)

    def _pixels(self, node: ir.Node, strides: tuple[int, ...], step: int) -> None:
        """Pixels that a convolution with a window of one takes are copied, once for all that read them."""
        value = self.net.inputs[node][0]
        if (value, strides) not in self.pixels:
            sizes = sizes_of(value, self.net.batch) or ()
            out = sizes_of(node.outputs[0], self.net.batch) or ()
            size = self.net.bytes_of(value)
            for whole, part in zip(sizes[2:], out[2:], strict=False):
                size = size // whole * part
            self.pixels[value, strides] = self._new(f"{value.name}: pixels", "kept", size, step)
        self.pixels[value, strides].use(step)

    def _begin_backward(self) -> None:
        step = len(self.steps)
        for value in self.net.losses:
            if value in self.net.trained:
                size = self.net.bytes_of(value)
                self.gradients[value] = self._new(f"{value.name}: gradient", "gradient", size, step)
                self.holders[id(self.gradients[value])] += 1

    def _enter_stage(self, stage: int) -> None:
        """Hold the gradients that a stage is given until its backward is done, as who calls it does."""
        if stage == self.stage:
            return
        for storage in self.given:
            storage.use(len(self.steps) - 1)
            self.holders[id(storage)] -= 1
        crossing = self.net.crossing.items()
        values = [value for value, stages in crossing if stage in stages and stage != max(stages)]
        self.given = [self.gradients[value] for value in values if value in self.gradients]
        self.holders.update(id(storage) for storage in self.given)
        self.stage = stage

    def _backward(self, node: ir.Node, kept: Collection[ir.Value]) -> None:
        for value in self.net.kept(node):
            if value in self.recomputed:
                self._compute_again(value, kept)
        if node in self.net.rectified:
            self._rectify_gradient(node)
            step = self._step(node, "backward")
            self.extras[node].use(step)
        else:
            step = self._step(node, "backward")
            self._read_kept(node, step)
        above = [self.gradients[value] for value in self.net.outputs[node] if value in self.gradients]
        for storage in above:
            storage.use(step)
            self.holders[id(storage)] -= 1
        behaviour = behaviour_of(node)
        size = behaviour.backward_workspace(node, self.net.batch)
        parts = 2 if node in self.masked else 1
        self._backward_workspace(node, behaviour, step, size // parts)
        inputs = dict.fromkeys(self.net.inputs[node])
        if node in self.masked:
            for value in inputs:
                self._send_to_parameter(value, step)
            step = self._free_input(node, step, above)
            self._backward_workspace(node, behaviour, step, size // parts)
        for value in inputs:
            if value in self.net.trained:
                self._send(value, above[0] if behaviour.passes_gradient and above else None, step)
            elif node not in self.masked:
                self._send_to_parameter(value, step)

    def _rectify_gradient(self, node: ir.Node) -> None:
        """Go back through the Relu of a pooling's result, after which nobody needs the result."""
        step = self._step(node, "backward of its Relu")
        self._read_kept(node, step)
        value = self.net.outputs[node][0]
        before = self.gradients.get(value)
        if before is None:
            return
        before.use(step)
        self.holders[id(before)] -= 1
        after = self._new(f"{value.name}: gradient", "gradient", self.net.bytes_of(value), step)
        self.gradients[value] = after
        self.holders[id(after)] += 1

    def _free_input(self, node: ir.Node, step: int, above: Sequence[_Storage]) -> int:
        """Begin a step that needs the signs of a convolution's input alone; see ``masking``."""
        value = self.net.inputs[node][0]
        itemsize = value.dtype.itemsize if value.dtype else 4
        size = self.net.bytes_of(value) // int(itemsize)
        signs = self._new(f"{node.name}: signs", "kept", size, step)
        step = self._step(node, "backward to its input")
        for storage in [signs, *above]:
            storage.use(step)
        return step

    def _pass_on(self, node: ir.Node) -> None:
        """Hand on the gradient of a Relu that the convolution behind has masked."""
        step = self._step(node, "backward")
        storage = self.gradients.get(self.net.outputs[node][0])
        if storage is not None:
            storage.use(step)
            self.holders[id(storage)] -= 1
            self._send(self.net.inputs[node][0], storage, step)

    def _read_kept(self, node: ir.Node, step: int) -> None:
        strides, first = pixel_strides(node), self.net.inputs[node][:1]
        for value in self.net.kept(node):
            if strides and value is self.net.canonical(first[0]):
                self.pixels[first[0], strides].use(step)
            else:
                (self.again if value in self.recomputed else self.of_value).get(value, _NOWHERE).use(step)
        self.extras[node].use(step)

    def _backward_workspace(self, node: ir.Node, behaviour: Behaviour, step: int, size: int) -> None:
        is_slice = not self.slices.isdisjoint(self.net.outputs[node])
        if is_slice and behaviour.wants_dense:
            size += self.net.bytes_of(self.net.outputs[node][0])
        self._new(f"{node.name}: workspace of backward", "workspace", size, step)
        if behaviour.slices_gradient or (is_slice and behaviour.passes_gradient):
            self.slices.update(set(self.net.inputs[node]) - self.gradients.keys())

    def _send(self, value: ir.Value, passed: _Storage | None, step: int) -> None:
        """Give a value its gradient, or add to the one that it has."""
        size = self.net.bytes_of(value)
        before = self.gradients.get(value)
        storage = passed or self._new(f"{value.name}: gradient", "gradient", size, step)
        storage.use(step)
        if before is None:
            self.gradients[value] = storage
            self.holders[id(storage)] += 1
            return
        before.use(step)
        # autograd adds in place to what is its own: not to what others hold, and not a gradient to itself
        if self.holders[id(before)] > 1 or before is storage or value in self.slices:
            step = self._step(self.net.runner[value], "sum of gradients")
            before.use(step)
            storage.use(step)
            self.holders[id(before)] -= 1
            self.gradients[value] = self._new(f"{value.name}: sum of gradients", "gradient", size, step)
            self.holders[id(self.gradients[value])] += 1
            self.slices.discard(value)

    def _send_to_parameter(self, value: ir.Value, step: int) -> None:
        key = parameter_key(value)
        parameter = self.net.graph.parameters.get(key or "")
        if key is None or parameter is None or not parameter.trainable or parameter.lr_mult == 0:
            return
        again = key in self.parameters
        self.parameters.add(key)
        kind = "workspace" if again else "parameter gradient"
        self._new(f"{key}: gradient", kind, self.net.bytes_of(value), step)

    def _compute_again(self, value: ir.Value, kept: Collection[ir.Value]) -> None:
        """Compute a value from what is kept; what lies between is let go when it is there."""
        if value in self.again:
            return
        between: list[ir.Value] = []
        self._replay(value, kept, between)
        for one in between:
            self.again[one].use(len(self.steps) - 1)
            if one not in self.recomputed:
                del self.again[one]

    def _replay(self, value: ir.Value, kept: Collection[ir.Value], between: list[ir.Value]) -> None:
        node = self.net.runner[value]
        inputs = dict.fromkeys(map(self.net.canonical, self.net.inputs[node]))
        for given in inputs:
            if given.producer() is not None and not is_stored(given) and not self._is_there(given, kept):
                self._replay(given, kept, between)
        step = self._step(node, "recompute")
        for given in inputs:
            (self.again.get(given) or self.of_value.get(given, _NOWHERE)).use(step)
        self._outputs(node, step, self.again)
        between += self.net.outputs[node]
        cost = self.net.cost_of(node)
        self.multiply_adds += cost.multiply_adds
        self.touched += cost.activation_bytes
        workspace = behaviour_of(node).workspace(node, self.net.batch)
        self._new(f"{node.name}: workspace", "workspace", workspace, step)

    def _is_there(self, value: ir.Value, kept: Collection[ir.Value]) -> bool:
        """Return whether a value still has its memory in backward."""
        return value in self.again or (value in kept and value not in self.recomputed)

    def _step(self, node: ir.Node, what: str) -> int:
        self.steps.append((node.name or node.op_type, what))
        return len(self.steps) - 1

    def _new(self, name: str, kind: str, size: int, step: int) -> _Storage:
        storage = _Storage(name, kind, size, step, step)
        self.storages.append(storage)
        return storage

    def _use(self, value: ir.Value, step: int) -> None:
        self.of_value.get(value, _NOWHERE).use(step)


_NOWHERE = _Storage("", "value", 0, 0, 0)
"""Inputs and stored arrays, whose memory is not the plan's."""
