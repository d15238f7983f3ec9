"""The program that the guarded child process runs: a function of JAX to a graph. It is never imported.

It is given a request as JSON, and leaves ``net.onnx`` in its working folder, or an error.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # a net is read alike on each, and a GPU's memory is not taken

import jax
import jax.export
import numpy as np

from netweave.errors import CodeError, ShapeError, UsageError
from netweave.files.library_errors import root_cause
from netweave.files.missing_modules import importing, without
from netweave.files.model_imports import Wanted, construct, imported, in_folder, own_factories
from netweave.files.onnx.model import save
from netweave.files.safetensors import read_safetensors
from netweave.files.seccomp import answer
from netweave.files.unknown_names import check_input_names
from netweave.formats.jax.lowering import Lowering
from netweave.graph import Graph

NET = Path("net.onnx")

FORWARDS = ("forward", "apply", "predict", "model", "net", "call")
"""Names of a function that takes parameters and inputs, where a caller names what makes the parameters."""

LOADERS = ("load", "load_params", "load_weights")
"""Names of a function that makes parameters of a file of weights."""

SIZES = (
    (2, 16),
    (2, 3, 224, 224),
    (2, 224, 224, 3),
    (2, 3, 32, 32),
    (2, 32, 32, 3),
    (2, 1, 28, 28),
    (2, 28, 28, 1),
)
"""Sizes that are tried where nobody says one: tokens, and pictures with channels first or last."""

MOST_INTEGER_INPUTS = 4
"""For so many inputs it is tried which of them hold integers."""


def work(request: dict[str, Any]) -> None:
    """Do what a request says."""
    with without(request["missing"], request["templates"]), in_folder(request["trusted_folder"]):
        with importing():
            code = imported(
                Path(request["net"]),
                name=request["name"],
                folders=request["folders"],
                first=request["first"],
                is_own_used=request["is_own_used"],
            )
        function, parameters = _net(code, request)
        files = {request["net"]: request["place"], **request["beside"]}
        graph = _graph(function, parameters, request, files)
    save(graph, NET)  # in the child's folder, which is another one than that of trusted code


def _net(code: ModuleType, request: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
    """Return a function and its first argument: a tree of parameters, or the callable that holds them.

    Raises:
        UsageError: It is not clear which function the net is.
    """
    entry, weights = request["entry"], request["weights"]
    loader = next((name for name in LOADERS if callable(getattr(code, name, None))), None)
    if entry in FORWARDS or (entry is None and weights):
        forward = getattr(code, entry or "", None) or _forward(code, request)
        if not weights:
            return _bound(forward)
        made = getattr(code, loader)(weights) if loader else _arrays(request)
        return (_bound(made)) if callable(made) else (forward, made)
    made = _made(code, request)
    if callable(made):
        return _bound(made)
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]) != callable(made[1]):
        return made if callable(made[0]) else made[::-1]
    if not any(hasattr(leaf, "shape") for leaf in jax.tree_util.tree_leaves(made)):
        raise UsageError(f"{entry!r} makes a {type(made).__name__}, expected a function or a tree of arrays")
    return _forward(code, request), made


@dataclass(frozen=True, slots=True)
class Made:
    """Result of a function or class of the net's file: anything may be a tree of parameters."""

    result: Any


def _made(code: ModuleType, request: dict[str, Any]) -> Any:
    """Return what the function or class that a caller names makes, or the value that is called so."""
    there = getattr(code, request["entry"] or "", None)
    if there is not None and not inspect.isfunction(there) and not inspect.isclass(there):
        return there
    _, functions = own_factories(code, Made)
    wanted = Wanted.of_request(request, Made, noun="a function or a tree of arrays", adapted=Made)
    return construct(code, functions, wanted).model.result


def _bound(net: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """Return a callable as a function of what it holds: Equinox's modules are trees of arrays."""
    return (lambda held, *given: held(*given)), net


def _forward(code: ModuleType, request: dict[str, Any]) -> Callable[..., Any]:
    for name in FORWARDS:
        if inspect.isfunction(getattr(code, name, None)) or hasattr(getattr(code, name, None), "lower"):
            function: Callable[..., Any] = getattr(code, name)
            return function
    raise UsageError(
        f"{request['entry']!r} makes a tree of parameters, and the file has no function that takes them and "
        f"the inputs, called {', '.join(FORWARDS[:4])}: call it so, or name a function that returns both, "
        "(function, parameters)"
    )


def _arrays(request: dict[str, Any]) -> dict[str, Any]:
    """Return a file of weights as parameters by name."""
    path, place = Path(request["weights"]), request["weights_place"]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: jax.numpy.asarray(arrays[name]) for name in arrays}
    return {name: jax.numpy.asarray(x) for name, x in read_safetensors(path, place=place).items()}


