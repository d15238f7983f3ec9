"""Operators of the registry by their own forward and gradient: the user's, and those that choose boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netweave.errors import RunError
from netweave.graph import DOMAIN, Effect, find_operator
from netweave.runtime.backends.torch.table import Lowering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.graph import Operator
    from netweave.runtime.backends.torch.draws import Draws
    from netweave.runtime.backends.torch.node_memory import OperatorState


def registered_lowering(op_type: str, *, num_inputs: int) -> Lowering:
    """Return the lowering of an operator of the registry: its tensor forward, or its NumPy one.

    Torch differentiates a tensor forward without a gradient of its own; nothing else is.
    """
    entry = find_operator(op_type)
    injected = {"memory", "training"} if entry.state is not None else set()
    if Effect.RANDOM in entry.effects:
        injected |= {"draws", "stream"}
    return Lowering(
        domain=DOMAIN,
        op_type=op_type,
        since=1,
        function=_function(entry),
        inputs=("tensor",) * num_inputs,
        variadic=False,
        attributes=entry.defaults,
        injected=frozenset(injected),
        many=True,
    )


def _function(entry: Operator) -> Callable[..., tuple[Tensor, ...]]:
    plain = entry.tensor_forward is not None and entry.tensor_gradient is None

    def compute(
        *inputs: Tensor,
        memory: OperatorState | None = None,
        training: bool = False,
        draws: Draws | None = None,
        stream: int = 0,
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        if draws is not None:
            draws.seed_torch(stream)
        if memory is not None:
            attributes["state"] = memory.given(training=training)
        if not plain:
            made: tuple[Tensor, ...] = _Registered.apply(entry, attributes, *inputs)
            return made
        assert entry.tensor_forward is not None
        found = entry.tensor_forward(*inputs, **attributes)
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    compute.__name__ = f"own_{entry.op_type}"
    return compute


class _Registered(torch.autograd.Function):
    """A forward and a gradient that torch does not look into; each is called once for each time it is due."""

    @staticmethod
    def forward(ctx: Any, entry: Operator, attributes: dict[str, Any], *inputs: Tensor) -> tuple[Tensor, ...]:
        if entry.tensor_forward is not None:
            made = entry.tensor_forward(*inputs, **attributes)
            outputs = tuple(made) if isinstance(made, tuple | list) else (made,)
        else:
            found = entry.forward([_array(tensor) for tensor in inputs], attributes)
            outputs = tuple(_tensor(array, *inputs[:1]) for array in found)
        ctx.entry, ctx.attributes, ctx.num_inputs = entry, attributes, len(inputs)
        ctx.save_for_backward(*inputs, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        entry, saved = ctx.entry, ctx.saved_tensors
        inputs, outputs = saved[: ctx.num_inputs], saved[ctx.num_inputs :]
        if entry.tensor_gradient is not None:
            given = above[0] if len(above) == 1 else list(above)
            settings = {name: value for name, value in ctx.attributes.items() if name != "state"}
            made = entry.tensor_gradient(list(inputs), list(outputs), given, **settings)
            found = list(made) if isinstance(made, tuple | list) else [made]
        elif entry.gradient is not None:
            arrays = ([_array(t) for t in tensors] for tensors in (inputs, outputs, above))
            found = [_gradient(a, inputs[0]) for a in entry.gradient(*arrays, ctx.attributes)]
        else:
            raise RunError(
                f"operator {entry.op_type!r} has no gradient; give gradient=..., or write its forward on "
                "torch tensors (arrays='torch')"
            )
        return (None, None, *_checked(entry, found, inputs))


def _checked(
    entry: Operator, found: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    shapes = [None if tensor is None else tuple(tensor.shape) for tensor in found]
    wanted = [tuple(tensor.shape) for tensor in inputs]
    if len(shapes) != len(wanted) or any(s not in {None, w} for s, w in zip(shapes, wanted, strict=True)):
        raise RunError(f"operator {entry.op_type!r}: its gradient returns {shapes}, expected {wanted}")
    return found


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _tensor(array: np.ndarray, like: Tensor | None = None) -> Tensor:
    """Return an array as a tensor of its own where another one is, of its floating-point type."""
    made = torch.from_numpy(np.array(array, order="C"))
    if like is None:
        return made
    return made.to(like.device, like.dtype if made.is_floating_point() else None)


def _gradient(array: np.ndarray | None, like: Tensor) -> Tensor | None:
    return None if array is None else _tensor(np.asarray(array), like)
