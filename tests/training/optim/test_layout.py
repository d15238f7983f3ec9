"""The flat layout: every element once, in order, cut at whole vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from netweave.errors import UsageError
from netweave.training.optim.rule import ALIGNED_ELEMENTS, FIRST_ELEMENTS, flat_layout

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


@pytest.mark.parametrize("slice_elements", [64, 1 << 16, 1 << 17, 1 << 20])
@pytest.mark.parametrize("whole", [False, True])
def test_the_first_slices_are_smaller_and_together_as_large_as_the_others(slice_elements, whole):
    sizes = {f"p{number}": 10_000 for number in range(300)}
    layout = flat_layout(sizes, slice_elements=slice_elements, whole_parameters=whole)
    ends = [max(layout.offsets[span.key] + span.stop for span in spans) for spans in layout.slices]
    if whole:
        assert all(span.stop - span.start == 10_000 for spans in layout.slices for span in spans)
        return
    borders = [first for first in FIRST_ELEMENTS if first < slice_elements]
    borders += [slice_elements, 2 * slice_elements]
    for border, end in zip(borders, ends, strict=False):
        assert border - ALIGNED_ELEMENTS < end <= border


def test_a_size_that_cuts_vectors_is_refused():
    with pytest.raises(UsageError, match="a slice has 100 elements, expected a multiple of 64"):
        flat_layout({"a": 5}, slice_elements=100)
