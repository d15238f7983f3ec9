"""Names of nets as a caller writes them: ``FILE``, ``FILE,WEIGHTS``, ``FILE:FACTORY(ARGUMENTS),WEIGHTS``.

Instead of a file of Python there may be a module: ``torchvision.models:densenet121``.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.files.array_arguments import array_argument
from netweave.files.source import is_file, is_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    @property
    def text_alone(self) -> str:
        """The name without the weights."""
        arguments = f"({self.arguments})" if self.arguments else ""
        return self.file if self.factory is None else f"{self.file}:{self.factory}{arguments}"


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
