"""``Model`` and ``Sequential``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.keras.fitting import FitNetwork
from netweave.keras.layer import CallGraph, Layer, Network
from netweave.keras.layers import MODEL_LAYERS
from netweave.keras.layers.signatures import Input, InputLayer
from netweave.keras.older import with_older_names
from netweave.keras.operation import KerasTensor, tensors_in, unique_name

COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Connected to")


def summary_text(network: Network) -> str:
    """Return a table of the layers, and what all of them hold."""
    operations = network.call_graph.operations
    is_row = all(len(node.tensors) <= 1 for node in network.call_graph.nodes)
    rows = [COLUMNS[: 3 if is_row else 4]]
    inside = {id(node) for node in network.call_graph.nodes}
    for operation in operations:
        nodes = [node for node in operation.nodes if id(node) in inside]
        shapes = [str(tensor.shape) for tensor in nodes[0].outputs]
        count = getattr(operation, "count_params", int)()
        row = [f"{operation.name} ({operation.class_name})", ", ".join(shapes), f"{count:,}"]
        before = dict.fromkeys(tensor.name for node in nodes for tensor in node.tensors)
        rows.append(tuple(row if is_row else [*row, ", ".join(before)]))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    rule = "-" * max(map(len, lines))
    learnt = _count(network.trainable_weights)
    rest = _count(network.non_trainable_weights)
    totals = [
        f"Total params: {learnt + rest:,}",
        f"Trainable params: {learnt:,}",
        f"Non-trainable params: {rest:,}",
    ]
    return "\n".join([f'Model: "{network.name}"', lines[0], rule, *lines[1:], rule, *totals])


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.rjust(width) if at == 2 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _count(variables: list[Any]) -> int:
    return sum(int(np.prod(one.shape)) for one in variables)


class _WithFiles(FitNetwork):
    """Methods of models besides training: summary, Graph and files."""

    def summary(self, line_length: int | None = None, print_fn: Callable[[str], object] = print) -> None:
        """Print a table of the layers with sizes and numbers of parameters.

        Args:
            line_length: Of no effect: columns are as wide as they need to be.
            print_fn: Given the text.
        """
        print_fn(summary_text(self))

    def graph(self) -> Graph:
        """Return the model as a Graph, with its arrays."""
        from netweave.keras.objective import lower_model

        arrays = {key: variable.numpy() for key, (_, variable) in self.variables_by_key().items()}
        return lower_model(self.call_graph.config(self.name), arrays=arrays)

    def save(self, filepath: Any, overwrite: bool = True, include_optimizer: bool = True) -> None:
        """Write the model: ``.keras`` as Keras 3 has it, or ``.h5``.

        Args:
            filepath: The file.
            overwrite: Whether a file that is there is replaced.
            include_optimizer: Whether ``compile``'s settings are written too.

        Raises:
            UsageError: The name has another ending, or the file is there.
        """
        from netweave.keras.saving import save_model

        save_model(self, filepath, overwrite=overwrite, include_optimizer=include_optimizer)

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        """Write all arrays to a ``.weights.h5``.

        Raises:
            UsageError: The name has another ending, or the file is there.
        """
        from netweave.keras.saving import save_weights

        save_weights(self, filepath, overwrite=overwrite)

    def load_weights(self, filepath: Any) -> None:
        """Replace all arrays by those of a ``.weights.h5``, a ``.keras`` or an ``.h5``.

        Raises:
            SourceError: The file cannot be read, or does not fit.
        """
        from netweave.keras.saving import load_weights

        load_weights(self, filepath)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model makes of symbolic tensors, or of arrays."""
        if tensors_in([*args, *kwargs.values()]):
            return Network.__call__(self, *args, **kwargs)
        kwargs.pop("training", None)
        return self.predict_on_batch(*args, **kwargs)


