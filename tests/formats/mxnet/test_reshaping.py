"""The codes of Reshape against NumPy, for sizes that are known and sizes that are open."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.formats.mxnet.symbol.reshaping import sizes_from_codes
from netweave.runtime.backends import prepare
from tests.formats.mxnet.test_operators import CASES, GOLDEN, read_case

RESHAPES = [name for name in CASES if name.startswith("reshape-") and "like" not in name]


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        ((0, 0, 0), LookupError, "the code 0 needs another axis, but the input has only 2"),
        ((0, -3), LookupError, "the code -3 needs another axis"),
        ((-4, 2), ValueError, "-4 needs two sizes after it"),
        ((-5,), ValueError, "unknown code -5"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes, error, message):
    with pytest.raises(error, match=message):
        sizes_from_codes(codes, (2, 3), reverse=False)


@pytest.mark.parametrize("name", RESHAPES)
def test_open_sizes_give_what_known_ones_give(name, tmp_path):
    """The same net, its input given no sizes but the rank, run on MXNet's input."""
    case = CASES[name]
    text = case.symbol().replace('"attrs": {}', '"attrs": {"__shape__": "(0, 0, 0, 0)"}', 1)
    assert "__shape__" in text
    graph = read_case(case, tmp_path, text=text, input_shapes=False)
    (found,) = prepare(graph).run(case.arrays(stored=False)).values()
    with np.load(GOLDEN) as golden:
        np.testing.assert_array_equal(found, golden[f"{name}/0"])
