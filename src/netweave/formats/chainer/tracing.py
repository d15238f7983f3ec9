"""Calling a model on inputs that stand for any, and taking what it returns as the net's outputs."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from netweave.errors import CodeError, NetweaveError, ShapeError
from netweave.files.unknown_names import check_input_names
from netweave.formats.chainer.shim.link import ArgumentsError, Link
from netweave.formats.chainer.shim.recorder import Parameter, Recorder, Variable, WholeError
from netweave.graph import Graph

SIZES = (224, 227, 32, 28, 299, 64, 96, 128, 256, 300, 512)
"""Sides of images that are tried where nobody said the size, in this order."""

LABELS = {"t", "y", "label", "labels", "target", "gt"}
"""Arguments that are labels, one whole number for each picture, where nobody says otherwise."""


def trace(
    model: Link,
    recorder: Recorder,
    shapes: Mapping[str, Sequence[int]],
    likely_shapes: Sequence[Sequence[int]] = (),
) -> Graph:
    """Return the graph of a model.

    Args:
        model: The model.
        recorder: Where its calls go.
        shapes: Sizes of its inputs by the names of ``forward``'s arguments; others are found by trying.
        likely_shapes: Sizes to try before the usual ones, where nobody says those of the only input.

    Raises:
        ShapeError: Sizes are missing and none of the usual ones fits.
        UsageError: An argument is named that is none.
        CodeError: What the model returns is no output of a net.
    """
    names = _arguments(model)
    check_input_names(shapes, names, place=type(model).__name__)
    open_names = [name for name in names if name not in shapes and name not in LABELS]
    if not open_names:
        return _traced(model, recorder, {name: tuple(shapes.get(name, (1,))) for name in names})
    if len(open_names) > 1:
        raise ShapeError(
            f"the sizes of the inputs {', '.join(map(repr, open_names))} are not known: "
            f"set them (--input-shape {open_names[0]}=1x3x224x224)",
            open_inputs=tuple(open_names),
        )
    last: Exception | None = None
    for candidate in (*_likely(model, likely_shapes), *_candidates(model)):
        try:
            given = {name: tuple(shapes.get(name, (1,))) for name in names} | {open_names[0]: candidate}
            graph = _traced(model, recorder, given)
        except ArgumentsError:  # wrong at every size
            raise
        except Exception as error:  # noqa: BLE001 - any code's any error
            last = last or error
            continue
        sizes = "x".join(map(str, ["N", *candidate[1:]]))
        graph.assumed = {open_names[0]: tuple(candidate)}
        graph.notes += (
            f"nobody said the size of input {open_names[0]!r}: traced with {sizes}, the first that its code "
            f"takes; say another by --input-shape {open_names[0]}={'x'.join(map(str, candidate))}",
        )
        return graph
    if isinstance(last, NetweaveError):
        raise last
    raise ShapeError(
        f"the size of input {open_names[0]!r} is unknown, and none of the usual sizes fits ({last}): "
        f"set it (--input-shape {open_names[0]}=1x3x224x224)",
        open_inputs=(open_names[0],),
    )


def _arguments(model: Link) -> list[str]:
    calls_itself = (
        type(model).__call__ is not Link.__call__
    )  # Chainer 1's way; forward may be a helper of its own
    forward = model.__call__ if calls_itself else getattr(model, "forward", None) or model.__call__
    parameters = inspect.signature(forward).parameters.values()
    names = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    return names or ["x"]


def _likely(model: Link, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return likely sizes of an input; another framework's images may have their channels last."""
    part = next((link for link in model.links() if "Convolution" in type(link).__name__), None)
    weight = getattr(part, "W", None)
    is_known = isinstance(weight, Parameter) and weight.is_initialized
    channels = {weight.shape[1]} if isinstance(weight, Parameter) and is_known else {1, 3}
    likely: list[tuple[int, ...]] = []
    for shape in map(tuple, shapes):
        if len(shape) == 4 and shape[3] in channels and shape[1] not in channels:
            likely.append((shape[0], shape[3], *shape[1:3]))
        likely.append(shape)
    return likely


def _candidates(model: Link) -> list[tuple[int, ...]]:
    """Return sizes that the first part of a model with a known width may take."""
    side = getattr(model, "insize", None)
    for link in model.links():
        weight = getattr(link, "W", None)
        if not isinstance(weight, Parameter):
            continue
        kind = type(link).__name__
        if kind == "EmbedID":
            return [(1,), (1, 8)]
        if "Convolution" in kind:
            # links come by name, as Chainer has them: the first need not be the first that is called
            channels = dict.fromkeys([weight.shape[1], 3, 1] if weight.is_initialized else [3, 1])
            sides = [side] if isinstance(side, int) else SIZES
            return [(1, each, size, size) for size in sides for each in channels]
        if kind == "Linear":
            return [(1, weight.shape[1])] if weight.is_initialized else [(1, 784)]
    return [(1, 3, size, size) for size in SIZES]


def _traced(model: Link, recorder: Recorder, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph of a call; where labels of pictures do not fit, that with labels of pixels."""
    try:
        return _traced_as(model, recorder, shapes)
    except ShapeError:
        sides = next((shape[2:] for shape in shapes.values() if len(shape) == 4), None)
        labels = {name for name, shape in shapes.items() if name in LABELS and shape == (1,)}
        if sides is None or not labels:
            raise
        return _traced_as(model, recorder, {**shapes, **dict.fromkeys(labels, (1, *sides))})


def _traced_as(model: Link, recorder: Recorder, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph of a call; once more if it takes an input's numbers as those of rows."""
    whole = {name for name in shapes if name in LABELS}
    while True:
        try:
            return _called(model, recorder.renewed(), shapes, whole)
        except WholeError as error:
            if error.names <= whole:
                raise
            whole |= error.names


def _called(
    model: Link, recorder: Recorder, shapes: Mapping[str, tuple[int, ...]], whole: Collection[str]
) -> Graph:
    model.reset_for_trace()
    before = _held(model)
    with recorder.recording(model):
        inputs = [
            Variable(value=recorder.input(name, shape, is_whole=name in whole))
            for name, shape in shapes.items()
        ]
        results = model(*inputs)
        if results is None:
            results = {name: value for name, value in _held(model).items() if value is not before.get(name)}
        return recorder.finish(recorder.judged(_outputs(results)))


def _held(model: Link) -> dict[str, Variable]:
    """Return the variables that a model keeps as attributes: what some give instead of returning it."""
    kept = vars(model).items()
    return {k: v for k, v in kept if isinstance(v, Variable) and not isinstance(v, Parameter)}


def _outputs(made: Any) -> list[ir.Value]:
    values = list(_flat(made))
    if not values or not all(isinstance(value, Variable) for value in values):
        kinds = ", ".join(sorted({type(value).__name__ for value in values})) or "nothing"
        raise CodeError(f"returns {kinds}, expected a variable or several")
    return [value.value for value in values]


def _flat(made: Any) -> Iterator[Any]:
    """Give what a model returns one by one: variables in lists and dictionaries, and in those."""
    if isinstance(made, dict):
        made = list(made.values())
    if isinstance(made, list | tuple):
        for each in made:
            yield from _flat(each)
    else:
        yield made
