"""The variables of a net: stored arrays, and inputs, which are those that no file stores.

MXNet stores no input sizes: the caller binds them. The first layer with weights behind an input says its
rank, its channels and its element type; height and width stay open, as they are in MXNet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ShapeError, WeightError
from netweave.formats.lowering import LayerContext, ParameterStore
from netweave.formats.lowering.context import Shape
from netweave.formats.lowering.parameters import check_size
from netweave.formats.mxnet.symbol.settings import Settings, is_channels_last
from netweave.graph import BATCH, GraphBuilder, Parameter
from netweave.graph.parameters import Step
from netweave.graph.summary import dims_text

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.vertex import Vertex

SUFFIXES = {
    "_weight": "weight",
    "_bias": "bias",
    "_gamma": "gamma",
    "_beta": "beta",
    "_mean": "mean",
    "_var": "variance",
    "_parameters": "weight",
}
"""Ends of names by which MXNet itself knows what to initialise how, and the role each tells."""


class Variables(ParameterStore):
    """Turns a variable of the symbol into a value of the graph: an input of the net, or a stored array.

    Args:
        builder: Where values are added.
        arrays: The stored arrays by name, without ``arg:`` and ``aux:``; None if there is no file.
        file: Name of that file.
        input_shapes: Input sizes that the caller gave.
        deduced: What the net tells about inputs without sizes, by name.
        open_batch: Whether the batch axis of inputs stays symbolic.

    Attributes:
        has_open_fill: Whether the net has a fill of a size that MXNet would infer.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        arrays: Mapping[str, np.ndarray] | None,
        *,
        file: str,
        input_shapes: Mapping[str, tuple[int, ...]],
        deduced: Mapping[str, Deduced],
        open_batch: bool = True,
    ) -> None:
        super().__init__(builder)
        self._stored = arrays
        self._file = file
        self._input_shapes = input_shapes
        self._deduced = deduced
        self._open_batch = open_batch
        self._inputs: dict[str, ir.Value] = {}
        self.has_open_fill = False

    def value(
        self, node: Vertex, *, default: Sequence[int | None] | None = None, batch_axis: int = 0
    ) -> ir.Value:
        """Return a variable as an operator reads it: a stored array, or else an input of the net.

        Args:
            node: The variable.
            default: Its sizes, where neither caller nor file say.
            batch_axis: Which of its axes is the batch, where the file does not say.

        Raises:
            ShapeError: It is an input, and its sizes are not known.
        """
        if self._is_stored(node):
            return self.parameter(node, shape=None, role=_role(node.name))
        if node.name in self._builder.parameters:
            return self.initializer(node.name)
        if node.name not in self._inputs:
            self._inputs[node.name] = self._add_input(node, default, batch_axis)
        return self._inputs[node.name]

    def _add_input(self, node: Vertex, default: Sequence[int | None] | None, batch_axis: int) -> ir.Value:
        known = self._deduced.get(node.name)
        dtype = _declared_dtype(node) or (known.dtype if known else ir.DataType.FLOAT)
        batch_axis = max(node.attributes.get("__layout__", "").find("N"), batch_axis)
        sizes: list[int | str | None] = list(self._input_shape(node, default))
        if self._open_batch and 0 < batch_axis < len(sizes):
            sizes[batch_axis] = BATCH
        is_open = self._open_batch and batch_axis <= 0
        return self._builder.input(node.name, sizes, dtype=dtype, batch=is_open)

    def parameter(
        self,
        node: Vertex,
        *,
        shape: Sequence[int | None] | None,
        role: str,
        layout: Sequence[Step] = (),
    ) -> ir.Value:
        """Return the initializer of a variable that is a stored array.

        Args:
            node: The variable.
            shape: Its sizes as the operator expects them, None where the operator takes any; None as a
                whole for those of the file.
            role: What it is to the operator; see ``Parameter``.
            layout: Steps from the stored array to the initializer.

        Raises:
            WeightError: The stored array has other sizes.
            ShapeError: There is no stored array, and the expected sizes are not all known.
        """
        self._declare(node, shape, role, trainable=True)
        return self.initializer(node.name, layout)

    def declare_unused(self, node: Vertex, *, shape: Sequence[int | None], role: str) -> Parameter:
        """Enter a stored array in the table although no operator reads it; return its entry."""
        return self._declare(node, shape, role, trainable=False)

    def stored_shape(self, node: Vertex) -> tuple[int, ...] | None:
        """Return the sizes of a variable's stored array, if there is one."""
        array = (self._stored or {}).get(node.name)
        return None if array is None else array.shape

    def known_shape(self, node: Vertex) -> Shape | None:
        """Return the sizes that the caller gave for a variable, or that it declares."""
        given = self._input_shapes.get(node.name)
        return _declared_shape(node) if given is None else given

    def is_input(self, node: Vertex) -> bool:
        """Return whether the caller made an input of a variable that could be a stored array."""
        return node.name in self._input_shapes

    def _is_stored(self, node: Vertex) -> bool:
        if self._stored is not None:
            return node.name in self._stored
        declared = _declared_shape(node)
        named = "__init__" in node.attributes or node.name.endswith(tuple(SUFFIXES))
        return named and declared is not None and None not in declared and not self.is_input(node)

    def _input_shape(self, node: Vertex, default: Sequence[int | None] | None) -> Shape:
        known = self._deduced.get(node.name)
        for shape in (
            self._input_shapes.get(node.name),
            _declared_shape(node),
            default,
            known.shape if known else None,
        ):
            if shape is not None:
                return tuple(shape)
        raise ShapeError(
            f"the sizes of the input {node.name!r} are unknown; set them, as in "
            f"--input-shape {node.name}=1x3x224x224",
            place=node.place,
            open_inputs=(node.name,),
        )

    def _declare(
        self, node: Vertex, shape: Sequence[int | None] | None, role: str, *, trainable: bool
    ) -> Parameter:
        array = (self._stored or {}).get(node.name)
        # An error is the variable's own, and not of the operator that reads it: another may say its sizes.
        context = LayerContext(self._builder, place=node.place)
        settings = node.settings
        return self.declare(
            node.name,
            self._sizes(node, array, shape, context),
            role,
            array,
            context=context,
            filler=_filler(node),
            lr_mult=settings.number("__lr_mult__", 1.0),
            decay_mult=settings.number("__wd_mult__", 1.0),
            trainable=trainable,
        )

    def _sizes(
        self,
        node: Vertex,
        array: np.ndarray | None,
        shape: Sequence[int | None] | None,
        context: LayerContext,
    ) -> tuple[int, ...]:
        """Return the sizes of a stored array, once they are those that the operator expects."""
        if shape is None:
            shape = array.shape if array is not None else _declared_shape(node)
        expected = tuple(shape or ())
        if array is not None:
            self._check_fit(node, array.shape, expected)
            return array.shape
        known = tuple(size for size in expected if size is not None)
        check_size(node.name, known, context)
        if len(known) < len(expected):
            raise context.shape_error(
                "its sizes depend on those of the net's input, which are unknown, and there is no weights "
                "file; set the sizes of the input, as in --input-shape data=1x3x224x224"
            )
        return known

    def _check_fit(self, node: Vertex, stored: Shape, expected: Shape) -> None:
        fits = len(stored) == len(expected) and all(
            size in {None, own} for own, size in zip(stored, expected, strict=True)
        )
        if not fits:
            raise WeightError(
                f"{node.name!r} has the shape {dims_text(stored)} in {self._file}, expected "
                f"{dims_text(expected)}; are these the weights of this net?",
                place=node.place,
            )


