"""Options of a call: one object, of which any can be set anew by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

from netweave.errors import UsageError


class Options:
    """Base of the dataclasses that carry the options of a public function to where they are used.

    Attributes:
        function: Name of the function, for messages.
    """

    __slots__ = ()

    function: ClassVar[str]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all options."""
        assert is_dataclass(cls)
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(cls, options: Self | None, settings: Mapping[str, Any], *, others: Iterable[str] = ()) -> Self:
        """Return options with some of them set anew by name.

        Args:
            options: Options; None for the defaults.
            settings: New values by name.
            others: Further names that the function takes, for the message.

        Raises:
            UsageError: There is no option of such a name.
        """
        unknown = [name for name in settings if name not in cls.names()]
        if unknown:
            known = ", ".join([*cls.names(), *others])
            raise UsageError(f"{cls.function} has no option {unknown[0]!r}; expected one of {known}")
        return replace(cls() if options is None else options, **settings)  # type: ignore[type-var]  # a dataclass
