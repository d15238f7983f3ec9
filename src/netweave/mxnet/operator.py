"""``mx.operator``: operators of the user's own."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.custom_op import CustomOp, CustomOpProp, get_all_registered_operators, register
from netweave.mxnet.python_op import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "PythonOp",
    "get_all_registered_operators",
    "register",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.operator", name, __all__)
