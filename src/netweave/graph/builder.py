"""Building a Graph node by node, with shapes inferred on the way; what every reader writes with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import ShapeError
from netweave.graph.attributes import make_attributes
from netweave.graph.graph import Graph
from netweave.graph.layers import Layer, LayerTable, set_layer_keys
from netweave.graph.opset import BATCH, DOMAIN, OPSET
from netweave.graph.parameters import Parameter, Step, apply_layout, drawn, layout_shape, tag_parameter
from netweave.graph.shapes import infer_node, shape_context, symbol_for

IR_VERSION = 10
"""The ONNX file version that graphs are written in; 10 goes with opset 22."""


class GraphBuilder:
    """Collects nodes, layers and parameters, and makes the Graph of them.

    Nodes added inside ``with builder.layer(...)`` belong to that layer. Every value gets a unique name:
    a name that is taken is made free by ``@n``.

    Args:
        name: The net's name.
        format: The format that it is read from.
        files: The files that it is read from.
    """

    def __init__(self, name: str, *, format: str, files: Sequence[str] = ()) -> None:  # noqa: A002
        self._graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET, DOMAIN: 1}, name=name)
        self._names: dict[str, int] = {}  # each with the number of its next twin
        self._reserved: set[str] = set()
        self._shapes = shape_context()
        self._layer: Layer | None = None
        self._format = format
        self._files = tuple(files)
        self.layers = LayerTable()
        self.parameters: dict[str, Parameter] = {}
        self._unread: dict[str, np.ndarray] = {}
        self._declared: dict[str, tuple[int | None, ...]] = {}

    @contextmanager
    def layer(self, layer: Layer) -> Iterator[Layer]:
        """Put ``layer`` in the table; what is added inside belongs to it, and its errors name it."""
        self.layers.add(layer)
        outer, self._layer = self._layer, layer
        try:
            yield layer
        except ShapeError as error:
            if error.place and "layer " in error.place:
                raise
            open_inputs = error.open_inputs
            raise ShapeError(error.message, place=layer.place, open_inputs=open_inputs) from error
        finally:
            self._layer = outer

    def record(
        self,
        layer: Layer,
        *,
        inputs: Iterable[ir.Value | str],
        outputs: Iterable[ir.Value | str],
        parameters: Iterable[str],
    ) -> None:
        """Put a layer in the table with the values that it reads and makes, and the keys of its arrays."""
        read, made = (tuple(v if isinstance(v, str) else v.name or "" for v in s) for s in (inputs, outputs))
        entry = replace(layer, inputs=read, outputs=made, parameters=tuple(dict.fromkeys(parameters)))
        self.layers.add(entry)

    def input(
        self,
        name: str,
        shape: Sequence[int | str | None],
        *,
        dtype: ir.DataType = ir.DataType.FLOAT,
        batch: bool = True,
    ) -> ir.Value:
        """Add an input of the net.

        Args:
            name: Its name.
            shape: Sizes as declared; None where the source leaves one open, a symbol where it is the
                same as another open one (``BATCH`` for a batch that is not axis 0).
            dtype: Element type.
            batch: Whether axis 0 is the batch, which is kept symbolic whatever is declared.
        """
        dims = list(shape)
        if batch and dims:
            dims[0] = BATCH
        dims = [symbol_for(name, axis) if dim is None else dim for axis, dim in enumerate(dims)]
        value = ir.Value(name=self._free(name), shape=ir.Shape(dims), type=ir.TensorType(dtype))
        self._graph.inputs.append(value)
        self._declared[value.name or name] = tuple(None if isinstance(s, str) else s for s in shape)
        return value

    def parameter(
        self,
        parameter: Parameter,
        array: np.ndarray | None,
        *,
        layout: Sequence[Step] = (),
        name: str | None = None,
    ) -> ir.Value:
        """Add a stored array and the initializer made from it.

        Args:
            parameter: Its entry; one with a known key is the same array used again.
            array: Its values in the source's layout, or None: then they are drawn, and the entry says
                that nothing was loaded.
            layout: Steps from the stored array to the initializer.
            name: Name of the initializer; the key by default.
        """
        if parameter.key not in self.parameters:
            self.parameters[parameter.key] = parameter
        if array is None:
            tensor = drawn(parameter.key, parameter.shape, parameter.role)
            if layout:
                tensor = _laid_out(tensor, layout)
            return self._initializer(tensor, name or parameter.key, parameter.key, layout)
        made = np.asarray(apply_layout(array, layout), order="C")
        return self._initializer(ir.Tensor(made), name or parameter.key, parameter.key, layout)

    def derived(
        self, array: np.ndarray | ir.TensorProtocol, *, name: str, key: str | None = None
    ) -> ir.Value:
        """Add an initializer computed from stored arrays, or a constant that no source stores."""
        tensor = ir.Tensor(array) if isinstance(array, np.ndarray) else array
        return self._initializer(tensor, name, key, ())

    def fixed(self, number: float, parameter: Parameter, array: np.ndarray | None) -> ir.Value:
        """Add an initializer of one number in the place of a stored array, which no node reads.

        Args:
            number: The number.
            parameter: The stored array.
            array: Its values, which the Graph keeps if they are others; None where no file gives them.
        """
        tensor = ir.LazyTensor(
            partial(_filled, number, parameter.shape),
            dtype=ir.DataType.FLOAT,
            shape=ir.Shape(parameter.shape),
            name=f"{parameter.key}/fixed",
        )
        value = self.derived(tensor, name=f"{parameter.key}/fixed")
        if array is not None and (array != number).any():
            self._unread[str(value.name)] = array
        return value

    def constant(self, values: Any, *, dtype: Any = np.float32, name: str | None = None) -> ir.Value:
        """Add a constant that no source stores: an axis, a shape, an exponent.

        Raises:
            ShapeError: A number is beyond its type.
        """
        try:
            with np.errstate(over="raise"):
                array = np.asarray(values, dtype=dtype)
        except (FloatingPointError, OverflowError) as error:
            raise ShapeError(f"{values!r:.100} is out of range for {np.dtype(dtype).name}") from error
        label = name or (f"{self._layer.key}/const" if self._layer else "const")
        return self._initializer(ir.Tensor(array), label, None, ())

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        outputs: Sequence[str] | str | None = None,
    ) -> ir.Value:
        """Add a node with one output and return that output; see ``add_many``."""
        names = [outputs] if isinstance(outputs, str) else outputs
        return self.add_many(op_type, inputs, attributes, domain=domain, outputs=names or [""])[0]

    def add_many(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        outputs: Sequence[str],
    ) -> tuple[ir.Value, ...]:
        """Add a node, infer its shapes and return its outputs.

        Args:
            op_type: ONNX's name, or one of the domain ``netweave``.
            inputs: Its inputs; None for an optional one that is left out.
            attributes: Its attributes as Python values; those that are None are left out.
            domain: ``""`` or ``"netweave"``.
            outputs: Names of the outputs; ``""`` makes one from the layer and the operator.

        Raises:
            ShapeError: The sizes do not fit.
        """
        stem = f"{self._layer.key}/{op_type}" if self._layer else op_type
        stem = f"{stem}/{op_type}" if stem in self._reserved else stem
        node = ir.Node(
            domain,
            op_type,
            list(inputs),
            attributes=make_attributes(attributes or {}),
            num_outputs=len(outputs),
            name=self._free(stem),
        )
        for value, name in zip(node.outputs, outputs, strict=True):
            value.name = self._free(name or stem)
        if self._layer:
            set_layer_keys(node, [self._layer.key])
        infer_node(node, self._shapes)
        self._graph.append(node)
        return tuple(node.outputs)

    def add_opaque(
        self, op_type: str, inputs: Sequence[ir.Value], *, domain: str, outputs: Sequence[str]
    ) -> tuple[ir.Value, ...]:
        """Add a node of which only the name is known, and return its outputs, whose sizes are not."""
        name = self._free(f"{self._layer.key}/{op_type}" if self._layer else op_type)
        node = ir.Node(domain, op_type, list(inputs), num_outputs=len(outputs), name=name)
        for value, name in zip(node.outputs, outputs, strict=True):
            value.name = self._free(name)
        if self._layer:
            set_layer_keys(node, [self._layer.key])
        self._graph.append(node)
        return tuple(node.outputs)

    def rename(self, value: ir.Value, name: str) -> None:
        """Give a value a name; it must be free."""
        if value.name != name:
            value.name = self._free(name)

    def reserve(self, names: Sequence[str]) -> None:
        """Keep names for what is called so by name: no name that is made up takes one."""
        self._reserved |= set(names)

    def own_outputs(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Return values as outputs, each of a node of its own: inputs and repeated ones are copied."""
        outputs: list[ir.Value] = []
        for value in values:
            is_own = value.producer() is not None and value not in outputs
            outputs.append(value if is_own else self.add("Identity", [value]))
        return outputs

    def finish(self, outputs: Sequence[ir.Value]) -> Graph:
        """Return the Graph with these outputs."""
        self._graph.outputs.extend(outputs)
        return Graph(
            model=ir.Model(self._graph, ir_version=IR_VERSION, producer_name="netweave"),
            layers=self.layers,
            parameters=self.parameters,
            declared=self._declared,
            format=self._format,
            files=self._files,
            unread=self._unread,
        )

    def _initializer(
        self, tensor: ir.TensorProtocol, name: str, key: str | None, layout: Sequence[Step]
    ) -> ir.Value:
        value = ir.Value(
            name=self._free(name),
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        if key is not None:
            tag_parameter(value, key, layout)
        self._graph.register_initializer(value)
        return value

    def _free(self, name: str) -> str:
        stem = free = name or "unnamed"
        while free in self._names:
            free = f"{stem}@{self._names[stem]}"
            self._names[stem] += 1
        self._names[free] = 1
        return free


def _filled(number: float, shape: Sequence[int]) -> ir.Tensor[Any]:
    return ir.Tensor(np.full(shape, number, np.float32))


def _laid_out(tensor: ir.LazyTensor, layout: Sequence[Step]) -> ir.LazyTensor:
    shape = layout_shape(tensor.shape.numpy(), layout)

    draw = partial(_draw, tensor, tuple(layout))  # no closure, so that a Graph can be sent elsewhere
    return ir.LazyTensor(draw, dtype=tensor.dtype, shape=ir.Shape(shape), name=tensor.name)


def _draw(tensor: ir.LazyTensor, layout: Sequence[Step]) -> ir.Tensor[Any]:
    return ir.Tensor(np.asarray(apply_layout(tensor.numpy(), layout), order="C"))
