"""Keys of layers: each name with the first number that is free, in time that grows with the layers."""

from __future__ import annotations

import time
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.graph.layers import Layer, LayerTable

NAMES = st.sampled_from(["a", "a#1", "a#2", "a#1#1", "b"])


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=30))
def test_a_key_has_the_first_number_that_is_free(rows: list[tuple[str, bool]]) -> None:
    table = LayerTable()
    for name, is_added in rows:
        numbered = (f"{name}#{number}" for number in count(1))
        expected = name if name not in table else next(key for key in numbered if key not in table)
        assert table.free_key(name) == expected
        if is_added:
            table.add(table.new(name, "ReLU", {}, origin=None))
        else:
            table.add(Layer(name, name, "ReLU"))


@pytest.mark.timing
def test_one_name_thousands_of_times_takes_little_time() -> None:
    table, start = LayerTable(), time.process_time()
    for _ in range(8000):
        table.add(table.new("while/body/add", "Add", {}, origin=None))
    assert len(table) == 8000
    assert time.process_time() - start < 1
