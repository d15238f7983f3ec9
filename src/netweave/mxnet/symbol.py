"""``mx.sym``: the symbols of Netweave with MXNet's signatures, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from netweave.errors import ShapeError
from netweave.formats.mxnet.symbol import (
    AttrScope,
    Group,
    NameManager,
    Prefix,
    Symbol,
    arange,
    full,
    hypot,
    load,
    load_json,
    maximum,
    minimum,
    ones,
    pow,  # noqa: A004 - MXNet's name
    variable,
    zeros,
)
from netweave.formats.mxnet.symbol import operator_function as symbol_function
from netweave.formats.mxnet.symbol.operators import READERS
from netweave.formats.mxnet.symbol.symbol import METHODS
from netweave.mxnet.base import missing
from netweave.mxnet.executor import bind, simple_bind
from netweave.mxnet.operators import (
    ALIASES,
    POSITIONAL,
    PREFIXES,
    Namespace,
    find_operator,
    names_in,
    take_apart,
)

__all__ = [
    "AttrScope",
    "Group",
    "NameManager",
    "Prefix",
    "Symbol",
    "Variable",
    "arange",
    "fromjson",
    "full",
    "hypot",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "pow",
    "power",
    "var",
    "zeros",
]

power = pow
fromjson = load_json


def Variable(  # noqa: N802 - MXNet's name
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: Sequence[int] | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: str,
) -> Symbol:
    """Return a variable: an input of the net, or an array that it learns.

    Args:
        name: Its name.
        attr: Attributes of the user.
        shape: Its sizes; 0 for one that follows from others.
        lr_mult: Factor on the learning rate.
        wd_mult: Factor on the weight decay.
        dtype: Its element type.
        init: Initializer for its first values, or the text of one.
        stype: As MXNet has it; arrays are dense here.
        kwargs: Attributes of the user, ``__name__``.
    """
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        init=init,
        lr_mult=lr_mult,
        wd_mult=wd_mult,
        attr=attr,
        **kwargs,
    )


var = Variable


def is_symbol(value: Any) -> bool:
    """Return whether a value is an input of an operator."""
    return isinstance(value, Symbol)


@cache
def operator_function(op: str) -> Callable[..., Symbol]:
    """Return the function that applies an operator of the table to symbols, in MXNet's manner."""
    apply = symbol_function(op)

    def function(*args: Any, **kwargs: Any) -> Symbol:
        name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
        call = take_apart(op, args, kwargs, is_symbol)
        return apply(*call.inputs, name=name, attr=attr, **call.named, **call.settings)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = apply.__doc__
    return function


def _bind(symbol: Symbol, ctx: Any, args: Any, **kwargs: Any) -> Any:
    return bind(symbol, ctx, args, **kwargs)


def _bind_positional(
    symbol: Symbol, ctx: Any, args: Any, args_grad: Any = None, *rest: Any, **kwargs: Any
) -> Any:
    names = ("grad_req", "aux_states", "group2ctx", "shared_exec")
    return _bind(symbol, ctx, args, args_grad=args_grad, **dict(zip(names, rest, strict=False)), **kwargs)


def _simple_bind(symbol: Symbol, ctx: Any = None, grad_req: Any = "write", **kwargs: Any) -> Any:
    return simple_bind(symbol, ctx, grad_req=grad_req, **kwargs)


def _eval(symbol: Symbol, ctx: Any = None, **kwargs: Any) -> Any:
    return _bind(symbol, ctx, kwargs, grad_req="null").forward()


def _infer_shape_partial(symbol: Symbol, **shapes: Sequence[int]) -> Any:
    try:
        return symbol.infer_shape(**shapes)
    except ShapeError:
        return None, None, None


def _debug_str(symbol: Symbol) -> str:
    nodes = symbol.document().nodes
    return "\n".join(f"{node.op}, Name={node.name}" for node in nodes)


METHODS.update({name: operator_function(name) for name in (*POSITIONAL, *ALIASES) if name in READERS})
METHODS.update(
    bind=_bind_positional,
    debug_str=_debug_str,
    eval=_eval,
    infer_shape_partial=_infer_shape_partial,
    simple_bind=_simple_bind,
)


def __getattr__(name: str) -> Any:
    """Return the function of an operator, or a namespace of operators."""
    if name in PREFIXES:
        return Namespace(f"mx.sym.{name}", name, operator_function)
    if name.startswith("__") or find_operator(name) is None:
        raise missing("mx.sym", name, [*__all__, *names_in()])
    return operator_function(name)
