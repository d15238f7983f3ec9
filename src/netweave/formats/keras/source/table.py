"""The table of operators that can be written, and what one is written from.

Values of four axes are images: they have channels last in Keras, and channels first in the Graph. All others
are as in the Graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.node_writer import NotWritable, WriterTable
from netweave.files.source_code.node import SourceNode
from netweave.files.source_code.steps import Module, Step
from netweave.passes.specialise import same_pads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from netweave.files.source_code.steps import Field
    from netweave.lowering.windows import Window

IMAGE = 4
"""Number of axes of an image: batch, height, width, channels."""


class KerasNode(SourceNode):
    """A node that is being written."""

    def step(
        self, template: str, *, inputs: Sequence[int] = (0,), module: Module | None = None, **more: Any
    ) -> Step:
        """Return the node as an expression over some of its inputs, none of which may be stored."""
        if any(self.is_stored(index) for index in inputs):
            raise NotWritable("one of its inputs is stored")
        return super().step(template, inputs=inputs, module=module, **more)

    def default_name(self) -> str:
        """Return the name that the node has in its file."""
        return self.ir_node.name or self.op_type

    def weighted(
        self,
        kind: str,
        fields: Sequence[Field],
        state: dict[str, Callable[[], np.ndarray]],
        template: str = "{m}({0})",
    ) -> Step:
        """Return the node as a layer with weights; its state is in Keras's order, by Keras's names."""
        return self.step(template, module=Module(f"layers.{kind}", tuple(fields), state))

    def sizes(self, index: int = 0) -> list[int] | None:
        """Return height and width of an image; None if they are not known."""
        found = self.shape(index)[2:]
        known = [size for size in found if size is not None]
        return known if len(known) == len(found) else None

    def need_image(self, index: int = 0) -> None:
        """Refuse a value that is no image."""
        if self.rank(index) != IMAGE:
            raise NotWritable(f"it is written over images only, found {self.rank(index)} axes")


TABLE: WriterTable[KerasNode, Step | list[Step]] = WriterTable()
"""The operators that can be written."""

writes = TABLE.writes


def channels_last(axis: int, rank: int) -> int:
    """Return where an axis of the Graph is in Keras."""
    return [0, 3, 1, 2][axis] if rank == IMAGE else axis


def around(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return what is put around height and width as Keras takes it.

    >>> around([1, 1], [1, 1]), around([0, 2], [1, 2])
    ('1', '((0, 1), (2, 2))')
    """
    pairs = tuple(zip(begin, end, strict=True))
    return str(begin[0]) if len({*begin, *end}) == 1 else repr(pairs)


def is_same(node: KerasNode, window: Window) -> bool:
    """Whether Keras's word ``same`` gives the padding of a window over an image."""
    if node.get("auto_pad", "NOTSET") == "SAME_UPPER":
        return True
    # with steps of 1 the padding is the same for every size
    sizes = node.sizes() or ([1, 1] if set(window.strides) == {1} else None)
    if sizes is None or not any(window.onnx_pads):
        return False
    numbers = {"strides": window.strides, "dilations": window.dilations}
    return window.onnx_pads == same_pads(sizes, window.kernel, **numbers, upper=True)
