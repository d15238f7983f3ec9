"""The GRU: ``gru.cc``. Its copies are joined in ``unroll``: each reads its input and the copy before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.singa.call import Call, Made, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


@layer("kGRU", sources=(1, 2))
def gru(call: Call) -> Made:
    """One step: z, r and c, with r after the product of the state, as ONNX with ``linear_before_reset``.

    Parameters: the input's matrices of z, r and c, the state's, and perhaps the three biases. Without a copy
    before, the state is zero.
    """
    settings = call.spec["gru_conf"]
    hidden = settings["dim_hidden"]
    if hidden < 1:
        raise call.wrong(f"'dim_hidden' is {hidden}, expected 1 or more", settings.line_of("dim_hidden"))
    count = call.expect_parameters(
        [6, 9], "three matrices of the input, three of the state, perhaps three biases"
    )
    x, size = call.rows()
    state = None
    if len(call.sources) == 2:
        before, num_states = call.rows(1)
        if num_states != hidden:
            raise call.wrong_shape(f"the state that it reads has {num_states} elements, expected {hidden}")
        state = _with_first_axis(call, before)
    inputs = [
        _with_first_axis(call, x),
        _matrix(call, range(3), (hidden, size)),
        _matrix(call, range(3, 6), (hidden, hidden)),
        _bias(call, hidden) if count == 9 else None,
        None,
        state,
    ]
    attributes = {"hidden_size": hidden, "linear_before_reset": 1}
    _, last = call.builder.add_many("GRU", inputs, attributes, outputs=["", ""])
    return Made([call.add("Squeeze", [last, call.builder.constant([0], dtype="int64")])])


def _with_first_axis(call: Call, x: ir.Value) -> ir.Value:
    return call.builder.add("Unsqueeze", [x, call.builder.constant([0], dtype="int64")])


def _matrix(call: Call, numbers: Sequence[int], shape: tuple[int, int]) -> ir.Value:
    """Return three matrices as one, [1, 3 * rows, columns]; copies share it."""
    layout = [("reshape", (1, *shape))]
    return _joined(call, [call.parameter(number, shape, "weight", layout=layout) for number in numbers])


def _bias(call: Call, hidden: int) -> ir.Value:
    """Return the biases of the input's products, and zeros for the state's: [1, 6 * hidden]."""
    parts = [
        call.parameter(number, (hidden,), "bias", layout=[("reshape", (1, hidden))]) for number in (6, 7, 8)
    ]
    return _joined(call, parts, np.zeros((1, 3 * hidden), np.float32))


def _joined(call: Call, parts: Sequence[ir.Value], rest: np.ndarray | None = None) -> ir.Value:
    key = tuple(part.name or "" for part in parts)
    if key not in call.joined:
        more = [] if rest is None else [call.builder.constant(rest)]
        call.joined[key] = call.builder.add("Concat", [*parts, *more], {"axis": 1})
    return call.joined[key]
