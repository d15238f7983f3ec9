"""The GRU: ``gru.cc``. Its copies are joined in ``unroll``: each reads its input and the copy before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from netweave.formats.lowering.recurrent import RecurrentCell, recurrent_node, without_state_bias
from netweave.formats.singa.context import Output, SingaLayer, layer

_CELL = RecurrentCell("GRU", linear_before_reset=True)


@layer("kGRU", sources=(1, 2))
def gru(ctx: SingaLayer) -> Output:
    """One step: z, r and c, with r after the product of the state, as ONNX with ``linear_before_reset``.

    Parameters: the input's matrices of z, r and c, the state's, and perhaps the three biases. Without a copy
    before, the state is zero.
    """
    settings = ctx.spec["gru_conf"]
    hidden = ctx.positive_field(settings, "dim_hidden")
    count = ctx.expect_parameters(
        [6, 9], "three matrices of the input, three of the state, perhaps three biases"
    )
    x, size = ctx.rows()
    state = None
    if len(ctx.sources) == 2:
        before, num_states = ctx.rows(1)
        if num_states != hidden:
            raise ctx.shape_error(f"the state that it reads has {num_states} elements, expected {hidden}")
        state = ctx.unsqueeze(before, [0])
    weights = [
        _matrix(ctx, range(3), (hidden, size)),
        _matrix(ctx, range(3, 6), (hidden, hidden)),
        _bias(ctx, hidden) if count == 9 else None,
    ]
    _, (last,) = recurrent_node(
        ctx, _CELL, ctx.unsqueeze(x, [0]), weights, hidden_size=hidden, states=[state]
    )
    return Output([ctx.add_output("Squeeze", [last, ctx.integers([0])])])


def _matrix(ctx: SingaLayer, numbers: Sequence[int], shape: tuple[int, int]) -> ir.Value:
    """Return three matrices as one, [1, 3 * rows, columns]; copies share it."""
    layout = [("reshape", (1, *shape))]
    parts = [ctx.parameter(number, shape, "weight", layout=layout) for number in numbers]
    return _shared(ctx, parts, lambda: ctx.concat(parts, 1))


def _bias(ctx: SingaLayer, hidden: int) -> ir.Value:
    """Return the biases of the input's products, and zeros for the state's: [1, 6 * hidden]."""
    layout = [("reshape", (1, hidden))]
    parts = [ctx.parameter(number, (hidden,), "bias", layout=layout) for number in (6, 7, 8)]
    return _shared(ctx, parts, lambda: without_state_bias(ctx, parts, 3 * hidden))


def _shared(ctx: SingaLayer, parts: Sequence[ir.Value], join: Callable[[], ir.Value]) -> ir.Value:
    """Return several arrays as one, which all unrolled copies of a layer read."""
    key = tuple(part.name or "" for part in parts)
    if key not in ctx.joined:
        ctx.joined[key] = join()
    return ctx.joined[key]
