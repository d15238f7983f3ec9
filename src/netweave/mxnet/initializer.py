"""``mx.init``: first values of arrays, by MXNet's rules for names.

The values are drawn by the fillers of ``training.optim.mxnet.initializers``; here stand the classes that
scripts name, and subclass.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from netweave.errors import UsageError
from netweave.formats.mxnet.dialect import DIALECT
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray
from netweave.training.optim.first_values import FILLERS


class InitDesc(str):
    """The name of an array that is given first values, with the attributes of its variable.

    Args:
        name: The name.
        attrs: Attributes of the variable.
        global_init: The initializer of the whole net.
    """

    attrs: dict[str, str]
    global_init: Any

    def __new__(cls, name: str, attrs: Mapping[str, str] | None = None, global_init: Any = None) -> InitDesc:
        """Return the name with its attributes."""
        made = super().__new__(cls, name)
        made.attrs = dict(attrs or {})
        made.global_init = global_init
        return made


class Initializer:
    """Gives arrays their first values: a subclass overrides ``_init_weight``, or more for other names.

    Args:
        kwargs: Its settings, as ``dumps`` writes them.
    """

    kind: ClassVar[str] = ""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[..., Any] | None = None
    ) -> Initializer:
        """Say whether each array is logged."""
        self._verbose = verbose
        return self

    def dumps(self) -> str:
        """Return the initializer as symbol files have it: a name and settings."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    @property
    def text(self) -> str:
        """The initializer as a variable keeps it (``__init__``)."""
        return self.dumps()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Initializer) and self.dumps() == other.dumps()

    def __hash__(self) -> int:
        return hash(self.dumps())

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Give an array its first values, by its variable's own rule or by its name.

        Raises:
            UsageError: MXNet has no rule for the name.
        """
        own = getattr(desc, "attrs", {}).get("__init__", "")
        if own:
            rule = create(own)
            if isinstance(rule, FusedRNN) and rule.inner is None:
                rule.inner = getattr(desc, "global_init", None) or self
            rule._init_weight(desc, arr)
        else:
            self._by_name(str(desc), desc, arr)
        if self._verbose:
            logging.info("Initialized %s by %s", desc, own or self.dumps())

    def _by_name(self, name: str, desc: str, arr: NDArray) -> None:
        for pattern, (kind, settings) in DIALECT.first_values.by_name:
            if re.fullmatch(pattern, name):
                method = getattr(self, _METHODS.get(pattern, ""), None)
                if method is not None:
                    method(desc, arr)
                else:
                    _fill(arr, kind, settings)
                return
        if name.endswith("weight"):
            self._init_weight(desc, arr)
        else:
            self._init_default(desc, arr)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        if not self.kind:
            raise NotImplementedError(f"{type(self).__name__} has no _init_weight")
        _fill(arr, self.kind, self._kwargs)

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise UsageError(
            f"there is no rule for the first values of {str(name)!r}: MXNet's are for names that end in "
            "weight, bias, gamma or beta; set one with mx.sym.Variable(name, init=mx.init.Zero())"
        )


_METHODS = {r".*bias": "_init_bias", r".*gamma": "_init_gamma", r".*beta": "_init_beta"}
"""Methods that subclasses override, by the rule for names that they stand for."""

_REGISTRY: dict[str, type[Any]] = {}
I = TypeVar("I", bound=type[Any])  # noqa: E741


def _fill(arr: NDArray, kind: str, settings: Mapping[str, Any]) -> None:
    try:
        arr[:] = np.asarray(FILLERS[f"mxnet.{kind}"](arr.shape, random.generator(), **settings), np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"initializer {kind!r} for an array of shape {arr.shape}: {error}") from error


def register(klass: I) -> I:
    """Make an initializer known by its name in small letters."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def create(initializer: Any, **kwargs: Any) -> Any:
    """Return the initializer of a name, or of the text that ``dumps`` wrote; functions stay as they are.

    Raises:
        UsageError: There is none of that name.
    """
    if not isinstance(initializer, str):
        return initializer
    name, settings = initializer, kwargs
    if initializer.startswith("["):
        name, settings = json.loads(initializer)
    name = {"zeros": "zero", "ones": "one"}.get(name.lower(), name.lower())
    if name not in _REGISTRY:
        raise UsageError(f"unknown initializer {name!r}; expected one of {', '.join(sorted(_REGISTRY))}")
    return _REGISTRY[name](**settings)


class _OfAll(Initializer):
    """An initializer for arrays of any name."""

    def _init_default(self, name: str, arr: NDArray) -> None:
        self._init_weight(name, arr)


