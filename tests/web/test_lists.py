"""The lists of nets and comparisons, as a browser receives them."""

from __future__ import annotations

from netweave.web.models import Comparison, Net, State


def test_errors_begin_with_the_name_of_the_file_and_sentences_with_a_capital(visitor):
    owner = visitor()
    key = owner.make_comparison()
    comparison = Comparison.objects.filter(pk=key)
    comparison.update(state=State.DONE, sentence="different at pool1: rounding")
    assert "<p>Different at pool1: rounding</p>" in owner.open("/comparisons/").content.decode()
    comparison.update(state=State.FAILED, error="port.py: contains code")
    assert "<p>port.py: contains code</p>" in owner.open("/comparisons/").content.decode()
    Net.objects.update(state=State.FAILED, error="typo.prototxt: line 1")
    assert "<p>typo.prototxt: line 1</p>" in owner.open("/nets/").content.decode()
