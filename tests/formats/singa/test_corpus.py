"""Every file of the corpus is read, or refused with one exact message; nets compute what SINGA does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.formats.singa.corpus_table import files, outcome, rows
from tests.formats.singa.nets import check, normal

LABELS = np.array([3, 0], np.float32)


@pytest.mark.corpus
def test_every_file_has_its_rows(corpus):
    assert sorted({name for name, *_ in rows()}) == files(corpus)


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "kind", "given", "expected"), rows())
def test_outcome(corpus, name, kind, given, expected):
    assert outcome(corpus, name, kind, given) == expected


V1, V3 = "singa/v0.1.0/examples", "singa/v0.3.0-rc3/examples"
MNIST = {"mnist": normal(2, 1, 28, 28), "label": LABELS}
RECORDS = {"data": normal(2, 784), "label": LABELS}
CIFAR = {"data": normal(2, 3, 32, 32), "label": LABELS}

NETS = {
    f"{V1}__mnist__conv.conf": MNIST,
    f"{V1}__mnist__job.conf": MNIST,
    f"{V1}__cifar10__job.conf": {"rgb": normal(2, 3, 32, 32), "label": LABELS},
    f"{V1}__rbm__autoencoder.conf": {"mnist": normal(2, 1, 28, 28)},
    f"{V1}__rbm__rbm4.conf": {"mnist": normal(2, 1, 28, 28)},
    f"{V3}__mnist__conv.conf": {"data": normal(2, 1, 28, 28), "label": LABELS},
    f"{V3}__mnist__job.conf": RECORDS,
    f"{V3}__rbm__autoencoder.conf": {"data": normal(2, 784)},
    f"{V3}__rbm__rbm2.conf": {"data": normal(2, 784)},
    f"{V3}__cifar10__job.conf": CIFAR,
    f"{V3}__cifar10__hybrid.conf": CIFAR,
    f"{V3}__cifar10__cudnn.conf": CIFAR,
    f"{V3}__cifar10__cudnn_bm.conf": CIFAR,
    f"{V3}__char-rnn__job.conf": {
        "data": np.random.default_rng(0).integers(0, 101, (51, 2)).astype(np.float32)
    },
}


@pytest.mark.corpus
@pytest.mark.parametrize("name", NETS)
def test_every_layer_makes_what_singas_code_makes(name, corpus, tmp_path):
    text = re.sub(r"num_output: (2500|2000|1500|1000)\b", "num_output: 70", (corpus / name).read_text())
    given = {key: array.shape for key, array in NETS[name].items() if key in {"mnist", "rgb"}}
    check(tmp_path, text, NETS[name], given=given, prefix="" if V1 in name else "0#")


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("name", [f"{V3}__alexnet__job.conf", f"{V3}__alexnet__cudnn.conf"])
@pytest.mark.usefixtures("memory_kept")
def test_alexnet(name, corpus, tmp_path):
    check(tmp_path, (corpus / name).read_text(), {"image": normal(2, 3, 227, 227), "label": LABELS})