@register
class Zero(_OfAll):
    """Zeros."""

    kind = "zeros"

    def __init__(self) -> None:
        super().__init__()


@register
class One(_OfAll):
    """Ones."""

    kind = "ones"

    def __init__(self) -> None:
        super().__init__()


@register
class Constant(_OfAll):
    """One value, or a given array."""

    kind = "constant"

    def __init__(self, value: Any = 0.0) -> None:
        super().__init__(value=value.asnumpy().tolist() if isinstance(value, NDArray) else value)


@register
class Uniform(Initializer):
    """Numbers between -scale and scale."""

    kind = "uniform"

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale


@register
class Normal(Initializer):
    """Normal numbers."""

    kind = "normal"

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma


@register
class Orthogonal(Initializer):
    """A matrix of orthogonal rows or columns."""

    kind = "orthogonal"

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)


@register
class Xavier(Initializer):
    """Numbers of a scale that keeps variances from layer to layer."""

    kind = "xavier"

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)


@register
class MSRAPrelu(Xavier):
    """Xavier with a scale for layers behind a PReLU."""

    kind = "msraprelu"

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The weights of an up-sampling."""

    kind = "bilinear"

    def __init__(self) -> None:
        super().__init__()


@register
class LSTMBias(Initializer):
    """Zeros, and the given value for the forget gate."""

    kind = "lstmbias"

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)

    def _init_bias(self, name: str, arr: NDArray) -> None:
        self._init_weight(name, arr)


@register
class FusedRNN(Initializer):
    """The packed vector of an ``RNN``: each gate's matrix by another initializer.

    Args:
        init: The initializer of the matrices, or its text; None for that of the whole net.
        num_hidden: Units of a layer in one direction.
        num_layers: Layers.
        mode: ``rnn_relu``, ``rnn_tanh``, ``lstm`` or ``gru``.
        bidirectional: Whether there is a second direction.
        forget_bias: Of an LSTM.
    """

    kind = "fusedrnn"

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        self.inner = create(init) if isinstance(init, str) else init
        super().__init__(
            init=None if self.inner is None else self.inner.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )

    def _init_weight(self, name: str, arr: NDArray) -> None:
        inner = self.inner or Uniform(0.07)
        if isinstance(inner, Mixed):
            inner = inner.choose(str(name))
        _fill(arr, self.kind, {**self._kwargs, "init": inner.dumps()})


@register
class Load:
    """Arrays from a ``.params`` file or a dictionary, and another rule for those that are missing.

    Args:
        param: The file, or arrays by name, with or without ``arg:`` and ``aux:``.
        default_init: For arrays that are not there.
        verbose: Whether each array is logged.
    """

    def __init__(
        self,
        param: str | Mapping[str, NDArray],
        default_init: Initializer | None = None,
        verbose: bool = False,
    ) -> None:
        from netweave.mxnet import ndarray

        arrays = ndarray.load(param) if isinstance(param, str) else param
        self.param = {name.removeprefix("arg:").removeprefix("aux:"): array for name, array in arrays.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        """Give an array its first values.

        Raises:
            UsageError: The array is of another shape, or not there.
        """
        own = self.param.get(str(name))
        if own is not None:
            if own.shape != arr.shape:
                raise UsageError(f"{name!r} has the shape {arr.shape}, and {own.shape} in what is loaded")
            arr[:] = own
        elif self.default_init is None:
            raise UsageError(f"there is no array {str(name)!r} to load; give default_init")
        else:
            self.default_init(name, arr)


@register
class Mixed:
    """The first initializer whose pattern the name matches.

    Args:
        patterns: Regular expressions for names.
        initializers: The initializer of each.

    Raises:
        UsageError: There are not as many of both.
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Initializer]) -> None:
        if len(patterns) != len(initializers):
            raise UsageError(f"{len(patterns)} patterns and {len(initializers)} initializers were given")
        self.map = [(re.compile(one), rule) for one, rule in zip(patterns, initializers, strict=True)]

    def choose(self, name: str) -> Initializer:
        """Return the initializer of a name.

        Raises:
            UsageError: No pattern matches; ``.*`` as the last one takes the rest.
        """
        for pattern, rule in self.map:
            if pattern.match(name):
                return rule
        raise UsageError(f"no pattern matches {name!r}; add '.*' as the last one")

    def __call__(self, name: str, arr: NDArray) -> None:
        """Give an array its first values."""
        self.choose(str(name))(name, arr)
