"""State dicts: both containers, every element type, and what is refused; no PyTorch needed to read them."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - makes what must be refused
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.formats import find_format, read
from netweave.formats.pytorch import read_state

if TYPE_CHECKING:
    from pathlib import Path

# torch.save({"weight": a 2x3 float tensor}), pickled by hand: what torch/serialization.py writes
PICKLE = (
    b"\x80\x02ccollections\nOrderedDict\n)R(X\x06\x00\x00\x00weight"
    b"ctorch._utils\n_rebuild_tensor_v2\n(({storage}tQK\x00{sizes}{strides}\x89ccollections\nOrderedDict\n)RtRu."
)


def pickled(sizes: tuple[int, int], strides: tuple[int, int], *, kind: bytes = b"FloatStorage") -> bytes:
    storage = b"X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06"
    pair = [b"K" + bytes([a]) + b"K" + bytes([b]) + b"\x86" for a, b in (sizes, strides)]
    return PICKLE.replace(b"{storage}", storage).replace(b"{sizes}", pair[0]).replace(b"{strides}", pair[1])


def archive(path: Path, content: bytes, data: bytes, *, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("net/data.pkl", content)
        file.writestr("net/byteorder", "little")
        file.writestr("net/data/0", data)
    return path


NUMBERS = np.arange(6, dtype=np.float32)


def test_an_archive_and_its_strides(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", pickled((2, 3), (3, 1)), NUMBERS.tobytes())
    assert read_state(path)["weight"].tolist() == NUMBERS.reshape(2, 3).tolist()
    path = archive(tmp_path / "t.pt", pickled((3, 2), (1, 3)), NUMBERS.tobytes())
    assert read_state(path)["weight"].tolist() == NUMBERS.reshape(2, 3).T.tolist()


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (pickled((3, 3), (3, 1)), ReadError, "'weight': its storage has 24 bytes, expected 36"),
        (pickled((2, 2), (200, 1)), ReadError, "'weight': its storage has 24 bytes, expected 808"),
        (pickled((255, 255), (0, 0)), ReadError, "'weight': its storage has 24 bytes"),
        (pickled((2, 3), (3, 1), kind=b"QInt8Storage"), UnsupportedError, "arrays of torch.QInt8Storage"),
        (pickle.dumps([1, 2]), UnsupportedError, "holds a list, expected a state dict"),
        (pickle.dumps(print), UnsupportedError, "holds a Name, expected a state dict"),
        (pickled((2, 3), (3, 1))[:-20], ReadError, "is not a complete pickle|ends unexpectedly"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, error: type[Exception], message: str) -> None:
    path = archive(tmp_path / "bad.pt", content, NUMBERS.tobytes())
    with pytest.raises(error, match=message):
        read_state(path)


def test_archives_that_grow_are_refused(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "bomb.pt", pickled((2, 3), (3, 1)), bytes(1 << 24), compression=zipfile.ZIP_DEFLATED
    )
    with pytest.raises(UnsupportedError, match="compressed or overlap"):
        read_state(path)


def test_pickled_code_does_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = b"cos\nmkdir\n(X" + len(str(made)).to_bytes(4, "little") + str(made).encode() + b"tR."
    path = archive(tmp_path / "evil.pt", b"\x80\x02" + code, b"")
    with pytest.raises(UnsupportedError, match=r"holds an object of os.mkdir, .* never opened"):
        read_state(path)
    assert not made.exists()
    with pytest.raises(UsageError, match=r"evil.pt: holds weights only; name the .py file"):
        read(Source(net=path, trust=True))
    assert not made.exists()


def test_files_of_the_time_before_archives(corpus: Path) -> None:
    """The same arrays as the corpus's NumPy files of the port they come from, but for layout."""
    arrays = read_state(corpus / "mtcnn" / "pnet.pt")
    assert [(name, array.shape) for name, array in arrays.items()][:3] == [
        ("conv1.weight", (10, 3, 3, 3)),
        ("conv1.bias", (10,)),
        ("prelu1.weight", (10,)),
    ]
    assert sum(array.size for array in arrays.values()) == 6632  # det1.caffemodel's
    assert find_format(Source(net=corpus / "mtcnn" / "pnet.pt")).name == "pytorch"


def test_a_legacy_file_that_is_cut_off(corpus: Path, tmp_path: Path) -> None:
    content = (corpus / "mtcnn" / "pnet.pt").read_bytes()
    for length in (20, 200, 1600, 1700, len(content) - 4):
        path = tmp_path / f"{length}.pt"
        path.write_bytes(content[:length])
        with pytest.raises(ReadError, match=r"\.pt: "):
            read_state(path)


@pytest.mark.slow
def test_every_kind_as_pytorch_reads_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    kinds = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"]
    base = torch.randn(4, 6)
    state = {kind: base.to(getattr(torch, kind)) for kind in kinds}
    state |= {"view": base[1:, ::2], "transposed": base.T, "scalar": torch.tensor(3.5), "none": base[:0]}
    for zipped in (True, False):
        path = tmp_path / f"{zipped}.pt"
        for content in (state, {"epoch": 3, "state_dict": state}):
            torch.save(content, path, _use_new_zipfile_serialization=zipped)
            found = read_state(path)
            assert list(found) == list(state)
            for name, value in state.items():
                assert found[name].dtype.name == str(value.dtype).removeprefix("torch.")
                assert np.array_equal(found[name].astype(np.float64), value.double().numpy()), name
    buffer = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), buffer)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(UnsupportedError, match=r"holds an object of torch.nn.modules.linear.Linear"):
        read_state(path)
