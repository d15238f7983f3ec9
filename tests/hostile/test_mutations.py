"""Damaged files: ``load`` gives a net or a NetweaveError, within two seconds, and never anything else."""

from __future__ import annotations

import contextlib
import resource
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.errors import NetweaveError
from tests.formats.mxnet.cases import CASES
from tests.hostile.mutations import damaged_bytes, damaged_model, damaged_text
from tests.hostile.nets import Net, hdf5_nets, nets
from tests.oracles import mxnet_params
from tests.time_limits import many, within

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 2.0
"""Seconds of this process's own time that a load may take, however busy the machine is."""

LIMIT_BYTES = 12 << 30
"""Address space of this process while it loads: one that asks for more fails alone, and not the machine."""

quickly = settings(max_examples=40, deadline=None)
a_little = settings(max_examples=5, deadline=None)
thoroughly = settings(max_examples=many(1500, in_ci=500), deadline=None)

MAX_REAL_BYTES = 100_000


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Fail if the body takes too long or too much memory; a load that never ends is broken off."""

    def stop(number, frame):
        raise TimeoutError("the load does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    memory = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, memory[1]))
    try:
        with within(LIMIT_S):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, memory)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load_damaged(net: Net, content: bytes, input_shapes: dict[str, tuple[int, ...]] | None = None) -> None:
    with TemporaryDirectory() as folder:
        path = net.write(Path(folder), content)
        with limited(), contextlib.suppress(NetweaveError):
            netweave.load(path, input_shapes=input_shapes)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(sorted(nets())))
    net = nets()[name]
    content = net.files[net.damaged]
    ways = [damaged_bytes(content)]
    if net.text:
        ways += [damaged_text(content)] * 3
    if name.startswith("onnx"):
        ways += [damaged_model(content)] * 3
    return name, draw(st.one_of(ways))


@given(damaged())
@quickly
def test_a_damaged_net_is_read_or_refused(drawn):
    name, content = drawn
    load_damaged(nets()[name], content)


@pytest.mark.slow
@given(damaged())
@thoroughly
def test_many_damaged_nets_are_read_or_refused(drawn):
    name, content = drawn
    load_damaged(nets()[name], content)


def damage_hdf5(data: st.DataObject) -> None:
    """Damage a file of HDF5; mostly its first part, where what is not numbers lies."""
    net = hdf5_nets()[data.draw(st.sampled_from(sorted(hdf5_nets())))]
    content = net.files[net.damaged]
    size = data.draw(st.sampled_from([len(content), len(content), 8000, 3000]))
    load_damaged(net, data.draw(damaged_bytes(content[:size])) + content[size:])


@given(st.data())
@a_little
def test_a_damaged_hdf5_is_read_or_refused(data):
    damage_hdf5(data)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=many(400, in_ci=130), deadline=None)
def test_many_damaged_hdf5_are_read_or_refused(data):
    damage_hdf5(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", hdf5_nets())
def test_an_hdf5_cut_short_anywhere_is_read_or_refused(name):
    net = hdf5_nets()[name]
    content = net.files[net.damaged]
    for place in range(24):
        load_damaged(net, content[: place * len(content) // 24])


@pytest.mark.parametrize("name", {**nets(), **hdf5_nets()})
def test_the_undamaged_nets_are_read(name, tmp_path):
    net = (nets() | hdf5_nets())[name]
    assert len(netweave.load(net.write(tmp_path)).layers) > 1


@pytest.mark.parametrize("name", nets())
def test_a_file_cut_short_anywhere_is_read_or_refused(name):
    net = nets()[name]
    content = net.files[net.damaged]
    for place in range(64):
        load_damaged(net, content[: place * len(content) // 64])


def damage_case(data: st.DataObject) -> None:
    """Damage the settings of one of MXNet's operators; its input sizes are given."""
    case = CASES[data.draw(st.sampled_from(sorted(CASES)))]
    content = case.symbol().encode()
    files = {"case-symbol.json": content}
    if arrays := case.arrays(stored=True):
        files["case-0000.params"] = mxnet_params.params(arrays)
    shapes = {name: given.shape for name, given in case.inputs.items() if not given.stored}
    load_damaged(Net(files, "case-symbol.json", text=True), data.draw(damaged_text(content)), shapes)


@given(st.data())
@quickly
def test_a_damaged_operator_is_read_or_refused(data):
    damage_case(data)


@pytest.mark.slow
@given(st.data())
@thoroughly
def test_many_damaged_operators_are_read_or_refused(data):
    damage_case(data)


def real_files(corpus: Path) -> list[Path]:
    """Return the nets of the corpus that are small enough to be damaged many times."""
    kinds = ("caffe/**/*.prototxt", "mxnet/**/*.json", "mtcnn/*.prototxt", "mtcnn/*.json")
    found = [path for kind in kinds for path in sorted(corpus.glob(kind))]
    return [path for path in found if path.stat().st_size < MAX_REAL_BYTES]


def damage_real(data: st.DataObject, corpus: Path) -> None:
    path = data.draw(st.sampled_from(real_files(corpus)))
    content = path.read_bytes()
    whole = Net({path.name.rpartition("__")[2]: content}, path.name.rpartition("__")[2], text=True)
    load_damaged(whole, data.draw(damaged_text(content) | damaged_bytes(content)))


@pytest.mark.corpus
@given(data=st.data())
@quickly
def test_damaged_real_nets_are_read_or_refused(data, corpus):
    damage_real(data, corpus)


@pytest.mark.slow
@pytest.mark.corpus
@given(data=st.data())
@thoroughly
def test_many_damaged_real_nets_are_read_or_refused(data, corpus):
    damage_real(data, corpus)
