"""Python files that define nets: names and arguments."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import SourceError, UsageError
from netweave.files import reading_cache
from netweave.files.persistent_child import LARGEST_WEIGHTS, PersistentChild
from netweave.files.sandbox import run_guarded, scratch_folder
from netweave.files.seccomp import failure
from netweave.files.source import is_file, is_folder, read_bytes

if TYPE_CHECKING:
    from netweave.files.persistent_child import Children
    from netweave.files.source import Source


# Some constructors take an example of their input and find the sizes of later layers by running it.

MAX_ELEMENTS = 1 << 26
"""An example of an input is not larger."""

_MAKERS: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "ones": np.ones,
    "rand": lambda shape: np.random.default_rng(0).random(shape),
    "randn": lambda shape: np.random.default_rng(0).standard_normal(shape),
    "zeros": np.zeros,
}
"""What makes an array of some sizes, by the name of the function in NumPy and PyTorch."""


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array that is said by how it is made, of float32.

    Attributes:
        function: ``zeros``, ``ones``, ``rand`` or ``randn``; the last two draw the same numbers each time.
        shape: Its sizes.
    """

    function: str
    shape: tuple[int, ...]

    def array(self) -> np.ndarray:
        """Return the array."""
        return np.asarray(_MAKERS[self.function](self.shape), np.float32)


def array_argument(node: ast.expr) -> ArrayArgument | None:
    """Return the array that an expression says; None for another expression.

    >>> array_argument(ast.parse("torch.zeros(1, 3)", mode="eval").body)
    ArrayArgument(function='zeros', shape=(1, 3))
    """
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    module, _, name = ast.unparse(node.func).rpartition(".")
    if name not in _MAKERS or module not in {"", "np", "numpy", "torch"}:
        return None
    sizes = ast.literal_eval(node.args[0]) if len(node.args) == 1 else [*map(ast.literal_eval, node.args)]
    shape = tuple(sizes) if isinstance(sizes, list | tuple) else (sizes,)
    if not all(type(size) is int and 0 < size <= MAX_ELEMENTS for size in shape):
        return None
    return ArrayArgument(name, shape) if np.prod(shape, dtype=object) <= MAX_ELEMENTS else None


# Instead of a file of Python there may be a module: ``torchvision.models:densenet121``.

