"""Writing ``.params``: the bytes are those that MXNet 1.9.1 writes (``tests/oracles/mxnet_ages.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.formats.mxnet.ndarray import encode_arrays, read_arrays

GOLDEN = Path(__file__).parents[2] / "golden" / "mxnet_params"


def test_what_mxnet_wrote_is_written_again_to_the_byte():
    arrays = read_arrays(GOLDEN / "v2.params")
    assert len(arrays) > 3
    assert encode_arrays(arrays) == (GOLDEN / "v2.params").read_bytes()


def test_layouts_and_scalars_and_what_mxnet_lacks(tmp_path):
    array = np.arange(6.0).reshape(2, 3)
    (tmp_path / "x.params").write_bytes(encode_arrays({"arg:turned": array.T, "arg:scalar": np.float32(3)}))
    found = read_arrays(tmp_path / "x.params")
    np.testing.assert_array_equal(found["arg:turned"], array.T)
    np.testing.assert_array_equal(found["arg:scalar"], [3])
    with pytest.raises(UsageError, match="arg:x: MXNet has no elements of type complex64; it has float32"):
        encode_arrays({"arg:x": np.zeros(2, np.complex64)})
