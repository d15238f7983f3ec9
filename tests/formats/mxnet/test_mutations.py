"""Nets with something changed: a Graph or one clear error, in little time and memory."""

from __future__ import annotations

import json
import resource

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netweave.errors import NetweaveError
from netweave.files import Source
from netweave.formats.mxnet import match
from netweave.formats.mxnet.reader import read
from tests.formats.mxnet.cases import CASES
from tests.oracles import mxnet_params
from tests.time_limits import within

TEXTS = (
    *("", "x", "None", "-1", "0", "2", "100000", "2147483648", "9223372036854775808", "9" * 5000),
    *("()", "(0,0)", "(3,)", "(2,1)", "(-1,-1)", "(1,2,3,4)", "(None,None)", "(2147483648,1)"),
    *("1e400", "nan", "True", "max"),
)
VALUES = (None, -1, 0, 2**31, 2**70, "", True, 1.5, [], {}, [0, 0, 0], [[]], "null", "Convolution")
SIZES = (0, 1, 2, 1000, 2**31)


def checked_read(folder, text, arrays, input_shapes):
    net = folder / "net-symbol.json"
    net.write_text(text)
    if arrays:
        (folder / "net-0001.params").write_bytes(mxnet_params.params(arrays))
    source = Source(net, input_shapes=input_shapes)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with within(2):
        try:
            match(source)
            read(source)
        except NetweaveError as error:
            assert str(folder) in str(error), error  # noqa: PT017 (any other outcome is a failure too)
            assert len(str(error)) < 2000  # noqa: PT017
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500_000


def places(value, path=()):
    """Yield the path to everything inside a JSON value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def change(data, value):
    """Put something else in one place."""
    *path, last = data.draw(st.sampled_from(list(places(value))))
    for key in path:
        value = value[key]
    value[last] = data.draw(st.sampled_from((*VALUES, *TEXTS)))


@settings(max_examples=300)
@given(st.data())
def test_operators_with_changed_settings(tmp_path_factory, data):
    case = CASES[data.draw(st.sampled_from(list(CASES)))]
    net = json.loads(case.symbol())
    if case.settings:
        name = data.draw(st.sampled_from(list(case.settings)))
        net["nodes"][-1]["attrs"][name] = data.draw(st.sampled_from(TEXTS))
    arrays = {f"arg:{name}": array for name, array in case.arrays(stored=True).items()}
    shapes = {name: given.shape for name, given in case.inputs.items() if not given.stored}
    if shapes and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(list(shapes)))
        shapes[name] = tuple(data.draw(st.sampled_from((size, *SIZES))) for size in shapes[name])
    checked_read(tmp_path_factory.mktemp("net"), json.dumps(net), arrays, shapes)


@pytest.mark.parametrize(
    ("ratios", "shape", "message"),
    [
        ("(1,2)", (1, 2, 0, 4), "0x4 cells"),
        ("(1,0)", (1, 2, 3, 4), "above 0"),
        ("(-1,)", (1, 2, 3, 4), "above 0"),
    ],
)
def test_anchors_without_cells_or_area_are_refused(tmp_path, ratios, shape, message):
    case = CASES["prior-one"]
    net = json.loads(case.symbol())
    net["nodes"][-1].setdefault("attrs", {})["ratios"] = ratios
    (tmp_path / "net-symbol.json").write_text(json.dumps(net))
    with pytest.raises(NetweaveError, match=message):
        read(Source(tmp_path / "net-symbol.json", input_shapes={"data": shape}))


@pytest.mark.parametrize("factor", ["nan", "1e400", "-1", "0", "9" * 30])
def test_factors_that_leave_no_size_are_refused(tmp_path, factor):
    case = CASES["resize-scale"]
    net = json.loads(case.symbol())
    net["nodes"][-1]["attrs"]["scale_height"] = factor
    (tmp_path / "net-symbol.json").write_text(json.dumps(net))
    shapes = {name: given.shape for name, given in case.inputs.items()}
    with pytest.raises(NetweaveError, match="expected a number above 0"):
        read(Source(tmp_path / "net-symbol.json", input_shapes=shapes))


@settings(max_examples=100)
@given(st.data())
def test_operators_with_anything_changed(tmp_path_factory, data):
    case = CASES[data.draw(st.sampled_from(list(CASES)))]
    net = json.loads(case.symbol())
    change(data, net)
    shapes = {name: given.shape for name, given in case.inputs.items() if not given.stored}
    checked_read(tmp_path_factory.mktemp("net"), json.dumps(net), {}, shapes)


@pytest.mark.parametrize(
    "name", ["mtcnn/det2-symbol.json", "mxnet/v0.9.5/tests__python__unittest__save_000800.json"]
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_real_nets_with_anything_changed(corpus, tmp_path_factory, name, data):
    net = json.loads((corpus / name).read_text())
    change(data, net)
    checked_read(tmp_path_factory.mktemp("net"), json.dumps(net), {}, {"data": (1, 3, 24, 24)})


@pytest.mark.parametrize("name", ["mtcnn/det1-symbol.json"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_real_nets_with_changed_or_missing_text(corpus, tmp_path_factory, name, data):
    text = list((corpus / name).read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from('{}[]",:019ax'))
    text = text[: data.draw(st.integers(1, len(text)))]
    checked_read(tmp_path_factory.mktemp("net"), "".join(text), {}, {"data": (1, 3, 24, 24)})
