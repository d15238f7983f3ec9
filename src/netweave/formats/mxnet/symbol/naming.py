"""Names and attributes that symbols get while they are made, by the ``with`` that surrounds them."""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Self

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.document import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class NameManager:
    """Gives names to symbols without one: the operator in small letters, and a number.

    ``with NameManager():`` counts from 0 again (python/mxnet/name.py at 1.9.1).

    >>> with NameManager() as names:
    ...     names.get(None, "convolution"), names.get(None, "convolution"), names.get("mine", "convolution")
    ('convolution0', 'convolution1', 'mine')
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._token: Token[NameManager] | None = None

    def get(self, name: str | None, hint: str) -> str:
        """Return the name of a symbol: the one given, or a fresh one made from the hint."""
        if name:
            return name
        self._counts[hint] += 1
        return f"{hint}{self._counts[hint] - 1}"

    def __enter__(self) -> Self:
        self._token = _names.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None, "left before it was entered"
        _names.reset(self._token)


class Prefix(NameManager):
    """Puts a prefix before the names of operators, also before those that are given.

    >>> with Prefix("stage1_") as names:
    ...     names.get("conv", "convolution"), names.get(None, "convolution")
    ('stage1_conv', 'stage1_convolution0')
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the name of a symbol with the prefix."""
        return self._prefix + super().get(name, hint)


class AttrScope:
    """Gives attributes to all symbols made inside, on top of those of the scope around it.

    ``with AttrScope(ctx_group="dev1"):``; see ``user_attributes`` for the spelling.
    """

    def __init__(self, **attributes: str) -> None:
        self._attributes = user_attributes(attributes)
        self._token: Token[dict[str, str]] | None = None

    def __enter__(self) -> Self:
        self._token = _attributes.set({**_attributes.get(), **self._attributes})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None, "left before it was entered"
        _attributes.reset(self._token)


def user_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes of the user as files write them, ``__key__``.

    The keys that MXNet itself knows (``lr_mult``, ``ctx_group``, ...) may leave the underscores out; others
    have them, since they would be settings of the operator otherwise.

    Raises:
        UsageError: A key has no underscores, or a value is no text.
    """
    spelled_out: dict[str, str] = {}
    for key, value in attributes.items():
        spelled = f"__{key}__" if key in HIDDEN else key
        if not (spelled.startswith("__") and spelled.endswith("__") and len(spelled) > 4):
            raise UsageError(f"attribute {key!r}: expected a key such as '__{key}__', or {', '.join(HIDDEN)}")
        if not isinstance(value, str):
            raise UsageError(f"attribute {key!r} is {value!r}, expected text")
        spelled_out[spelled] = value
    return spelled_out


def fresh_name(name: str | None, hint: str) -> str:
    """Return the name of a new operator, by the manager in force."""
    return _names.get().get(name, hint)


def scoped_attributes() -> dict[str, str]:
    """Return the attributes of the scopes in force."""
    return dict(_attributes.get())


_names: ContextVar[NameManager] = ContextVar("names", default=NameManager())  # noqa: B039 - one for all
_attributes: ContextVar[dict[str, str]] = ContextVar("attributes", default={})  # noqa: B039 - never changed
