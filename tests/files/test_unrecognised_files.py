"""Files that no reader takes: the message says what they are, what their names promise, and what to do."""

from __future__ import annotations

import io
import zipfile

import pytest

import netweave
from netweave.errors import ReadError


def empty_archive() -> bytes:
    target = io.BytesIO()
    zipfile.ZipFile(target, "w").close()
    return target.getvalue()


PAGE = b"\n<!DOCTYPE html>\n<html><body>404</body></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
ONNX = r"; \.onnx files are ONNX models \(serialized protobuf\)"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.onnx", b"no net\n", rf"knows \(it starts with 'no net\\n'\){ONNX}\. Was it downloaded whole"),
        ("a.onnx", b"", rf"a\.onnx: the file is empty, not a net that Netweave knows{ONNX}\."),
        ("a.onnx", empty_archive(), rf"a\.onnx: is an empty archive, not a net that Netweave knows{ONNX}\."),
        ("a.onnx", PAGE, rf"a\.onnx: is a web page, not a net that Netweave knows{ONNX}\. Download the file"),
        ("a.onnx", b"\x1f\x8b\x08\0", rf"knows \(it looks like a gzip archive; unpack it first\){ONNX}$"),
        ("a.PT", b"no net\n", r"; \.pt files are PyTorch files"),
        ("a.bin", b"", r"the file is empty, not a net that Netweave knows\. Was it copied"),
        ("a.bin", b"no net\n", r"knows \(it starts with 'no net\\n'\)\. It reads Caffe: .*; OpenVINO: "),
        ("a.onnx", POINTER, r"a\.onnx: is a git-lfs pointer, .* run 'git lfs pull'"),
        ("a.prototxt", POINTER, r"a\.prototxt: is a git-lfs pointer"),
        ("a.npz", POINTER, r"a\.npz: is a git-lfs pointer"),
    ],
)
def test_a_file_that_is_no_net_says_what_it_is(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReadError, match=message) as found:
        netweave.load(tmp_path / name)
    assert ("It reads" in str(found.value)) == ("It reads" in message)


def test_weights_that_are_a_pointer_are_told(tmp_path):
    (tmp_path / "a.prototxt").write_text(
        'name: "a" input: "x" input_shape { dim: 1 dim: 3 } layer { name: "y" type: "InnerProduct" '
        'bottom: "x" top: "y" inner_product_param { num_output: 2 } }'
    )
    (tmp_path / "a.caffemodel").write_bytes(POINTER)
    with pytest.raises(ReadError, match=r"a\.caffemodel: is a git-lfs pointer"):
        netweave.load(tmp_path / "a.prototxt")
