"""Weights alone: the three files, what they hold, and everything that is refused."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - makes what must be refused
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, RunError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

ARRAYS = {
    "conv1": {
        "weights": np.arange(54, dtype=np.float32).reshape(3, 3, 2, 3),
        "biases": np.array([1, 2, 3], "f4"),
    },
    "fc": {"weights": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(3, 2))},
}


def flat() -> dict[str, np.ndarray]:
    return {f"{layer}/{name}": x for layer, arrays in ARRAYS.items() for name, x in arrays.items()}


def read_back(path: Path) -> dict[str, np.ndarray]:
    graph = netweave.load(path)
    return {name: v.const_value.numpy() for name, v in graph.model.graph.initializers.items()}


def npy(path: Path, value: Any, protocol: int = 2) -> Path:
    """A file as NumPy writes a dict, in the protocol of one of its times."""
    header = b"\x93NUMPY\x01\x00F\x00{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(79) + b"\n"
    path.write_bytes(header + pickle.dumps(np.array(value), protocol=protocol))
    return path


def safetensors(path: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("protocol", [1, 2, 3, 4])
def test_a_pickled_dict_gives_its_arrays(tmp_path: Path, protocol: int) -> None:
    found = read_back(npy(tmp_path / "net.npy", ARRAYS, protocol))
    assert list(found) == list(flat())
    assert all(np.array_equal(found[name], x) for name, x in flat().items())


def test_numpy_s_own_files(tmp_path: Path) -> None:
    np.save(tmp_path / "net.npy", OrderedDict(ARRAYS), allow_pickle=True)  # type: ignore[arg-type]
    np.savez_compressed(tmp_path / "net.npz", **flat())
    for name in ("net.npy", "net.npz"):
        found = read_back(tmp_path / name)
        assert all(np.array_equal(found[key], x) for key, x in flat().items())


def test_the_weights_of_a_port_to_tensorflow(corpus: Path) -> None:
    path = corpus / "mtcnn" / "det2.npy"
    graph = netweave.load(path)
    assert graph.only_weights
    assert graph.num_parameters == 100_178
    assert list(graph.layers) == [
        *("conv5-2", "conv5-1", "conv3", "conv2", "conv1", "conv4"),
        *("prelu1", "prelu2", "prelu3", "prelu4"),
    ]
    oracle = np.load(path, allow_pickle=True, encoding="latin1").item()
    assert graph.layers["conv4"].settings == {"weights": [576, 128], "biases": [128]}
    stored = graph.model.graph.initializers["conv4/weights"].const_value
    assert stored is not None
    assert np.array_equal(stored.numpy(), oracle["conv4"]["weights"])
    assert graph.parameters["prelu1/alpha"].role == "slope"


def test_safetensors_of_every_type(tmp_path: Path) -> None:
    wide, narrow = np.array([[1.5, -2.0]], "<f4"), np.array([3.0], ml_dtypes.bfloat16)
    header = {
        "__metadata__": {"format": "pt"},
        "a.bias": {"dtype": "BF16", "shape": [1], "data_offsets": [8, 10]},
        "a.weight": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
    }
    path = safetensors(tmp_path / "net.safetensors", header, wide.tobytes() + narrow.tobytes())
    found = read_back(path)
    assert list(found) == ["a.weight", "a.bias"]
    assert np.array_equal(found["a.weight"], wide)
    assert found["a.bias"] == narrow
    assert list(netweave.load(path).layers) == ["a"]


class Hostile:
    """Would run a command if it were unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = function, arguments

    def __reduce__(self) -> Any:
        return self.made


def looped() -> dict[str, Any]:
    inner: list[Any] = []
    inner.append(inner)
    return {"conv1": inner}


