"""Operators of MXNet in their namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.operators import READERS
from netweave.mxnet.base import missing

# Both have the operators of ``netweave.symbol``: one table, one reader, one lowering each. Here stand only
# MXNet's generated signatures: the order of the settings that scripts give without a name, other names of
# operators, and prefixes of namespaces.

POSITIONAL: dict[str, tuple[str, ...]] = {
    "Activation": ("act_type",),
    "BlockGrad": (),
    "Cast": ("dtype",),
    "Convolution": ("kernel", "stride", "dilate", "pad", "num_filter"),
    "Dropout": ("p", "mode", "axes"),
    "Embedding": (),
    "FullyConnected": ("num_hidden", "no_bias", "flatten"),
    "L2Normalization": ("eps", "mode"),
    "LayerNorm": ("axis", "eps"),
    "LeakyReLU": ("act_type",),
    "Pad": ("mode", "pad_width", "constant_value"),
    "Pooling": ("kernel", "pool_type", "global_pool"),
    "ROIPooling": ("pooled_size", "spatial_scale"),
    "Reshape": ("shape", "reverse"),
    "SequenceLast": ("use_sequence_length", "axis"),
    "SequenceMask": ("use_sequence_length", "value", "axis"),
    "SequenceReverse": ("use_sequence_length", "axis"),
    "SliceChannel": ("num_outputs", "axis", "squeeze_axis"),
    "SoftmaxActivation": ("mode",),
    "SwapAxis": ("dim1", "dim2"),
    "_random_exponential": ("lam", "shape"),
    "_random_normal": ("loc", "scale", "shape"),
    "_random_randint": ("low", "high", "shape"),
    "_random_uniform": ("low", "high", "shape"),
    "argmax": ("axis", "keepdims"),
    "argmin": ("axis", "keepdims"),
    "argsort": ("axis", "is_ascend", "dtype"),
    "batch_dot": ("transpose_a", "transpose_b"),
    "broadcast_axis": ("axis", "size"),
    "broadcast_to": ("shape",),
    "clip": ("a_min", "a_max"),
    "depth_to_space": ("block_size",),
    "dot": ("transpose_a", "transpose_b"),
    "expand_dims": ("axis",),
    "flip": ("axis",),
    "hard_sigmoid": ("alpha", "beta"),
    "linalg_gemm2": ("transpose_a", "transpose_b", "alpha"),
    "log_softmax": ("axis",),
    "max": ("axis", "keepdims"),
    "max_axis": ("axis", "keepdims"),
    "mean": ("axis", "keepdims"),
    "min": ("axis", "keepdims"),
    "min_axis": ("axis", "keepdims"),
    "nanprod": ("axis", "keepdims"),
    "nansum": ("axis", "keepdims"),
    "norm": ("ord", "axis"),
    "one_hot": ("depth", "on_value", "off_value", "dtype"),
    "pick": ("axis", "keepdims"),
    "prod": ("axis", "keepdims"),
    "repeat": ("repeats", "axis"),
    "reverse": ("axis",),
    "slice": ("begin", "end", "step"),
    "slice_axis": ("axis", "begin", "end"),
    "slice_like": ("axes",),
    "smooth_l1": ("scalar",),
    "softmax": ("axis", "temperature"),
    "softmin": ("axis",),
    "sort": ("axis", "is_ascend"),
    "space_to_depth": ("block_size",),
    "split": ("num_outputs", "axis", "squeeze_axis"),
    "squeeze": ("axis",),
    "stack": ("axis",),
    "sum": ("axis", "keepdims"),
    "sum_axis": ("axis", "keepdims"),
    "take": ("axis", "mode"),
    "tile": ("reps",),
    "topk": ("axis", "k", "ret_typ"),
    "transpose": ("axes",),
}
"""Settings in the order of MXNet's signatures, behind the inputs; for operators that are called so."""

ALIASES = {
    "Cast": "Cast",
    "broadcast_axes": "broadcast_axis",
    "normal": "_random_normal",
    "random_exponential": "_random_exponential",
    "random_normal": "_random_normal",
    "random_randint": "_random_randint",
    "random_uniform": "_random_uniform",
    "uniform": "_random_uniform",
    "cast": "Cast",
    "crop": "slice",
    "pad": "Pad",
    "reshape": "Reshape",
    "swapaxes": "SwapAxis",
}
"""Names under which ``POSITIONAL`` has an operator, by its other names."""

