"""What comes from strangers stays data: names, markup, code, archives, sizes, forms, headers."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from django.test import Client

from netweave.formats import FORMATS
from netweave.web.models import Comparison, File, Net
from netweave.web.safety import MAX_CHARACTERS, safe_name
from netweave.web.work import child
from netweave.web.work.child import Request

MARKUP = "<script>alert(1)</script>"

PAGES = ("/", "/comparisons/", "/help/", "/programs/", "/nowhere/", "/api/docs")


class Pipe:
    """The worker's end of a child's pipe."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def send(self, words) -> None:
        self.said.append(words)


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue()


NET = b"""name: 'x' layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 1 dim: 2 } } }
layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }"""


def read(folder: Path, code: bool = False, entry: str = "", asks_for_code: bool = False, **files: bytes):
    """Read a net as a child does; return the last word and the facts."""
    (folder / "net").mkdir()
    for name, content in files.items():
        (folder / "net" / name).write_bytes(content)
    request = Request(
        folder=folder,
        nets=("net",),
        input_shapes=({},),
        entries=(entry,),
        settings={},
        code=code,
        asks_for_code=asks_for_code,
        memory_bytes=1 << 33,
        unpacked_bytes=1 << 20,
    )
    pipe = Pipe()
    child.answer(request, pipe)
    facts = folder / child.FACTS
    return pipe.said[-1], json.loads(facts.read_text())[0] if facts.exists() else None


# names


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("det1-0001.params", "det1-0001.params"),
        ("a net@1 +x.onnx", "a net@1 +x.onnx"),
        ("../../etc/passwd", "passwd"),
        (r"C:\nets\..\a.onnx", "a.onnx"),
        ("a,b:c.py", "a_b_c.py"),
        ("..", "_"),
        ("", "_"),
        (".htaccess", "_htaccess"),
        (f"{MARKUP}.prototxt", "script_.prototxt"),
        ("nul\0l\n.onnx", "nul_l_.onnx"),
        ("模型.prototxt", "模型.prototxt"),
        ("re\u0301seau (2).onnx", "réseau (2).onnx"),
        ("मॉडल-symbol.json", "मॉडल-symbol.json"),
        ("a\u202egpj.onnx", "a_gpj.onnx"),
        ("模" * 100 + "-symbol.json", "模" * 76 + "-symbol.json"),
        ("x" * 500 + "-symbol.json", "x" * (MAX_CHARACTERS - 12) + "-symbol.json"),
    ],
)
def test_names_are_made_safe_and_keep_what_readers_go_by(given, kept):
    assert safe_name(given) == kept


@pytest.mark.parametrize("name", ["..%2F..%2Fsettings.toml", "%2e%2e", "a%00b.onnx", "..%5c..%5cx"])
def test_an_upload_cannot_leave_its_place(visitor, name, tmp_path):
    owner = visitor()
    net = owner.make_net()
    owner.upload(net, name, b"x")
    for file in File.objects.all():
        assert "/" not in file.name
        assert file.name not in {"..", "."}
        assert file.stored.startswith(f"nets/{net}/")
        assert ".." not in file.stored


def test_files_in_any_script_stand_beside_each_other(visitor):
    owner = visitor()
    net = owner.make_net(**{"模型.prototxt": b"a", "网络.prototxt": b"b", "сеть.prototxt": b"c"})
    kept = [file["name"] for file in owner.call("GET", f"/nets/{net}").json()["files"]]
    assert sorted(kept) == sorted(["模型.prototxt", "网络.prototxt", "сеть.prototxt"])


def test_a_name_that_was_changed_replaces_no_other_file(visitor):
    owner = visitor()
    net = owner.make_net(**{"a_b.onnx": b"a"})
    refused = owner.upload(net, "a*b.onnx", b"b")
    assert refused.status_code == 422
    assert "is kept as 'a_b.onnx'" in refused.json()["detail"]
    assert owner.upload(net, "a_b.onnx", b"newer").status_code == 201


# markup


def test_markup_in_names_and_messages_is_shown_as_text(visitor):
    owner = visitor()
    key = owner.make_comparison()
    owner.call("PATCH", f"/comparisons/{key}", {"name": MARKUP})
    found = Comparison.objects.get()
    net = str(found.net_a_id)
    facts = {"title": MARKUP, "layers": 1, "parameters": 1, "loaded": True, "notes": [MARKUP]}
    for state in ("queued", "done", "failed"):
        Comparison.objects.update(
            state=state, sentence=MARKUP, verdict=MARKUP, error=MARKUP, name_a=MARKUP, stage=MARKUP
        )
        Net.objects.update(state=state, name=MARKUP, error=MARKUP, facts=facts)
        for page in (
            "/",
            "/comparisons/",
            f"/comparisons/?q={MARKUP}",
            f"/comparisons/{key}/",
            f"/nets/{net}/",
        ):
            content = owner.open(page).content
            assert b"<script>alert" not in content, (state, page)
            assert b"&lt;script&gt;" in content or page == f"/nets/{net}/", (state, page)


