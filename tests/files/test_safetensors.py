"""Safetensors files against the format's own library, which refuses what it cannot read without doubt."""

from __future__ import annotations

import json
import random
import struct

import pytest

from netweave.errors import NetweaveError, ReadError
from netweave.files.safetensors import read_safetensors

safetensors = pytest.importorskip("safetensors")

CASES = 3000


def packed(text: str | bytes, data: bytes) -> bytes:
    text = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def row(begin: int, end: int, dtype: str = "U8") -> dict[str, object]:
    return {"dtype": dtype, "shape": [end - begin], "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "num_bytes", "message"),
    [
        ({"a": row(0, 4), "b": row(2, 6)}, 6, "'b': begins at byte 2 and overlaps 'a', which ends at 4"),
        ({"a": row(0, 4), "b": row(0, 4)}, 4, "'b': begins at byte 0 and overlaps 'a', which ends at 4"),
        ({"a": row(0, 4), "b": row(6, 8)}, 8, "'b': begins at byte 6 and leaves a gap behind 'a'"),
        ({"a": row(1, 4)}, 4, "'a': begins at byte 1 and leaves a gap behind the header"),
        ({"a": row(0, 4)}, 5, "has 1 bytes behind the last array, expected none"),
        ({"a": row(0, 4)}, 3, "'a': its bytes 0 to 4 of 3 do not hold 4 U8"),
        ({"__metadata__": {"a": 1}}, 0, "__metadata__: expected an object whose values are texts"),
        ({"__metadata__": "x"}, 0, "__metadata__: expected an object whose values are texts"),
        (
            b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "dtype": "I8"}}',
            1,
            "has the key 'dtype' twice",
        ),
        (
            b'{"\\ud800": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}',
            1,
            "holds half of a surrogate pair",
        ),
        (b"\xef\xbb\xbf{}", 0, "its header is not a JSON object"),
    ],
)
def test_what_the_library_refuses_is_refused(tmp_path, header, num_bytes, message):
    content = packed(header if isinstance(header, bytes) else json.dumps(header), bytes(num_bytes))
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(content)
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=message):
        read_safetensors(path)


def drawn(draw: random.Random) -> bytes:
    """Return a file, most often with a fault or two in it."""
    rows: dict[str, dict[str, object]] = {}
    at = 0
    for number in range(draw.randrange(4)):
        dtype, item = draw.choice([("F32", 4), ("U8", 1), ("I64", 8), ("F16", 2)])
        shape = [draw.randrange(4) for _ in range(draw.randrange(3))]
        num_bytes = item
        for size in shape:
            num_bytes *= size
        rows[f"t{number}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + num_bytes]}
        at += num_bytes
    size = max(at + draw.choice([0, 0, 0, 0, -1, 1, 8]), 0)
    for name in [name for name in rows if draw.random() < 0.3]:
        begin, end = rows[name]["data_offsets"]
        rows[name] |= draw.choice(
            [
                {"data_offsets": [begin + draw.choice([-1, 1, 4]), end]},
                {"data_offsets": [begin + 4, end + 4]},
                {
                    "data_offsets": draw.choice(
                        [[0], [0, 1, 2], [1.0, 2.0], [-4, 0], ["0", "4"], [4, 0], None]
                    )
                },
                {"shape": draw.choice([[-1], [2.0], [2**70], ["2"], None, [True], [1, 2]])},
                {"dtype": draw.choice(["F128", "f32", 4, None, "BF16"])},
                {"extra": 1},
            ]
        )
        if draw.random() < 0.2:
            del rows[name][draw.choice(list(rows[name]))]
    if rows and draw.random() < 0.1:
        rows["copy"] = next(iter(rows.values()))
    if draw.random() < 0.1:
        rows["empty"] = {"dtype": "F32", "shape": [0], "data_offsets": [draw.choice([0, at, at + 4])] * 2}
    items = list(rows.items())
    draw.shuffle(items)
    if draw.random() < 0.3:
        items.append(
            ("__metadata__", draw.choice([{"format": "pt"}, {"a": 1}, [], None, "x", {"a": None}, {}]))
        )
    text = json.dumps(dict(items))
    text = draw.choice([*[text] * 6, text + "  ", " " + text, text + "x", text.replace("t0", "", 1)])
    text = draw.choice([*[text] * 6, text.replace("[0,", "[00,", 1), text.replace("t1", "\\ud800", 1)])
    text = draw.choice([*[text] * 9, "\ufeff" + text, text.replace('"dtype"', '"dtype":"U8","dtype"', 1)])
    content = packed(text, bytes(size))
    if draw.random() < 0.05:
        length = draw.choice(
            [0, 1, len(text) - 1, len(text) + 1, len(content), 2**63, 2**64 - 1, 100_000_001]
        )
        content = struct.pack("<Q", max(length, 0)) + content[8:]
    return content[: draw.randrange(len(content))] if draw.random() < 0.03 else content


def test_the_same_files_are_read_and_refused_as_by_the_library(tmp_path):
    """In both directions; the library takes a name twice, the last one, which may hide the first: not we."""
    draw, path, counts = random.Random(0), tmp_path / "x.safetensors", {True: 0, False: 0}
    for _ in range(CASES):
        content = drawn(draw)
        path.write_bytes(content)
        try:
            expected = {name for name, _ in safetensors.deserialize(content)}
        except safetensors.SafetensorError:
            expected = None
        try:
            found = set(read_safetensors(path))
        except NetweaveError:
            found = None
        assert found == expected, content
        counts[found is None] += 1
    assert min(counts.values()) > CASES // 5
