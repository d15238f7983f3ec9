"""The border between files of strangers and Netweave: what a library raises over one becomes a ReadError.

Each reader and each source of records is called inside of one border (``formats.registry``,
``training.data.source``). Readers turn the errors that they foresee into better ones at the place where they
arise; the border is for the others, so that a damaged file never ends a program by an error that it could not
expect. The fuzzer (``benchmarks/hostile``) counts those apart, since each is a check that a reader lacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netweave.errors import NetweaveError, ReadError

_MAX_REASON = 200
"""Characters of another library's message that ours repeats; they quote what they read."""


def reason_of(error: BaseException) -> str:
    r"""Return the first line of what an error says, or at least its name; short.

    >>> reason_of(ValueError("line one\nline two")), reason_of(KeyError())
    ('line one', 'KeyError')
    """
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = said.strip().split("\n", 1)[0]
    return line[:_MAX_REASON] if line else type(error).__name__


@contextmanager
def reading(place: str, *, passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn every error that is not Netweave's own into a ReadError with a place.

    Args:
        place: The file that is read, for messages.
        passes: Exceptions that say something else than that a file is damaged.

    Raises:
        ReadError: Something else than a NetweaveError was raised in the context.
    """
    through: tuple[type[Exception], ...] = (NetweaveError, *passes)
    try:
        yield
    except through:
        raise
    except MemoryError as error:
        raise ReadError("needs more memory than this process may use", place=place) from error
    except RecursionError as error:
        raise ReadError("is nested too deep to be read", place=place) from error
    except Exception as error:
        raise ReadError(
            f"is damaged, or not what its name says ({type(error).__name__}: {reason_of(error)}); if the "
            "program that wrote it reads it, please report this as a bug of Netweave",
            place=place,
        ) from error


# Errors of code that Netweave runs as text, and which files are not the code's own.

MAX_CHARACTERS = 300


def root_cause(error: BaseException) -> str:
    """Return the first cause's kind and message, on one line and not too long."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


_NETWEAVE = f"{Path(__file__).parents[1]}{os.sep}"
"""The folder of this package, which stands in traces as what calls a model."""


def is_machinery(file: str) -> bool:
    """Return whether a file is PyTorch's, Keras' or Netweave's."""
    return "/torch/" in file or "/keras/src/" in file or file.startswith(_NETWEAVE)
