"""Schemas of the HTTP API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.urls import reverse
from ninja import Field, Schema
from pydantic import PositiveInt

from netweave.web.models import Comparison, Net, State

Name = Annotated[str, Field(max_length=200)]
InputShapes = Annotated[
    dict[Name, Annotated[list[PositiveInt], Field(max_length=8)]],
    Field(max_length=64, examples=[{"data": [1, 3, 224, 224]}]),
]


Offset = Annotated[int, Field(ge=0, le=1 << 31, description="So many of the newest are left out")]

Entry = Annotated[str, Field(max_length=100, pattern=r"^([A-Za-z_]\w*)?$", examples=["LeNet"])]


class NewNet(Schema):
    """A net to come; ``entry`` names the class or function that makes it in a file of code."""

    name: Name = ""
    input_shapes: InputShapes = Field(default_factory=dict)
    entry: Entry = ""


class NetChange(Schema):
    """Changes to a net; fields that are left out stay as they are."""

    name: Name | None = None
    input_shapes: InputShapes | None = None
    entry: Entry | None = None


class FileOut(Schema):
    """A file of a net."""

    name: str
    num_bytes: int


class NetOut(Schema):
    """A net: ``state`` goes empty, queued, running, then done, or failed with ``error``."""

    id: UUID
    name: str
    state: State
    error: str
    files: list[FileOut]
    input_shapes: dict[str, list[int]]
    entry: str
    facts: dict[str, Any] = Field(description="What was read: format, layers, parameters, inputs, outputs")
    created: datetime
    page: str

    @staticmethod
    def resolve_files(net: Net) -> list[Any]:
        """Return the files."""
        return net.listed_files

    @staticmethod
    def resolve_page(net: Net) -> str:
        """Return the address of the page."""
        return reverse("net", args=[net.pk])


Finite = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[list[Finite], Field(min_length=1, max_length=3)]
Spreads = Annotated[list[Annotated[Finite, Field(gt=0)]], Field(min_length=1, max_length=3)]
Stage = Annotated[str, Field(min_length=1, max_length=100)]


class PreprocessingIn(Schema):
    """Preprocessing of an image for a net: ``(pixel * scale - mean) / std``, pixels from 0 to 255."""

    color: Literal["rgb", "bgr", "gray"]
    fit: Literal["stretch", "crop"]
    scale: Finite
    mean: Numbers = Field(description="One number, or one per channel in the order of color")
    std: Spreads


class NewComparison(Schema):
    """Two nets to compare, by their ids."""

    a: UUID
    b: UUID
    name: Name = ""
    first: Name | None = Field(None, description="Compare from this layer of A on")
    last: Name | None = Field(None, description="Compare up to this layer of A")
    tolerance: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="Largest error of an output, relative to its rms, that counts as none"
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 31)] | None = Field(None, description="What inputs are drawn by")
    num_samples: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="Samples that are drawn where the nets leave the batch open; 3 if it is left out"
    )
    phase: Literal["TEST", "TRAIN"] | None = Field(
        None, description="Of formats with phases; TEST if left out"
    )
    stages: Annotated[list[Stage], Field(max_length=16)] = Field(
        default_factory=list, description="Stages of a Caffe net"
    )
    input_shapes_a: InputShapes = Field(default_factory=dict, description="In place of those of net A")
    input_shapes_b: InputShapes = Field(default_factory=dict, description="In place of those of net B")
    own_input: UUID | None = Field(None, description="Inputs of A to run on: the id of an uploaded file")
    preprocessing: PreprocessingIn | None = Field(None, description="Of an own input that is an image")
    times: bool = Field(default=False, description="Measure how long each layer takes")


class Rename(Schema):
    """Another name."""

    name: Name


class ComparisonOut(Schema):
    """A comparison: ``state`` goes queued, running, then done, failed or cancelled."""

    id: UUID
    name: str
    name_a: str
    name_b: str
    state: State
    stage: str
    error: str
    verdict: str
    sentence: str
    seconds: float | None
    created: datetime
    page: str
    shared: str | None = Field(description="Address that anybody may open; null if it is not shared")

    @staticmethod
    def resolve_verdict(comparison: Comparison) -> str:
        """Return the verdict in the words of this release."""
        verdict = comparison.found
        return verdict.value if verdict is not None else comparison.verdict

    @staticmethod
    def resolve_page(comparison: Comparison) -> str:
        """Return the address of the page."""
        return reverse("comparison", args=[comparison.pk])

    @staticmethod
    def resolve_shared(comparison: Comparison) -> str | None:
        """Return the shared address."""
        return reverse("shared", args=[comparison.share]) if comparison.share else None


class SampleOut(Schema):
    """A pair of the project's own examples."""

    key: str
    title: str
    text: str


class Pair(Schema):
    """Two nets."""

    a: NetOut
    b: NetOut


class Problem(Schema):
    """Why something cannot be done."""

    detail: str
