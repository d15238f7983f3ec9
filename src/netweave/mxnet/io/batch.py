"""Batches, and the base of data iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


class _NameAndShape(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, sizes, type and layout of an input.

    Args:
        name: Its name.
        shape: Its sizes.
        dtype: Its element type.
        layout: Its axes; ``N`` is the batch.
    """

    dtype: Any
    layout: str

    def __new__(
        cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str = "NCHW"
    ) -> DataDesc:
        """Return name and sizes with type and layout."""
        made = super().__new__(cls, name, tuple(shape))
        made.dtype, made.layout = dtype, layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the axis of the batch in a layout; 0 where there is none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any = None) -> list[DataDesc]:
        """Return descriptions of pairs of name and shape."""
        kinds = dict(types or {})
        return [DataDesc(name, shape, kinds.get(name, np.float32)) for name, shape in shapes]


class DataBatch:
    """Arrays of one batch.

    Args:
        data: Of the data.
        label: Of the labels.
        pad: How many records at the end are only there to fill it.
        index: Numbers of the records.
        bucket_key: Which net the batch is for.
        provide_data: Names and sizes of the data, for a net of several sizes.
        provide_label: The same of the labels.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key, self.provide_data, self.provide_label = bucket_key, provide_data, provide_label

    def __str__(self) -> str:
        data = [one.shape for one in self.data or ()]
        return f"DataBatch: data shapes: {data} label shapes: {[one.shape for one in self.label or ()]}"


class DataIter:
    """An iterator of batches: a subclass has ``next``, or ``iter_next``, ``getdata``, ...; and ``reset``.

    Args:
        batch_size: Records in a batch.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Self:
        return self

    def reset(self) -> None:
        """Begin a further epoch."""

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Go on to the next batch; say whether there is one."""
        return False

    def getdata(self) -> Any:
        """Return the data of the batch."""
        return None

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        return None

    def getindex(self) -> Any:
        """Return the numbers of its records."""
        return None

    def getpad(self) -> Any:
        """Return how many of its records only fill it."""
        return 0
