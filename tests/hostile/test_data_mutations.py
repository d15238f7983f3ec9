"""Damaged stores of records: every reader gives records or a NetweaveError, in little time and memory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import NetweaveError
from netweave.training.data import SOURCES
from netweave.training.data.transforms.arithmetic import read_means
from tests.hostile.mutations import damaged_bytes, damaged_text
from tests.hostile.stores import stores
from tests.hostile.test_mutations import limited
from tests.time_limits import many
from tests.training.data.make import field, kvfile, singa_record

UNTRIED = {"arrays", "filled", "iterable"}
"""Kinds that parse no bytes."""


def read_all(name, content, folder, chdir):
    stores()[name].write(folder, content)
    chdir(folder)
    return stores()[name].read()


def damage(name, content):
    with (
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        limited(),
        contextlib.suppress(NetweaveError),
    ):
        read_all(name, content, Path(folder), patch.chdir)


@st.composite
def damaged_stores(draw):
    name = draw(st.sampled_from(sorted(stores())))
    store = stores()[name]
    ways = [damaged_bytes(store.whole)] + [damaged_text(store.whole)] * (2 * store.text)
    return name, draw(st.one_of(ways))


@pytest.mark.parametrize("name", stores())
def test_the_undamaged_stores_are_read(name, tmp_path, monkeypatch):
    store = stores()[name]
    assert read_all(name, store.whole, tmp_path, monkeypatch.chdir)


@given(damaged_stores())
@settings(max_examples=60, deadline=None)
def test_a_damaged_store_is_read_or_refused(drawn):
    damage(*drawn)


@pytest.mark.slow
@given(damaged_stores())
@settings(max_examples=many(1500, in_ci=500), deadline=None)
def test_many_damaged_stores_are_read_or_refused(drawn):
    damage(*drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", stores())
def test_a_store_cut_short_anywhere_is_read_or_refused(name):
    whole = stores()[name].whole
    for place in range(24):
        damage(name, whole[: place * len(whole) // 24])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_means_are_read_or_refused(data):
    image = singa_record(data=np.arange(1, 91), shape=(3, 5, 6))
    whole = data.draw(st.sampled_from([kvfile({"mean": image}), field(1, 0, 0) + field(5, 2, image)]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mean.bin"
        path.write_bytes(data.draw(damaged_bytes(whole)))
        with limited(), contextlib.suppress(NetweaveError):
            read_means(str(path))


def test_every_kind_takes_part():
    tried = {store.kind for store in stores().values()}
    assert tried | UNTRIED >= set(SOURCES)
    assert not tried & UNTRIED
