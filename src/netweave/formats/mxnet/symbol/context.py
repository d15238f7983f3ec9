"""One operator of an MXNet symbol while it is lowered: its settings, inputs, stored arrays and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering import LayerContext
from netweave.formats.mxnet.symbol.registry import ROLES
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.formats.mxnet.symbol.vertex import Vertex
from netweave.graph import GraphBuilder, known_shape, parameter_key
from netweave.graph.parameters import Step

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.variables import Variables


MAX_RANGE = 10_000_000
"""A longer list of constants is refused before it is made."""


class MXNetOperator(LayerContext):
    """One operator in place.

    Args:
        builder: Where its nodes go.
        node: Its node in the symbol.
        settings: Its settings.
        names: Names of its inputs, or None if they have none.
        sources: Its inputs: values of other operators, or variables.
        variables: The variables of the net.

    Attributes:
        read: The inputs read so far that are no stored arrays, by number.
        parameters: Keys of the stored arrays read so far.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        node: Vertex,
        settings: Settings,
        *,
        names: Sequence[str] | None,
        sources: Sequence[ir.Value | Vertex],
        variables: Variables,
    ) -> None:
        super().__init__(builder, place=node.place)
        self.op = node.op
        self.settings = settings
        self.read: dict[int, ir.Value] = {}
        self.parameters: list[str] = []
        self._sources = sources
        self._names = None if names is None else list(names)
        self._variables = variables
        if names is not None and len(names) != len(sources):
            raise self.read_error(f"has {len(sources)} inputs, expected {len(names)}: {', '.join(names)}")

    @property
    def x(self) -> ir.Value:
        """The first input."""
        return self.input()

    def has(self, name: str) -> bool:
        """Return whether there is an input of this name."""
        return self._names is not None and name in self._names

    def input(
        self,
        which: str | int = 0,
        *,
        default: Sequence[int | None] | None = None,
        batch_axis: int = 0,
    ) -> ir.Value:
        """Return an input by name or number.

        Args:
            which: Its name or number.
            default: Sizes for an input of the net whose sizes nobody gave.
            batch_axis: Which axis is the batch, if it is an input of the net.
        """
        number, source = self._source(which)
        if isinstance(source, Vertex):
            source = self._variables.value(source, default=default, batch_axis=batch_axis)
        key = parameter_key(source)
        if key is None:
            self.read[number] = source
        else:
            self.parameters.append(key)
        return source

    def inputs(self) -> list[ir.Value]:
        """Return all inputs; an input of the net of unknown sizes gets those of its neighbour."""
        known = next((known_shape(v) for v in self._sources if not isinstance(v, Vertex)), None)
        return [self.input(number, default=known) for number in range(len(self._sources))]

    def parameter(
        self,
        name: str,
        shape: Sequence[int | None],
        *,
        role: str | None = None,
        layout: Sequence[Step] = (),
    ) -> ir.Value:
        """Return an input that is a stored array; one that the net computes is brought into its layout.

        Args:
            name: Name of the input.
            shape: Its sizes in MXNet's layout; None where any is right or it is not known.
            role: See ``Parameter``; by default that of the name.
            layout: Steps from MXNet's layout to the one that the graph needs.
        """
        _, source = self._source(name)
        if isinstance(source, Vertex) and not self._variables.is_input(source):
            self.parameters.append(source.name)
            return self._variables.parameter(source, shape=shape, role=role or ROLES[name], layout=layout)
        return self.relayout(self.input(name, default=shape), layout)

    def fixed_parameter(self, name: str, shape: Sequence[int | None], number: float) -> ir.Value:
        """Return an array of one number in the place of a stored one, which is entered and kept all the same.

        Args:
            name: Name of the input.
            shape: Its sizes in MXNet's layout.
            number: The number.
        """
        _, source = self._source(name)
        if not isinstance(source, Vertex):
            raise self.unsupported(f"its {name} is computed by the net, expected a stored array")
        entry = self._variables.declare_unused(source, shape=shape, role=ROLES[name])
        self.parameters.append(source.name)
        return self.builder.fixed(number, entry, self._variables.array(source.name))

    def stored_shape(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of the array that a file stores for an input, if there is one."""
        _, source = self._source(name)
        return self._variables.stored_shape(source) if isinstance(source, Vertex) else None

    @property
    def has_open_fill(self) -> bool:
        """True if the net has a fill of a size that MXNet would infer: it is 1 here, and broadcasts."""
        return self._variables.has_open_fill

    def note_open_fill(self) -> None:
        """Say that this is such a fill."""
        self._variables.has_open_fill = True

    def known_sizes(self, which: str | int) -> tuple[int | None, ...] | None:
        """Return the sizes of an input as far as they are known before it is read; None if not at all."""
        _, source = self._source(which)
        return self._variables.known_shape(source) if isinstance(source, Vertex) else known_shape(source)

    def arange(self, count: int) -> np.ndarray:
        """Return the integers from 0 to before ``count``.

        Raises:
            ShapeError: They are more than ``MAX_RANGE``.
        """
        if not 0 <= count <= MAX_RANGE:
            raise self.shape_error(f"has {count:,} elements, expected at most {MAX_RANGE:,}")
        return np.arange(count, dtype=np.int64)

    def _source(self, which: str | int) -> tuple[int, ir.Value | Vertex]:
        number = which if isinstance(which, int) else (self._names or []).index(which)
        if number >= len(self._sources):
            raise self.read_error(f"has {len(self._sources)} inputs, expected at least {number + 1}")
        return number, self._sources[number]


LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")
"""What the setting ``layout`` may be; without it the channels are axis 1."""


def channels_first(ctx: MXNetOperator, x: ir.Value, last: bool) -> ir.Value:
    """Return ``x`` as N, C, spatial axes; ``last`` says whether its channels are last."""
    if not last:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(ctx: MXNetOperator, x: ir.Value, last: bool) -> ir.Value:
    """Undo ``channels_first``."""
    if not last:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [0, *range(2, rank), 1])
