"""Every job of the corpus is trained for some steps, or refused with one exact message."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.formats.singa.corpus_table import files
from tests.formats.singa.training_table import outcome, rows


@pytest.mark.corpus
def test_every_file_has_its_row(corpus):
    assert [name for name, _ in rows()] == files(corpus)


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "expected"), rows())
def test_outcome(name, expected, corpus, tmp_path):
    assert outcome(corpus, name, tmp_path) == expected
