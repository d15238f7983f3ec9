"""What a user chooses about a comparison: kept, carried out by the child, and told apart between two runs."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from uuid import uuid4

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from netweave.viewer import document_rows
from netweave.web import chosen_options, comparisons
from netweave.web.models import Comparison, OwnInput, State, Workspace
from netweave.web.samples import samples
from netweave.web.work import child, storage
from tests.web.test_safety import Pipe

CHOSEN = {
    "first": "conv1",
    "last": "pool1",
    "tolerance": 0.01,
    "seed": 3,
    "num_samples": 5,
    "phase": "TRAIN",
    "stages": ["deploy"],
    "input_shapes_a": {"data": [1, 3, 32, 32]},
    "times": True,
}


def pair_of(owner) -> dict[str, str]:
    pair = owner.call("POST", "/samples/padding").json()
    return {"a": pair["a"]["id"], "b": pair["b"]["id"]}


def put_input(owner, name: str, content: bytes):
    path = f"/api/inputs/{name}"
    headers = {"X-CSRFToken": owner.token}
    return owner.client.generic("PUT", path, content, "application/octet-stream", headers=headers)


def arrays(**named: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **named)
    return stream.getvalue()


def carried_out(folder, *, settings=None, own: tuple[str, bytes] | None = None, b: str = "b"):
    """Return the child's last word, its result and its document, for the sample."""
    sample = samples()["padding"]
    for letter, files in (("a", sample.a), ("b", sample.b if b == "b" else sample.a)):
        (folder / letter).mkdir()
        for name, content in files.items():
            (folder / letter / name).write_bytes(content)
    file = None
    if own is not None:
        (folder / "input").mkdir()
        file = folder / "input" / own[0]
        file.write_bytes(own[1])
    request = child.Request(
        folder=folder,
        nets=("a", "b"),
        input_shapes=({}, {}),
        entries=("", ""),
        settings=settings or {},
        own_input=file,
        code=False,
        memory_bytes=1 << 33,
        unpacked_bytes=1 << 20,
    )
    pipe = Pipe()
    child.answer(request, pipe)
    if pipe.said[-1][0] != "done":
        return pipe.said[-1], None, None
    result, document = (json.loads((folder / name).read_bytes()) for name in (child.RESULT, child.DOCUMENT))
    return pipe.said[-1], result, document_rows(document)


def test_settings_are_kept_and_what_is_left_empty_is_not(visitor):
    owner = visitor()
    made = owner.call("POST", "/comparisons", pair_of(owner) | CHOSEN)
    assert made.status_code == 202, made.content
    kept = Comparison.objects.get(pk=made.json()["id"])
    assert kept.settings == CHOSEN
    plain = owner.call("POST", "/comparisons", pair_of(owner) | {"first": "", "seed": None, "stages": []})
    assert Comparison.objects.get(pk=plain.json()["id"]).settings == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": 0},
        {"tolerance": "nan"},
        {"num_samples": 0},
        {"num_samples": 65},
        {"seed": -1},
        {"phase": "OTHER"},
        {"stages": ["x"] * 17},
        {"input_shapes_a": {"data": [0]}},
        {"preprocessing": {"color": "rgb", "fit": "stretch", "scale": 1, "mean": [0], "std": [0]}},
        {"preprocessing": {"color": "hsv", "fit": "stretch", "scale": 1, "mean": [0], "std": [1]}},
        {"preprocessing": {"color": "rgb", "fit": "stretch", "scale": 1, "mean": [], "std": [1]}},
    ],
)
def test_settings_that_mean_nothing_are_refused(visitor, wrong):
    owner = visitor()
    assert owner.call("POST", "/comparisons", pair_of(owner) | wrong).status_code == 422
    assert not Comparison.objects.exists()


