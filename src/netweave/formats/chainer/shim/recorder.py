"""Recorder of Chainer's functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import CodeError, WeightError
from netweave.formats.chainer.shim.registry import FUNCTIONS
from netweave.formats.lowering import LayerContext
from netweave.graph import Graph, GraphBuilder, Layer, Origin, known_shape
from netweave.graph import Parameter as Stored
from netweave.graph.summary import names_text

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.link import Link


_CURRENT: list[Recorder] = []

FIRST_OF_IMAGE = 2
"""The axes from here on are those of an image; those before are the batch and the channels."""


class WholeError(CodeError):
    """An input is taken as numbers of rows, and so is one of whole numbers.

    Args:
        names: The input, or several.
    """

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"takes the input {', '.join(map(repr, names))} as numbers of rows")
        self.names = frozenset(names)


class Size(int):
    """The size of the batch as code sees it: a number that stays open where it is only passed on."""


class ImageSize(int):
    """The size of a variable's image on one axis, or so many more: the end of a slice may follow it.

    Whatever else code computes from it is a plain number, that of the size that the model is called with.
    """

    value: ir.Value
    axis: int
    addend: int

    @classmethod
    def of(cls, size: int, value: ir.Value, axis: int, addend: int = 0) -> ImageSize:
        """Return a size.

        Args:
            size: The number, with the addend.
            value: The value whose size it is.
            axis: Which of its axes.
            addend: What code has added to it.
        """
        made = cls(size)
        made.value, made.axis, made.addend = value, axis, addend
        return made

    def __add__(self, other: int) -> int:
        return self._plus(other)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self._plus(-other)

    def _plus(self, other: int) -> int:
        if isinstance(other, ImageSize):
            return int(self) + int(other)
        if not isinstance(other, int | np.integer):
            return int(self) + other
        return ImageSize.of(int(self) + int(other), self.value, self.axis, self.addend + int(other))


def current() -> Recorder:
    """Return the recorder of the model that is being called.

    Raises:
        CodeError: None is.
    """
    if not _CURRENT:
        raise CodeError("computes with variables before the model is called")
    return _CURRENT[-1]


def is_recording() -> bool:
    """Return whether a model is being called."""
    return bool(_CURRENT)


class Recorder(LayerContext):
    """Collects the calls of a model; the layer that is lowered is the one that is being called.

    Args:
        name: Name of the net.
        files: Names of the resolved files of code, whose lines are the layers' origins; the model's first.
        place: The name of the model's file for messages.
        arrays: Stored arrays by path, or None: then they are drawn.
    """

    def __init__(
        self, name: str, *, files: Mapping[str, str], place: str, arrays: Mapping[str, np.ndarray] | None
    ) -> None:
        super().__init__(GraphBuilder(name, format="chainer", files=[place]), place=place)
        self._name = name
        self._files = files
        self._arrays = _without_prefix(arrays) if arrays is not None else None
        self._layer: Layer | None = None
        self._read: list[str] = []
        self._stored: list[str] = []
        self._values: dict[int, ir.Value] = {}
        self._batch = Size(1)
        self._made: tuple[ir.Value, ...] = ()
        self._losses: list[ir.Value] = []
        self._paths: dict[int, str] = {}

    def renewed(self) -> Recorder:
        """Return a recorder like this one before its first call."""
        return Recorder(self._name, files=self._files, place=self.place, arrays=self._arrays)

    @contextmanager
    def recording(self, model: Link) -> Iterator[None]:
        """Take the calls of a model until the context ends; its parameters get their paths."""
        for path, parameter in model.namedparams():
            parameter.path = path.lstrip("/")
        self._paths = {id(link): path.lstrip("/") for path, link in model.namedlinks()}
        _CURRENT.append(self)
        try:
            yield
        finally:
            _CURRENT.pop()

    def path_of(self, link: Link) -> str:
        """Return the path of a link in the model; none for one that is no part of it."""
        return self._paths.get(id(link), "")

    def input(self, name: str, shape: Sequence[int], *, is_whole: bool) -> ir.Value:
        """Add an input; its first size is the batch."""
        self._batch = Size(shape[0])
        dtype = ir.DataType.INT64 if is_whole else ir.DataType.FLOAT
        return self.builder.input(name, shape, dtype=dtype)

    def need_whole(self, given: Any) -> None:
        """Note that a variable holds whole numbers.

        Raises:
            WholeError: It comes from inputs that were taken for others.
        """
        value = self.as_value(given)
        if value.dtype is not None and value.dtype.is_floating_point() and (names := _inputs_of(value)):
            raise WholeError(names)

    def finish(self, outputs: Sequence[ir.Value]) -> Graph:
        """Return the graph with these outputs."""
        return self.builder.finish(self.builder.own_outputs(outputs))

    def judge(self, loss: ir.Value) -> None:
        """Note a loss."""
        self._losses.append(loss)

    def judged(self, outputs: list[ir.Value]) -> list[ir.Value]:
        """Return the losses one by one in the place of a number that code makes of them."""
        is_number = len(outputs) == 1 and known_shape(outputs[0]) == ()
        return (
            list(self._losses) if is_number and self._losses and outputs[0] not in self._losses else outputs
        )

    @contextmanager
    def within_layer(self, name: str, kind: str, settings: Mapping[str, Any]) -> Iterator[None]:
        """Put what is added inside into a layer, unless it belongs to one already."""
        if self._layer is not None:
            yield
            return
        layer = self.builder.layers.new(name, kind, dict(settings), origin=self._origin())
        self._read, self._stored, self._made = [], [], ()
        with self.builder.layer(layer):
            self._layer = layer
            try:
                yield
            finally:
                self._layer = None
        self.builder.record(
            layer, inputs=dict.fromkeys(self._read), outputs=self._made, parameters=self._stored
        )

    def add(
        self,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        name: str = "",
    ) -> ir.Value:
        """Add a node with one output over values, variables or numbers."""
        return self.add_many(op_type, inputs, attributes, outputs=[name], domain=domain)[0]

    def add_many(
        self,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: int | Sequence[str],
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Add a node with several outputs over values, variables or numbers."""
        values = [None if given is None else self.as_value(given) for given in inputs]
        for value in values:
            if value is not None and (value.producer() is not None or value.is_graph_input()):
                self._read.append(value.name or "")
        self._made = super().add_many(op_type, values, attributes, outputs=outputs, domain=domain)
        return self._made

    def parameter(self, parameter: Parameter) -> ir.Value:
        """Return the initializer of a stored array.

        Raises:
            WeightError: The file lacks it, or holds other sizes.
        """
        path = parameter.path or parameter.name or "parameter"
        self._stored.append(path)
        if id(parameter) in self._values:
            return self._values[id(parameter)]
        array = self._array(path, parameter.shape) if self._arrays is not None else None
        stored = Stored(
            path,
            parameter.shape,
            role=parameter.role,
            loaded=array is not None,
            trainable=parameter.is_trainable,
        )
        value = self.builder.parameter(stored, array)
        self._values[id(parameter)] = value
        return value

    def integers(self, numbers: Iterable[Any]) -> ir.Value:
        """Add a constant list of integers, sizes of a batch among them."""
        return super().integers([int(number) for number in numbers])

    def bounds(self, numbers: Sequence[int]) -> ir.Value:
        """Add where slices begin or end: what is an image's size follows it, all else is constant."""
        runs: list[list[int]] = []
        for number in numbers:
            if runs and _follows(runs[-1][-1], number):
                runs[-1].append(number)
            else:
                runs.append([number])
        parts = [self._bounds_of(run) for run in runs]
        return parts[0] if len(parts) == 1 else self.add("Concat", parts, {"axis": 0})

    def _bounds_of(self, run: Sequence[int]) -> ir.Value:
        first = run[0]
        if not isinstance(first, ImageSize):
            return self.integers(run)
        whole = self.add("Shape", [first.value], {"start": first.axis, "end": first.axis + len(run)})
        addends = [size.addend for size in run if isinstance(size, ImageSize)]
        return self.add("Add", [whole, self.integers(addends)]) if any(addends) else whole

    def scalar(self, number: float, like: Any) -> ir.Value:
        """Add a constant number of the element type of a variable or a value."""
        return super().scalar(number, self.as_value(like))

    def as_value(self, given: Any) -> ir.Value:
        """Return a value for a variable, an array or a number."""
        if isinstance(given, ir.Value):
            return given
        if isinstance(value := getattr(given, "value", None), ir.Value):
            return value
        array = np.asarray(given)
        if array.dtype.kind not in "fiub":
            raise CodeError(f"computes with a {type(given).__name__}, expected a variable or an array")
        dtype = np.float32 if array.dtype.kind == "f" else array.dtype
        return self.builder.constant(array, dtype=dtype)

    def like(self, given: Any, other: Any) -> Any:
        """Return a number as a constant of the element type of a variable; anything else as it is."""
        if isinstance(given, int | float | np.number) and hasattr(other, "dtype"):
            return self.builder.constant(given, dtype=other.dtype)
        return given

    def shape(self, value: Any = None) -> tuple[int, ...]:
        """Return the sizes of a value or a variable: an open first one is the batch, the later the image's.

        Raises:
            CodeError: Another size depends on the batch.
        """
        whole = self.as_value(value)
        known = known_shape(whole)
        if known is None:
            raise CodeError("reads the shape of a variable whose shape depends on values")
        sizes: list[int] = []
        for axis, size in enumerate(known):
            if size is None and axis:
                raise CodeError(f"reads size {axis} of a variable, which depends on the batch size")
            is_image = axis >= FIRST_OF_IMAGE and size is not None
            sizes.append(
                self._batch if size is None else ImageSize.of(size, whole, axis) if is_image else size
            )
        return tuple(sizes)

    def length(self, value: Any) -> int:
        """Return the first size of a value or a variable, whatever the others depend on."""
        known = known_shape(self.as_value(value))
        return self.shape(value)[0] if known is None or not known or known[0] is None else known[0]

    def num_axes(self, value: Any) -> int:
        """Return the number of axes of a value or a variable."""
        known = known_shape(self.as_value(value))
        return len(self.shape(value) if known is None else known)

    def left_over(self, model: Link, place: str) -> tuple[str, ...]:
        """Return a note on stored arrays that the model does not have; ``load_npz`` leaves them out too."""
        known = {path.lstrip("/") for path, _ in model.namedparams()}
        known |= {path.lstrip("/") for path in model.namedpersistents()}
        unknown = [path for path in self._arrays or () if path not in known]
        if not unknown:
            return ()
        named = names_text(unknown)
        return (f"{place} holds {named}, which the model does not have: left out, as by Chainer's load_npz",)

    def _array(self, path: str, shape: Sequence[int]) -> np.ndarray:
        assert self._arrays is not None
        array = self._arrays.get(path)
        if array is None:
            held = ", ".join(list(self._arrays)[:5])
            raise WeightError(f"the weights have no array {path!r}; they have {held}, ...")
        if array.shape != tuple(shape):
            raise WeightError(f"{path!r} has the shape {array.shape} in the weights, expected {tuple(shape)}")
        return np.asarray(array, np.float32) if array.dtype == np.float16 else array

    def _origin(self) -> Origin:
        """Return the line of the user's code that is being run."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self._files:
            frame = frame.f_back
        if frame is None:
            return Origin(self.place, None)
        return Origin(self._files[frame.f_code.co_filename], frame.f_lineno)


def _follows(last: int, number: int) -> bool:
    """Return whether a bound follows the last one in the same shape.

    It is the next size of the same value, or neither is a size.
    """
    if isinstance(last, ImageSize) and isinstance(number, ImageSize):
        return number.value is last.value and number.axis == last.axis + 1
    return not isinstance(last, ImageSize) and not isinstance(number, ImageSize)


def _inputs_of(value: ir.Value) -> set[str]:
    """Return the inputs of a graph that a value is made of."""
    names: set[str] = set()
    waiting, seen = [value], {value}
    while waiting:
        each = waiting.pop()
        if each.is_graph_input():
            names.add(each.name or "")
        node = each.producer()
        inputs = {given for given in (node.inputs if node is not None else ()) if given is not None} - seen
        seen |= inputs
        waiting += inputs
    return names


def _without_prefix(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays by their paths in the model, where a Classifier or a whole trainer was saved."""
    for prefix in ("updater/model:main/predictor/", "updater/model:main/", "predictor/"):
        inside = {path: array for path, array in arrays.items() if path.startswith(prefix)}
        if inside:
            return {path.removeprefix(prefix): array for path, array in inside.items()}
    return dict(arrays)