def _graph(
    function: Callable[..., Any], parameters: Any, request: dict[str, Any], files: Mapping[str, str]
) -> Graph:
    """Trace a function, with an open batch if it bears one, and lower what was traced.

    Raises:
        ShapeError: Sizes are missing.
        CodeError: The code fails.
    """
    is_bound = callable(parameters)
    names = _input_names(parameters if is_bound else function, skip=0 if is_bound else 1)
    leaves, tree = jax.tree_util.tree_flatten_with_path(parameters)
    places = [index for index, (_, leaf) in enumerate(leaves) if hasattr(leaf, "dtype")]
    arrays = [np.asarray(leaves[index][1]) for index in places]

    def flat(held: Sequence[Any], *given: Any) -> Any:
        values = [leaf for _, leaf in leaves]
        for index, value in zip(places, held, strict=True):
            values[index] = value
        return function(jax.tree_util.tree_unflatten(tree, values), *given)

    check_input_names(request["input_shapes"], dict.fromkeys(names), place=request["place"])
    given, notes, assumed = _inputs(flat, arrays, names, request)
    traced = _traced(flat, arrays, given)
    lowering = Lowering(Path(request["net"]).name, files=files, place=request["place"])
    inputs = [
        lowering.input(name, each.shape, str(each.dtype))
        for name, each in zip(names, traced.in_avals[len(arrays) :], strict=True)
    ]
    held = [lowering.parameter(_path(leaves[i][0]), x) for i, x in zip(places, arrays, strict=True)]
    graph = lowering.finish(lowering.run(traced.jaxpr, traced.consts, [*held, *inputs]))
    graph.notes += tuple(notes)
    graph.assumed = assumed
    return graph


def _path(keys: Sequence[Any]) -> str:
    """Return a path in a tree of parameters as frameworks write it: ``layers.0.kernel``."""
    parts = (getattr(key, name) for key in keys for name in ("key", "name", "idx") if hasattr(key, name))
    return ".".join(map(str, parts)) or "parameter"


def _input_names(function: Callable[..., Any], *, skip: int) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [each.name for each in parameters if each.default is each.empty and each.kind in kinds]


def _inputs(
    flat: Callable[..., Any], arrays: Sequence[np.ndarray], names: Sequence[str], request: Mapping[str, Any]
) -> tuple[list[jax.ShapeDtypeStruct], list[str], dict[str, tuple[int, ...]]]:
    """Return sizes and element types of the inputs, by trying where nobody says them."""
    shapes = {name: tuple(shape) for name, shape in request["input_shapes"].items()}
    missing = [name for name in names if name not in shapes]
    options = " ".join(f"--input-shape {name}=1x3x224x224" for name in missing)
    advice = f"set it ({options})"
    if len(missing) > 1:
        unknown = ", ".join(map(repr, missing))
        raise ShapeError(f"the size of input {unknown} is unknown: {advice}", open_inputs=tuple(missing))
    first = ""
    if missing:
        likely = [
            each for shape in request["likely_shapes"] for each in (tuple(shape), _channels_last(shape))
        ]
        choices = [{**shapes, missing[0]: sizes} for sizes in (*likely, *SIZES)]
    else:  # the caller of a comparison says them for both nets
        choices = [shapes, {name: _channels_last(shape) for name, shape in shapes.items()}]
    for sizes in choices:
        for given in _with_integers([_given(sizes[name]) for name in names]):
            try:
                jax.eval_shape(flat, list(arrays), *given)
            except Exception as error:  # noqa: BLE001 - any code's any error
                first = first or root_cause(error)
                continue
            if not missing:
                return given, [], {}
            shape = sizes[missing[0]]
            shown, again = ("x".join(map(str, [count, *shape[1:]])) for count in ("N", 1))
            note = (
                f"nobody said the size of input {missing[0]!r}: traced with {shown}, the first that its code "
                f"takes; say another by --input-shape {missing[0]}={again}"
            )
            return given, [note], {missing[0]: (1, *map(int, shape[1:]))}
    if not missing:
        raise CodeError(f"its code fails on inputs of these sizes: {first}")
    raise ShapeError(
        f"the size of input {missing[0]!r} is unknown, and none of the usual sizes fits ({first}): {advice}",
        open_inputs=tuple(missing),
    )


def _channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of pictures with their channels last; others as they are."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else tuple(shape)


def _given(shape: Sequence[int]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((max(2, shape[0]), *shape[1:]) if shape else (), np.float32)


def _with_integers(inputs: Sequence[jax.ShapeDtypeStruct]) -> Iterator[list[jax.ShapeDtypeStruct]]:
    """Yield the inputs with whole numbers in none, one, two ... of them."""
    places = range(min(len(inputs), MOST_INTEGER_INPUTS))
    for count in range(len(places) + 1):
        for chosen in itertools.combinations(places, count):
            yield [
                jax.ShapeDtypeStruct(each.shape, np.int32) if index in chosen else each
                for index, each in enumerate(inputs)
            ]


def _traced(
    flat: Callable[..., Any], arrays: Sequence[np.ndarray], given: Sequence[jax.ShapeDtypeStruct]
) -> Any:
    """Return the jaxpr of a function, with an open batch if the code bears one."""
    (batch,) = jax.export.symbolic_shape("N")
    opened = [
        jax.ShapeDtypeStruct((batch, *each.shape[1:]), each.dtype) if each.shape else each for each in given
    ]
    try:
        return jax.make_jaxpr(flat)(list(arrays), *opened)
    except Exception:  # noqa: BLE001 - any code's any error; the sizes themselves it takes
        return jax.make_jaxpr(flat)(list(arrays), *given)


if __name__ == "__main__":
    answer(work)
