"""Messages quote what files say, and stay short however long that is."""

from __future__ import annotations

import pytest

from netweave import errors
from netweave.errors import MAX_MESSAGE, MAX_PLACE, NetweaveError, SourceError


@pytest.mark.parametrize("name", list(errors.__all__))
def test_long_messages_lose_their_middle(name):
    kind = getattr(errors, name)
    error = kind(f"begin {'x' * 5000} end")
    assert len(str(error)) <= MAX_MESSAGE
    assert str(error).startswith("begin xxx")
    assert str(error).endswith("xxx end")
    assert " ... " in str(error)
    if issubclass(kind, SourceError):
        placed = kind("m" * 5000, place="/folder/" + "p" * 5000 + ".onnx:3")
        assert len(placed.place) == MAX_PLACE
        assert placed.place.endswith("p.onnx:3")
        assert len(str(placed)) <= MAX_MESSAGE + 2
        assert isinstance(placed, NetweaveError)


def test_short_messages_stay_as_they_are():
    error = SourceError("m" * 690, place="p" * 300)
    assert str(error) == "p" * 300 + ": " + "m" * 690
