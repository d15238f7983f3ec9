"""Operations of Keras."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import SourceError, UsageError
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.context import KerasLayer, KerasNet, read_layer
from netweave.formats.keras.layers import READERS
from netweave.formats.keras.weights import LayerArrays, snake_case
from netweave.formats.lowering.channels_last import Tensor
from netweave.graph import BATCH, GraphBuilder, Layer


class Variable:
    """One array of a layer; every model that has the layer shares it.

    Args:
        spec: What the reader's rule says of it.
        layer: Name of the layer.
        first: Draws its first values.

    Attributes:
        spec: What the reader's rule says of it.
        stored: The tensor of a net that holds it; None until there is one.
        wait: Called before each access: waits for updates that are still computed.
    """

    def __init__(self, spec: WeightSpec, layer: str, first: Callable[[], np.ndarray]) -> None:
        self.spec = spec
        self.path = f"{layer}/{spec.key}"
        self.stored: Any = None
        self.wait: Callable[[], None] | None = None
        self._first: Callable[[], np.ndarray] | None = first
        self._value: np.ndarray | None = None

    @property
    def name(self) -> str:
        """Keras' name for it."""
        return self.spec.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.spec.shape

    @property
    def is_statistic(self) -> bool:
        """True if no gradient changes it: a moving mean or variance."""
        return self.spec.role in {"mean", "variance"}

    def numpy(self) -> np.ndarray:
        """Return its values."""
        if self.stored is not None:
            if self.wait is not None:
                self.wait()
            tensor = self.stored.as_source(self.stored.tensor.detach())
            return np.array(tensor.cpu().numpy())
        if self._value is None:
            assert self._first is not None
            self._value = self._first()
        return self._value.copy()

    def assign(self, value: Any) -> None:
        """Replace its values.

        Raises:
            UsageError: They have other sizes.
        """
        array = np.asarray(value, np.float32)
        if array.shape != self.shape:
            raise UsageError(f"array {self.path!r} has the shape {array.shape}, expected {self.shape}")
        if self.stored is None:
            self._value = array.copy()
            return
        if self.wait is not None:
            self.wait()
        own = self.stored.as_source(self.stored.tensor.detach())
        own.copy_(own.new_tensor(array))

    def hold(self, stored: Any) -> None:
        """Take the tensor of a net, with the values that it has by now."""
        value = self.numpy()
        self.stored = stored
        self.assign(value)
        self._value = None

    def __repr__(self) -> str:
        return f"<Variable path={self.path}, shape={self.shape}>"


FORMATS = ("channels_last", "channels_first")

EPSILON = 1e-7
"""What Keras adds where a number might be zero (``keras.config.epsilon``)."""


class _State:
    def __init__(self) -> None:
        self.image_data_format = FORMATS[0]
        self.seed: int | None = None
        self.drawn = 0
        self.names: Counter[str] = Counter()
        self.prefix = ""


_state = _State()


def image_data_format() -> str:
    """Return which axis of images has the channels where a layer does not say."""
    return _state.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Say where images have their channels if a layer does not: ``channels_last`` or ``channels_first``.

    Raises:
        UsageError: There is no such format.
    """
    if data_format not in FORMATS:
        raise UsageError(f"data_format is {data_format!r}, expected {' or '.join(FORMATS)}")
    _state.image_data_format = data_format


def set_random_seed(seed: int) -> None:
    """Seed all that is drawn from here on: first values, orders of records, dropout."""
    _state.seed, _state.drawn = seed, 0


def next_seed() -> int:
    """Return a seed: the next of the series that ``set_random_seed`` began, or a fresh one."""
    if _state.seed is None:
        return secrets.randbits(31)
    _state.drawn += 1
    return (_state.seed * 1_000_003 + _state.drawn) % (1 << 31)


def unique_name(stem: str) -> str:
    """Return a name for an object: ``dense``, then ``dense_1``."""
    stem = _state.prefix + snake_case(stem)
    number = _state.names[stem]
    _state.names[stem] += 1
    return f"{stem}_{number}" if number else stem


@contextmanager
def names_of_training() -> Iterator[None]:
    """Number names by themselves inside: what a loss is made of takes no names from a user's layers."""
    before = _state.names, _state.prefix
    _state.names, _state.prefix = Counter(), "training_"
    try:
        yield
    finally:
        _state.names, _state.prefix = before


def clear_session() -> None:
    """Begin to number names anew."""
    _state.names.clear()


# What an operation means stands in the reader of Keras' files: its rule is run on an input of the tensor's
# sizes, which gives the sizes of the results and the arrays that the operation has (decision 0175).

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
    """The reader's answer to a call: sizes and types of the results, and the arrays it asks for."""

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
    tensors: list[KerasTensor] = []
    for value in values:
        if isinstance(value, KerasTensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += tensors_in(value)
        elif isinstance(value, Mapping):
            tensors += tensors_in(value.values())
    return tensors


def default_name(class_name: str) -> str:
    """Return a name for an object of a class that has not been given yet."""
    return unique_name(snake_case(class_name))