_IDENTIFIER = r"[^\W\d]\w*"
_FACTORY = re.compile(
    rf"(?P<file>.+?\.py|{_IDENTIFIER}(?:\.{_IDENTIFIER})*):(?P<factory>{_IDENTIFIER}(?:\.{_IDENTIFIER})*)"
    r"(?P<rest>\(.*|,.*)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class NetName:
    """A net's name taken apart.

    Attributes:
        file: The file; or a module's dotted name, if ``is_module``.
        weights: The file of stored arrays.
        factory: The class or function of Python code that constructs the net.
        arguments: What it is called with, as Python literals (``3, classes=21``).
        is_module: Whether ``file`` is a module.
    """

    file: str
    weights: str | None = None
    factory: str | None = None
    arguments: str = ""
    is_module: bool = False


def parse_net_name(text: str) -> NetName:
    """Take the name of a net apart; the name of an existing file is that file, whatever it contains.

    Raises:
        UsageError: The arguments are not literals, or something else follows them.

    >>> parse_net_name("unet.py:UNet(3, classes=21),unet.pt")
    NetName(file='unet.py', weights='unet.pt', factory='UNet', arguments='3, classes=21', is_module=False)
    """
    if is_file(Path(text)):
        return NetName(text)
    if (match := _FACTORY.fullmatch(text)) is None or is_file(Path(match["file"] + ":" + match["factory"])):
        file, comma, weights = text.partition(",")
        return NetName(file, weights if comma else None)
    arguments, rest = _split_arguments(match["rest"] or "")
    literal_arguments(arguments)
    if rest and not rest.startswith(","):
        raise UsageError(f"{text!r}: expected a comma and the weights behind the arguments, not {rest!r}")
    is_module = not match["file"].endswith(".py")
    return NetName(match["file"], rest[1:] if rest else None, match["factory"], arguments, is_module)


def literal_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a call: literals, or arrays by their sizes.

    No code is run.

    Raises:
        UsageError: They are no arguments, or not literals.

    >>> literal_arguments("3, (1, 2), name='x'")
    ((3, (1, 2)), {'name': 'x'})
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        named = {keyword.arg: _literal(keyword.value) for keyword in call.keywords if keyword.arg}
        assert len(named) == len(call.keywords), "**, or a name that comes twice"
        return tuple(map(_literal, call.args)), named
    except (AssertionError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise UsageError(
            f"the arguments ({text}) are not literals: expected numbers, strings, True, None, and lists, "
            "tuples and dicts of these, such as (classes=21, widths=[64, 128]), or an array by its "
            "sizes, such as torch.zeros(1, 3, 224, 224)"
        ) from error


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, or the array that is said by its sizes."""
    array = array_argument(node)
    return ast.literal_eval(node) if array is None else array


def _split_arguments(text: str) -> tuple[str, str]:
    """Return the text between the first brackets, and what follows: the brackets end where Python says."""
    if not text.startswith("("):
        return "", text
    for end in (index for index, character in enumerate(text) if character == ")"):
        try:
            call = ast.parse(f"f{text[: end + 1]}", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(call, ast.Call):
            return text[1:end], text[end + 1 :]
    raise UsageError(f"the arguments {text!r} are not complete: expected (...) around Python literals")


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """The place of a module's file.

    Attributes:
        path: The file.
        root: The folder that its dotted name starts from; None for an installed package.
    """

    path: Path
    root: Path | None


def find_module(name: str, roots: Sequence[Path]) -> ModuleFile:
    """Return the file of a module in one of some folders, or else of an installed package; imports nothing.

    Raises:
        UsageError: There is none.
    """
    for root in roots:
        place = root.joinpath(*name.split("."))
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if is_file(path):
                return ModuleFile(path, root)
    path_of_parent: Sequence[str] | None = [folder for folder in sys.path if folder]
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path_of_parent)
        if spec is None:
            break
        path_of_parent = spec.submodule_search_locations
        if count == len(parts) and spec.origin is not None and spec.origin.endswith(".py"):
            return ModuleFile(Path(spec.origin), None)
        if path_of_parent is None:
            break
    shown = " or ".join(map(repr, map(str, roots)))
    raise UsageError(
        f"there is no module {name!r} in {shown}, nor is it installed; name the folder that holds its "
        f"first package with --root, or the file itself (FILE.py:FACTORY)"
    )


def check_root(root: str | Path | None) -> Path | None:
    """Return the folder that imports start from.

    Raises:
        UsageError: It is not there.
    """
    if root is not None and not is_folder(Path(root)):
        raise UsageError(f"the root {str(root)!r} is not a folder")
    return Path(root) if root is not None else None


MAX_CODE_BYTES = 1 << 20
"""Of a ``.py`` file this much is looked at."""


def imports_package(head: bytes, *packages: str) -> bool:
    """Return whether the text of a ``.py`` file imports one of some packages.

    >>> [imports_package(text, "numpy") for text in (b"import re, numpy as np", b"import numpysane")]
    [True, False]
    """
    names = "|".join(packages).encode()
    others = rb"(import[ \t]+([\w. \t]+,[ \t]*)*|from[ \t]+)"
    return re.search(rb"^[ \t]*" + others + rb"(" + names + rb")\b", head, re.MULTILINE) is not None


_LOADER = re.compile(
    rb'^WEIGHTS = Path\(__file__\)\.with_suffix\("(\.\w+)"\)$'
    rb".*?^def load\(path=WEIGHTS\):$.*?^    net = (\w+)\(\)$",
    re.MULTILINE | re.DOTALL,
)
"""How code that Netweave writes loads its weights, and what it calls to construct the net."""


def weights_of_written(source: Source) -> tuple[Path, str] | None:
    """Return the weights of code that Netweave wrote, and what constructs the net.

    The weights are those that the caller names, or those beside the code under its name. Other code gets
    None: a file of arrays beside it may belong to something else, and its names need not fit.
    """
    with source.net.open("rb") as file:
        match = _LOADER.search(file.read(MAX_CODE_BYTES))
    if match is None:
        return None
    weights = source.weights or source.net.with_suffix(match[1].decode())
    return (weights, match[2].decode()) if is_file(weights) else None


def files_in_arguments(source: Source) -> dict[str, Path]:
    """Return the files that the arguments of a factory name, and model folders, by the texts that name them.

    The caller has written these names, as in ``net.py:Darknet('configs/yolov3.cfg')``; the sandbox would hide
    the files. Code that must keep to its own folder gets none.
    """
    if not source.around:
        return {}
    positional, named = literal_arguments(source.arguments)
    texts = {text for value in (*positional, *named.values()) for text in _texts(value)}
    named = {text: Path(text) for text in sorted(texts)}
    return {
        text: path.resolve()
        for text, path in named.items()
        if is_file(path) or is_file(path / "config.json")  # a model folder of Hugging Face
    }


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a literal, without the keys of dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts(item)


@contextmanager
def run_reader(
    source: Source,
    child: Path,
    names: Sequence[str],
    *,
    readable: Sequence[Path] = (),
    staying: Children | None = None,
    batches: Sequence[Mapping[str, np.ndarray]] = (),
    **request: Any,
) -> Iterator[list[Path]]:
    """Run a reader's child over a file and give the files that it wrote.

    Args:
        source: The file with the code, and its weights.
        child: The reader's ``child.py``.
        names: What the child must have written.
        readable: What the child may read besides the source.
        staying: Children that stay, one of which is asked if it can.
        batches: Arrays that the request is about, by name; the child finds them at ``batches``.
        request: What the child is told besides the names of the source.

    Raises:
        SourceError: The code fails, or may not run; the weights cannot be read.
    """
    place, weights = str(source.net), source.weights
    named = files_in_arguments(source)
    if weights is not None:
        read_bytes(weights)
    request |= {
        "net": str(source.net.resolve()),
        "place": place,
        "entry": source.entry,
        "arguments": source.arguments,
        "argument_files": {text: str(path) for text, path in named.items()},
        "config": source.config,
        "needs_config": source.needs_config,
        "trusted_folder": str(Path.cwd()) if source.trust else None,
        "weights": str(weights.resolve()) if weights else None,
        "weights_place": str(weights) if weights else "",
        "input_shapes": {name: list(shape) for name, shape in source.input_shapes.items()},
        "likely_shapes": [list(shape) for shape in source.likely_shapes],
    }
    files = [source.net, *([weights] if weights else []), *named.values(), *readable]
    with ExitStack() as stack:
        arrays = None
        if batches:
            arrays = _written(batches, Path(stack.enter_context(scratch_folder())) / "batches.npz")
        key = None if source.trust else reading_cache.key_of(child, request, files, arrays)
        if key is not None and (known := reading_cache.found(key, names)) is not None:
            yield known
            return
        alive = _persistent_child(source, child, files, staying)
        given = arrays if arrays is None or alive is None else alive.give(arrays)
        asked = request | ({"batches": str(given)} if given is not None else {})
        if alive is not None:
            outcome = stack.enter_context(alive.ask(asked, [*names, reading_cache.IMPORTED]))
        else:
            seen = files if given is None else [*files, given]
            words = [json.dumps(asked)]
            run = run_guarded(child, words, readable=seen, place=place, trust=source.trust)
            outcome = stack.enter_context(run)
        paths = [path for path in map(outcome.file, names) if path is not None]
        if outcome.status != 0 or len(paths) < len(names):
            raise failure(outcome, place)
        if key is not None and key == reading_cache.key_of(child, request, files, arrays):
            imported = outcome.file(reading_cache.IMPORTED, most_bytes=reading_cache.MOST_IMPORTED_BYTES)
            reading_cache.keep(key, paths, imported)
        yield paths


def _persistent_child(
    source: Source, child: Path, files: Sequence[Path], staying: Children | None
) -> PersistentChild | None:
    """Return the child that stays for the code of a source; None if none may."""
    if staying is None or (source.weights is not None and source.weights.stat().st_size > LARGEST_WEIGHTS):
        return None
    code = child, tuple(files), source.entry, source.arguments, source.trust
    place = str(source.net)
    start = partial(PersistentChild.start, program=child, readable=files, place=place, trust=source.trust)
    return staying.child(code, start)


def _written(batches: Sequence[Mapping[str, np.ndarray]], path: Path) -> Path:
    """Write batches of arrays for a child, and return the file."""
    arrays = {f"{i}/{name}": x for i, batch in enumerate(batches) for name, x in batch.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]  # NumPy's stub takes the names for settings
    path.chmod(0o644)
    return path


class Settings(dict[str, Any]):
    """Settings from a file: a dict whose keys are attributes too, as constructors read them either way."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({name: as_settings(value) for name, value in values.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the settings have no {name!r}; there is: {', '.join(map(str, self))}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def as_settings(value: Any) -> Any:
    """Return a value with settings for the dicts in it."""
    if isinstance(value, dict):
        return Settings(value)
    return [as_settings(item) for item in value] if isinstance(value, list) else value


def argument_values(
    text: str, files: Mapping[str, str], as_tensor: Callable[[np.ndarray], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a call that is written as literals.

    Args:
        text: The arguments, as in a net's name.
        files: Full paths of the files that they name, by the texts that name them: the code runs in another
            folder than its caller.
        as_tensor: Makes an array what the framework of the code takes.

    Raises:
        UsageError: They are not literals.
    """
    positional, named = literal_arguments(text)

    def value_of(literal: Any) -> Any:
        if isinstance(literal, ArrayArgument):
            return as_tensor(literal.array())
        return as_settings(_with_files(literal, files))

    return tuple(map(value_of, positional)), {key: value_of(value) for key, value in named.items()}


def _with_files(value: Any, files: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return files.get(value, value)
    if isinstance(value, dict):
        return {key: _with_files(item, files) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_files(item, files) for item in value)
    return value


@contextmanager
def naming(place: str, *, instead_of: str) -> Iterator[None]:
    """Let errors name the model and not the file that a child process made of it, which is gone then."""
    try:
        yield
    except SourceError as error:
        where = (error.place or instead_of).replace(instead_of, place)
        message = error.message.replace(instead_of, place)
        raise type(error)(message, place=where, open_inputs=error.open_inputs) from error
