"""Symbols of MXNet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from netweave.errors import UsageError
from netweave.files.json_text import parse_json, read_json
from netweave.files.output_files import write_file
from netweave.formats.mxnet.symbol.build import apply
from netweave.formats.mxnet.symbol.picture import draw
from netweave.formats.mxnet.symbol.registry import READERS
from netweave.formats.mxnet.symbol.settings import DTYPES
from netweave.formats.mxnet.symbol.shapes import Shapes, infer_shapes, infer_types, to_graph
from netweave.formats.mxnet.symbol.vertex import (
    HIDDEN,
    VARIABLE,
    Document,
    Output,
    Vertex,
    auxiliaries,
    caller,
    check_names,
    parse_document,
    scoped_attributes,
    sorted_vertices,
    to_json,
    upgraded,
)
from netweave.graph import Graph


def composed(
    outputs: Sequence[Output], given: Mapping[str, Sequence[Output]], *, name: str | None = None
) -> tuple[Output, ...]:
    """Return the outputs of a copy in which variables are replaced; what needs no copy is shared.

    Args:
        outputs: Those of the net.
        given: By the name of a variable, the one output that takes its place.
        name: New name of the last node, where there is one.

    Raises:
        UsageError: There is no such variable, or there are several outputs for one.
    """
    vertices = sorted_vertices(outputs)
    names = [vertex.name for vertex in vertices if vertex.is_variable]
    for key, replacement in given.items():
        if key not in names:
            raise UsageError(f"there is no variable {key!r} to replace; expected one of {', '.join(names)}")
        if len(replacement) != 1:
            raise UsageError(f"{key!r}: the symbol given has {len(replacement)} outputs, expected one")
    variables = [Output(vertex, 0) for vertex in vertices if vertex.is_variable and vertex.name in given]
    replaced = cut(outputs, {each: given[each.vertex.name][0] for each in variables})
    if not name or len(outputs) != 1 or outputs[0] in variables:
        return replaced
    [last] = replaced
    return (Output(replace(last.vertex, name=name, attributes=dict(last.vertex.attributes)), last.number),)


def cut(outputs: Sequence[Output], at: Mapping[Output, Output]) -> tuple[Output, ...]:
    """Return the outputs of a copy in which some values are replaced; what needs no copy is shared."""
    copies: dict[Vertex, Vertex] = {}

    def moved(entry: Output) -> Output:
        return at.get(entry) or Output(copies[entry.vertex], entry.number)

    for vertex in sorted_vertices(outputs):
        inputs = tuple(map(moved, vertex.inputs))
        copies[vertex] = (
            vertex
            if inputs == vertex.inputs
            else replace(vertex, attributes=dict(vertex.attributes), inputs=inputs)
        )
    return tuple(map(moved, outputs))


Number = int | float

PAIRS = {
    "plus": "elemwise_add",
    "minus": "elemwise_sub",
    "mul": "elemwise_mul",
    "div": "elemwise_div",
}
"""Operators of two symbols that are not called as their sign is; the others are ``_mod``, ``_equal``, ..."""


class Arithmetic:
    """Signs between symbols, and between a symbol and a number; sizes must be equal, as in MXNet."""

    outputs: tuple[Output, ...]

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = tuple(outputs)

    def with_other(self, sign: str, other: Self | Number, *, scalar: str | None = None) -> Self:
        """Return what an operator makes of the symbol and another, or a number.

        Args:
            sign: ``plus``, ``mod``, ``greater``, ...
            other: The other operand.
            scalar: Name of the operator with a number, where it is not that of the sign.

        Raises:
            UsageError: The other is neither.
        """
        if isinstance(other, Arithmetic):
            op, hint = PAIRS.get(sign, f"_{sign}"), f"_{sign}"
            return type(self)(apply(op, [self.outputs, other.outputs], {}, settings={}, hint=hint))
        if not isinstance(other, int | float):
            raise UsageError(f"{sign}: one operand is {other!r:.60}, expected a symbol or a number")
        op = f"_{scalar or sign}_scalar"
        hint = op if op in COMPARED else f"_{scalar or sign}scalar"
        return type(self)(apply(op, [self.outputs], {}, settings={"scalar": other}, hint=hint))

    def __add__(self, other: Self | Number) -> Self:
        return self.with_other("plus", other)

    __radd__ = __add__

    def __sub__(self, other: Self | Number) -> Self:
        return self.with_other("minus", other)

    def __rsub__(self, other: Number) -> Self:
        return self.with_other("minus", other, scalar="rminus")

    def __mul__(self, other: Self | Number) -> Self:
        return self.with_other("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Self | Number) -> Self:
        return self.with_other("div", other)

    def __rtruediv__(self, other: Number) -> Self:
        return self.with_other("div", other, scalar="rdiv")

    def __mod__(self, other: Self | Number) -> Self:
        return self.with_other("mod", other)

    def __rmod__(self, other: Number) -> Self:
        return self.with_other("mod", other, scalar="rmod")

    def __pow__(self, other: Self | Number) -> Self:
        return self.with_other("power", other)

    def __rpow__(self, other: Number) -> Self:
        return self.with_other("power", other, scalar="rpower")

    def __neg__(self) -> Self:
        return self.with_other("mul", -1.0)

    def __abs__(self) -> Self:
        return type(self)(apply("abs", [self.outputs], {}, settings={}))

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # MXNet compares element by element
        return self.with_other("equal", other)  # type: ignore[arg-type]  # with_other refuses what is no operand

    def __ne__(self, other: object) -> Self:  # type: ignore[override]  # MXNet compares element by element
        return self.with_other("not_equal", other)  # type: ignore[arg-type]  # with_other refuses what is no operand

    def __gt__(self, other: Self | Number) -> Self:
        return self.with_other("greater", other)

    def __ge__(self, other: Self | Number) -> Self:
        return self.with_other("greater_equal", other)

    def __lt__(self, other: Self | Number) -> Self:
        return self.with_other("lesser", other)

    def __le__(self, other: Self | Number) -> Self:
        return self.with_other("lesser_equal", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise UsageError(
            "a symbol cannot be used as a condition: a == b is an operator of the net; compare the names "
            "instead"
        )


COMPARED = {
    f"_{sign}_scalar"
    for sign in ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "rpower")
}
"""Operators with a number that MXNet names as they are called; the others lose an underscore."""


METHODS: dict[str, Callable[..., Any]] = {}
"""Methods of symbols that packages above add: what runs a net does not belong to building one."""


@dataclass(frozen=True, slots=True, init=False)
class Initializer:
    """A rule for first values; ``training.optim.mxnet.initializers`` has the rules and their settings.

    >>> Initializer("xavier", factor_type="in", magnitude=2.34).text
    '["xavier", {"factor_type": "in", "magnitude": 2.34}]'

    Attributes:
        kind: MXNet's name for it in small letters: ``uniform``, ``normal``, ``xavier``, ``constant``, ...
        settings: Its own by MXNet's names.
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __init__(self, kind: str, **settings: Any) -> None:
        object.__setattr__(self, "kind", kind.lower())
        object.__setattr__(self, "settings", settings)

    @property
    def text(self) -> str:
        """The rule as symbol files have it."""
        return json.dumps([self.kind, dict(self.settings)])