def test_an_own_input_is_its_owners_and_goes_with_the_last_comparison_that_uses_it(visitor):
    owner, other = visitor(), visitor()
    own = put_input(owner, "cat.png", b"pixels").json()
    assert (own["name"], own["num_bytes"]) == ("cat.png", 6)
    stored = OwnInput.objects.get().stored
    foreign = other.call("POST", "/comparisons", pair_of(other) | {"own_input": own["id"]})
    assert foreign.status_code == 404
    assert owner.call("POST", "/comparisons", pair_of(owner) | {"own_input": str(uuid4())}).status_code == 404
    keys = [
        owner.call("POST", "/comparisons", pair_of(owner) | {"own_input": own["id"]}).json()["id"]
        for _ in range(2)
    ]
    owner.call("DELETE", f"/comparisons/{keys[0]}")
    assert default_storage.exists(stored)
    owner.call("DELETE", f"/comparisons/{keys[1]}")
    assert not default_storage.exists(stored)
    assert not OwnInput.objects.exists()


def test_own_inputs_take_of_the_quota_and_one_that_nobody_uses_goes(visitor, choose):
    choose(max_total_mb=1)
    owner = visitor()
    assert put_input(owner, "a.npz", b"x" * 900_000).status_code == 201
    workspace = OwnInput.objects.get().workspace_id
    assert storage.taken_bytes(workspace) == 900_000
    refused = put_input(owner, "b.npz", b"x" * 900_000)
    assert refused.status_code == 422
    assert "are left of your" in refused.json()["detail"]
    assert put_input(owner, "empty.npz", b"").status_code == 422
    assert storage.delete_unused_inputs() == 0
    OwnInput.objects.update(created=timezone.now() - timedelta(days=2))
    stored = OwnInput.objects.get().stored
    assert storage.delete_unused_inputs() == 1
    assert not default_storage.exists(stored)


def test_names_of_own_inputs_are_made_safe(visitor):
    own = put_input(visitor(), "..%2F..%2Fetc%2Fpasswd", b"x")
    assert own.status_code in {201, 404}
    assert all("/" not in kept.name and ".." not in kept.name for kept in OwnInput.objects.all())


def test_the_nets_are_run_on_the_arrays_that_were_brought(tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    last, result, document = carried_out(tmp_path, own=("mine.npz", arrays(data=x)))
    assert last == ("done", "")
    assert result["probes"] == ["data 2x3x32x32"]
    assert all(group["values"]["shape"][0] == 2 for group in document["groups"] if group["values"])


def test_the_nets_are_run_on_an_image(tmp_path):
    import cv2

    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    content = cv2.imencode(".png", pixels)[1].tobytes()
    preparing = {"color": "bgr", "fit": "stretch", "scale": 1.0, "mean": [104, 117, 123], "std": [1.0]}
    settings = {"preprocessing": preparing}
    last, result, document = carried_out(tmp_path, own=("cat.png", content), settings=settings, b="a")
    assert last == ("done", "")
    assert result["probes"] == ["data 1x3x32x32"]
    assert result["verdict"] == "identical"
    # what the nets saw: the first group is the convolution's
    assert any(group["values"] for group in document["groups"])


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (("cat.png", b"GIF89a"), "is not an .npz or .npy; for an image, say how its pixels are prepared"),
        (("mine.npz", b"PK\x03\x04 torn"), "mine.npz"),
        (("mine.npz", arrays(other=np.zeros((1, 3, 32, 32)))), "the probe has no 'data'"),
        (("mine.npz", arrays(data=np.full((1, 3, 32, 32), np.nan))), "NaN or infinite"),
        (("mine.npz", arrays(data=np.array([None]))), "mine.npz"),
    ],
)
def test_own_inputs_that_cannot_be_used_are_explained_without_folders(tmp_path, own, message):
    last, *_ = carried_out(tmp_path, own=own)
    assert last[0] == "failed"
    assert message in last[1]
    assert str(tmp_path) not in last[1]


