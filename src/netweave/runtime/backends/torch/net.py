"""Nets in torch."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from netweave.errors import RunError
from netweave.graph import Effect, Graph, effects_of
from netweave.runtime.backends.inputs import check_inputs
from netweave.runtime.backends.runner import Purpose, RunSettings
from netweave.runtime.backends.torch.device import (
    check_bfloat16,
    check_float16,
    computing_with,
    to_numpy,
    to_tensor,
)
from netweave.runtime.backends.torch.kernels import Kernels, tried_in_inference
from netweave.runtime.backends.torch.lower import VALUES, lower
from netweave.runtime.backends.torch.parameters import ParameterStore, Views
from netweave.runtime.backends.torch.random import Draws
from netweave.runtime.backends.torch.recomputation import PlannedModule, schedule
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.runtime.memory_plan import Net


class TorchNet:
    """A graph that runs and trains on torch.

    ``net(data=x)`` takes and gives tensors and can be differentiated; ``net.run`` takes and gives arrays.
    In training mode Dropout draws, and BatchNormalization normalises by the batch and follows it with its
    stored statistics.

    >>> net = TorchNet(graph).train()                                       # doctest: +SKIP
    >>> net(data=images, label=labels)["loss"].backward()                   # doctest: +SKIP
    >>> with torch.no_grad():                                               # doctest: +SKIP
    ...     net.params["conv1_weight"] -= eta * net.grads["conv1_weight"]

    Attributes:
        module: The lowered graph; an ordinary module of torch's, from inputs in the graph's order to a
            tuple of ``names``.
        names: Names of the values that a call gives: the graph's outputs, then the taps.
        store: The arrays by key, shared with the other nets that were given the same store.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        taps: Sequence[str] = (),
        store: ParameterStore | None = None,
    ) -> None:
        """Lower a graph.

        Args:
            graph: The graph; it is not changed.
            taps: Names of values to give besides the graph's outputs.
            store: Arrays to compute with; those that it lacks are added from the graph.

        Raises:
            RunError: An operator has no lowering.
        """
        self._graph = graph
        self._wait: Callable[[], None] | None = None
        self.names = list(dict.fromkeys([*(value.name or "" for value in graph.outputs), *taps]))
        self.store = store if store is not None else ParameterStore()
        self.module: fx.GraphModule = lower(graph, self.names, self.store)
        self._plan: tuple[Net, Collection[str]] | None = None
        self._by_module: dict[fx.GraphModule, PlannedModule] = {}

    def recompute(self, net: Net, values: Collection[str] | None) -> None:
        """Have backward compute values again instead of keeping them; the results are the same bits.

        Args:
            net: The graph of this net, prepared for training (``memory_plan.prepare``).
            values: Names of values, as ``memory_plan.cheapest`` chooses them; None to step without a plan.
        """
        self._plan = None if values is None else (net, values)
        self._by_module.clear()

    @property
    def graph(self) -> Graph:
        """The graph that was lowered."""
        return self._graph

    @property
    def params(self) -> Views:
        """The stored arrays by the source's names and in its layouts, as views."""
        return Views(self._own(), lambda tensor: tensor, self._wait)

    @property
    def grads(self) -> Views:
        """The gradients, likewise; only of arrays that have one by now."""
        return Views(self._own(), lambda tensor: tensor.grad, self._wait)

    def guard(self, wait: Callable[[], None] | None) -> None:
        """Say what each access to ``params`` and ``grads``, and each run, waits for; None for nothing.

        Who runs the net elsewhere, as the trainer does on its engine, so keeps others from arrays that are
        being changed.
        """
        self._wait = wait

    def train(self, mode: bool = True) -> TorchNet:
        """Switch to training mode, or back."""
        self.module.train(mode)
        return self

    def eval(self) -> TorchNet:
        """Switch to test mode."""
        return self.train(False)

    def to(self, target: torch.device | torch.dtype | str) -> TorchNet:
        """Move to a device, or change the type of all floating-point tensors."""
        self.module.to(target)
        return self

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self.module.zero_grad(set_to_none=True)

    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Run on tensors, one for each input by name.

        Raises:
            RunError: An input is missing or unknown, or a layer cannot be computed.
        """
        if self._wait is not None:
            self._wait()
        return self.compute(inputs)

    def compute(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Do the same without waiting for what others still do to the arrays, as one of them.

        Raises:
            RunError: An input is missing or unknown, or a layer cannot be computed.
        """
        if self.draws is not None:
            self.draws.begin()
        return dict(zip(self.names, self.forward(self.module, self.placed(inputs)), strict=True))

    def placed(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the inputs in the module's order, as they lie in memory in the net.

        Raises:
            RunError: An input is missing or unknown.
        """
        names = [value.name or "" for value in self._graph.inputs]
        if set(names) != set(inputs):
            raise RunError(f"inputs {sorted(inputs)} were given, the net has {names}")
        return [self.store.placed(inputs[name]) for name in names]

    @property
    def draws(self) -> Draws | None:
        """The streams of random operators; None if there are none."""
        draws: Draws | None = getattr(self.module, "draws", None)
        return draws

    def set_whole_batch(self, batch: WholeBatch) -> None:
        """Let what looks at a whole batch ask ``batch`` from now on; stages that are cut later do too."""
        if hasattr(self.module, "batch"):
            self.module.batch = batch

    def set_kernels(self, kernels: Kernels) -> None:
        """Let ``kernels`` multiply matrices from now on; stages that are cut later do too."""
        if hasattr(self.module, "kernels"):
            self.module.kernels = kernels

    def forward(self, module: fx.GraphModule, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the net's module, or a stage of it.

        Raises:
            RunError: A layer cannot be computed; the message names it.
        """
        try:
            planned = self._planned(module) if torch.is_grad_enabled() else None
            outputs: tuple[Any, ...] = (planned or module.forward)(*inputs)
        except (RuntimeError, LookupError, ValueError, TypeError) as error:
            raise RunError(f"{self._place(error, module)}: {error}") from error
        return outputs

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run on arrays, without gradients; see ``Runner``.

        Raises:
            RunError: An input is missing, unknown or of the wrong shape, or a layer cannot be computed.
        """
        arrays = check_inputs(self._graph.inputs, inputs)
        with torch.inference_mode():
            outputs = self(**{name: to_tensor(array) for name, array in arrays.items()})
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}

    def _planned(self, module: fx.GraphModule) -> PlannedModule | None:
        """Return what runs the net's module, or a stage of it, by the memory plan, if there is one."""
        if self._plan is None:
            return None
        if module not in self._by_module:
            net, values = self._plan
            self._by_module[module] = PlannedModule(
                module, schedule(module, net, values, self.module.meta[VALUES])
            )
        return self._by_module[module]

    def _own(self) -> dict[str, Any]:
        return {key: self.store[key] for key in self._graph.parameters if key in self.store}

    def _place(self, error: Exception, module: fx.GraphModule) -> str:
        """Return which layer an error comes from: the line of the module's code names its node."""
        nodes = {node.name: node.meta.get("node") for node in module.graph.nodes}
        planned = self._planned(module) if torch.is_grad_enabled() else None
        if planned is not None and (node := nodes.get(planned.current)) is not None:
            return self._graph.place_of(node)
        for frame in traceback.extract_tb(error.__traceback__):
            line = (
                linecache.getline(frame.filename, frame.lineno or 0)
                if "eval_with_key" in frame.filename
                else ""
            )
            node = nodes.get(line.split(" = ")[0].split(":")[0].strip())
            if node is not None:
                return self._graph.place_of(node)
        return self._graph.files[0] if self._graph.files else self._graph.name


_HALF = {"bf16": torch.bfloat16, "f16": torch.float16}

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that autocast computes in half precision, and whose stored inputs are rounded to it anyway."""


class PreparedTorchNet:
    """A graph on torch in test mode; several threads may run it at once."""

    def __init__(self, graph: Graph, taps: Sequence[str], settings: RunSettings) -> None:
        """Lower a graph; see ``backends.prepare``."""
        _check_precision(settings.precision)
        self._net = TorchNet(graph, taps=taps).eval()
        if settings.purpose is Purpose.INFERENCE:
            self._net.set_kernels(tried_in_inference(self._net.module))
        self._threads = settings.threads
        self._half = _HALF.get(settings.precision)
        self._dtypes = {
            value.name or "": value.dtype.numpy() for value in graph.outputs if value.dtype is not None
        }
        if self._half is not None:
            round_weights(self._net.module, self._half)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.runtime.backends.Runner``."""
        with ExitStack() as stack:
            if self._threads:
                stack.enter_context(computing_with(self._threads))
            if self._half is None:
                return self._net.run(inputs)
            stack.enter_context(torch.autocast("cpu", self._half))
            arrays = self._net.run(inputs)
        return {name: self._widened(name, array) for name, array in arrays.items()}

    def _widened(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an output in its own type; autocast leaves in half precision what a product gave."""
        is_half = array.dtype.name in {"bfloat16", "float16"}
        return array.astype(self._dtypes.get(name, np.dtype(np.float32)), copy=False) if is_half else array


def prepare(graph: Graph, taps: Sequence[str], settings: RunSettings) -> PreparedTorchNet:
    """Make a graph ready to run in test mode; see ``backends.prepare``.

    Raises:
        UsageError: The processor has no arithmetic for the precision.
        RunError: An operator has no lowering.
    """
    return PreparedTorchNet(graph, taps, settings)


def round_weights(module: fx.GraphModule, dtype: torch.dtype) -> None:
    """Round, once and ahead, the stored arrays that autocast would round at every run.

    Args:
        module: A lowered graph; arrays that something else reads too keep their type.
        dtype: The type that products are computed in.
    """
    for node in module.graph.nodes:
        if node.op != "get_attr" or not _only_products_read(node):
            continue
        stored = getattr(module, node.target)
        if not isinstance(stored, torch.Tensor) or not stored.is_floating_point():
            continue
        if isinstance(stored, torch.nn.Parameter):
            stored.data = stored.data.to(dtype)
        else:
            setattr(module, node.target, stored.to(dtype))


def _only_products_read(node: fx.Node) -> bool:
    """Return whether only convolutions and matrix products read a stored array, in any layout."""
    return bool(node.users) and all(
        user.meta["node"].op_type in _PRODUCTS and not user.meta["node"].domain
        if "node" in user.meta
        else user.op == "call_function" and _only_products_read(user)
        for user in node.users
    )


def _check_precision(precision: str) -> None:
    if precision == "bf16":
        check_bfloat16(torch.device("cpu"))
    elif precision == "f16":
        check_float16()


def first_not_finite(net: TorchNet, graph: Graph, inputs: Mapping[str, Tensor]) -> str | None:
    """Return where the first value is made that holds nan or inf, in words; None if all are finite.

    The net is run once more in test mode, without changing its statistics; not if a node has effects besides
    drawing.

    Args:
        net: The net.
        graph: Its graph.
        inputs: By name.
    """
    for name, tensor in inputs.items():
        if not _is_finite(tensor):
            return f"the input {name!r} holds numbers that are not finite"
    key = parameter_not_finite(net, graph)
    if key is not None:
        return f"the parameter {key!r} holds numbers that are not finite"
    if any(effects_of(node) & {Effect.STATEFUL, Effect.WORLD} for node in graph.nodes):
        return None  # what such a node does is done once
    training = net.module.training
    search = _Search(net.module)
    try:
        with torch.no_grad():
            net.module.eval()
            search.run(*(net.store.placed(inputs[value.name or ""]) for value in graph.inputs))
    except _FoundError as found:
        return f"{graph.place_of(found.node)} is the first whose output is not finite"
    finally:
        net.module.train(training)
    return None


def parameter_not_finite(net: TorchNet, graph: Graph) -> str | None:
    """Return the first trained parameter that holds nan or inf; None if all are finite."""
    for key, parameter in graph.parameters.items():
        # past the net's handle, which would wait for the very task that asks
        if parameter.trainable and key in net.store and not _is_finite(net.store[key].tensor):
            return key
    return None


class _FoundError(Exception):
    def __init__(self, node: Any) -> None:
        super().__init__()
        self.node = node


class _Search(fx.Interpreter):
    """Runs a net until a node of the graph gives something that is not finite."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if "node" in n.meta:
            for made in result if isinstance(result, tuple) else (result,):
                if isinstance(made, Tensor) and not _is_finite(made):
                    raise _FoundError(n.meta["node"])
        return result


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