def laughing() -> dict[str, Any]:
    value: Any = [1.0] * 100
    for _ in range(5):
        value = [value] * 100
    return {"conv1": value}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            {"conv1": Hostile(print, "owned")},
            UnsupportedError,
            r"'conv1': holds a call of \S*builtin\S*.print",
        ),
        ({"w": Hostile(eval, "1")}, UnsupportedError, r"holds a call of \S*builtin\S*.eval"),
        (Hostile(open, "owned", "w"), ReadError, r"holds a call of \S*io.open, expected a dict"),
        ({"conv1": {1.5: np.ones(2)}}, UnsupportedError, "'conv1': has a float as a name"),
        ({"conv1": np.array(["text"])}, UnsupportedError, "'conv1': has arrays of the type U4"),
        ({"conv1": np.array([1 + 2j])}, UnsupportedError, "has arrays of the type c16"),
        ({"conv1": "text"}, UnsupportedError, "'conv1': holds a str"),
        (looped(), UnsupportedError, "its pickle has a list that contains itself"),
        (laughing(), UnsupportedError, "shares them so that they would have more than 4,000,000 elements"),
        ({"w": [[1.0] * 400] * 400}, UnsupportedError, "has more than 100,000 values"),
        ({"w": [[[[[[[[[1.0]]]]]]]]]}, UnsupportedError, "dicts in more than 8 dicts"),
        ({"w" * 2000: np.ones(2)}, UnsupportedError, "has a name of 2,000 characters"),
        (3.5, ReadError, "holds a float, expected a dict of arrays|holds an array"),
    ],
)
def test_what_is_no_array_is_refused_and_never_called(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: Any,
    error: type,
    message: str,
    protocol: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    header = npy(tmp_path / "net.npy", {}).read_bytes()[:80]
    body = pickle.dumps(value, protocol=protocol)
    (tmp_path / "net.npy").write_bytes(header + body)
    with pytest.raises(error, match=message):
        netweave.load("net.npy")
    assert not (tmp_path / "owned").exists()
    assert not capsys.readouterr().out


def test_every_cut_of_a_file_is_one_error(tmp_path: Path) -> None:
    whole = npy(tmp_path / "net.npy", ARRAYS).read_bytes()
    for length in range(6, len(whole), 7):
        (tmp_path / "net.npy").write_bytes(whole[:length])
        with pytest.raises(ReadError):
            netweave.load(tmp_path / "net.npy")


def test_bytes_that_do_not_fit_their_sizes(tmp_path: Path) -> None:
    path = npy(tmp_path / "net.npy", {"w": np.zeros(3, "f4")}, 4)
    path.write_bytes(path.read_bytes().replace(b"K\x03\x85", b"K\x04\x85"))
    with pytest.raises(ReadError, match="an array of 4 float32 has 12 bytes, expected 16"):
        netweave.load(path)


def test_one_array_is_no_weights(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3)))
    with pytest.raises(UnsupportedError, match="holds one array of 1x3, expected a dict of arrays by name"):
        netweave.load(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "its header:1: is not valid JSON"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "do not hold 2 F32"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "bytes 4 to 12 of 8 do not hold"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "expected whole numbers"),
        ({"a": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}, "has the type 'F8'"),
        ({"a": {"shape": [1]}}, "lacks dtype, shape or data_offsets"),
        ({}, "has 8 bytes behind the last array"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: Any, message: str) -> None:
    path = safetensors(tmp_path / "net.safetensors", header, bytes(8))
    with pytest.raises((ReadError, UnsupportedError), match=message):
        netweave.load(path)


def test_archives_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(ReadError, match=r"is not a complete \.npz file"):
        netweave.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", npy(tmp_path / "o.npy", {"a": Hostile(print, "owned")}).read_bytes())
    with pytest.raises(ReadError, match="holds objects of Python, which are never unpickled"):
        netweave.load(path)


def test_weights_alone_do_not_run_and_are_not_written(tmp_path: Path) -> None:
    graph = netweave.load(npy(tmp_path / "net.npy", ARRAYS))
    with pytest.raises(RunError, match="holds only weights; there is no net to run"):
        netweave.run(graph, {})
    with pytest.raises(UsageError, match="holds only weights; there is no net to write"):
        netweave.save(graph, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="holds only weights; it takes no other weights"):
        netweave.load(tmp_path / "net.npy", input_shapes={"data": (1, 3)})


def test_an_archive_without_arrays_is_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises((ReadError, UnsupportedError), match="holds no arrays"):
        netweave.load(path)
