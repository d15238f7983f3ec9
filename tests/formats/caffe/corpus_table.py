"""What reading gives for every file of the corpus: the table ``corpus.tsv``, and how its rows are made.

A row is a file, the options that are given (or ``-``), and the outcome: counts and outputs, or the error.
``NETWEAVE_CORPUS=... python -m tests.formats.caffe.corpus_table`` writes it anew; read the difference.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import NetweaveError
from netweave.files import Source
from netweave.formats.registry import read

if TYPE_CHECKING:
    from netweave.graph import Graph

TABLE = Path(__file__).with_name("corpus.tsv")
GOLDEN = Path(__file__).parents[2] / "golden" / "caffe_nets.json"


def rows() -> list[list[str]]:
    """Return the rows of the table: file, options, outcome."""
    return [line.split("\t") for line in TABLE.read_text().splitlines()]


def files(corpus: Path) -> list[str]:
    """Return the files that have rows."""
    found = (path.relative_to(corpus) for path in corpus.rglob("*"))
    return sorted(str(path) for path in found if path.suffix in {".prototxt", ".caffemodel", ".binaryproto"})


def outcome(corpus: Path, name: str, given: str) -> str:
    """Return what reading a file gives, in words."""
    words = given.split()
    options = list(zip(words[::2], words[1::2], strict=False))
    shapes = (text.split("=") for option, text in options if option == "--input-shape")
    source = Source(
        corpus / name,
        input_shapes={key: tuple(map(int, sizes.split("x"))) for key, sizes in shapes},
        stages=tuple(text for option, text in options if option == "--stage"),
    )
    try:
        return summary(read(source))
    except NetweaveError as error:
        return f"{type(error).__name__}: {error}".replace(f"{corpus}/", "")


def summary(graph: Graph) -> str:
    """Return counts and outputs of a net in words."""
    outputs = ", ".join(f"{value.name}{value.shape}" for value in graph.outputs)
    return f"{len(graph.layers)} layers, {graph.num_parameters:,} parameters: {outputs}"


@cache
def oracle() -> dict[str, dict[str, Any]]:
    """Return what OpenCV made of each file, by file."""
    return {name: record for record in json.loads(GOLDEN.read_text()) for name in record["files"]}


def main(corpus: Path) -> None:
    """Write the table: as the file is, and with sizes where it asks for them."""
    lines = []
    for name in files(corpus):
        first = outcome(corpus, name, "-")
        lines.append(f"{name}\t-\t{first}")
        record = oracle().get(name, {})
        if "Error" in first and "inputs" in record:
            given = " ".join(
                [
                    f"--input-shape {key}={'x'.join(map(str, shape))}"
                    for key, shape in record["inputs"].items()
                ]
                + [f"--stage {stage}" for stage in record["stages"]]
            )
            lines.append(f"{name}\t{given}\t{outcome(corpus, name, given)}")
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(os.environ["NETWEAVE_CORPUS"]))