class Symbol(Arithmetic):
    """Some outputs of a net, in the manner of MXNet.

    Operators of the table are also methods, the symbol being their first input: ``x.reshape(shape=(0, -1))``.
    A symbol never changes; what is made of it shares its nodes.

    >>> from netweave import symbol as sym
    >>> net = sym.FullyConnected(sym.Variable("data"), num_hidden=10, name="fc")
    >>> net.list_arguments()
    ['data', 'fc_weight', 'fc_bias']
    >>> net.infer_shape(data=(32, 100))
    ([(32, 100), (10, 100), (10,)], [(32, 10)], [])
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = tuple(outputs)

    @property
    def name(self) -> str | None:
        """Name of its node; None for a group."""
        names = {output.vertex.name for output in self.outputs}
        return names.pop() if len(names) == 1 else None

    def __repr__(self) -> str:
        names = [output.vertex.name for output in self.outputs]
        return f"<Symbol {self.name}>" if self.name else f"<Symbol group [{', '.join(names)}]>"

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[Symbol]:
        return (Symbol([output]) for output in self.outputs)

    def __getitem__(self, which: int | str | slice) -> Symbol:
        """Return one output by number or name (``fc_output``), or several by a slice.

        Raises:
            UsageError: There is no output of that name, or several.
            IndexError: There are not so many.
        """
        if isinstance(which, slice):
            return Symbol(self.outputs[which])
        if isinstance(which, int):
            return Symbol([self.outputs[which]])
        names = self.list_outputs()
        if names.count(which) != 1:
            count = f"{names.count(which)} outputs are" if which in names else "no output is"
            raise UsageError(f"{count} named {which!r}; expected one of {', '.join(names[:20])}")
        return Symbol([self.outputs[names.index(which)]])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in METHODS:
            return partial(METHODS[name], self)
        if name.startswith("_") or name not in READERS:
            raise AttributeError(f"a symbol has no attribute or operator {name!r}")
        return partial(operator_function(name), self)

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """Return the net with symbols in the place of some of its variables (MXNet's compose).

        Args:
            args: In the order of ``list_arguments``.
            name: New name of its node, if there is one output.
            kwargs: By the variable's name.

        Raises:
            UsageError: There is no such variable, or a symbol has several outputs.
        """
        names = self.list_arguments()
        if len(args) > len(names):
            raise UsageError(f"{len(args)} symbols are given for {len(names)} arguments: {', '.join(names)}")
        given = dict(zip(names, args, strict=False)) | kwargs
        replacements = {key: value.outputs for key, value in given.items()}
        return Symbol(composed(self.outputs, replacements, name=name))

    def cut(self, *names: str) -> tuple[Symbol, Symbol]:
        """Return the net up to some of its values, and the rest, with variables in the place of these.

        ``front, back = net.cut("relu1_output")``: ``back`` has an argument ``relu1_output``.

        Args:
            names: As ``get_internals().list_outputs()`` has them.

        Raises:
            UsageError: There is no such value, or the rest does not need it.
        """
        internals = self.get_internals()
        front = group([internals[name] for name in names])
        places = {
            output: variable(name).outputs[0] for name, output in zip(names, front.outputs, strict=True)
        }
        back = Symbol(cut(self.outputs, places))
        unneeded = [name for name in names if name not in back.list_arguments()]
        if unneeded:
            raise UsageError(f"the cut at {unneeded[0]!r} is not needed: no layer after the cuts reads it")
        return front, back

    def list_arguments(self) -> list[str]:
        """Return the names of the variables that are inputs or learnt, in the order of MXNet."""
        vertices = sorted_vertices(self.outputs)
        states = auxiliaries(vertices)
        return [vertex.name for vertex in vertices if vertex.is_variable and vertex not in states]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the variables that operators change themselves: moving statistics."""
        vertices = sorted_vertices(self.outputs)
        states = auxiliaries(vertices)
        return [vertex.name for vertex in vertices if vertex in states]

    def list_inputs(self) -> list[str]:
        """Return the names of all variables."""
        return [vertex.name for vertex in sorted_vertices(self.outputs) if vertex.is_variable]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs: ``fc_output``, or ``split_output0``."""
        return [vertex.output_names()[number] for vertex, number in self.outputs]

    def get_internals(self) -> Symbol:
        """Return all values of the net as one group, variables too."""
        return Symbol(
            [
                Output(vertex, number)
                for vertex in sorted_vertices(self.outputs)
                for number in range(len(vertex.output_names()))
            ]
        )

    def get_children(self) -> Symbol | None:
        """Return what its nodes read, as a group; None for variables."""
        vertices = dict.fromkeys(output.vertex for output in self.outputs)
        inputs = [entry for vertex in vertices for entry in vertex.inputs]
        return Symbol(inputs) if inputs else None

    def attr(self, key: str) -> str | None:
        """Return an attribute of its node: a setting, or one of the user's in either spelling."""
        return self._attributes().get(f"__{key}__" if key in HIDDEN else key)

    def list_attr(self) -> dict[str, str]:
        """Return all attributes of its node."""
        return _both_spellings(self._attributes())

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of all nodes that have some, by the node's name."""
        vertices = sorted_vertices(self.outputs)
        return {vertex.name: _both_spellings(vertex.attributes) for vertex in vertices if vertex.attributes}

    def infer_shape(self, **shapes: Sequence[int]) -> tuple[Shapes, Shapes, Shapes]:
        """Return the sizes of arguments, outputs and auxiliary states, in the order of their lists.

        Args:
            shapes: Sizes of inputs by name, batch size first.

        Raises:
            ShapeError: Sizes do not fit, or are not known and needed; the message names the line.
            UsageError: There is no variable of some name.
        """
        return infer_shapes(self, shapes)

    def infer_type(self, **types: Any) -> tuple[list[np.dtype], list[np.dtype], list[np.dtype]]:
        """Return the element types of arguments, outputs and auxiliary states; float32 where nothing says.

        Args:
            types: Element types of variables by name.
        """
        return infer_types(self, types)

    def graph(
        self,
        *,
        arrays: Mapping[str, np.ndarray] | None = None,
        title: str | None = None,
        **shapes: Sequence[int],
    ) -> Graph:
        """Return the net as a Graph.

        Args:
            arrays: Stored arrays by name; all of them, or None for a net whose values are drawn.
            title: What the Graph is called; the symbol's name by default.
            shapes: Sizes of inputs by name, batch size first.

        Raises:
            SourceError: A setting is wrong or not known, or sizes do not fit; the message names the line.
            UsageError: There is no variable of some name.
        """
        return to_graph(self, shapes, arrays=arrays, title=title)

    def document(self) -> Document:
        """Return the nodes as a file has them.

        Raises:
            UsageError: Two variables have the same name.
        """
        check_names(sorted_vertices(self.outputs))
        return Document(self.outputs[0].vertex.origin.file, self.outputs)

    def plot(self, **shapes: Sequence[int]) -> str:
        """Return a picture of the net as SVG; with sizes of inputs, lines carry those of their values."""
        return draw(self, shapes)

    def _repr_svg_(self) -> str:
        return draw(self, {})

    def tojson(self) -> str:
        """Return the net as the text of a symbol file of MXNet 1.9."""
        return to_json(self.document())

    def save(self, path: str | Path) -> None:
        """Write the net as a symbol file, by custom ``NAME-symbol.json``.

        Raises:
            WriteError: The file cannot be written; the old one is untouched.
        """
        write_file(path, self.tojson())

    def _attributes(self) -> dict[str, str]:
        vertices = {output.vertex for output in self.outputs}
        return vertices.pop().attributes if len(vertices) == 1 else {}


def operator_function(op: str) -> Callable[..., Symbol]:
    """Return the function that applies an operator of the table to symbols and settings."""

    def function(
        *args: Any, name: str | None = None, attr: Mapping[str, str] | None = None, **kwargs: Any
    ) -> Symbol:
        wrong = [value for value in args if not isinstance(value, Symbol)]
        if wrong:
            raise UsageError(
                f"{op}: an input is {wrong[0]!r:.60}, expected a symbol; name settings, as in scale=2"
            )
        named = {key: value.outputs for key, value in kwargs.items() if isinstance(value, Symbol)}
        settings = {key: value for key, value in kwargs.items() if key not in named}
        positional = [value.outputs for value in args]
        return Symbol(apply(op, positional, named, settings=settings, name=name, attributes=attr))

    function.__name__ = function.__qualname__ = op
    read = READERS[op].read
    function.__doc__ = (
        f"{read.__doc__ or op}\n\n    Inputs are symbols, in order or by name; all else are settings."
    )
    return function


def variable(
    name: str,
    *,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    init: Initializer | str | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    attr: Mapping[str, str] | None = None,
    **attributes: str,
) -> Symbol:
    """Return a variable: an input of the net, or an array that it learns.

    Args:
        name: Its name.
        shape: Its sizes; 0 for one that follows from others.
        dtype: Its element type.
        init: Rule for its first values.
        lr_mult: Factor on the learning rate.
        wd_mult: Factor on the weight decay.
        attr: Attributes of the user.
        attributes: The same as keywords.

    Raises:
        UsageError: There is no name, or the element type is unknown.
    """
    if not name:
        raise UsageError("a variable has no name, expected text")
    rule = Initializer(init) if isinstance(init, str) else init
    own = {
        "__shape__": None if shape is None else str(tuple(shape)),
        "__dtype__": None if dtype is None else _dtype_number(dtype),
        "__init__": None if rule is None else rule.text,
        "__lr_mult__": None if lr_mult is None else str(lr_mult),
        "__wd_mult__": None if wd_mult is None else str(wd_mult),
    }
    written = {key: text for key, text in own.items() if text is not None}
    users = {
        f"__{key}__" if key in HIDDEN else key: text for key, text in {**(attr or {}), **attributes}.items()
    }
    vertex = Vertex(name, VARIABLE, {**scoped_attributes(), **users, **written}, (), caller())
    return Symbol([Output(vertex)])


def group(symbols: Sequence[Symbol]) -> Symbol:
    """Return several symbols as one, with all their outputs.

    Raises:
        UsageError: There is none.
    """
    outputs = [output for symbol in symbols for output in symbol.outputs]
    if not outputs:
        raise UsageError("a group without symbols, expected at least one")
    return Symbol(outputs)


def load(path: str | Path) -> Symbol:
    """Read a symbol file of MXNet, of any age.

    Raises:
        ReadError: The file cannot be read or is no symbol.
    """
    document = parse_document(read_json(Path(path)), file=str(path))
    return Symbol(upgraded(document).heads)


def from_json(text: str) -> Symbol:
    """Read a symbol from the text of a symbol file.

    Raises:
        ReadError: It is no symbol.
    """
    document = parse_document(parse_json(text.encode(), file="JSON"), file="JSON")
    return Symbol(upgraded(document).heads)


def _both_spellings(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes, those that MXNet knows also without underscores, as it does."""
    plain = {key: attributes[f"__{key}__"] for key in HIDDEN if f"__{key}__" in attributes}
    return {**attributes, **plain}


def _dtype_number(dtype: Any) -> str:
    import numpy as np

    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    number = next((number for number, known in DTYPES.items() if known == name), None)
    if number is None:
        raise UsageError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES.values())}")
    return number


Operand = Symbol | Number


def maximum(left: Operand, right: Operand) -> Symbol:
    """Return the larger of two, element by element."""
    return _of_either("maximum", left, right)


def minimum(left: Operand, right: Operand) -> Symbol:
    """Return the smaller of two, element by element."""
    return _of_either("minimum", left, right)


def hypot(left: Operand, right: Operand) -> Symbol:
    """Return the root of the sum of two squares, element by element."""
    return _of_either("hypot", left, right)


def pow(base: Operand, exponent: Operand) -> Symbol:  # noqa: A001 - MXNet's name
    """Return a power, element by element."""
    if isinstance(base, Symbol):
        return base**exponent
    if isinstance(exponent, Symbol):
        return base**exponent
    raise UsageError(f"pow of {base!r} and {exponent!r}: expected at least one symbol")


def zeros(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of zeros."""
    return operator_function("_zeros")(shape=shape, dtype=dtype, name=name)


def ones(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of ones."""
    return operator_function("_ones")(shape=shape, dtype=dtype, name=name)


def full(shape: Sequence[int], val: float, dtype: Any = "float32", name: str | None = None) -> Symbol:
    """Return an array of one value."""
    return operator_function("_full")(shape=shape, value=val, dtype=dtype, name=name)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    *,
    repeat: int = 1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Symbol:
    """Return numbers from ``start`` to before ``stop``; without ``stop`` from 0 to before ``start``."""
    first, last = (0.0, start) if stop is None else (start, stop)
    settings = {"start": first, "stop": last, "step": step, "repeat": repeat, "dtype": dtype}
    return operator_function("_arange")(**settings, name=name)


def _of_either(sign: str, left: Operand, right: Operand) -> Symbol:
    if not isinstance(left, Symbol):
        left, right = right, left
    if not isinstance(left, Symbol):
        raise UsageError(f"{sign} of {left!r} and {right!r}: expected at least one symbol")
    return left.with_other(sign, right)
