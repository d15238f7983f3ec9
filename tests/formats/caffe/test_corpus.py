"""Every Caffe file of the corpus is read, or refused with one exact message, as ``corpus.tsv`` says."""

from __future__ import annotations

from math import prod

import pytest

from tests.formats.caffe.corpus_table import files, oracle, outcome, rows


def test_every_file_has_its_row(corpus):
    assert sorted({name for name, _, _ in rows()}) == files(corpus)


@pytest.mark.parametrize(("name", "given", "expected"), rows())
def test_outcome(corpus, name, given, expected):
    assert outcome(corpus, name, given) == expected


def test_every_net_that_opencv_runs_is_read_with_as_many_parameters():
    read = {name: text for name, _, text in rows() if "parameters" in text}
    refused = {name for name, record in oracle().items() if "refused" in record}
    assert set(oracle()) - refused <= set(read)
    assert not refused & set(read)
    for name, record in oracle().items():
        if name in refused:
            continue
        arrays = {key: shape for layer in record["weights"].values() for shape, _, key in layer["blobs"]}
        assert f", {sum(map(prod, arrays.values())):,} parameters" in read[name], name


def test_outputs_have_the_shapes_of_opencv():
    for name, given, text in rows():
        shapes = {blob: tensor["shape"] for blob, _, tensor in oracle().get(name, {}).get("tensors", [])}
        for output in text.partition("parameters: ")[2].split(", "):
            blob, _, shape = output.rstrip("]").partition("[")
            if blob in shapes:
                for size, expected in zip(shape.split(",")[1:], shapes[blob][1:], strict=True):
                    assert size in {str(expected), "_d0"}, (name, given, blob)  # _d0: how many detections
