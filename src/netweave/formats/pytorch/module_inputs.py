"""Inputs of PyTorch's modules: their sizes, and the lengths of sequences that a module may be bound to."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch
from numpy.typing import ArrayLike

from netweave.errors import ShapeError, UsageError
from netweave.files.library_errors import root_cause
from netweave.files.unknown_names import check_input_names

# PyTorch's exporter names them after the argument: ``x_0``, ``x_1`` for a list, ``x_image`` for a dict. The
# same names give their sizes.


def members_of(arguments: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that stand for tensors in an argument, by the argument.

    Args:
        arguments: The names of ``forward``'s arguments.
        names: Names that a caller gives sizes for.

    >>> members_of(["x", "mask"], ["x_0", "x_1", "mask"])
    {'x': ['x_0', 'x_1']}
    """
    arguments = list(arguments)
    members: dict[str, list[str]] = {}
    for name in names:
        owners = [each for each in arguments if name.startswith(f"{each}_")]
        if name not in arguments and owners:
            members.setdefault(max(owners, key=len), []).append(name)
    return members


def joined(argument: str, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return an argument made of its tensors: a list if they are numbered, else a dict.

    Args:
        argument: The name of the argument.
        tensors: Its tensors, by their names as inputs.

    Raises:
        UsageError: Numbers are missing.
    """
    keyed = {name[len(argument) + 1 :]: tensor for name, tensor in tensors.items()}
    if not all(key.isdecimal() for key in keyed):
        return keyed
    numbered = {int(key): tensor for key, tensor in keyed.items()}
    if sorted(numbered) != list(range(len(numbered))):
        given = ", ".join(tensors)
        raise UsageError(
            f"the tensors of the list {argument!r} are counted from {argument}_0 on without gaps, and sizes "
            f"are given for {given}"
        )
    return [numbered[index] for index in range(len(numbered))]


def mapped(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Return an argument with each of its tensors changed."""
    return torch.utils._pytree.tree_map(change, value)


def as_tensors(value: ArrayLike | Mapping[str, ArrayLike] | Sequence[ArrayLike]) -> Any:
    """Return an example of an argument as a tensor, or as a list or dict of tensors."""
    if isinstance(value, dict):
        return {key: torch.as_tensor(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and any(hasattr(item, "shape") for item in value):
        return [torch.as_tensor(item) for item in value]
    return torch.as_tensor(value)


VOLUME_SIZES = ((16, 16, 16), (32, 32, 32), (16, 112, 112), (64, 64, 64), (112, 112, 112))
"""Sizes of volumes and of clips, small ones first: 224 in each of three axes would take minutes."""

VOLUME_RANK = 3

PICTURE_RANK = 4
"""Axes of a batch of pictures, and of a convolution's filters."""

SIGNAL_SIZES = (1024, 4096, 16384, 65536)
"""Lengths of signals that are tried besides: a second of sound has thousands of samples."""

SIZES = (224, 32, 24, 28, 48, 12, 64, 96, 112, 128, 227, 256, 299, 320, 416, 448, 512)
"""Heights and widths that are tried, in this order, where nobody says one."""

RARE_SIZES = tuple(side for side in range(8, 81) if side not in SIZES)
"""Heights and widths that are tried after all else."""

MOST_TOKENS = 4096
"""A dense layer over the tokens of a picture has no more columns."""

STEPS = 16
"""Length of a sequence where nobody says one."""

USUAL_CHANNELS = (3, 1)
"""Channels of pictures, where the first convolution of a module is not the first that is called."""

NOT_INTEGERS = "scalar types: Long, Int; but got"
"""What PyTorch says of an embedding that is not given integers."""

MOST_INTEGER_INPUTS = 4
"""For so many inputs it is tried which of them hold integers."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs with which a module is traced.

    Attributes:
        values: Arguments of ``forward`` by name: tensors, or lists or dicts of them.
        notes: What to tell the user.
        assumed: Sizes that nobody gave, by input; those beyond the batch are open then.
    """

    values: dict[str, Any]
    notes: tuple[str, ...] = ()
    assumed: dict[str, tuple[int, ...]] = field(default_factory=dict)


def find_inputs(
    module: torch.nn.Module,
    shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None,
    likely_shapes: Sequence[Sequence[int]],
) -> Inputs:
    """Return what to trace a module with.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
    """
    names, optional = _arguments(module)
    if examples is not None:
        return Inputs(dict(zip([*names, *optional], map(as_tensors, examples), strict=False)))
    if not names:  # each may be left out, as those of Hugging Face: which are inputs is for the caller to say
        main = getattr(module, "main_input_name", None)
        names = [main] if main in optional else optional[:1]
    members = members_of([*names, *optional], shapes)
    given = {*shapes, *members}
    names = [*names, *(name for name in optional if name in given and name not in names)]
    if shapes or len(names) != 1:
        return Inputs(_of_given_sizes(module, names, shapes, members=members, also=optional))
    return _guessed(module, names[0], likely_shapes)


def _of_given_sizes(
    module: torch.nn.Module,
    names: Sequence[str],
    shapes: Mapping[str, Sequence[int]],
    *,
    members: Mapping[str, Sequence[str]],
    also: Sequence[str],
) -> dict[str, Any]:
    leaves = [leaf for name in names for leaf in members.get(name, [name])]
    drawn = given_inputs(leaves, shapes, also=also)
    tensors = {name: _in_precision_of(module, x) for name, x in drawn.items()}
    values = {
        name: joined(name, {leaf: tensors[leaf] for leaf in members[name]})
        if name in members
        else tensors[name]
        for name in names
    }
    if not _has_embedding(module):
        return values
    of_steps = {name: steps for name, x in values.items() if (steps := _of_steps(name, x)) is not None}
    return _with_integers(module, values | of_steps) or _with_integers(module, values) or values


def _of_steps(name: str, value: Any) -> torch.Tensor | None:
    """Return a mask of sequences that leaves nothing out, or positions of their steps, by an input's name."""
    if not isinstance(value, torch.Tensor) or value.ndim != 2:
        return None
    if "mask" in name.lower():
        return torch.ones(value.shape, dtype=torch.int64)
    return torch.arange(value.shape[1]).repeat(len(value), 1) if "position" in name.lower() else None


@contextmanager
def named_arguments(module: torch.nn.Module, names: Iterable[str]) -> Iterator[None]:
    """Let a module whose ``forward`` takes any arguments, ``(*args, **kwargs)``, take some by name.

    Args:
        module: The module; it is as before afterwards. One that names its arguments is left as it is.
        names: What its arguments in their order are called.
    """
    known = inspect.signature(module.forward).parameters.values()
    kinds = {argument.kind for argument in known}
    is_open = inspect.Parameter.VAR_POSITIONAL in kinds
    if not is_open or inspect.Parameter.POSITIONAL_OR_KEYWORD in kinds:
        yield
        return
    forward, names = module.forward, [name for name in names if name not in {each.name for each in known}]

    def by_name(**given: Any) -> Any:
        in_order = [given.pop(name) for name in names if name in given]
        return forward(*in_order, **given)

    kept = [each for each in known if each.kind is each.KEYWORD_ONLY]
    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    signature = inspect.Signature([*own, *kept])
    by_name.__signature__ = signature  # type: ignore[attr-defined]  # inspect.signature asks for it
    had = vars(module).get("forward")
    module.forward = by_name
    try:
        yield
    finally:
        del module.forward
        if had is not None:
            module.forward = had


def _arguments(module: torch.nn.Module) -> tuple[list[str], list[str]]:
    """Return the names of ``forward``'s arguments: those that it needs, and those that it can do without."""
    positional = [
        argument
        for argument in inspect.signature(module.forward).parameters.values()
        if argument.kind in {argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY}
    ]
    needed = [argument.name for argument in positional if argument.default is argument.empty]
    return needed, [argument.name for argument in positional if argument.default is not argument.empty]


def given_inputs(
    names: Sequence[str], shapes: Mapping[str, Sequence[int]], *, also: Iterable[str] = ()
) -> dict[str, torch.Tensor]:
    """Return drawn inputs of given sizes.

    Args:
        names: Names of the inputs.
        shapes: Sizes by name.
        also: Names that a caller may give sizes for besides.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
    """
    check_input_names(shapes, dict.fromkeys([*names, *also]), place="the module")
    missing = [name for name in names if name not in shapes]
    if missing:
        options = " ".join(f"--input-shape {name}=1x3x224x224" for name in missing)
        raise ShapeError(
            f"the size of input {', '.join(map(repr, missing))} is unknown: set it ({options})",
            open_inputs=tuple(missing),
        )
    return {name: _drawn([max(2, shapes[name][0]), *shapes[name][1:]]) for name in names}


def _drawn(shape: Sequence[int]) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(0))


def _in_precision_of(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return an input in the precision of a module's weights, which a module in float16 insists on."""
    kinds = {array.dtype for array in module.parameters() if array.dtype.is_floating_point}
    return x.to(kinds.pop()) if len(kinds) == 1 and x.dtype.is_floating_point else x


def _counting(like: torch.Tensor, below: int) -> torch.Tensor:
    return torch.arange(like.numel()).reshape(like.shape) % max(1, below)


def _has_embedding(module: torch.nn.Module) -> bool:
    return any(isinstance(part, torch.nn.Embedding) for part in module.modules())


def _with_integers(module: torch.nn.Module, values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the inputs with integers in those of them that an embedding looks up; None if all are refused.

    If the code fails whatever is given, the inputs are those that no embedding refuses: the error is then
    that of the code, and not one about numbers that nobody gave.
    """
    below = min(p.num_embeddings for p in module.modules() if isinstance(p, torch.nn.Embedding))
    names = list(values)[:MOST_INTEGER_INPUTS]
    choices = [c for count in range(1, len(names) + 1) for c in itertools.combinations(names, count)]
    accepted: dict[str, Any] | None = None
    # an embedding is most often of the first input, and fewer integers are tried before more of them
    for chosen in ((), *choices):
        count = partial(_counting, below=min(2, below))
        trial = values | {name: mapped(count, values[name]) for name in chosen}
        try:
            module(**trial)
        except Exception as error:  # noqa: BLE001 - any code's any error
            if accepted is None and NOT_INTEGERS not in str(error):
                accepted = trial
            continue
        return trial
    return accepted


def _guessed(module: torch.nn.Module, name: str, likely_shapes: Sequence[Sequence[int]]) -> Inputs:
    """Find sizes that a module with one input takes, from its first part that says how it wants them."""
    first_error = ""
    for drawn in itertools.chain(_likely(module, likely_shapes), _candidates(module)):
        inputs = _in_precision_of(module, drawn)
        try:
            module(**{name: inputs})
        except Exception as error:  # noqa: BLE001 - any code's any error
            first_error = first_error or root_cause(error)
            continue
        sizes = "x".join(map(str, ["N", *inputs.shape[1:]]))
        note = f"nobody said the size of input {name!r}: traced with {sizes}, the first that its code takes"
        return Inputs({name: inputs}, (note,), {name: (1, *inputs.shape[1:])})
    why = first_error or "it has no part that says what it takes"
    raise ShapeError(
        f"the size of input {name!r} is unknown, and none of the usual sizes fits ({why}): set it "
        f"(--input-shape {name}={_example_shape(module)}); of a list or dict of tensors set that of each one "
        f"(--input-shape {name}_0=... --input-shape {name}_1=..., or {name}_KEY=...)",
        open_inputs=(name,),
    )


def _likely(module: torch.nn.Module, shapes: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
    """Yield inputs of likely sizes that the first part of a module takes; channels may stand last."""
    part = next((p for p in module.modules() if isinstance(p, torch.nn.modules.conv._ConvNd)), None)
    table = next((p for p in module.modules() if isinstance(p, torch.nn.Embedding)), None)
    for shape in shapes:
        if table is not None:
            yield _counting(torch.empty(2, *shape[1:]), table.num_embeddings)
        if part is None:
            yield _drawn([2, *shape[1:]])
        elif len(shape) == len(part.kernel_size) + 2:
            moved = [shape[0], shape[-1], *shape[1:-1]]
            fitting = [sizes for sizes in (shape, moved) if sizes[1] == part.in_channels]
            yield from (_drawn([2, *sizes[1:]]) for sizes in [*fitting, shape][:1])


def _candidates(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield inputs of the first part that says what it takes, then of others that may be called first."""
    said = [part for part in module.modules() if isinstance(part, _SAYING)]
    if not said:
        yield from _for_arrays(module)
        return
    is_signal = isinstance(said[0], torch.nn.Conv1d) and any(isinstance(p, torch.nn.RNNBase) for p in said)
    if is_signal:  # torch.export writes out each step, which takes a minute for hundreds
        yield _drawn([2, said[0].in_channels, STEPS])
    yield from _taken_by(said[0])
    convolutions = [part for part in said if isinstance(part, torch.nn.modules.conv._ConvNd)]
    known = {(len(part.kernel_size), part.in_channels) for part in convolutions}
    for rank, channels in itertools.product(sorted({rank for rank, _ in known}), USUAL_CHANNELS):
        if (rank, channels) in known:
            yield from _pictures(channels, rank)
    for kind in (torch.nn.Embedding, torch.nn.RNNBase, torch.nn.Linear):
        if (part := next((p for p in said if isinstance(p, kind)), None)) is not None:
            yield from _taken_by(part)
    for steps in _rows_of_tables(module):
        if isinstance(said[0], torch.nn.Linear):
            yield _drawn([2, steps, said[0].in_features])
        elif isinstance(said[0], torch.nn.Embedding):
            yield _counting(torch.empty(2, steps), said[0].num_embeddings)
    yield from _of_tokens(said)
    yield from _for_arrays(module)


def _of_tokens(said: Sequence[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """Yield pictures of which a first convolution makes as many tokens as some dense layer has columns."""
    first = said[0]
    if not isinstance(first, torch.nn.Conv2d):
        return
    counts = dict.fromkeys(part.in_features for part in said if isinstance(part, torch.nn.Linear))
    for count in (count for count in counts if count <= MOST_TOKENS):
        rows = max(row for row in range(1, math.isqrt(count) + 1) if count % row == 0)
        sides = [n * step for n, step in zip((rows, count // rows), first.stride, strict=True)]
        yield _drawn([2, first.in_channels, *sides])
        yield _drawn([2, first.in_channels, *sides[::-1]])


def _for_arrays(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield inputs of code that calls functions with arrays of its own: pictures, rows, whole numbers."""
    arrays = [array for array in module.parameters() if array.ndim > 1]
    filters = [array for array in arrays if array.ndim == PICTURE_RANK]
    for channels in dict.fromkeys([*(array.shape[1] for array in filters[:1]), *USUAL_CHANNELS]):
        for side in (*SIZES, *RARE_SIZES):
            yield _drawn([2, channels, side, side])
    for array in arrays[:1]:
        yield _drawn([2, array.shape[-1]])
        yield _drawn([2, STEPS, array.shape[-1]])
    yield _counting(torch.empty(2, STEPS), below=2)


def _rows_of_tables(module: torch.nn.Module) -> list[int]:
    """Return how long a sequence may be that tables of positions are added to, perhaps with a class token."""
    rows = {array.shape[1] for array in module.parameters() if array.ndim == 3 and array.shape[0] == 1}
    return sorted({steps - less for steps in rows for less in (0, 1) if 1 < steps - less < STEPS})


_SAYING = (torch.nn.modules.conv._ConvNd, torch.nn.Linear, torch.nn.RNNBase, torch.nn.Embedding)
"""Parts that say what they take."""


def _taken_by(part: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield inputs that a part may take, by what it was constructed with."""
    if isinstance(part, torch.nn.modules.conv._ConvNd):
        yield from _pictures(part.in_channels, len(part.kernel_size))
    elif isinstance(part, torch.nn.Linear):
        yield _drawn([2, part.in_features])
        yield _drawn([2, STEPS, part.in_features])
    elif isinstance(part, torch.nn.RNNBase):
        yield _drawn([2, STEPS, part.input_size])
    elif isinstance(part, torch.nn.Embedding):
        yield _counting(torch.empty(2, STEPS), part.num_embeddings)


def _pictures(channels: int, rank: int) -> Iterator[torch.Tensor]:
    if rank == VOLUME_RANK:
        return (_drawn([2, channels, *sizes]) for sizes in VOLUME_SIZES)
    sizes = (*SIZES, *SIGNAL_SIZES) if rank == 1 else SIZES
    return (_drawn([2, channels, *[size] * rank]) for size in sizes)


def _example_shape(module: torch.nn.Module) -> str:
    """Return sizes as a caller may give them, with as many axes as the first convolution takes."""
    part = next((p for p in module.modules() if isinstance(p, torch.nn.modules.conv._ConvNd)), None)
    rank = 2 if part is None else len(part.kernel_size)
    channels = 3 if part is None else part.in_channels
    sizes = {1: (16384,), VOLUME_RANK: (16, 112, 112)}.get(rank, (224, 224))
    return "x".join(map(str, (1, channels, *sizes)))


OF_LENGTHS = re.compile(
    r"pos|wpe|len|window|context|ctx|seq|chunk|block_size|buffer|cache|table|angle|freq|rot|rope|mask|bias|tril"
)
"""Names of settings and tables that say something of lengths, in lower case."""

SMALL = 128
"""A setting with another name is taken for a length up to this number."""

MOST_MEMBERS = 256
"""Settings in a list or dict; larger ones are data."""

DEEPEST = 12
"""Names that a setting has before its own: a configuration may hold another one, and that the first."""

LARGEST = 1 << 24
"""Numbers beyond it are no lengths."""

OF_INPUTS = re.compile(r"mask|position|past|cache|segment|token_type|start_pos|offset|lengths")
"""Names of arguments without which a net computes something else, in lower case."""

SWITCHES = re.compile(r"^(use|return|output|is|has)_")
"""Names of arguments that are no inputs, though they may name one."""


def lengths_of(module: Any) -> dict[int, str]:
    """Return numbers that may be lengths of a sequence, each with its name in the module.

    They are settings, those of a configuration among them, sizes of tables, and numbers in the code.

    Args:
        module: An ``nn.Module``.
    """
    named: dict[int, str] = {}
    for number, name in _numbers_of(module):
        if 1 < number <= LARGEST:
            named.setdefault(number, name)
    return named


def left_out(module: Any, given: Iterable[str]) -> list[str]:
    """Return the inputs that a module's code can do without and was traced without.

    Args:
        module: An ``nn.Module``.
        given: Names of the arguments that it was traced with.
    """
    arguments = inspect.signature(module.forward).parameters
    return [
        name
        for name, argument in arguments.items()
        if argument.default is None
        and name not in set(given)
        and OF_INPUTS.search(name.lower())
        and not SWITCHES.match(name)
    ]


def _numbers_of(module: Any) -> Iterator[tuple[int, str]]:
    seen: set[int] = set()
    kinds: set[type] = set()
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if id(value) not in seen and not key.startswith("_"):
                seen.add(id(value))
                yield from _settings(f"{path}.{key}".lstrip("."), key, value)
        for key, table in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
            name = f"{path}.{key}".lstrip(".")
            yield from ((size, f"size of {name}") for size in table.shape if OF_LENGTHS.search(name.lower()))
        if type(part) not in kinds and not type(part).__module__.startswith("torch."):
            kinds.add(type(part))
            yield from ((number, f"number in {type(part).__name__}") for number in _in_code(type(part)))


def _settings(path: str, key: str, value: Any) -> Iterator[tuple[int, str]]:
    """Yield the whole numbers of a setting: itself, or those of a configuration."""
    if path.count(".") > DEEPEST:
        return
    if type(value) is int and (value <= SMALL or OF_LENGTHS.search(path.lower())):
        yield value, key
    elif isinstance(value, list | tuple) and len(value) <= MOST_MEMBERS:
        for inner in value:
            yield from _settings(path, key, inner)
    for name, inner in _members(key, value).items():
        yield from _settings(f"{path}.{name}", name, inner)


def _members(key: str, value: Any) -> dict[str, Any]:
    """Return the settings in a dict, or in a configuration: its own, and those of its class."""
    if isinstance(value, dict):
        if len(value) > MOST_MEMBERS:  # a vocabulary and the like
            return {}
        return {str(name): inner for name, inner in value.items()}
    if "config" not in key.lower() or not hasattr(value, "__dict__"):
        return {}
    of_class = {name: inner for base in reversed(type(value).__mro__) for name, inner in vars(base).items()}
    return {name: inner for name, inner in (of_class | vars(value)).items() if not name.startswith("_")}


def _in_code(kind: type) -> Iterator[int]:
    """Yield the whole numbers in the code of a class, and of functions of its file that this code names."""
    functions = [f for f in vars(kind).values() if isinstance(f, FunctionType)]
    names = {name for function in functions for name in function.__code__.co_names}
    for function in functions[:1]:
        beside = function.__globals__
        functions += [
            beside[name]
            for name in sorted(names)
            if isinstance(beside.get(name), FunctionType) and beside[name].__module__ == kind.__module__
        ]
        yield from (beside[n] for n in sorted(names) if type(beside.get(n)) is int)
    for function in functions:
        yield from _in_constants(function.__code__)


def _in_constants(code: CodeType) -> Iterator[int]:
    for constant in code.co_consts:
        for each in constant if isinstance(constant, tuple) else (constant,):
            if type(each) is int:
                yield each
            elif isinstance(each, CodeType):
                yield from _in_constants(each)