PREFIXES = {
    "contrib": ("_contrib_",),
    "linalg": ("linalg_", "_linalg_"),
    "random": ("_random_", "random_"),
    "image": ("_image_",),
    "op": ("",),
    "sparse": ("",),
    "_internal": ("",),
}
"""How the names of a namespace's operators begin: ``mx.sym.contrib.MultiBoxPrior``."""

VARIADIC_LISTS = frozenset({"Concat", "concat", "stack", "add_n", "ElementWiseSum"})
"""Operators of any number of inputs; scripts also give these as a list."""


SORTS = frozenset({"argsort", "sort", "topk"})
"""Operators that take None as an axis, for the flat array; of others None is the default of a setting."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """The arguments of a call, taken apart.

    Attributes:
        inputs: Inputs in order.
        named: Inputs by name.
        settings: Settings by name.
    """

    inputs: Sequence[Any]
    named: Mapping[str, Any]
    settings: Mapping[str, Any]


def take_apart(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any], is_input: Callable[[Any], bool]
) -> OperatorCall:
    """Return inputs and settings of a call in MXNet's manner.

    Args:
        op: The operator.
        args: Positional arguments: inputs, then settings in MXNet's order.
        kwargs: Keyword arguments.
        is_input: Whether a value is an input: a symbol, or an array.

    Raises:
        UsageError: A positional argument is neither an input nor a setting that comes next.
    """
    if op in VARIADIC_LISTS and len(args) == 1 and isinstance(args[0], list | tuple):
        args = tuple(args[0])
    inputs: list[Any] = []
    rest = list(args)
    while rest and is_input(rest[0]):
        inputs.append(rest.pop(0))
    names = POSITIONAL.get(ALIASES.get(op, op), ())
    if len(rest) > len(names) or any(is_input(value) for value in rest):
        shown = repr(rest[0])[:60]
        raise UsageError(f"{op}: an argument is {shown}, expected an input; name settings, as in scale=2")
    named = {key: value for key, value in kwargs.items() if is_input(value)}
    settings = dict(zip(names, rest, strict=False))
    settings |= {key: value for key, value in kwargs.items() if key not in named}
    if op in SORTS and settings.get("axis", 0) is None:
        settings["axis"] = "None"
    twice = [name for name in names[: len(rest)] if name in kwargs]
    if twice:
        raise UsageError(f"{op}: {twice[0]!r} is given twice, by place and by name")
    return OperatorCall(inputs, named, settings)


def find_operator(name: str, *, namespace: str = "") -> str | None:
    """Return the operator of a name in the table; None where there is none.

    Args:
        name: As scripts write it.
        namespace: ``contrib``, ``linalg``, ...; empty for the module itself.
    """
    if namespace:
        candidates = [prefix + name for prefix in PREFIXES.get(namespace, ())]
        return next((one for one in candidates if one in READERS), None)
    return name if name in READERS and not name.startswith("__") else None


def names_in(namespace: str = "") -> list[str]:
    """Return the names that a namespace has in the table."""
    if not namespace:
        return sorted(READERS)
    prefixes = PREFIXES.get(namespace, ())
    return sorted(op.removeprefix(p) for p in prefixes for op in READERS if p and op.startswith(p))


class Namespace:
    """The operators whose names begin with a prefix, without it.

    Args:
        path: Its name for messages.
        prefix: Which of ``operators.PREFIXES``.
        function: Returns the function of an operator.
        own: Further functions by name.
    """

    def __init__(
        self,
        path: str,
        prefix: str,
        function: Callable[[str], Callable[..., Any]],
        own: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._path, self._prefix, self._function = path, prefix, function
        self._own = dict(own or {})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in self._own:
            return self._own[name]
        op = find_operator(name, namespace=self._prefix)
        if op is None:
            raise missing(self._path, name, [*self._own, *names_in(self._prefix)])
        return self._function(op)

    def __dir__(self) -> list[str]:
        return sorted([*self._own, *names_in(self._prefix)])