def _role(name: str) -> str:
    return next((role for suffix, role in SUFFIXES.items() if name.endswith(suffix)), "weight")


def _declared_shape(node: Vertex) -> Shape | None:
    """Return the sizes that a variable declares; 0 and -1 stand for unknown ones."""
    sizes = node.settings.integers("__shape__", ())
    return tuple(size if size > 0 else None for size in sizes) or None


def _declared_dtype(node: Vertex) -> ir.DataType | None:
    settings = Settings(node.attributes, place=f"variable {node.name!r}")
    name = settings.dtype("__dtype__", None) if node.attributes.get("__dtype__") != "-1" else None
    return onnx_dtype(name) if name else None


def onnx_dtype(name: str) -> ir.DataType:
    """Return ONNX's element type for MXNet's name of it."""
    short = {"float32": "FLOAT", "float64": "DOUBLE"}
    return ir.DataType[short.get(name, name.upper())]


def _filler(node: Vertex) -> dict[str, Any]:
    """Return a variable's ``__init__`` (a JSON list of a name and its arguments) as a mapping."""
    text = node.attributes.get("__init__")
    if not text:
        return {}
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return {"type": text}
    if isinstance(written, list) and len(written) == 2 and isinstance(written[1], dict):
        return {"type": written[0], **written[1]}
    return {"type": text}