def test_documents_are_json_that_no_browser_takes_for_a_page(visitor):
    owner = visitor()
    response = owner.call("POST", "/nets", {"name": MARKUP})
    assert response["Content-Type"].startswith("application/json")
    assert response["X-Content-Type-Options"] == "nosniff"


# code, archives, pickles


def test_every_format_that_runs_code_says_so():
    """A format that knows the guard is one of code; if none does, this tests nothing."""
    package = Path(__file__).parents[2] / "src" / "netweave" / "formats"
    guarded = {
        row.name
        for row in FORMATS
        if any("files.python_code" in file.read_text() for file in (package / row.name).rglob("*.py"))
    }
    assert "pytorch" in guarded
    assert guarded <= {row.name for row in FORMATS if row.code}


@pytest.mark.parametrize(
    ("package", "base", "title"),
    [("torch", "torch.nn.Module", "PyTorch"), ("chainer", "chainer.Chain", "Chainer"),
     ("keras", "keras.Model", "Keras")],
)  # fmt: skip
def test_code_is_refused_and_not_run(tmp_path, package, base, title):
    witness = tmp_path / "witness"
    code = f"import {package}\nopen({str(witness)!r}, 'w')\nclass Net({base}): pass\n"
    last, facts = read(tmp_path, **{"model.py": code.encode()})
    assert last[0] == "failed"
    assert f"contains code ({title}), which is not allowed here" in last[1]
    assert facts is None
    assert not witness.exists()


def test_where_a_button_allows_code_the_error_names_it(tmp_path):
    last, _ = read(
        tmp_path, asks_for_code=True, **{"port.py": b"import torch\nclass Net(torch.nn.Module): pass\n"}
    )
    text = "port.py: contains code (PyTorch), which you have not allowed yet: press Read files with code, "
    assert last[:2] == ("failed", f"{text}or export the net to ONNX")
    assert last[2]["needs_code"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="the guard, bubblewrap, is not here")
def test_of_several_classes_in_a_file_of_code_the_user_names_one(tmp_path):
    tests = Path(__file__).parents[1]
    files = {
        "models.py": (tests / "formats" / "chainer" / "nets" / "models.py").read_bytes(),
        "Lenet.npz": (tests / "golden" / "chainer" / "Lenet.npz").read_bytes(),
    }
    for folder in ("any", "named"):
        (tmp_path / folder).mkdir()
    last, _ = read(tmp_path / "any", code=True, **files)
    assert last[0] == "failed"
    assert "classes or functions that construct a model without arguments (Lenet, " in last[1]
    last, facts = read(tmp_path / "named", code=True, entry="Lenet", **files)
    assert last == ("done", "")
    assert (facts["title"], facts["loaded"]) == ("Chainer", True)


@pytest.mark.parametrize(
    "members",
    [
        {"net/code/__torch__.py": b"x", "net/data.pkl": b"x", "net/version": b"3"},
        {"net/models/model.json": b"{}", "net/archive_format": b"pt2"},
    ],
    ids=["TorchScript", "exported program"],
)
def test_code_in_archives_is_refused(tmp_path, members):
    last, facts = read(tmp_path, **{"net.pt2": archive(**members)})
    assert last[0] == "failed"
    assert "contains code" in last[1]
    assert facts is None


