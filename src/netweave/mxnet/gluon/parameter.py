"""Parameters of blocks: arrays whose sizes may follow from the first input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from netweave.errors import UsageError
from netweave.mxnet import initializer as init
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.context import as_contexts
from netweave.mxnet.ndarray.array import NDArray


class DeferredInitializationError(UsageError):
    """The sizes of a parameter are not known yet: they follow from the first input."""


class Parameter:
    """An array that a block learns, on one or several devices.

    Args:
        name: Its name.
        grad_req: ``write``, ``add`` or ``null``.
        shape: Its sizes; 0 for those that follow from the first input.
        dtype: Its element type.
        lr_mult: Factor on the learning rate.
        wd_mult: Factor on the weight decay.
        init: Initializer for its first values, or its name.
        allow_deferred_init: Whether sizes may follow from the first input.
        differentiable: Whether it has a gradient.
        kwargs: As MXNet has them.
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: Sequence[int] | int | None = None,
        dtype: Any = "float32",
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        **kwargs: Any,
    ) -> None:
        self.name, self.dtype, self.lr_mult, self.wd_mult, self.init = name, dtype, lr_mult, wd_mult, init
        self._grad_req = grad_req if differentiable else "null"
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape or ())
        self.allow_deferred_init = allow_deferred_init
        self._arrays: list[NDArray] = []
        self._deferred: tuple[list[Any], Any] | None = None
        self._var: Any = None

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """Treatment of its gradient: ``write``, ``add`` or ``null``."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        self._grad_req = req
        for array in self._arrays:
            array.attach_grad(req)

    @property
    def is_known(self) -> bool:
        """True if all its sizes are known."""
        return bool(self.shape) and all(size > 0 for size in self.shape)

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        default_init: Any = None,
        force_reinit: bool = False,
    ) -> None:
        """Give it its first values, as soon as its sizes are known."""
        if self._arrays and not force_reinit:
            return
        chosen = init if self.init is None else self.init
        rule = chosen if chosen is not None else default_init
        self._deferred = (as_contexts(ctx), rule)
        if self.is_known:
            self.finish()
        elif not self.allow_deferred_init:
            raise UsageError(
                f"parameter {self.name!r} has the shape {self.shape}, of which a size is unknown"
            )

    def finish(self) -> None:
        """Make its arrays; its sizes are known now."""
        if self._deferred is None:
            return
        contexts, rule = self._deferred
        self._deferred = None
        first = nd.zeros(self.shape, contexts[0], self.dtype)
        rule = init.create(rule) if isinstance(rule, str) else rule or init.Uniform()
        if isinstance(rule, init.Mixed | init.Load):
            rule(init.InitDesc(self.name), first)
        else:  # Gluon looks at no names: a rule for other than weights is the parameter's own
            rule._init_weight(init.InitDesc(self.name), first)
        self._arrays = [first, *(first.copyto(one) for one in contexts[1:])]
        self.grad_req = self._grad_req

    def _ready(self) -> list[NDArray]:
        if self._arrays:
            return self._arrays
        if self._deferred is not None:
            raise DeferredInitializationError(
                f"the sizes of parameter {self.name!r} follow from the first input; run the block once first"
            )
        raise UsageError(f"parameter {self.name!r} has no values yet; call initialize() first")

    def data(self, ctx: Any = None) -> NDArray:
        """Return its array on a device.

        Raises:
            UsageError: It has no values yet, or none there.
        """
        arrays = self._ready()
        if ctx is None or len(arrays) == 1:
            return arrays[0]
        on_context = [one for one in arrays if one.context == ctx]
        if not on_context:
            raise UsageError(f"parameter {self.name!r} is not on {ctx}; it is on {self.list_ctx()}")
        return on_context[0]

    @property
    def _data(self) -> list[NDArray] | None:
        """Its arrays as scripts look for them: None before they are made."""
        return self._arrays or None

    @property
    def _grad(self) -> list[NDArray] | None:
        """Its gradients likewise; None where it has none."""
        return [one.grad for one in self._arrays if one.grad is not None] or None

    def list_data(self) -> list[NDArray]:
        """Return its arrays on all devices."""
        return self._ready()

    def grad(self, ctx: Any = None) -> NDArray:
        """Return its gradient on a device.

        Raises:
            UsageError: It has none.
        """
        gradient = self.data(ctx).grad
        if gradient is None:
            raise UsageError(f"parameter {self.name!r} has no gradient: its grad_req is {self._grad_req!r}")
        return gradient

    def list_grad(self) -> list[NDArray]:
        """Return its gradients on all devices."""
        return [one.grad for one in self._ready() if one.grad is not None]

    def list_ctx(self) -> list[Any]:
        """Return the devices that it is on."""
        return [one.context for one in self._arrays] if self._arrays else list((self._deferred or ([],))[0])

    def set_data(self, data: Any) -> None:
        """Replace its values on all devices."""
        self.shape = tuple(data.shape)
        if not self._arrays:
            contexts = self._deferred[0] if self._deferred else as_contexts(None)
            self._deferred = None
            self._arrays = [nd.array(data, one, self.dtype) for one in contexts]
            self.grad_req = self._grad_req
            return
        for array in self._arrays:
            array[:] = data

    def zero_grad(self) -> None:
        """Set its gradients to zero."""
        for array in self._arrays:
            array.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move it to other devices."""
        values = self.data()
        self._arrays = [values.copyto(one) for one in as_contexts(ctx)]
        self.grad_req = self._grad_req

    def cast(self, dtype: Any) -> None:
        """Change its element type."""
        self.dtype = dtype
        self._arrays = [one.astype(dtype) for one in self._arrays]
        self.grad_req = self._grad_req

    def var(self) -> Any:
        """Return its variable in symbols."""
        if self._var is None:
            shape = self.shape if self.is_known else None
            self._var = sym.Variable(self.name, shape=shape, lr_mult=self.lr_mult, wd_mult=self.wd_mult)
        return self._var


