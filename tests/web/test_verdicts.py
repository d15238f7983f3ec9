"""What the list and the database make of every verdict."""

from __future__ import annotations

import pytest

from netweave.comparison import Verdict
from netweave.web.models import Comparison


@pytest.mark.parametrize("verdict", Verdict, ids=lambda verdict: verdict.name)
def test_every_verdict_is_kept_whole_and_shown_with_its_mark(visitor, verdict):
    owner = visitor()
    key = owner.make_comparison()
    found = Comparison.objects.get(pk=key)
    found.verdict, found.state, found.sentence = verdict.value, "done", "one sentence"
    found.clean_fields(exclude=[field.name for field in Comparison._meta.fields if field.name != "verdict"])
    found.save()
    assert f"{verdict.mark} {verdict.value}</span>" in owner.open("/comparisons/").content.decode()
    assert owner.call("GET", f"/comparisons/{key}").json()["verdict"] == verdict.value


def test_a_comparison_that_is_not_done_has_no_mark(visitor):
    owner = visitor()
    assert Comparison.objects.get(pk=owner.make_comparison()).found is None
