"""Jaxprs as graphs: equation by equation, with a layer for each call of JAX's own functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.extend.core
import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError
from netweave.formats.jax.primitives import (
    DTYPES,
    MAX_FOLDED,
    MAX_STEPS,
    Equation,
    Tensor,
    is_static,
)
from netweave.formats.jax.products import RULES
from netweave.graph import Graph, GraphBuilder, Layer, Origin, Parameter

# It is used by the guarded child process alone, which imports JAX.

CALLS = {
    "checkpoint": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr",
    "jit": "jaxpr", "pjit": "jaxpr", "remat": "jaxpr", "remat2": "jaxpr",
}  # fmt: skip
"""Primitives that call another jaxpr, by the setting that has it."""

LOOKS = frozenset({"broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "transpose"})
"""Primitives behind which an array is still the same parameter."""


class Lowering:
    """Makes a graph of a jaxpr.

    Args:
        name: Name of the net.
        files: Names of the files of code, by their full paths; those whose lines are origins.
        place: The net's file as given, for messages.
    """

    def __init__(self, name: str, *, files: Mapping[str, str], place: str) -> None:
        self.builder = GraphBuilder(name, format="jax", files=[place])
        self.place = place
        self._files = files
        self._batch: ir.Value | None = None
        self._layer: Layer | None = None
        self._read: list[ir.Value] = []
        self._made: list[ir.Value] = []
        self._of_parameter: dict[int, str] = {}

    def parameter(self, path: str, array: np.ndarray) -> Tensor:
        """Add a stored array by its path in the tree of parameters."""
        dtype = str(array.dtype)
        if array.ndim == 0 or dtype not in DTYPES:
            return Tensor(array, array.shape, dtype)
        role = _role(path, array.ndim)
        stored = Parameter(path, array.shape, role=role, trainable=array.dtype.kind == "f")
        kept = array.astype(DTYPES[dtype].numpy(), copy=False)
        return Tensor(self.builder.parameter(stored, kept), array.shape, dtype)

    def input(self, name: str, shape: Sequence[Any], dtype: str) -> Tensor:
        """Add an input; one whose first size is open has the batch there."""
        is_open = bool(shape) and not isinstance(shape[0], int)
        declared = [1 if not isinstance(size, int) else size for size in shape]
        value = self.builder.input(name, declared, dtype=DTYPES[dtype], batch=is_open)
        if is_open and self._batch is None:
            self._batch = self.builder.add("Shape", [value], {"start": 0, "end": 1})
        return Tensor(value, tuple(shape), dtype)

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """Return the graph with these outputs."""
        spread = self._equation("output", {}, (), ())
        values = [spread.spread(each) for each in outputs]
        return self.builder.finish(self.builder.own_outputs(values))

    def run(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Lower the equations of a jaxpr and return its outputs."""
        known: dict[Any, Tensor] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            known[variable] = self._constant(constant, f"constants.{len(known)}")

        def read(variable: Any) -> Tensor:
            if isinstance(variable, jax.extend.core.Literal):
                array = np.asarray(variable.val)
                return Tensor(array, array.shape, str(variable.aval.dtype))
            return known[variable]

        for equation in jaxpr.eqns:
            given = [read(variable) for variable in equation.invars]
            made = self._lowered(equation, given)
            known.update(zip(equation.outvars, made, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _constant(self, constant: Any, path: str) -> Tensor:
        """Return an array that the code holds on to: a parameter, if it is not made of whole numbers."""
        if isinstance(constant, Tensor):
            return constant
        array = np.asarray(constant)
        if array.dtype.kind in "fV" and array.ndim:
            return self.parameter(path, array)
        return Tensor(array, array.shape, str(array.dtype))

    def _lowered(self, equation: Any, given: Sequence[Tensor]) -> list[Tensor]:
        name, params = equation.primitive.name, equation.params
        if all(each.is_known for each in given) and (folded := _folded(equation, given)) is not None:
            return folded
        if name == "scan":
            return self._unrolled(params, given)
        if name in CALLS:
            inner = params[CALLS[name]]
            called, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            function = str(params.get("name", ""))
            if name == "custom_jvp_call" or not self._is_own(called, function):
                with self._in_layer(equation, function.strip("_") or name, params, given) as made:
                    made += self.run(called, constants, given)
                return made
            return self.run(called, constants, given)
        if name not in RULES:
            raise UnsupportedError(
                f"has JAX's primitive {name}{self._where(equation)}, which is not read; compare a dump of "
                "its tensors instead (docs/how-to/compare-with-a-dump.md)",
                place=self.place,
            )
        with self._in_layer(equation, name, params, given) as made:
            outputs = [(tuple(v.aval.shape), str(v.aval.dtype)) for v in equation.outvars]
            results = RULES[name](self._equation(name, params, given, outputs))
            listed = [results] if isinstance(results, ir.Value) else list(results)
            made += [
                each if isinstance(each, Tensor) else Tensor(each, shape, dtype)
                for each, (shape, dtype) in zip(listed, outputs, strict=True)
            ]
        self._follow(name, given, made)
        return made

    def _equation(
        self, name: str, params: dict[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Any]
    ) -> Equation:
        return Equation(self.builder, self._batch, name=name, params=params, inputs=inputs, outputs=outputs)

    def _unrolled(self, params: dict[str, Any], given: Sequence[Tensor]) -> list[Tensor]:
        """Write a loop out step by step: what it carries goes from step to step, what it makes is stacked."""
        length, inner = params["length"], params["jaxpr"]
        if not isinstance(length, int) or length > MAX_STEPS:
            raise UnsupportedError(
                f"has a loop of {length} steps, expected at most {MAX_STEPS}", place=self.place
            )
        num_fixed, num_carried = params["num_consts"], params["num_carry"]
        fixed, rows = given[:num_fixed], given[num_fixed + num_carried :]
        carried = list(given[num_fixed : num_fixed + num_carried])
        made: list[list[Tensor]] = [[] for _ in inner.jaxpr.outvars[num_carried:]]
        for step in reversed(range(length)) if params["reverse"] else range(length):
            now = [self._row(each, step) for each in rows]
            results = self.run(inner.jaxpr, inner.consts, [*fixed, *carried, *now])
            carried = results[:num_carried]
            for stack, each in zip(made, results[num_carried:], strict=True):
                stack.append(each)
        stacked = [self._stack(each[::-1] if params["reverse"] else each) for each in made]
        return [*carried, *stacked]

    def _row(self, tensor: Tensor, step: int) -> Tensor:
        shape = tensor.shape[1:]
        if isinstance(tensor.value, np.ndarray):
            return Tensor(tensor.array[step], shape, tensor.dtype)
        whole = self._equation("scan", {}, [tensor], ()).whole(0)
        index = self.builder.constant(step, dtype=np.int64)
        return Tensor(self.builder.add("Gather", [whole, index], {"axis": 0}), shape, tensor.dtype)

    def _stack(self, rows: Sequence[Tensor]) -> Tensor:
        spread = self._equation("scan", {}, (), ())
        first = self.builder.constant([0], dtype=np.int64)
        lists = [self.builder.add("Unsqueeze", [spread.spread(row), first]) for row in rows]
        value = self.builder.add("Concat", lists, {"axis": 0})
        return Tensor(value, (len(rows), *rows[0].shape), rows[0].dtype)

    # Layers.

    @contextmanager
    def _in_layer(
        self, equation: Any, kind: str, params: Mapping[str, Any], given: Sequence[Tensor]
    ) -> Iterator[list[Tensor]]:
        """Put what is added inside into a layer of its own, unless it belongs to one already."""
        made: list[Tensor] = []
        if self._layer is not None:
            yield made
            return
        paths = [path for each in given if (path := self._of_parameter.get(id(each.value))) is not None]
        paths += [
            str(v.name) for v in _values(given) if v.is_initializer() and v.name in self.builder.parameters
        ]
        name = f"{paths[0].rpartition('.')[0]}.{kind}".lstrip(".") if paths else kind
        is_call = equation.primitive.name in CALLS
        settings = {} if is_call else {key: value for key, value in params.items() if _is_plain(value)}
        layer = self.builder.layers.new(name, kind, settings, origin=self._origin(equation))
        with self.builder.layer(layer):
            self._layer = layer
            try:
                yield made
            finally:
                self._layer = None
        inputs = [v for v in _values(given) if not v.is_initializer()]
        outputs = [v for v in _values(made) if v not in inputs]
        self.builder.record(layer, inputs=inputs, outputs=outputs, parameters=paths)

    def _follow(self, name: str, given: Sequence[Tensor], made: Sequence[Tensor]) -> None:
        """Note that what is made of a parameter is still that parameter, moved or in another form."""
        if name not in LOOKS:
            return
        for value in _values(given[:1]):
            path = self._of_parameter.get(id(value))
            path = value.name if path is None and value.name in self.builder.parameters else path
            if path is not None and isinstance(made[0].value, ir.Value):
                self._of_parameter[id(made[0].value)] = path

    def _frames(self, equation: Any) -> list[tuple[str, str, int]]:
        """Return the frames of the net's own files that an equation was traced from, the innermost first."""
        traceback = equation.source_info.traceback
        frames = traceback.frames if traceback is not None else ()
        return [(f.file_name, f.function_name, f.line_num) for f in frames if f.file_name in self._files]

    def _origin(self, equation: Any) -> Origin:
        frames = self._frames(equation)
        return Origin(self._files[frames[0][0]], frames[0][2]) if frames else Origin(self.place, None)

    def _where(self, equation: Any) -> str:
        frames = self._frames(equation)
        return f" ({self._files[frames[0][0]]}:{frames[0][2]})" if frames else ""

    def _is_own(self, jaxpr: Any, function: str) -> bool:
        """Return whether the net's own code has a function that JAX compiles apart."""
        return any(
            function in {name.rpartition(".")[2] for _, name, _ in self._frames(equation)}
            for equation in jaxpr.eqns
        )


def _values(tensors: Sequence[Tensor]) -> list[ir.Value]:
    return [each.value for each in tensors if isinstance(each.value, ir.Value)]


def _folded(equation: Any, given: Sequence[Tensor]) -> list[Tensor] | None:
    """Return what an equation makes of known arrays; None if that is left to the graph.

    A broadcast array stays small: whoever reads it broadcasts it.
    """
    name = equation.primitive.name
    outputs = [variable.aval for variable in equation.outvars]
    shapes = [each.shape for each in (*given, *outputs)]
    is_small = all(is_static(s) and np.prod(s, dtype=object) <= MAX_FOLDED for s in shapes)
    if name in {"broadcast_in_dim", "dim_as_value", "iota"} or name.startswith("random") or not is_small:
        return None
    arrays = [each.array.astype(each.dtype) for each in given]
    with jax.ensure_compile_time_eval():
        made = equation.primitive.bind(*map(jax.numpy.asarray, arrays), **equation.params)
    listed = made if equation.primitive.multiple_results else [made]
    return [
        Tensor(np.asarray(array), tuple(aval.shape), str(aval.dtype))
        for array, aval in zip(listed, outputs, strict=True)
    ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(each) for each in value)
    return isinstance(value, bool | int | float | str)


def _role(path: str, num_axes: int) -> str:
    last = re.split(r"[./]", path)[-1].lower()
    if "mean" in last or "var" in last:
        return "mean" if "mean" in last else "variance"
    return "bias" if num_axes == 1 and "bias" in last else "weight"
