"""The options of a comparison: one value, from the face that takes them to where each is used."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.comparison.metric import OUTPUT_TOLERANCE
from netweave.errors import UsageError
from netweave.runtime.memory_plan import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from netweave.runtime.images.preprocessing import Preprocessing


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Options of a comparison.

    Attributes:
        first: Layer, node or value of A that the compared part starts with; its counterpart in B is found.
        last: Layer, node or value of A that the compared part ends with. What cannot be read, and all that
            needs it, is then left out of both nets.
        probe: Inputs of A to run on, by name, or a file of them as for ``load_arrays``; drawn otherwise.
        image: An image to run on, instead of a probe; what each net is given of it is compared as well.
        preprocess_a: How A is given the image: a ``Preprocessing``, the name of a preset (``caffe``,
            ``torchvision``, ``gluon``, ``keras-caffe``, ``keras-tf``, ``keras-torch``, ``darknet``), or
            settings such as ``resize=256,crop=224,order=bgr,mean=104;117;123,scale=1``.
        preprocess_b: The same for B.
        tolerance: Largest relative error of an output treated as equal, > 0.
        strict: Say *not decidable* instead of *equal* where a setting differs without effect on the inputs
            tried, or something was not exercised: see ``Comparison.is_strictly_equal``.
        one_size: Compare at the declared sizes alone, for a net that was made for one size of its images.
        seed: What inputs are drawn by, >= 0; another seed draws others.
        num_samples: Samples that are drawn where the nets leave the batch open, >= 1. The first is noise, the
            second a smooth image, the third noise of the size of pixels, and further ones are noise. By
            default three, and two of nets that take long for each.
        keep_values: Keep what each group of layers computes in both nets, for the page: see ``Group.values``.
        memory: What the process may take of the memory, with both nets: bytes, or a size such as ``1GB``. Of
            what the nets compute, a part is held, and the rest computed again where it is needed. By default
            half of what is free, and no more than makes a comparison faster.
        input_shapes: Input sizes by name, for both nets; see ``load_all``.
    """

    first: str | None = None
    last: str | None = None
    probe: Mapping[str, np.ndarray] | str | Path | None = None
    image: str | Path | None = None
    preprocess_a: Preprocessing | str | None = None
    preprocess_b: Preprocessing | str | None = None
    tolerance: float = OUTPUT_TOLERANCE
    strict: bool = False
    one_size: bool = False
    seed: int = 0
    num_samples: int | None = None
    keep_values: bool = False
    memory: int | str | None = None
    input_shapes: Mapping[str, Sequence[int]] | None = None

    @property
    def inputs(self) -> Mapping[str, np.ndarray] | None:
        """The probe as arrays.

        Raises:
            UsageError: It is the name of a file, which nobody has read yet.
        """
        if isinstance(self.probe, str | Path):
            raise UsageError(f"the probe is the file {self.probe}, expected arrays by name")
        return self.probe

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes.

        Raises:
            UsageError: It is no size.
        """
        return None if self.memory is None else parse_bytes(self.memory)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all options."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(
        cls, options: CompareOptions | None, settings: Mapping[str, Any], *, others: Iterable[str] = ()
    ) -> CompareOptions:
        """Return options with some of them set anew by name.

        Args:
            options: Options; None for those by default.
            settings: New values by name.
            others: Names that the caller takes besides, for the message.

        Raises:
            UsageError: There is no option of such a name.
        """
        unknown = [name for name in settings if name not in cls.names()]
        if unknown:
            known = ", ".join([*cls.names(), *others])
            raise UsageError(f"compare has no option {unknown[0]!r}; expected one of {known}")
        return replace(options or cls(), **settings)
