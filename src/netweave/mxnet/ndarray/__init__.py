"""``mx.nd``: arrays, and every operator of the symbols' table as a function of arrays.

What no table of Netweave's has is defined in ``functions``, ``creation`` and ``netweave.mxnet.random``.
"""

from __future__ import annotations

from typing import Any

from netweave.mxnet.base import missing
from netweave.mxnet.ndarray import random, sparse
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.ndarray.creation import (
    arange,
    array,
    empty,
    eye,
    from_numpy,
    full,
    linspace,
    load,
    ones,
    ones_like,
    save,
    zeros,
    zeros_like,
)
from netweave.mxnet.ndarray.functions import (
    CONTROL_FLOW,
    add,
    concatenate,
    divide,
    equal,
    fill_element_0index,
    greater,
    greater_equal,
    hypot,
    imdecode,
    isnan,
    lesser,
    lesser_equal,
    maximum,
    minimum,
    modulo,
    moveaxis,
    multiply,
    norm,
    not_equal,
    onehot_encode,
    operator_function,
    power,
    shuffle,
    softmax_cross_entropy,
    subtract,
    true_divide,
    waitall,
)
from netweave.mxnet.operators import PREFIXES, Namespace, find_operator, names_in

__all__ = [
    "NDArray",
    "add",
    "arange",
    "array",
    "concatenate",
    "divide",
    "empty",
    "equal",
    "eye",
    "fill_element_0index",
    "from_numpy",
    "full",
    "greater",
    "greater_equal",
    "hypot",
    "imdecode",
    "isnan",
    "lesser",
    "lesser_equal",
    "linspace",
    "load",
    "maximum",
    "minimum",
    "modulo",
    "moveaxis",
    "multiply",
    "norm",
    "not_equal",
    "onehot_encode",
    "ones",
    "ones_like",
    "power",
    "random",
    "save",
    "shuffle",
    "softmax_cross_entropy",
    "sparse",
    "subtract",
    "true_divide",
    "waitall",
    "zeros",
    "zeros_like",
]

_DRAWN = ("uniform", "normal", "poisson", "exponential", "gamma", "negative_binomial", "randint")


def __getattr__(name: str) -> Any:
    """Return the function of an operator, a namespace of operators, or what draws."""
    for prefix in ("random_", "sample_", "_random_", "_sample_"):
        if name.startswith(prefix) and name.removeprefix(prefix) in {*_DRAWN, "multinomial"}:
            return getattr(random, name.removeprefix(prefix))
    if name in {"uniform", "normal"}:
        return getattr(random, name)
    if name in PREFIXES:
        own = CONTROL_FLOW if name == "contrib" else None
        return Namespace(f"mx.nd.{name}", name, operator_function, own)
    if find_operator(name) is None:
        raise missing("mx.nd", name, [*__all__, *names_in()])
    return operator_function(name)
