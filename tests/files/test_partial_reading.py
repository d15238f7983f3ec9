"""The part of a net that can be read."""

from __future__ import annotations

import pytest

from netweave.files.partial_reading import left_out_note, split_readable

LAYERS = [
    ("a", "conv", (), ("x",)),
    ("b", "odd", ("x",), ("y",)),
    ("c", "conv", ("y",), ("z",)),
    ("d", "conv", ("x",), ("w",)),
    ("e", "conv", ("w",), ("y",)),
    ("f", "conv", ("y",), ("v",)),
    ("g", "conv", ("z", "v"), ("u",)),
]
"""Name, type, values read and made; ``y`` is made again by ``e``, from what can be read."""


@pytest.mark.parametrize(("unknown", "readable"), [("odd", "adef"), ("none", "abcdefg"), ("conv", "")])
def test_what_needs_an_unknown_layer_goes_with_it(unknown: str, readable: str) -> None:
    kept, rest = split_readable(
        LAYERS, is_unknown=lambda row: row[1] == unknown, reads=lambda row: row[2], makes=lambda row: row[3]
    )
    assert "".join(row[0] for row in kept) == readable
    assert sorted([*kept, *rest]) == sorted(LAYERS)


def test_the_note_counts_them_and_names_the_first() -> None:
    assert left_out_note(["b"], noun="layer") == (
        "1 layer left out that cannot be read, or need one that cannot: 'b'"
    )
    assert "8 nodes left out" in left_out_note(list("abcdefgh"), noun="node")
