"""The flat layout: every element once, in order, cut at whole vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from netweave.errors import UsageError
from netweave.optim.layout import ALIGNED_ELEMENTS, flat_layout

SIZES = st.lists(st.integers(0, 1000), max_size=12).map(
    lambda sizes: {f"p{i}": n for i, n in enumerate(sizes)}
)
MULTIPLES = st.integers(1, 8).map(lambda n: n * ALIGNED_ELEMENTS)


@given(SIZES, MULTIPLES, st.booleans())
def test_every_element_is_in_one_slice(sizes, slice_elements, whole):
    layout = flat_layout(sizes, slice_elements=slice_elements, whole_parameters=whole)
    found = {key: [] for key in sizes}
    for number, spans in enumerate(layout.slices):
        assert spans
        for span in spans:
            assert span.start < span.stop
            found[span.key].append((span.start, span.stop))
            assert number in layout.slices_of(span.key)
            assert span.start % ALIGNED_ELEMENTS == 0
    for key, spans in found.items():
        ends = [0, *(stop for _, stop in spans)]
        assert [start for start, _ in spans] == ends[:-1]
        assert ends[-1] == sizes[key]
        assert not whole or len(spans) <= 1


@given(SIZES, MULTIPLES)
def test_slices_have_equal_size(sizes, slice_elements):
    layout = flat_layout(sizes, slice_elements=slice_elements)
    for spans in layout.slices:
        places = [layout.offsets[span.key] + place for span in spans for place in (span.start, span.stop - 1)]
        assert places == sorted(places)
        assert max(places) // slice_elements == min(places) // slice_elements


def test_a_size_that_cuts_vectors_is_refused():
    with pytest.raises(UsageError, match="a slice has 100 elements, expected a multiple of 64"):
        flat_layout({"a": 5}, slice_elements=100)