def test_times_of_layers_are_measured_where_asked_for(tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    _, _, timed = carried_out(tmp_path / "with", settings={"times": True})
    seconds = [layer["seconds"] for layer in timed["nets"][0]["layers"] if layer.get("seconds")]
    assert len(seconds) > 3
    assert all(0 < value < 10 for value in seconds)
    _, _, plain = carried_out(tmp_path / "without")
    assert not any(layer.get("seconds") for layer in plain["nets"][0]["layers"])


def test_a_range_seed_and_phase_reach_the_comparison(tmp_path):
    settings = {"first": "conv2", "last": "fc", "seed": 5, "phase": "TEST", "num_samples": 2}
    last, result, _ = carried_out(tmp_path, settings=settings)
    assert last == ("done", "")
    assert result["verdict"] == "identical", "the mistake is before conv2"
    last, *_ = carried_out(_empty(tmp_path / "again"), settings={"first": "nowhere"})
    assert last[0] == "failed"
    assert "nowhere" in last[1]


def _empty(folder):
    folder.mkdir()
    return folder


def test_two_runs_differ_in_what_was_chosen_and_found(visitor, tmp_path):
    owner = visitor()
    pair = pair_of(owner)
    keys = [
        owner.call("POST", "/comparisons", pair | chosen).json()["id"] for chosen in ({}, {"first": "conv2"})
    ]
    results = [carried_out(_empty(tmp_path / "old"))[1]]
    results.append(carried_out(_empty(tmp_path / "new"), settings={"first": "conv2"})[1])
    for key, result in zip(keys, results, strict=True):
        content = storage.keep(f"results/{key}/result.json.gz", json.dumps(result).encode())
        Comparison.objects.filter(pk=key).update(
            state=State.DONE, result=content, verdict=result["verdict"], sentence=result["sentence"]
        )
    old, new = (Comparison.objects.get(pk=key) for key in keys)
    difference = comparisons.run_difference(old, new, *results)
    assert [(row.name, row.old, row.new) for row in difference.settings] == [("from layer", "", "conv2")]
    assert {row.name for row in difference.results} >= {"verdict"}
    assert [cause.split(":")[0] for cause in difference.gone] == ["pool1 / down1"]
    assert difference.new == ()
    assert any(row.name.startswith("pool1") and row.new == "" for row in difference.layers)
    same = comparisons.run_difference(old, old, results[0], results[0])
    assert same.is_empty
    assert not same.settings
    assert list(comparisons.others(old)) == [new]
    page = owner.open(f"/comparisons/{keys[0]}/against/{keys[1]}/").content.decode()
    assert "from layer" in page
    assert "pool1 / down1" in page
    assert visitor().open(f"/comparisons/{keys[0]}/against/{keys[1]}/").status_code == 404


def test_runs_of_different_pairs_are_not_told_apart(visitor):
    owner = visitor()
    keys = [owner.call("POST", "/comparisons", pair_of(owner)).json()["id"] for _ in range(2)]
    Comparison.objects.update(state=State.DONE)
    assert owner.open(f"/comparisons/{keys[0]}/against/{keys[1]}/").status_code == 404


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [(None, None, True), (0.0, 9e-7, True), (0.1, 0.15, True), (0.1, 0.3, False), (None, 0.1, False)],
)
def test_errors_of_the_same_size_are_no_difference(old, new, is_same):
    names = {"layers_a": ["x"], "layers_b": ["y"], "nodes_a": [], "nodes_b": []}
    results = [
        {"verdict": "different", "groups": [names | {"status": "s", "error": error}]} for error in (old, new)
    ]
    runs = [Comparison(), Comparison()]
    assert (comparisons.run_difference(*runs, *results).layers == ()) is is_same


def test_the_form_begins_with_what_was_chosen():
    workspace = Workspace.objects.create()
    own = OwnInput.objects.create(workspace=workspace, name="cat.png", stored="x", num_bytes=1)
    preparing = {"color": "bgr", "fit": "crop", "scale": 1.0, "mean": [104, 117, 123], "std": [1.0]}
    chosen = Comparison(settings=CHOSEN | {"preprocessing": preparing}, own_input=own)
    values = chosen_options.form_values(chosen)
    assert values["input_shapes_a"] == "data=1x3x32x32"
    assert (values["mean"], values["scale"], values["color"]) == ("104, 117, 123", "1", "bgr")
    assert (values["stages"], values["own_name"]) == ("deploy", "cat.png")
    assert ("own input", "cat.png") in chosen_options.rows(chosen)
