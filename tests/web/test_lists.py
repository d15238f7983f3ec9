"""The lists of nets and comparisons, as a browser receives them."""

from __future__ import annotations

import re

from netweave.graph.summary import bytes_text
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


def test_sizes_are_written_as_on_the_command_line(visitor, choose):
    choose(max_total_mb=10, max_file_mb=2)
    owner = visitor()
    key = owner.make_net(**{"a.prototxt": b"#" * 102_450})
    assert bytes_text(102_450) == "102 kB"
    page = owner.open("/nets/").content.decode()
    assert "102 kB of 10.5 MB taken" in page
    assert "1 file, 102 kB ·" in page
    assert re.search(r"a\.prototxt <span[^>]*>102 kB</span>", owner.open(f"/nets/{key}/").content.decode())
    assert "at most 2.10 MB; all your files together, 10.5 MB" in owner.open("/help/").content.decode()


def test_a_drop_of_which_no_file_is_kept_is_not_listed(visitor):
    owner = visitor()
    net = owner.call("POST", "/nets", {}).json()["id"]
    refused = owner.upload(net, "empty.onnx", b"")
    assert (refused.status_code, refused.json()["detail"]) == (422, "empty.onnx: the file is empty")
    page = owner.open("/nets/").content.decode()
    assert "without a name" not in page
    assert "No nets yet" in page
    owner.upload(net, "a.prototxt", b"name: 'x'")
    assert f"/nets/{net}/" in owner.open("/nets/").content.decode()
