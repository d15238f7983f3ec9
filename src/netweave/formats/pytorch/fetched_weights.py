"""Weights that a model's code fetches while it is constructed: answered with the values that it has drawn.

Many constructors download the weights of their backbone, or load a file of their author's. Nothing is fetched
here: the code gets a state dict that is empty, which any net accepts, and the user is told.
"""

from __future__ import annotations

import importlib
import urllib.request
from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class MissingState(OrderedDict[str, Any]):
    """A state dict that was not fetched: it is empty, and so is what a checkpoint holds under a key."""

    def __missing__(self, key: str) -> MissingState:
        return MissingState()

    def __delitem__(self, key: str) -> None:
        if key in self:
            super().__delitem__(key)

    def pop(self, key: str, default: Any = None) -> Any:
        """Return what is under a key; nothing is."""
        return super().pop(key, default)

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is under a key: an empty state as well."""
        return self[key]

    def eval(self) -> MissingState:
        """Return itself, as a module that was pickled whole would."""
        return self

    def state_dict(self) -> MissingState:
        """Return itself, as a module that was pickled whole would."""
        return self


@contextmanager
def drawn_instead(notes: list[str], *, trusted: bool) -> Iterator[None]:
    """Answer what code fetches with an empty state dict, until the context ends.

    Args:
        notes: What to tell the user is added here.
        trusted: Try to fetch it first, as the code would.
    """
    answers = _Answers(notes, trusted=trusted)
    with ExitStack() as stack:
        for owner, name, answer in answers.table():
            stack.enter_context(patch.object(owner, name, answer))
        yield


class _Answers:
    """Functions that stand for those that fetch weights."""

    def __init__(self, notes: list[str], *, trusted: bool) -> None:
        self._notes = notes
        self._trusted = trusted
        self._is_missing = False
        self._load_into = torch.nn.Module.load_state_dict

    def table(self) -> list[tuple[Any, str, Callable[..., Any]]]:
        """Return the functions by the place where code looks for them."""
        hub, zoo = torch.hub, importlib.import_module("torch.utils.model_zoo")
        state = self._instead_of(hub.load_state_dict_from_url, MissingState())
        return [
            (hub, "load_state_dict_from_url", state),
            (zoo, "load_url", state),
            (hub, "download_url_to_file", self._instead_of(hub.download_url_to_file, None)),
            (urllib.request, "urlretrieve", self._instead_of(urllib.request.urlretrieve, ("", None))),
            (torch, "load", self._instead_of(torch.load, MissingState(), is_file=True)),  # noqa: TID251 - in the sandbox
            (torch.nn.Module, "load_state_dict", self._loading()),
        ]

    def _instead_of(
        self, function: Callable[..., Any], answer: Any, *, is_file: bool = False
    ) -> Callable[..., Any]:
        def fetch(*args: Any, **kwargs: Any) -> Any:
            source = next(iter((*args, *kwargs.values())), None)  # it may be named: url=..., filename=...
            can_try = self._trusted or (is_file and _is_readable(source))
            try:
                if can_try:
                    return function(*args, **kwargs)
            except OSError:
                pass  # no such file, no network
            self._is_missing = True
            verb = "loads" if is_file else "downloads"
            note = f"its code {verb} {str(source)!r}, which is not here: these weights are drawn"
            advice = "" if self._trusted else "; --trust lets code that you trust read and download files"
            if note + advice not in self._notes:
                self._notes.append(note + advice)
            return answer

        return fetch

    def _loading(self) -> Callable[..., Any]:
        original = self._load_into

        def load_state_dict(
            module: torch.nn.Module, state_dict: Any, strict: bool = True, **kwargs: Any
        ) -> Any:
            """Accept a state that lacks arrays, once one could not be fetched."""
            return original(module, state_dict, strict=strict and not self._is_missing, **kwargs)

        return load_state_dict


def _is_readable(source: Any) -> bool:
    return not isinstance(source, str | Path) or Path(source).is_file()
