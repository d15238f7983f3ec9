"""A graph made ready to run on torch: its precision, and the threads that compute it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import torch

from netweave.runtime.backends.torch.device import check_bfloat16, check_float16
from netweave.runtime.backends.torch.net import TorchNet
from netweave.runtime.backends.torch.openmp import computing_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import fx

    from netweave.graph import Graph
    from netweave.runtime.backends.settings import RunSettings

_HALF = {"bf16": torch.bfloat16, "f16": torch.float16}

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that autocast computes in half precision, and whose stored inputs are rounded to it anyway."""


class PreparedTorchNet:
    """A graph on torch in test mode; several threads may run it at once."""

    def __init__(self, graph: Graph, taps: Sequence[str], settings: RunSettings) -> None:
        """Lower a graph; see ``backends.prepare``."""
        _check_precision(settings.precision)
        self._net = TorchNet(graph, taps=taps).eval()
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
            found = self._net.run(inputs)
        return {name: self._widened(name, array) for name, array in found.items()}

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
