"""Symbolic tensors, and the operations that make them: layers, and functions of ``ops``.

What an operation means stands in the reader of Keras' files: its rule is run on an input of the tensor's
sizes, which gives the sizes of the results and the arrays that the operation has (decision 0175).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import SourceError, UsageError
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.context import KerasLayer, KerasNet
from netweave.formats.keras.layers import READERS
from netweave.formats.keras.registry import read_layer
from netweave.formats.keras.weights import LayerArrays, snake_case
from netweave.formats.lowering.channels_last import Tensor
from netweave.graph import BATCH, GraphBuilder, Layer
from netweave.keras.state import unique_name

Shape = tuple[int | None, ...]


class KerasTensor:
    """A tensor without values: sizes, element type, and the operation that makes it.

    Attributes:
        shape: Its sizes; None for the batch.
        dtype: Type of its elements, as NumPy names it.
        node: The call that makes it.
        index: Which of the outputs of the call it is.
    """

    def __init__(self, shape: Sequence[int | None], dtype: str, node: Node, index: int) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = dtype
        self.node = node
        self.index = index

    @property
    def name(self) -> str:
        """Name of the operation that makes it."""
        return self.node.operation.name

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, name={self.name}>"

    def __iter__(self) -> Any:
        raise UsageError(f"{self!r} cannot be iterated; take its parts, as in x[:, 0]")

    def __bool__(self) -> bool:
        raise UsageError(f"{self!r} has no values, so that a program cannot branch by them")

    def __add__(self, other: Any) -> KerasTensor:
        return call("Add", self, other)

    def __radd__(self, other: Any) -> KerasTensor:
        return call("Add", other, self)

    def __sub__(self, other: Any) -> KerasTensor:
        return call("Subtract", self, other)

    def __rsub__(self, other: Any) -> KerasTensor:
        return call("Subtract", other, self)

    def __mul__(self, other: Any) -> KerasTensor:
        return call("Multiply", self, other)

    def __rmul__(self, other: Any) -> KerasTensor:
        return call("Multiply", other, self)

    def __truediv__(self, other: Any) -> KerasTensor:
        return call("TrueDivide", self, other)

    def __rtruediv__(self, other: Any) -> KerasTensor:
        return call("TrueDivide", other, self)

    def __pow__(self, other: Any) -> KerasTensor:
        return call("Power", self, other)

    def __neg__(self) -> KerasTensor:
        return call("Negative", self)

    def __lt__(self, other: Any) -> KerasTensor:
        return call("Less", self, other)

    def __le__(self, other: Any) -> KerasTensor:
        return call("LessEqual", self, other)

    def __gt__(self, other: Any) -> KerasTensor:
        return call("Greater", self, other)

    def __ge__(self, other: Any) -> KerasTensor:
        return call("GreaterEqual", self, other)

    def __matmul__(self, other: Any) -> KerasTensor:
        return call("Matmul", self, other)

    def __getitem__(self, key: Any) -> KerasTensor:
        return call("GetItem", self, key)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call of an operation.

    Attributes:
        operation: The operation.
        args: What it was given; tensors among the rest.
        kwargs: What it was given by name.
        outputs: What it makes.
    """

    operation: Operation
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    outputs: list[KerasTensor] = field(default_factory=list)

    @property
    def tensors(self) -> list[KerasTensor]:
        """The tensors among the arguments."""
        return tensors_in([*self.args, *self.kwargs.values()])


@dataclass(frozen=True, slots=True)
class WeightSpec:
    """An array of a layer, as the reader's rule asks for it.

    Attributes:
        inside: The group of the layer inside the layer that owns it.
        number: Its number in the group.
        name: Keras' name for it.
        shape: Its sizes.
        role: See ``Parameter``.
        key: Its key in a Graph, after the name of the layer.
    """

    inside: str
    number: int
    name: str
    shape: tuple[int, ...]
    role: str
    key: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the reader's rule makes of a call: sizes and types of the results, and the arrays it asks for."""

    outputs: tuple[tuple[Shape, str], ...]
    weights: tuple[WeightSpec, ...]


class Operation:
    """Something that makes tensors of tensors.

    Args:
        class_name: Its class, as Keras' files and the table of the reader have it.
        config: Its settings, JSON values.
        module: Where Keras has the class.
        name: Its name.
    """

    def __init__(self, class_name: str, config: Mapping[str, Any], *, module: str, name: str) -> None:
        self.class_name = class_name
        self.config: dict[str, Any] = {"name": name, **config}
        self.keras_module = module
        self.name = name
        self.nodes: list[Node] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the operation makes of tensors.

        Raises:
            SourceError: The sizes do not fit, or a setting is wrong.
            UsageError: No tensor is given.
        """
        if "training" in kwargs and kwargs["training"] is None:  # says nothing, in Keras too
            del kwargs["training"]
        given = tensors_in([*args, *kwargs.values()])
        if not given and not self.makes_own:
            raise UsageError(
                f"{self.class_name} {self.name!r} is called without a symbolic tensor; start from "
                "keras.Input(shape=...), or use predict of a model"
            )
        outputs = self.results(args, kwargs)
        node = Node(self, args, kwargs)
        node.outputs.extend(KerasTensor(shape, dtype, node, at) for at, (shape, dtype) in enumerate(outputs))
        self.nodes.append(node)
        return node.outputs[0] if len(node.outputs) == 1 else list(node.outputs)

    makes_own = False
    """Whether it needs no tensor."""

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Shape, str], ...]:
        """Return the sizes and element types of what it makes."""
        return meaning_of(self.class_name, self.config, args, kwargs, name=self.name).outputs

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        return dict(self.config)

    def to_json(self) -> dict[str, Any]:
        """Return the operation as Keras 3's files hold it, without its calls."""
        return {
            "module": self.keras_module,
            "class_name": self.class_name,
            "config": self.get_config(),
            "registered_name": None,
            "name": self.name,
        }


