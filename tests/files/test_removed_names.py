"""Names that Python and NumPy no longer have, for code of before."""

from __future__ import annotations

import collections
import collections.abc

import numpy as np

from netweave.files.pickles import removed_names


def test_names_are_there_for_a_while_and_mean_what_they_meant():
    before = set(vars(collections)), set(vars(np))
    with removed_names():
        assert collections.Callable is collections.abc.Callable  # type: ignore[attr-defined]
        assert collections.OrderedDict().__class__ is not collections.abc.Mapping
        assert [vars(np)[name] for name in ("float", "int", "object")] == [float, int, object]
    assert (set(vars(collections)), set(vars(np))) == before
