"""The HTTP API as programs see it."""

from __future__ import annotations

import pytest

from netweave.web.models import Comparison, Net, State


def test_every_call_is_described(visitor):
    found = visitor().client.get("/api/openapi.json").json()
    calls = {
        (method, path)
        for path, methods in found["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert len(calls) == 27
    for path, methods in found["paths"].items():
        for method, call in methods.items():
            assert call["summary"], (method, path)
            assert call["description"], (method, path)
            assert call["security"], (method, path)
    assert {"Token", "Browser"} <= set(found["components"]["securitySchemes"])


def test_the_page_of_the_api_comes_from_here(visitor):
    page = visitor().open("/api/docs").content.decode()
    assert "/static/ninja/swagger-ui-bundle.js" in page
    assert "cdn" not in page


def test_the_life_of_a_net(visitor):
    owner = visitor()
    net = owner.call("POST", "/nets", {"name": "mine", "input_shapes": {"data": [1, 3, 8, 8]}}).json()
    assert (net["state"], net["files"], net["page"]) == ("empty", [], f"/nets/{net['id']}/")
    found = owner.upload(net["id"], "b.json", b"bb").json()
    found = owner.upload(net["id"], "a.json", b"a").json()
    assert found["files"] == [{"name": "a.json", "num_bytes": 1}, {"name": "b.json", "num_bytes": 2}]
    assert found["state"] == "queued"
    found = owner.upload(net["id"], "a.json", b"again").json()
    assert found["files"][0] == {"name": "a.json", "num_bytes": 5}
    found = owner.call("PATCH", f"/nets/{net['id']}", {"name": "other"}).json()
    assert (found["name"], found["input_shapes"]) == ("other", {"data": [1, 3, 8, 8]})
    assert owner.call("DELETE", f"/nets/{net['id']}/files/nothing").status_code == 404
    owner.call("DELETE", f"/nets/{net['id']}/files/a.json")
    found = owner.call("DELETE", f"/nets/{net['id']}/files/b.json").json()
    assert (found["state"], found["files"]) == ("empty", [])
    assert owner.call("GET", f"/nets/{net['id']}/document").status_code == 404
    assert owner.call("DELETE", f"/nets/{net['id']}").status_code == 204
    assert not Net.objects.exists()


def test_the_class_that_makes_a_net_of_code_is_named_and_the_net_read_again(visitor):
    owner = visitor()
    net = owner.make_net(**{"model.py": b"x"})
    Net.objects.update(state=State.FAILED, error="has 2 classes")
    found = owner.call("PATCH", f"/nets/{net}", {"entry": "Lenet"}).json()
    assert (found["entry"], found["state"], found["error"]) == ("Lenet", "queued", "")
    for wrong in ("os.system", "x; y", "A" * 101):
        assert owner.call("PATCH", f"/nets/{net}", {"entry": wrong}).status_code == 422
    assert owner.call("POST", "/nets", {"entry": "Lenet"}).json()["entry"] == "Lenet"


def test_deleting_removes_the_files_and_keeps_what_was_found(visitor):
    from django.core.files.storage import default_storage

    owner = visitor()
    key = owner.make_comparison()
    found = Comparison.objects.get()
    stored = [file.stored for file in found.net_a.files.all()]
    assert all(default_storage.exists(name) for name in stored)
    owner.call("DELETE", f"/nets/{found.net_a_id}")
    assert not any(default_storage.exists(name) for name in stored)
    assert owner.call("GET", f"/comparisons/{key}").json()["name_a"] == "leaves.prototxt"
    page = owner.open(f"/comparisons/{key}/").content
    assert b"(deleted)" in page


def test_nets_that_cannot_be_compared_are_refused_with_the_reason(visitor):
    owner = visitor()
    empty, bad = owner.make_net(), owner.make_net(**{"a.onnx": b"x"})
    refused = owner.call("POST", "/comparisons", {"a": empty, "b": bad})
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "net A has no files yet; upload them first",
    )
    Net.objects.filter(pk=bad).update(state="failed", error="a.onnx: is no net")
    refused = owner.call("POST", "/comparisons", {"a": bad, "b": bad})
    assert refused.json()["detail"] == "net A cannot be read: a.onnx: is no net"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/nets", {"input_shapes": {"data": [0]}}),
        ("/nets", {"input_shapes": {"data": "1x3"}}),
        ("/nets", {"name": "x" * 201}),
        ("/comparisons", {"a": "no id", "b": "none"}),
        ("/comparisons", {"a": "00000000-0000-0000-0000-000000000000"}),
    ],
)
def test_calls_that_make_no_sense_are_refused(visitor, path, body):
    refused = visitor().call("POST", path, body)
    assert refused.status_code == 422
    assert refused.json()["detail"]


def test_a_comparison_is_renamed_shared_and_listed(visitor):
    owner = visitor()
    key = owner.make_comparison()
    assert owner.call("PATCH", f"/comparisons/{key}", {"name": "mtcnn"}).json()["name"] == "mtcnn"
    assert owner.call("PATCH", f"/comparisons/{key}", {"name": "  "}).json()["name"] == "mtcnn"
    first = owner.call("POST", f"/comparisons/{key}/share").json()["shared"]
    assert owner.call("POST", f"/comparisons/{key}/share").json()["shared"] == first
    assert [row["name"] for row in owner.call("GET", "/comparisons").json()] == ["mtcnn"]
    assert owner.call("GET", f"/comparisons/{key}/result").status_code == 404


def test_documents_go_out_as_they_lie_or_unpacked(visitor):
    from netweave.web.work import storage

    owner = visitor()
    key = owner.make_comparison()
    Comparison.objects.update(state="done", result=storage.keep("results/x.json.gz", b'{"verdict": "x"}'))
    path = f"/api/comparisons/{key}/result"
    packed = owner.client.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip"
    plain = owner.client.get(path)
    assert plain.json() == {"verdict": "x"}
    assert "Accept-Encoding" in plain["Vary"]


@pytest.mark.parametrize("path", ["/nothing", "/nets/not-a-key", "/comparisons//", "/nets/1/2/3"])
def test_an_unknown_address_of_the_api_answers_json(visitor, path):
    answer = visitor().call("GET", path)
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("application/json")
    assert answer.json()["detail"]


@pytest.mark.parametrize("offset", [10**26, -1, "x"])
@pytest.mark.parametrize("what", ["nets", "comparisons"])
def test_an_offset_that_no_list_has_is_refused(visitor, what, offset):
    assert visitor().call("GET", f"/{what}?offset={offset}").status_code == 422
    assert visitor().call("GET", f"/{what}?offset=1000000").json() == []