class Model(_WithFiles):
    """Operations between inputs and outputs; or a class of the user's own, whose ``call`` says them.

    >>> x = Input((6,))                                                              # doctest: +SKIP
    >>> model = Model(x, layers.Dense(3)(x))                                         # doctest: +SKIP

    A ``call`` runs once, on symbolic tensors, when the sizes of the input are known; ``training`` is None
    then, which leaves it to the layers.

    Args:
        inputs: What the net is given: a tensor of ``Input``, a list or a dictionary of them.
        outputs: What it makes: a tensor, a list or a dictionary.
        name: Its name.
        device: Where to compute, as torch names it.

    Raises:
        UsageError: An output does not follow from the inputs, or two layers have one name.
    """

    @with_older_names
    def __init__(
        self, inputs: Any = None, outputs: Any = None, name: str | None = None, *, device: str = "cpu"
    ) -> None:
        given, made = tensors_in([inputs]), tensors_in([outputs])
        if not given and not made and self._has_call:
            _require_known_steps(type(self))
            super().__init__("Functional", name=name or unique_name(type(self).__name__), device=device)
            return
        if not given or not made:
            raise UsageError(
                "Model needs inputs and outputs, Model(keras.Input(...), ...), or a method call(self, inputs)"
            )
        super().__init__("Functional", name=name or unique_name("functional"), device=device)
        self._graph = CallGraph(given, made)

    @property
    def layers(self) -> list[Any]:
        """Its layers, models among them: in Keras' order, or as a class of its own made them."""
        all_layers = super().layers
        if self._has_call:  # Keras does not know the inputs of such a class
            all_layers = [one for one in all_layers if not isinstance(one, InputLayer)]
        kept = [id(one) for one in _layers_in(list(vars(self).values()))] if self._has_call else []
        return sorted(all_layers, key=lambda one: kept.index(id(one)) if id(one) in kept else len(kept))

    def named_layers(self, prefix: str = "") -> Iterator[tuple[str, Layer]]:
        """Yield its layers and those of models inside, with their names in a Graph of the model."""
        for layer in self.layers:
            if isinstance(layer, Network):
                yield from layer.named_layers(f"{prefix}{layer.name}/")
            else:
                yield f"{prefix}{layer.name}", layer

    def build(self, input_shape: Any = None) -> None:
        """Make the arrays for records of a size; a class of the user's own needs it before its first records.

        Args:
            input_shape: Sizes of a batch, its number of records as None; a list or a dictionary of them for
                several inputs.

        Raises:
            UsageError: The sizes do not fit.
        """
        if self._graph is None and input_shape is not None:
            self._trace(_each(input_shape, lambda shape, name: Input(batch_shape=shape, name=name)))
        _ = self.call_graph

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the sizes of what the model makes of tensors; the first ones say its sizes."""
        if self._graph is None:
            self._trace(_each(args[0] if args else kwargs.get("inputs"), _like))
        return super().results(args, kwargs)

    @property
    def _has_call(self) -> bool:
        return hasattr(type(self), "call")

    def _trace(self, given: Any) -> None:
        method: Callable[..., Any] = self.call  # type: ignore[attr-defined]  # a user's class has it
        settings = {"training": None} if "training" in inspect.signature(method).parameters else {}
        made = tensors_in([method(given, **settings)])
        if not made:
            raise UsageError(f"call() of {self.name!r} returns no tensor that follows from its inputs")
        self._graph = CallGraph(tensors_in([given]), made)

    def _require_built(self, x: Any) -> None:
        """Find out the sizes of the inputs from records."""
        if self._graph is None:
            self._trace(_each(x.peek()[0] if hasattr(x, "peek") else x, _like_records))


def _like(tensor: KerasTensor, name: str | None) -> KerasTensor:
    return Input(batch_shape=tensor.shape, dtype=tensor.dtype, name=name)


def _like_records(records: Any, name: str | None) -> KerasTensor:
    array = np.asarray(records)
    dtype = "int32" if array.dtype.kind in "iu" else None
    return Input(array.shape[1:], dtype=dtype, name=name)


def _each(given: Any, make: Callable[[Any, str | None], KerasTensor]) -> Any:
    """Return a tensor for what is given: for one, or each of a list or a dictionary by name."""
    if isinstance(given, Mapping):
        return {name: make(one, name) for name, one in given.items()}
    is_shape = isinstance(given, tuple) and all(size is None or isinstance(size, int) for size in given)
    if isinstance(given, (list, tuple)) and not is_shape:
        return [make(one, None) for one in given]
    return make(given, None)


def _layers_in(value: Any) -> Iterator[Layer | Network]:
    """Yield layers in the order in which a class of the user's own made them, those in lists as well."""
    if isinstance(value, (Layer, Network)):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _layers_in(one)


STEPS = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics", "build")
"""Methods of Keras' models that a class of the user's own cannot replace here."""


def _require_known_steps(kind: type) -> None:
    own = [name for name in STEPS if getattr(kind, name, None) is not getattr(Model, name, None)]
    if own:
        raise UsageError(
            f"{kind.__name__}.{own[0]} is not supported: a class of your own has call(self, inputs), and "
            "makes its layers in __init__; for steps of your own, call train_on_batch in a loop"
        )