def test_an_archive_of_a_net_is_unpacked_nowhere_but_in_the_folder_of_the_job(tmp_path):
    members = {
        f"{'../' * 9}tmp/netweave-escaped": b"x",
        "/tmp/netweave-escaped2": b"x",
        "..\\..\\escaped": b"x",
    }
    before = set(tmp_path.parent.rglob("*escaped*"))
    last, facts = read(tmp_path, **{"net.zip": archive(**members, **{"a/b/net.prototxt": NET})})
    assert last[0] == "done"
    assert facts["files"] == ["net.prototxt"]
    found = set(tmp_path.parent.rglob("*escaped*")) - before
    assert {path.name for path in found} == {"netweave-escaped", "netweave-escaped2", "escaped"}
    assert {path.parent for path in found} == {tmp_path / "net"}
    assert not list(Path("/tmp").glob("netweave-escaped*"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive(**{"net.prototxt": b" " * (2 << 20)}), "unpacks to more than is allowed"),
        (archive(**{f"{number}.txt": b"x" for number in range(65)}), "more than 64 files"),
        (archive(**{"a/net.prototxt": b"x", "b/net.prototxt": b"x"}), "two files called 'net.prototxt'"),
        (archive(**{"__MACOSX/x": b"x", ".DS_Store": b"x", "folder/": b""}), "an empty archive"),
        (archive(**{"net.prototxt": bytes(range(256))})[:150], "is not a complete archive"),
        (archive(**{"net.zip": b"x"}), "is not a complete archive"),
    ],
    ids=["a bomb", "many files", "two of one name", "nothing", "cut off", "named as itself"],
)
def test_an_archive_that_is_no_net_is_refused(tmp_path, content, said):
    last, _ = read(tmp_path, **{"net.zip": content})
    assert last[0] == "failed"
    assert said in last[1]
    assert str(tmp_path) not in last[1]


def test_an_archive_does_not_replace_a_file_beside_it(tmp_path):
    last, _ = read(tmp_path, **{"net.prototxt": NET, "net.zip": archive(**{"net.prototxt": b"x"})})
    assert last[0] == "failed"
    assert "File exists" in last[1]


