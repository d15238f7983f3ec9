"""MXNet's ``fix_gamma``: the file stores gammas whichever way it is set, and the setting alone is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import netweave
from netweave.comparison.fixes import mend
from netweave.formats.mxnet.ndarray import encode_arrays, read_arrays
from tests.comparison.planted import mxnet
from tests.comparison.planted.plan import IN, SIZE, Plan

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph


def written(folder: Path, *, fixed: bool, added: float = 0.0) -> Graph:
    """Write a net whose file stores gammas, with something added to them, and read it."""
    folder.mkdir()
    (folder / "net-symbol.json").write_text(mxnet.text(replace(Plan(), fixed_gamma=fixed)))
    file = folder / "net-0000.params"
    file.write_bytes(mxnet.params(Plan()))
    arrays = read_arrays(file)
    file.write_bytes(encode_arrays(arrays | {"arg:bn1_gamma": arrays["arg:bn1_gamma"] + np.float32(added)}))
    return read(folder)


def read(folder: Path) -> Graph:
    return netweave.load(folder / "net-symbol.json", input_shapes={"data": (1, IN, SIZE, SIZE)})


@pytest.mark.parametrize("fixed_in_a", [False, True])
def test_the_setting_alone_is_changed(tmp_path, fixed_in_a):
    a, b = (written(tmp_path / name, fixed=fixed_in_a is (name == "a")) for name in "ab")
    found = netweave.compare(a, b)
    (finding,) = found.findings
    assert (finding.mismatch, finding.layer_b) == ("fix-gamma", "bn1")
    assert finding.fix == f"fix_gamma={fixed_in_a}"
    assert finding.error_fixed == 0
    file = tmp_path / "b" / "net-symbol.json"
    file.write_text(mend(found).after[str(file)])
    assert netweave.compare(a, read(tmp_path / "b")).equal


def test_gammas_that_are_others_are_wanted_besides(tmp_path):
    a, b = written(tmp_path / "a", fixed=False), written(tmp_path / "b", fixed=True, added=0.5)
    (finding,) = netweave.compare(a, b).findings
    assert finding.fix == "set fix_gamma=False and give gamma 'bn1_gamma' A's values"
    assert finding.edits == ()


def test_ones_that_are_stored_need_values_and_no_setting(tmp_path):
    a = written(tmp_path / "a", fixed=False)
    written(tmp_path / "b", fixed=False)
    file = tmp_path / "b" / "net-0000.params"
    arrays = read_arrays(file)
    file.write_bytes(encode_arrays(arrays | {"arg:bn1_gamma": np.ones_like(arrays["arg:bn1_gamma"])}))
    (finding,) = netweave.compare(a, read(tmp_path / "b")).findings
    assert finding.fix == "give gamma 'bn1_gamma' A's values"


def test_gammas_are_kept_only_where_they_are_no_ones(tmp_path):
    assert list(written(tmp_path / "fixed", fixed=True).unread) == ["bn1_gamma/fixed"]
    assert written(tmp_path / "read", fixed=False).unread == {}
    net = written(tmp_path / "kept", fixed=True)
    stored = read_arrays(tmp_path / "kept" / "net-0000.params")["arg:bn1_gamma"]
    np.testing.assert_array_equal(net.clone().unread["bn1_gamma/fixed"], stored)
