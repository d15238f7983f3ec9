"""The workbench applies fixes: a new net, a new comparison, and nothing of the old ones changed."""

from __future__ import annotations

import json

import pytest
from django.core.files.storage import default_storage

from netweave.web.models import Comparison, File, Net
from netweave.web.samples import samples
from netweave.web.work import child
from tests.web.test_safety import Pipe


@pytest.fixture
def done(visitor, tmp_path):
    """A comparison of the sample as a worker leaves it, its owner, and the texts of its fixes."""
    from netweave.web.work import storage

    owner = visitor()
    key = owner.make_comparison()
    comparison = Comparison.objects.get(pk=key)
    sample = samples()["padding"]
    for letter, files in (("a", sample.a), ("b", sample.b)):
        (tmp_path / letter).mkdir()
        for name, content in files.items():
            (tmp_path / letter / name).write_bytes(content)
    request = child.Request(
        folder=tmp_path,
        nets=("a", "b"),
        input_shapes=({}, {}),
        entries=("", ""),
        settings={},
        code=False,
        memory_bytes=1 << 33,
        unpacked_bytes=1 << 20,
    )
    pipe = Pipe()
    child.answer(request, pipe)
    assert pipe.said[-1] == ("done", "")
    content = (tmp_path / child.FIXES).read_bytes()
    comparison.fixes = storage.keep(f"results/{key}/fixes.json.gz", content)
    comparison.state = "done"
    comparison.save()
    Net.objects.update(state="done")
    return owner, comparison, json.loads(content), json.loads((tmp_path / child.DOCUMENT).read_bytes())


def stored(net: Net) -> dict[str, bytes]:
    found = {}
    for file in net.files.all():
        with default_storage.open(file.stored) as stream:
            found[file.name] = stream.read()
    return found


def test_a_fix_makes_a_net_of_its_own_that_is_compared(done):
    owner, comparison, texts, document = done
    before = stored(comparison.net_b)
    assert document["findings"][0]["patch"]["diff"].startswith("--- a/leaves-symbol.json")
    assert "folder" not in document["findings"][0]["patch"]["diff"]
    answer = owner.call("POST", f"/comparisons/{comparison.pk}/fix?finding=0")
    assert answer.status_code == 202, answer.content
    made = Comparison.objects.get(pk=answer.json()["id"])
    assert made.net_a == comparison.net_a
    assert made.net_b != comparison.net_b
    assert stored(comparison.net_b) == before
    after = stored(made.net_b)
    assert after == before | {"leaves-symbol.json": texts["0"]["leaves-symbol.json"].encode()}
    assert after == samples()["mended"].b | {"leaves-symbol.json": after["leaves-symbol.json"]}
    nodes = {node["name"]: node for node in json.loads(after["leaves-symbol.json"])["nodes"]}
    assert nodes["down1"]["attrs"]["pooling_convention"] == "full"


def test_the_mended_file_is_downloaded_under_its_name(done):
    owner, comparison, texts, _ = done
    answer = owner.call("GET", f"/comparisons/{comparison.pk}/fix")
    assert answer["Content-Disposition"] == 'attachment; filename="leaves-symbol.json"'
    assert answer.content.decode() == texts["all"]["leaves-symbol.json"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_fix_that_is_not_there_or_not_ones_own_changes_nothing(done, visitor, method):
    owner, comparison, _, _ = done
    nets = Net.objects.count()
    refused = owner.call(method, f"/comparisons/{comparison.pk}/fix?finding=7")
    assert refused.status_code == 422
    assert "no fix of this comparison" in refused.json()["detail"]
    thief = visitor()
    thief.make_net()
    assert thief.call(method, f"/comparisons/{comparison.pk}/fix").status_code == 404
    assert owner.call(method, f"/comparisons/{comparison.pk}/fix?finding=-1").status_code == 422
    assert Net.objects.count() == nets + 1


def test_a_mended_net_counts_and_is_refused_without_room(done, choose):
    owner, comparison, _, _ = done
    taken = sum(File.objects.values_list("num_bytes", flat=True))
    choose(max_total_mb=max(1, taken >> 20))
    File.objects.filter(net=comparison.net_a).update(num_bytes=1 << 20)
    refused = owner.call("POST", f"/comparisons/{comparison.pk}/fix")
    assert refused.status_code == 422
    assert "are left of your" in refused.json()["detail"]


def test_a_net_that_was_deleted_cannot_be_mended(done):
    owner, comparison, _, _ = done
    owner.call("DELETE", f"/nets/{comparison.net_b_id}")
    assert "was deleted" in owner.call("POST", f"/comparisons/{comparison.pk}/fix").json()["detail"]


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"abcdef", b"abXdef"), (b"abcdef", b"abcabcdef"), (b"aaaa", b"aaa"), (b"abc", b"abc"), (b"", b"x")],
)
@pytest.mark.parametrize("compared_bytes", [1, 2, 1 << 20])
def test_of_a_mended_model_only_what_is_new_is_kept(done, old, new, compared_bytes, monkeypatch):
    from netweave.web.work import storage

    monkeypatch.setattr(child, "COMPARED_BYTES", compared_bytes)
    owner, comparison, _, _ = done
    file = comparison.net_b.files.get(name="leaves-0000.params")
    with default_storage.open(file.stored, "wb") as stream:
        stream.write(old)
    kept = child.changed_bytes(old, new)
    assert len(kept["new"]) <= 8
    content = json.dumps({"all": {file.name: kept}}).encode()
    comparison.fixes = storage.keep(f"results/{comparison.pk}/model.json.gz", content)
    comparison.save()
    assert owner.call("GET", f"/comparisons/{comparison.pk}/fix").content == new
    file.delete()
    assert "was deleted" in owner.call("GET", f"/comparisons/{comparison.pk}/fix").json()["detail"]


def test_a_model_that_changes_too_much_is_not_kept(monkeypatch):
    monkeypatch.setattr(child, "MAX_CHANGED_BYTES", 3)
    assert child.changed_bytes(b"a1234b", b"a567b") is not None
    assert child.changed_bytes(b"a1234b", b"a5678b") is None