def _call(name: str, *args: Any, **kwargs: Any) -> Variable:
    return FUNCTIONS[name](*args, **kwargs)


def _sign(name: str) -> tuple[Callable[[Any, Any], Variable], Callable[[Any, Any], Variable]]:
    """Return a function of two variables as a sign of Python's, and as the sign with its sides swapped."""
    return lambda self, other: _call(name, self, other), lambda self, other: _call(name, other, self)


class Variable:
    """A value of the graph (``chainer.Variable``).

    Args:
        data: An array, or a variable; arrays become constants.
        name: Ignored.
        requires_grad: Ignored.
        value: The value of the graph, if it is there already.
    """

    __array_priority__ = 200

    def __init__(
        self,
        data: Any = None,
        *,
        name: str | None = None,
        requires_grad: bool = True,
        value: ir.Value | None = None,
    ) -> None:
        self.name = name
        self.requires_grad = requires_grad
        self._value = value if value is not None or data is None else current().as_value(data)

    @property
    def value(self) -> ir.Value:
        """The value of the graph."""
        if self._value is None:
            raise CodeError("uses a variable without an array")
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes; the batch is a ``Size``, which stays open where it is only passed on."""
        return current().shape(self.value)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return current().num_axes(self.value)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        assert self.value.dtype is not None
        return np.dtype(self.value.dtype.numpy())

    @property
    def data(self) -> Variable:
        """The variable itself: there is no array, and what is computed from it is recorded as well."""
        return self

    array = data

    @property
    def xp(self) -> Any:
        """NumPy."""
        return np

    @property
    def T(self) -> Variable:  # noqa: N802 (NumPy's name)
        """With its axes the other way round."""
        return self.transpose()

    @property
    def grad(self) -> None:
        """Nothing: gradients are not recorded."""

    def __len__(self) -> int:
        return current().length(self.value)

    def __iter__(self) -> Iterator[Variable]:
        return (self[index] for index in range(len(self)))

    def __bool__(self) -> bool:
        raise CodeError(
            "has a condition that depends on the values of a variable, which are unknown when Netweave "
            "traces the model"
        )

    def __float__(self) -> float:
        raise CodeError("reads the value of a variable, which is unknown when Netweave traces the model")

    __int__ = __index__ = __float__

    def __getitem__(self, key: Any) -> Variable:
        return _call("get_item", self, key)

    __add__, __radd__ = _sign("add")
    __sub__, __rsub__ = _sign("sub")
    __mul__, __rmul__ = _sign("mul")
    __truediv__, __rtruediv__ = _sign("div")
    __pow__, __rpow__ = _sign("pow")
    __matmul__, __rmatmul__ = _sign("matmul")

    def __floordiv__(self, other: Any) -> Variable:
        return _call("floor", _call("div", self, other))

    def __rfloordiv__(self, other: Any) -> Variable:
        return _call("floor", _call("div", other, self))

    def __neg__(self) -> Variable:
        return _call("neg", self)

    def __abs__(self) -> Variable:
        return _call("absolute", self)

    def reshape(self, *shape: Any) -> Variable:
        """Other sizes."""
        return _call("reshape", self, _one(shape))

    def transpose(self, *axes: Any) -> Variable:
        """Axes in another order."""
        return _call("transpose", self, _one(axes) if axes else None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _METHODS:
            return lambda *args, **kwargs: _call(name, self, *args, **kwargs)
        raise CodeError(f"uses Variable.{name}, which is not supported")


_METHODS = {"astype", "max", "mean", "min", "sum", "squeeze", "flatten", "dot"}
"""Methods that are functions of the same name."""


class Parameter(Variable):
    """A stored array of a link (``chainer.Parameter``).

    Args:
        initializer: Ignored: first values are drawn by Netweave.
        shape: Its sizes; None until the first call of its link.
        name: Its name in the link.
        role: See ``netweave.graph.Parameter``.
    """

    def __init__(
        self,
        initializer: Any = None,
        shape: int | Sequence[int] | None = None,
        name: str | None = None,
        *,
        role: str = "weight",
        is_trainable: bool = True,
    ) -> None:
        super().__init__(name=name)
        given = shape if shape is not None else getattr(initializer, "shape", None)
        self._shape = None if given is None else _sizes(given)
        self.initializer = initializer
        self.role = role
        self.is_trainable = is_trainable
        self.path = ""
        self._is_called = False
        self._first: tuple[int, ...] | None = None

    @property
    def is_initialized(self) -> bool:
        """True if its sizes are known."""
        return self._shape is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        if self._shape is None:
            raise CodeError(f"reads the shape of {self.name!r} before its link was called")
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def value(self) -> ir.Value:
        """Its initializer."""
        return current().parameter(self)

    @property
    def data(self) -> Any:
        """The parameter itself, or nothing while its sizes are not known."""
        return self if self.is_initialized else None

    array = data

    def __setitem__(self, key: Any, value: Any) -> None:
        """Leave out first values, which are Netweave's own; a call may not change what is stored."""
        if is_recording():
            raise CodeError(f"changes the stored array {self.name!r} during the call of the model")

    def forget(self) -> None:
        """Have the sizes again that were known before the first call."""
        if not self._is_called:
            self._is_called, self._first = True, self._shape
        self._shape = self._first

    def initialize(self, shape: int | Sequence[int]) -> None:
        """Take sizes that were not known before."""
        self._shape = _sizes(shape)


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(size) for size in shape)


def _one(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list | tuple) else arguments