class Constant(Parameter):
    """An array that nobody changes."""

    def __init__(self, name: str, value: Any) -> None:
        values = value if isinstance(value, nd.NDArray) else nd.array(value)
        rule = init.Constant(values)
        super().__init__(name, "null", values.shape, differentiable=False, init=rule)
        self.value = values


class ParameterDict:
    """Parameters by name.

    Args:
        prefix: What their names begin with.
        shared: Parameters of another block that are used where the name is the same.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix, self._shared = prefix, shared
        self._params: dict[str, Parameter] = {}

    @property
    def prefix(self) -> str:
        """Prefix of their names."""
        return self._prefix

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, name: object) -> bool:
        return name in self._params

    def __getitem__(self, name: str) -> Parameter:
        return self._params[name]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))

    def keys(self) -> Any:
        """Return the names."""
        return self._params.keys()

    def values(self) -> Any:
        """Return the parameters."""
        return self._params.values()

    def items(self) -> Any:
        """Return pairs of name and parameter."""
        return self._params.items()

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return the parameter of a name without the prefix, made if it is new."""
        full = self._prefix + name
        if full not in self._params:
            known = None if self._shared is None else self._shared._params.get(full)
            self._params[full] = known or Parameter(full, **kwargs)
        return self._params[full]

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """Return the constant of a name without the prefix."""
        return self._params.setdefault(self._prefix + name, Constant(self._prefix + name, value))

    def update(self, other: ParameterDict) -> None:
        """Take in the parameters of another dictionary."""
        self._params.update(other._params)

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Give all of them their first values."""
        for one in self.values():
            one.initialize(None, ctx, init, force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for one in self.values():
            one.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all of them to other devices."""
        for one in self.values():
            one.reset_ctx(ctx)

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all of them."""
        for one in self.values():
            setattr(one, name, value)

    def select(self, pattern: str) -> ParameterDict:
        """Return those whose names match a regular expression."""
        selected = ParameterDict(self._prefix)
        selected._params = {name: one for name, one in self.items() if re.match(pattern, name)}
        return selected

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all of them to a ``.params`` file."""
        nd.save(filename, {name.removeprefix(strip_prefix): one.data() for name, one in self.items()})

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        **kwargs: Any,
    ) -> None:
        """Take the arrays of a ``.params`` file.

        Raises:
            ReadError: The file cannot be read, or is none.
            UsageError: An array is missing, or there is one too many.
        """
        arrays = {
            restore_prefix + name.removeprefix("arg:").removeprefix("aux:"): array
            for name, array in nd.load(filename).items()
        }
        load_into(self._params, arrays, ctx, allow_missing=allow_missing, ignore_extra=ignore_extra)


def load_into(
    params: dict[str, Parameter],
    arrays: dict[str, Any],
    ctx: Any,
    *,
    allow_missing: bool,
    ignore_extra: bool,
) -> None:
    """Give parameters values by name.

    Raises:
        UsageError: A value is missing, or there is one too many.
    """
    missing = [name for name in params if name not in arrays]
    extra = [name for name in arrays if name not in params]
    if missing and not allow_missing:
        raise UsageError(
            f"there is no array for parameter {missing[0]!r}; pass allow_missing=True to leave it"
        )
    if extra and not ignore_extra:
        raise UsageError(f"there is no parameter {extra[0]!r}; pass ignore_extra=True to leave it out")
    for name, array in arrays.items():
        if name in params:
            if ctx is not None and not params[name]._arrays:
                params[name]._deferred = (as_contexts(ctx), None)
            params[name].set_data(array)