def call(class_name: str, *args: Any, module: str = "keras.src.ops.numpy", **config: Any) -> KerasTensor:
    """Return what a function of ``keras.ops`` makes of tensors.

    Args:
        class_name: The class that Keras has for the function.
        args: What it is given.
        module: Where Keras has the class.
        config: Its settings.
    """
    settings = {key: value for key, value in config.items() if value is not None}
    operation = Operation(class_name, settings, module=module, name=unique_name(class_name))
    made: KerasTensor = operation(*args)
    return made


class _Asked(LayerArrays):
    """Notes which arrays a rule asks for; gives none."""

    def __init__(self, name: str) -> None:
        super().__init__("", name, lambda inside, number: None)
        self.asked: list[tuple[str, int, str, tuple[int, ...]]] = []
        self._counts: dict[str, int] = {}

    def take(self, name: str, shape: Sequence[int | None], *, inside: str = "") -> Any:
        """Note an array, and give none."""
        number = self._counts.get(inside, 0)
        self._counts[inside] = number + 1
        self.asked.append((inside, number, name, tuple(size or 0 for size in shape)))


def meaning_of(
    class_name: str, config: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str
) -> Meaning:
    """Return what the reader's rule makes of a call.

    Raises:
        SourceError: The sizes do not fit, or a setting is wrong.
        UsageError: No rule is known.
    """
    if class_name not in READERS:
        raise UsageError(f"layer {name!r}: {class_name} is not supported")
    builder = GraphBuilder("layer", format="keras")
    net = KerasNet(builder, reserved=(), version=3)
    inputs = _Inputs(builder)
    asked = _Asked(name)
    place = f"{class_name} {name!r}"
    ctx = KerasLayer(
        net,
        LayerConfig(name, class_name, config),
        name=name,
        args=[inputs.bound(value) for value in args],
        kwargs={key: inputs.bound(value) for key, value in kwargs.items()},
        arrays=asked,
        place=place,
    )
    layer = Layer(key=builder.layers.free_key(name), name=name, type=class_name, outputs=("made",))
    try:
        with ctx.recorded(layer, ctx.inputs) as tensors, ctx.located_errors():
            tensors += read_layer(ctx)
    except SourceError as error:
        raise UsageError(str(error)) from error
    keys = dict(zip(asked.asked, net.arrays.items(), strict=True))
    specs = tuple(
        WeightSpec(inside, number, short, shape, keys[inside, number, short, shape][1].role,
                   keys[inside, number, short, shape][0].removeprefix(f"{name}/"))
        for inside, number, short, shape in asked.asked
    )  # fmt: skip
    return Meaning(tuple((ctx.shape(tensor), _dtype(tensor)) for tensor in tensors), specs)


class _Inputs:
    """Inputs of a scratch graph in the place of symbolic tensors, one for each."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._made: dict[int, Tensor] = {}

    def bound(self, value: Any) -> Any:
        """Return an argument with tensors of the scratch graph."""
        if isinstance(value, (list, tuple)):
            return [self.bound(item) for item in value]
        if not isinstance(value, KerasTensor):
            return value
        if id(value) not in self._made:
            dims: list[int | str | None] = [BATCH if size is None and not at else size for at, size in
                                            enumerate(value.shape)]  # fmt: skip
            dtype = ir.DataType.from_numpy(np.dtype(value.dtype))
            name = f"input_{len(self._made)}"
            self._made[id(value)] = Tensor(self._builder.input(name, dims, dtype=dtype, batch=False))
        return self._made[id(value)]


def _dtype(tensor: Tensor) -> str:
    dtype = tensor.value.dtype
    return "float32" if dtype is None else str(dtype.numpy())


def tensors_in(values: Iterable[Any]) -> list[KerasTensor]:
    """Return the symbolic tensors among values, and in the lists and mappings among them."""
    found: list[KerasTensor] = []
    for value in values:
        if isinstance(value, KerasTensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
        elif isinstance(value, Mapping):
            found += tensors_in(value.values())
    return found


def default_name(class_name: str) -> str:
    """Return a name for an object of a class that has not been given yet."""
    return unique_name(snake_case(class_name))