def test_a_pickle_is_never_executed(tmp_path):
    witness = tmp_path / "witness"
    # protocol 0 by hand: os.system("touch witness")
    pickle = f"cos\nsystem\n(S'touch {witness}'\ntR.".encode()
    for name, content in {
        "weights.pkl": pickle,
        "weights.pt": archive(**{"w/data.pkl": pickle, "w/version": b"3"}),
        "weights.params": pickle,
        "weights.caffemodel": pickle,
        "weights.npy": b"\x93NUMPY\x01\x00" + pickle,
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        read(folder, **{"net.prototxt": NET, name: content})
        read_alone = tmp_path / f"alone-{name}"
        read_alone.mkdir()
        read(read_alone, **{name: content})
    assert not witness.exists()


def test_messages_do_not_tell_folders_of_the_server(tmp_path):
    last, _ = read(tmp_path, **{"net.prototxt": b"layer { name: 'x' type: 'ReLU' bottom: 'gone' top: 'y' }"})
    assert last[0] == "failed"
    assert last[1].startswith("net.prototxt")
    assert str(tmp_path) not in last[1]


def test_a_net_that_is_only_shown_does_not_tell_folders_of_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("netweave.viewer.page.built", lambda name: f"/* {name} */")
    net = NET + b" layer { name: 'x' type: 'Nonsense' bottom: 'r' top: 'y' }"
    last, _ = read(tmp_path, **{"net.prototxt": net})
    assert last[0] == "done"
    texts = [file.read_text() for file in tmp_path.rglob("*.json")]
    assert any("Nonsense" in text for text in texts)
    assert not any(str(tmp_path) in text for text in texts)


# size and rate


def test_a_file_that_is_too_large_is_refused_also_when_it_does_not_say_so(visitor, choose):
    choose(max_file_mb=1)
    owner = visitor()
    net = owner.make_net()
    refused = owner.upload(net, "a.onnx", b"x" * (1 << 20 | 1))
    assert refused.status_code == 422
    assert "larger than 1.05 MB" in refused.json()["detail"]
    assert not File.objects.exists()


def test_a_stream_is_cut_off_when_it_goes_over_the_limit():
    from netweave.web.nets import RefusedError, _Bounded

    bounded = _Bounded(io.BytesIO(b"x" * 1000), 999, "too large")
    with pytest.raises(RefusedError, match="too large"):
        list(bounded.chunks(100))
    assert b"".join(_Bounded(io.BytesIO(b"x" * 1000), 1000, "").chunks(100)) == b"x" * 1000


def test_all_files_of_one_user_have_a_limit(visitor, choose):
    choose(max_total_mb=1)
    owner = visitor()
    net = owner.make_net(**{"a.onnx": b"x" * 700_000})
    refused = owner.upload(net, "b.onnx", b"x" * 700_000)
    assert refused.status_code == 422
    assert "only 349 kB are left of your 1.05 MB" in refused.json()["detail"]
    assert visitor().make_net(**{"b.onnx": b"x" * 700_000})


def test_empty_and_too_many_files_are_refused(visitor, choose):
    choose(max_files=2)
    owner = visitor()
    net = owner.make_net(**{"a.onnx": b"x", "b.onnx": b"x"})
    assert "at most 2 files" in owner.upload(net, "c.onnx", b"x").json()["detail"]
    assert owner.upload(net, "b.onnx", b"y").status_code == 201
    assert "is empty" in owner.upload(net, "a.onnx", b"").json()["detail"]


def test_what_is_done_too_often_is_refused_for_a_minute(visitor, choose):
    choose(uploads_per_minute=3, comparisons_per_minute=1)
    owner = visitor()
    net = owner.make_net(**{"a.onnx": b"x", "b.onnx": b"x"})
    assert owner.upload(net, "a.onnx", b"x").status_code == 201
    refused = owner.upload(net, "a.onnx", b"x")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert owner.call("POST", "/comparisons", {"a": net, "b": net}).status_code == 202
    assert owner.call("POST", "/comparisons", {"a": net, "b": net}).status_code == 429
    assert visitor().make_net(**{"a.onnx": b"x"})


def test_one_address_brings_only_so_many_newcomers(visitor, choose):
    choose(newcomers_per_minute=2)
    for _ in range(2):
        visitor().make_net()
    assert visitor().call("POST", "/nets", {}).status_code == 429
    page = visitor().submit("/programs/")
    assert (page.status_code, page["Retry-After"]) == (429, "60")
    assert b"more than 2 new browsers in a minute" in page.content
    assert visitor("10.0.0.9").call("POST", "/nets", {}).status_code == 201


def test_a_body_of_json_has_a_limit(visitor):
    assert visitor().call("POST", "/nets", {"name": "x" * 300_000}).status_code in {400, 413}


# forms and headers


def test_whatever_a_cookie_opens_needs_the_token_of_a_page(visitor):
    owner = visitor()
    key = owner.make_comparison()
    owner.token = "x" * 64
    assert owner.call("DELETE", f"/comparisons/{key}").status_code == 403
    assert owner.call("POST", "/nets", {}).status_code == 403
    assert owner.submit(f"/comparisons/{key}/delete/").status_code == 403
    assert owner.client.post("/programs/").status_code == 403
    assert Comparison.objects.filter(pk=key).exists()


def test_things_are_changed_by_post_only(visitor):
    owner = visitor()
    key = owner.make_comparison()
    for form in ("rename", "delete", "cancel", "share"):
        assert owner.open(f"/comparisons/{key}/{form}/").status_code == 405


@pytest.mark.parametrize("page", PAGES)
def test_pages_allow_nothing_from_elsewhere_and_no_inline_script(visitor, page):
    response = visitor().open(page)
    policy = dict(rule.partition(" ")[::2] for rule in response["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert page == "/api/docs" or policy["style-src"] == "'self'"
    content = response.content.decode()
    assert " style=" not in content
    assert not [
        word
        for word in ("http://", "https://cdn", "onclick", "onload=")
        if word in content.replace("http://localhost", "").replace("http://www.w3.org", "")
    ]
    assert "<script>" not in content
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"


def test_cookies_are_kept_from_scripts_and_other_sites(visitor):
    cookies = visitor().client.cookies
    assert set(cookies) == {"csrftoken", "netweave-workspace"}
    assert {(cookie["httponly"], cookie["samesite"]) for cookie in cookies.values()} == {(True, "Lax")}


def test_with_https_cookies_are_secure_and_browsers_stay(tmp_path):
    """In an interpreter of its own: settings are read once."""
    import os
    import subprocess
    import sys

    (tmp_path / "settings.toml").write_text('https = true\nproxy = true\nhosts = ["nets.example.org"]\n')
    script = (
        "from netweave.web import settings as s\n"
        "print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_HSTS_SECONDS > 1, s.ALLOWED_HOSTS[-1],"
        "s.CSRF_TRUSTED_ORIGINS, s.SECURE_PROXY_SSL_HEADER[1], s.DEBUG)"
    )
    environment = {**os.environ, "NETWEAVE_DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split(" ", 4)[:4] == ["True", "True", "True", "nets.example.org"]
    assert done.stdout.strip().endswith("['https://nets.example.org'] https False")


def test_other_host_names_are_refused(visitor):
    """A page of another site whose name was turned to 127.0.0.1 must not read what is here."""
    assert Client().get("/", headers={"Host": "evil.example"}).status_code == 400


def test_sign_in_is_not_there_without_accounts(visitor):
    assert [visitor().open(page).status_code for page in ("/sign-in/", "/sign-up/")] == [404, 404]
