"""``mx.operator.NumpyOp`` and ``NDArrayOp``: operators of the user's own as scripts before 0.9 write them.

Each instance is registered as a ``CustomOp`` under a name of its own (python/mxnet/operator.py at 1.9.1,
where both are deprecated and still there).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet.custom_op import CustomOp, CustomOpProp, register
from netweave.mxnet.ndarray.array import NDArray

_NUMBERS = itertools.count()


class PythonOp:
    """Base of both; a subclass implements ``forward`` and ``backward``.

    Args:
        need_top_grad: Whether the gradient of its output is looked at; a loss does not.
    """

    hint = "_python"

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        """Return the symbol of a call."""
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        """Return the symbol of a call; a second one shares what the operator keeps, as in MXNet."""
        from netweave.formats.mxnet.symbol.vertex import fresh_name
        from netweave.mxnet import symbol

        if not hasattr(self, "_op_type"):
            self._op_type = f"{self.hint}_{type(self).__name__}{next(_NUMBERS)}"
            register(self._op_type)(lambda **settings: _Prop(self))
        name = fresh_name(kwargs.pop("name", None), self.hint)
        made: Symbol = symbol.Custom(*args, op_type=self._op_type, name=name, **kwargs)
        return made

    def forward(self, in_data: Any, out_data: Any) -> None:
        """Compute the outputs in place; the input, if it is not written."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        """Compute the gradients of the inputs in place; ones, if it is not written."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Any) -> Any:
        """Return sizes of inputs and outputs."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of its outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of its inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Return whether the gradient of its output is looked at."""
        return self.need_top_grad_

    def _run(self, compute: Any, results: Sequence[NDArray], *given: Sequence[NDArray]) -> None:
        """Call forward or backward with arrays of the kind that it takes."""
        raise NotImplementedError


class NumpyOp(PythonOp):
    """An operator on NumPy's arrays."""

    hint = "_native"

    def _run(self, compute: Any, results: Sequence[NDArray], *given: Sequence[NDArray]) -> None:
        arrays = [array.asnumpy() for array in results]
        compute(*([array.asnumpy() for array in row] for row in given), arrays)
        for result, array in zip(results, arrays, strict=True):
            result[:] = array


class NDArrayOp(PythonOp):
    """An operator on ``NDArray``."""

    hint = "_ndarray"

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        """As MXNet has it; everything is kept here."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]

    def _run(self, compute: Any, results: Sequence[NDArray], *given: Sequence[NDArray]) -> None:
        compute(*(list(row) for row in given), list(results))


class _Prop(CustomOpProp):
    """An instance as ``CustomOpProp``."""

    def __init__(self, op: PythonOp) -> None:
        super().__init__(op.need_top_grad())
        self._op = op

    def list_arguments(self) -> list[str]:
        return list(self._op.list_arguments())

    def list_outputs(self) -> list[str]:
        return list(self._op.list_outputs())

    def infer_shape(self, in_shape: Any) -> Any:
        inputs, outputs = self._op.infer_shape(in_shape)[:2]
        return inputs, outputs, []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        return _Op(self._op)


class _Op(CustomOp):
    """An instance as ``CustomOp``."""

    def __init__(self, op: PythonOp) -> None:
        self._op = op

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        def compute(inputs: Any, outputs: Any) -> None:
            self._op.forward(in_data=inputs, out_data=outputs)

        self._op._run(compute, out_data, in_data)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        def compute(above: Any, inputs: Any, outputs: Any, grads: Any) -> None:
            self._op.backward(out_grad=above, in_data=inputs, out_data=outputs, in_grad=grads)

        self._op._run(compute, in_grad, out_grad, in_data, out_data)
