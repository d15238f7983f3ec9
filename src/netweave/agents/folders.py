"""The folders that a client's tools may read and write: everything else is refused by its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netweave.api.dumps import PREFIX
from netweave.errors import UsageError
from netweave.files.python_code import literal_arguments, parse_net_name


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """Folders, resolved, with everything below them."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[str | Path]) -> AllowedFolders:
        """Return folders by their names; the working directory if there are none.

        Raises:
            UsageError: One is no folder.
        """
        named = [Path(folder) for folder in folders] or [Path()]
        for folder in named:
            if not folder.is_dir():
                raise UsageError(
                    f"{folder}: is no folder; --allow takes folders whose files the tools may use"
                )
        return cls(tuple(folder.resolve() for folder in named))

    def net(self, name: str) -> str:
        """Return the name of a net, all of whose files lie in these folders.

        Raises:
            UsageError: A file lies elsewhere, or the name is that of a module, which may lie anywhere.
        """
        parsed = parse_net_name(name.removeprefix(PREFIX))
        if parsed.is_module:
            raise UsageError(
                f"{name}: name the file of the module (net.py:Net), so that it is clear which is read"
            )
        files = [parsed.file, *(parsed.weights or "").split(",")]
        for file in filter(None, files):
            self.file(file)
        arguments, named = literal_arguments(parsed.arguments) if parsed.arguments else ((), {})
        for text in _strings((arguments, named)):
            if Path(text).is_absolute() or ".." in Path(text).parts or Path(text).exists():
                self.file(text)
        return name

    def file(self, name: str) -> Path:
        """Return a file in these folders, wherever links lead.

        Raises:
            UsageError: It lies elsewhere.
        """
        path = Path(name).resolve()
        if not any(path.is_relative_to(folder) for folder in self.folders):
            allowed = ", ".join(map(str, self.folders))
            raise UsageError(f"{name}: lies outside the allowed folders ({allowed}); see --allow")
        return path

    def new_file(self, name: str) -> Path:
        """Return a file to write in these folders; neither it nor what is written beside it exists.

        Raises:
            UsageError: It lies elsewhere, or would replace something.
        """
        path = self.file(name)
        stem = path.stem
        beside = sorted(path.parent.glob(f"{_escaped(stem)}[.-]*")) if path.parent.is_dir() else []
        if path.exists() or beside:
            taken = path if path.exists() else beside[0]
            raise UsageError(f"{name}: {taken.name} exists, and tools replace nothing; give another name")
        return path


def _escaped(stem: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in stem)


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in literals."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings([*value.keys(), *value.values()])
    elif isinstance(value, tuple | list | set):
        for item in value:
            yield from _strings(item)
