"""Nets and comparisons as files to send on."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import netweave
from netweave.graph import parameter_key
from netweave.viewer import document_markdown
from netweave.web.models import Comparison, Net
from netweave.web.work import storage

DIFF = "--- a/b.json\n+++ b/b.json\n@@ -1 +1 @@\n-1\n+2\n"


@pytest.fixture
def built(monkeypatch):
    """A front end that is built, whatever this checkout has."""
    monkeypatch.setattr("netweave.viewer.page.built", lambda name: f"/* {name} */")


@pytest.fixture
def done(visitor):
    """A comparison that is done, with a document that tries to leave its element."""
    owner = visitor()
    key = owner.make_comparison()
    net = {"name": "</script><script>alert(1)</script>", "format": "Caffe", "files": ["a"], "notes": []}
    net |= {"layers": [], "nodes": [], "totals": None}
    document = {
        "kind": "comparison",
        "title": "x",
        "nets": [net, net],
        "verdict": "different",
        "verdicts": [],
    }
    document |= {"sentence": "s", "groups": [], "findings": [], "inputs": [], "outputs": [], "notes": []}
    document |= {"probes": [], "patch": {"diff": DIFF, "why": "", "files": ["b.json"]}}
    comparison = Comparison.objects.get(pk=key)
    comparison.name = "a net/../against\r\nanother"
    comparison.document = storage.keep(f"results/{key}/d.json.gz", json.dumps(document).encode())
    comparison.result = storage.keep(f"results/{key}/r.json.gz", b'{"version":2}')
    comparison.state = "done"
    comparison.save()
    return owner, comparison, document


def test_each_form_is_what_it_says(done, built):
    owner, comparison, document = done
    path = f"/comparisons/{comparison.pk}/export"
    found = {kind: owner.call("GET", f"{path}/{kind}") for kind in ("html", "json", "md", "patch")}
    for kind, answer in found.items():
        assert answer.status_code == 200, answer.content
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"] == f'attachment; filename="a-net-..-against-another.{kind}"'
    assert json.loads(found["json"].content) == {"version": 2}
    assert found["md"].content.decode() == document_markdown(document)
    assert found["patch"].content.decode() == DIFF
    page = found["html"].content.decode()
    assert page.count("</script>") == 3
    begin = page.index('id="document">') + len('id="document">')
    assert json.loads(page[begin : page.index("</script>", begin)]) == document


def test_a_patch_that_is_not_there_is_refused_with_the_reason(done):
    owner, comparison, document = done
    document["patch"] = {"diff": "", "why": "the place is not known", "files": []}
    comparison.document = storage.keep(f"results/{comparison.pk}/e.json.gz", json.dumps(document).encode())
    comparison.save()
    refused = owner.call("GET", f"/comparisons/{comparison.pk}/export/patch")
    assert (refused.status_code, refused.json()["detail"]) == (422, "the place is not known")
    assert owner.call("GET", f"/comparisons/{comparison.pk}/export/exe").status_code == 422


@pytest.mark.parametrize("kind", ["html", "json", "md", "patch"])
def test_nobody_exports_what_is_not_theirs(done, visitor, choose, kind):
    choose(hosts=("workbench.example",))
    _, comparison, _ = done
    thief = visitor()
    key = thief.make_net()
    assert thief.call("GET", f"/comparisons/{comparison.pk}/export/{kind}").status_code == 404
    assert thief.call("GET", f"/nets/{key}/export/{kind}").status_code == 404
    assert Net.objects.filter(pk=key).exists()


def test_one_array_of_a_net_is_saved_for_numpy(visitor):
    owner = visitor()
    pair = owner.call("POST", "/samples/padding").json()
    net = Net.objects.get(pk=pair["a"]["id"])
    path = f"/nets/{net.pk}/arrays?name="
    refused = owner.call("GET", f"{path}conv1/0")  # no worker has read it here
    assert (refused.status_code, "not been read" in refused.json()["detail"]) == (422, True)
    Net.objects.filter(pk=net.pk).update(state="done")
    with storage.scratch() as folder:
        graph = netweave.load(*sorted(storage.lay_out(net, folder / "net"), reverse=True))  # .prototxt first
    values = {parameter_key(value): value for value in graph.model.graph.initializers.values()}
    wanted = next(key for key, entry in graph.parameters.items() if len(entry.shape) == 4)
    answer = owner.call("GET", f"{path}{wanted}")
    assert answer.status_code == 200, answer.content
    assert answer["Content-Disposition"].endswith('.npy"')
    found = np.load(io.BytesIO(b"".join(answer.streaming_content)))
    np.testing.assert_array_equal(found, values[wanted].const_value.numpy())
    missing = owner.call("GET", f"{path}conv9/0")
    assert (missing.status_code, missing.json()["detail"]) == (422, "the net's files hold no array 'conv9/0'")
    assert owner.call("GET", path).status_code == 422
    assert visitor().call("GET", f"{path}{wanted}").status_code == 404
