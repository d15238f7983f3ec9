"""Files are told by their content; one that is no net is named for what it is."""

from __future__ import annotations

import re
import shutil

import pytest

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source
from netweave.formats.caffe import match
from netweave.formats.registry import find_format, read

CAFFE = "caffe/head-1.0/models__bvlc_alexnet__deploy.prototxt"


@pytest.mark.parametrize(
    "name",
    [CAFFE, "caffe/v0.9/models__imagenet.prototxt", "mtcnn/det1.prototxt", "mtcnn/det1.caffemodel"],
)
@pytest.mark.parametrize("suffix", [".txt", ".onnx", "", ".json"])
def test_a_renamed_net_is_known(corpus, tmp_path, name, suffix):
    path = tmp_path / f"renamed{suffix}"
    shutil.copy(corpus / name, path)
    assert match(Source(path))


def test_every_caffe_file_of_the_corpus_is_known(corpus):
    paths = [path for folder in ("caffe", "mtcnn") for path in (corpus / folder).rglob("*")]
    ours = {path for path in paths if path.suffix in {".prototxt", ".caffemodel", ".binaryproto"}}
    assert len(ours) > 150
    for path in paths:
        if path.is_file():
            assert match(Source(path)) == (path in ours), path


def test_no_other_file_of_the_corpus_is_taken_for_caffe(corpus):
    others = [path for folder in ("mxnet", "singa", "tensorflow") for path in (corpus / folder).rglob("*")]
    files = [path for path in others if path.is_file() and path.suffix != ".prototxt"]
    assert len(files) > 40
    assert [path for path in files if match(Source(path))] == []


def test_a_symbol_under_the_name_of_a_net_is_left_to_its_own_format(corpus, tmp_path):
    path = tmp_path / "det1.prototxt"
    shutil.copy(corpus / "mtcnn" / "det1-symbol.json", path)
    assert find_format(Source(path)).name == "mxnet"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "caffe/head-1.0/models__bvlc_alexnet__solver.prototxt",
            "is a solver, not a net; give the net that it trains: 'models/bvlc_alexnet/train_val.prototxt'",
        ),
        (
            "caffe/rc2/examples__mnist__lenet_stepearly_solver.prototxt",
            "is a solver, not a net; give the net",
        ),
        (
            "caffe/ssd/data__VOC0712__labelmap_voc.prototxt",
            "is a map of labels, not a net; give the .prototxt",
        ),
        (
            "caffe/history/src__caffe__test__test_data__sample_mean.binaryproto",
            "is a single array (a mean file), not",
        ),
    ],
)
def test_what_is_no_net_is_named(corpus, tmp_path, name, message):
    for path in (corpus / name, tmp_path / "other.name"):
        if not path.exists():
            shutil.copy(corpus / name, path)
        with pytest.raises(ReadError, match="^" + re.escape(f"{path}: {message}")):
            read(Source(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.solverstate",
            b"\x08\x64\x12\x13lenet_it.caffemodel\x1a\x00",
            "is the state of a solver, which holds no net",
        ),
        (
            "a.caffemodel.h5",
            b"\x89HDF\r\n\x1a\n",
            "is an HDF5 file, which holds weights but no layers; give the .prototxt",
        ),
        ("a.prototxt", b"name: 'only a name'", "has no layers, so it is not a Caffe net"),
        ("a.prototxt", b"\x00\x01\x02", "its 3 bytes are not a complete NetParameter"),
        (
            "a.prototxt",
            b"name: 'x'\nlayr { }",
            ":2: unknown field 'layr' in NetParameter; did you mean 'layer'?",
        ),
        ("a.caffemodel", b"", "the file is empty"),
        (
            "a.prototxt",
            b"input: 'd' layer {",
            ":1: the file ends inside LayerParameter, which begins on line 1",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    if name.endswith(".h5"):
        pytest.importorskip("h5py")
    path = tmp_path / name
    path.write_bytes(content)
    assert match(Source(path))
    with pytest.raises(ReadError) as caught:
        read(Source(path))
    assert str(caught.value).startswith(f"{path}")
    assert message in str(caught.value)


def test_all_unknown_layers_are_named_at_once(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(
        'input: "data" input_shape { dim: 1 dim: 3 }\n'
        'layer { name: "a" type: "Proposal" bottom: "data" top: "a" }\n'
        'layer { name: "b"\n  type: "Python" bottom: "data" top: "b" }\n'
        'layer { name: "c" type: "Foo" bottom: "data" top: "c" include { phase: TRAIN } }\n'
        'layer { name: "d" type: "Bar" bottom: "data" top: "d" '
        'bar_param { wide: "}" deep { x: [1, 2] } } more: -3 }\n'
    )
    message = (
        f"{path}: has 3 layer types that Netweave does not read: Proposal ('a' on line 2; a layer of the "
        "Faster R-CNN branch); Python ('b' on line 4; a Python class, whose code is in a module of its "
        "own); Bar ('d' on line 6)"
    )
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        read(Source(path))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            'layer { type: "ReLU" rleu_param {} }',
            ":2: unknown field 'rleu_param' in LayerParameter; did you mean 'relu_",
        ),
        (
            "layers { type: RELU topp: 'a' }",
            ":2: unknown field 'topp' in V1LayerParameter; did you mean 'top'?",
        ),
        (
            "layer { type: 'Data' data_param { x: 1 } bottm: 'a' }",
            ":2: unknown field 'bottm' in LayerParameter",
        ),
        ("layer { type: 'Foo' wide }", ":2: unknown field 'wide' in LayerParameter"),
        ("layer { type: 'Foo' wide { {", ":2: unknown field 'wide' in LayerParameter"),
        (
            "layer { type: 'ReLU' relu_param { slope: 1 } }",
            ":2: unknown field 'slope' in ReLUParameter; did you mean 'negative_slope'?",
        ),
    ],
)
def test_unknown_settings_of_known_layers_are_refused(tmp_path, layer, message):
    path = tmp_path / "net.prototxt"
    path.write_text(f'input: "data" input_shape {{ dim: 1 }}\n{layer}')
    with pytest.raises(ReadError, match="^" + re.escape(f"{path}{message}")):
        read(Source(path))