# fmt: off
SAME_CHANNELS = frozenset({
    "_copy", "identity", "BlockGrad", "BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "Activation",
    "LeakyReLU", "relu", "sigmoid", "tanh", "Dropout", "LRN", "L2Normalization", "InstanceNorm",
    "Pooling", "Pooling_v1", "clip", "UpSampling", "_plus_scalar", "_PlusScalar", "_minus_scalar",
    "_MinusScalar", "_rminus_scalar", "_RMinusScalar", "_mul_scalar", "_MulScalar", "_div_scalar",
    "_DivScalar", "broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div",
})
# fmt: on
"""Operators whose first input has the rank, the channels and the element type of their output."""


@dataclass(frozen=True, slots=True)
class Deduced:
    """Sizes and element type of an input, as far as they are known; axis 0 is the batch."""

    shape: tuple[int | None, ...]
    dtype: ir.DataType


def deduce(nodes: Sequence[Vertex], arrays: Mapping[str, np.ndarray]) -> dict[str, Deduced]:
    """Return what stored arrays tell about the inputs that lead to them, by name."""
    users: dict[Vertex, list[Vertex]] = {}
    for node in nodes:
        if node.inputs:
            users.setdefault(node.inputs[0].vertex, []).append(node)
    deduced: dict[str, Deduced] = {}
    for node in nodes:
        if node.is_variable and node.name not in arrays:
            known = next(filter(None, _behind(node, users, arrays)), None)
            if known is not None:
                deduced[node.name] = known
    return deduced


def _behind(
    start: Vertex, users: Mapping[Vertex, list[Vertex]], arrays: Mapping[str, np.ndarray]
) -> Iterator[Deduced | None]:
    seen, waiting = {start}, [start]
    while waiting:
        for node in users.get(waiting.pop(0), ()):
            yield _told_by(node, arrays)
            if node.op in SAME_CHANNELS and node not in seen:
                seen.add(node)
                waiting.append(node)


def _told_by(node: Vertex, arrays: Mapping[str, np.ndarray]) -> Deduced | None:
    weight = arrays.get(node.inputs[1].vertex.name) if len(node.inputs) > 1 else None
    if weight is None:
        return None
    dtype = ir.DataType.from_numpy(weight.dtype)
    sizes = [None] * (weight.ndim - 2)
    if node.op in {"Convolution", "Convolution_v1"} and weight.ndim > 2:
        groups = node.settings.count("num_group", 1)
        if is_channels_last(node.attributes.get("layout")):
            return Deduced((None, *sizes, weight.shape[-1] * groups), dtype)
        return Deduced((None, weight.shape[1] * groups, *sizes), dtype)
    if node.op == "Deconvolution" and weight.ndim > 2:
        return Deduced((None, weight.shape[0], *sizes), dtype)
    if node.op == "FullyConnected" and weight.ndim == 2:
        return Deduced((None, weight.shape[1]), dtype)
    return None
