"""What the reader says that a solver reads, and what the update rule or policy takes, are the same."""

from __future__ import annotations

import dataclasses

import pytest

from netweave.formats.caffe.job import KINDS
from netweave.formats.caffe.job import POLICIES as READ
from netweave.training.optim import RULES
from netweave.training.optim.rule import POLICIES


def settings_of(made: type) -> set[str]:
    return {field.name for field in dataclasses.fields(made) if field.init}


@pytest.mark.parametrize("type_", KINDS)
def test_a_rule_takes_the_fields_that_the_reader_hands_on(type_):
    kind, fields = KINDS[type_]
    assert set(fields) == settings_of(RULES[kind])


@pytest.mark.parametrize("name", READ)
def test_a_policy_takes_the_fields_that_the_reader_hands_on(name):
    assert {"base_rate", *READ[name]} == settings_of(POLICIES[f"caffe.{name}"])


def test_every_rule_and_policy_of_caffe_can_be_read():
    assert {kind for kind in RULES if kind.startswith("caffe.")} == {kind for kind, _ in KINDS.values()}
    assert {kind for kind in POLICIES if kind.startswith("caffe.")} == {f"caffe.{name}" for name in READ}