class Lambda(Model):
    """A function of tensors as a layer: with ``keras.ops``, layers, and operators of Python.

    Args:
        function: Given a tensor, or a list of them.
        output_shape: Of no effect: sizes follow from the function.
        mask: Has to be None.
        arguments: More arguments of the function, by name.
        name: Its name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        if mask is not None:
            raise UsageError("Lambda: mask is not supported; leave it out")
        self._function, self._arguments = function, dict(arguments or {})
        super().__init__(name=name or unique_name("lambda"))

    def call(self, inputs: Any) -> Any:
        """Return what the function makes of tensors."""
        return self._function(inputs, **self._arguments)


MODEL_LAYERS["Lambda"] = Lambda


class Sequential(_WithFiles):
    """Layers in a row.

    >>> model = Sequential([Dense(64, "relu"), Dense(10, "softmax")])  # doctest: +SKIP
    >>> model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])  # doctest: +SKIP
    >>> model.fit(images, labels, epochs=5, validation_split=0.2)                    # doctest: +SKIP

    Args:
        layers: The layers; an ``Input`` first, or ``input_shape`` of the first one, says the sizes of a
            record, else the first records do.
        name: Its name.
        device: Where to compute, as torch names it.

    Raises:
        UsageError: Something among the layers is none.
    """

    def __init__(
        self, layers: Sequence[Any] | None = None, name: str | None = None, *, device: str = "cpu"
    ) -> None:
        super().__init__("Sequential", name=name or unique_name("sequential"), device=device)
        self._stacked: list[Any] = []
        for layer in layers or ():
            self._add(layer)
        self._rebuild()

    @property
    def layers(self) -> list[Any]:
        """Its layers, models among them."""
        return [one for one in self._stacked if not isinstance(one, InputLayer)]

    def add(self, layer: Any) -> None:
        """Put a layer at the end.

        Raises:
            UsageError: It is no layer, or does not fit.
        """
        self._add(layer)
        self._rebuild()

    def pop(self) -> Any:
        """Take the last layer away, and return it.

        Raises:
            UsageError: There is none.
        """
        if not self.layers:
            raise UsageError("a Sequential without layers; there is none to take away")
        last = self._stacked.pop()
        self._rebuild()
        return last

    def build(self, input_shape: Sequence[int | None] | None = None) -> None:
        """Make the arrays for records of a size.

        Args:
            input_shape: Sizes of a batch, its number of records as None.

        Raises:
            UsageError: There are no layers, or the sizes do not fit.
        """
        if input_shape is not None and not self._has_input:
            self._stacked.insert(0, InputLayer(batch_shape=tuple(input_shape)))
        self._rebuild()
        _ = self.call_graph

    @property
    def call_graph(self) -> CallGraph:
        """The calls between input and output.

        Raises:
            UsageError: There are no layers, or the sizes of the input are not known yet.
        """
        if not self.layers:
            raise UsageError("a Sequential without layers; add one")
        return Network.call_graph.fget(self)  # type: ignore[attr-defined,no-any-return]  # a property without super()

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        layers = [layer.to_json() for layer in self._stacked]
        config = {"name": self.name, "trainable": True, "dtype": "float32", "layers": layers}
        if self._graph is not None:
            config["build_input_shape"] = list(self._graph.inputs[0].shape)
        return config

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the sizes of what the model makes of tensors of the sizes that it was built with."""
        if self._graph is None:
            self.build(tensors_in([*args, *kwargs.values()])[0].shape)
        return super().results(args, kwargs)

    @property
    def _has_input(self) -> bool:
        return bool(self._stacked) and isinstance(self._stacked[0], InputLayer)

    def _add(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor) and isinstance(layer.node.operation, InputLayer):
            layer = layer.node.operation
        if not isinstance(layer, (Layer, Network)):
            raise UsageError(f"{layer!r:.60} among the layers of a Sequential, expected a layer")
        if isinstance(layer, InputLayer) and self._stacked:
            raise UsageError("an Input in a Sequential comes first")
        if any(one.name == layer.name for one in self._stacked):
            raise UsageError(f"two layers have the name {layer.name!r}; give one of them another name")
        shape = getattr(layer, "given_shape", None)
        if shape is not None and not self._stacked and not isinstance(layer, InputLayer):
            self._stacked.append(InputLayer(shape))
        self._stacked.append(layer)

    def _rebuild(self) -> None:
        """Call the layers one after another, where the sizes of the input are known."""
        from netweave.keras.nets import Nets

        self._graph, self._nets = None, Nets(self, self._device)
        first = self._stacked[0] if self._stacked else None
        if isinstance(first, Network) and first._graph is not None:
            x = Input(batch_shape=first.inputs[0].shape)
            rest = self._stacked
        elif self._has_input and self.layers:
            x, rest = self._stacked[0].output, self._stacked[1:]
        else:
            return
        begin = x
        for layer in rest:
            x = layer(x)
        self._graph = CallGraph([begin], [x])

    def _require_built(self, x: Any) -> None:
        """Find out the sizes of the input from records."""
        if self._graph is not None:
            return
        _ = self.layers or self.call_graph
        first: Any = x
        if hasattr(x, "peek"):
            self.build((None, *np.shape(x.peek()[0])))
            return
        while isinstance(first, (list, tuple, Mapping)):
            first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
        if not hasattr(first, "shape") and not hasattr(first, "__array__"):
            raise UsageError(
                "the sizes of a record are unknown; begin the Sequential with keras.Input(shape=...)"
            )
        self.build((None, *np.shape(first)[1:]))
