"""What the process that reads files says of them, and to a worker that has gone."""

from __future__ import annotations

import io
import json
import multiprocessing
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import netweave
from netweave.files.unrecognised_files import refusal
from netweave.web.samples import samples
from netweave.web.work import child
from tests.web.test_safety import NET, Pipe, read


def request_in(folder) -> child.Request:
    """Return the request to compare the nets in two folders."""
    return child.Request(
        folder=folder,
        nets=("a", "b"),
        input_shapes=({}, {}),
        entries=("", ""),
        settings={},
        code=False,
        memory_bytes=1 << 33,
        unpacked_bytes=1 << 20,
    )


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"hello, there", "it starts with 'hello, t'"),
        ("Größen Ä".encode(), "it starts with 'Größen'"),
        (b"a\nb", r"it starts with 'a\nb'"),
        (b"\x00\x01\xfe\xff", "it starts with the bytes 00 01 fe ff"),
        (b"", "the file is empty"),
    ],
)
def test_the_first_bytes_of_what_is_no_net_are_shown_as_people_read_them(head, said):
    assert said in refusal("notes", head, foreign=None, known="nets")


def test_a_file_of_text_is_described_without_marks_of_a_programming_language(tmp_path):
    last, _ = read(tmp_path, **{"notes.txt": b"hello, there"})
    assert last[0] == "failed"
    assert "it starts with 'hello, t'" in last[1]


def test_a_converted_file_is_called_what_it_is(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "net.prototxt").write_bytes(NET)
    graph = netweave.load(tmp_path / "source" / "net.prototxt")
    netweave.save(graph, tmp_path / "net.onnx")
    last, facts = read(tmp_path, **{"net.onnx": (tmp_path / "net.onnx").read_bytes()})
    assert last == ("done", "")
    assert facts["title"] == "ONNX, converted from Caffe"


def test_inputs_without_sizes_are_named(tmp_path):
    net = b"name: 'x' input: 'image' layer { name: 'r' type: 'ReLU' bottom: 'image' top: 'r' }"
    last, _ = read(tmp_path, **{"net.prototxt": net})
    assert last[0] == "failed"
    assert last[2] == {"open_inputs": ["image"], "needs_code": False}


def test_a_worker_that_has_lost_the_job_ends_the_child_without_a_word(tmp_path, capfd, monkeypatch):
    """As when a second file arrives while the first is read."""
    monkeypatch.setattr(child, "_set_up_process", lambda request: None)  # this process lives on
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "net.prototxt").write_bytes(NET)
    request = child.Request(
        folder=tmp_path,
        nets=("net",),
        input_shapes=({},),
        entries=("",),
        settings={},
        code=False,
        memory_bytes=1 << 33,
        unpacked_bytes=1 << 20,
    )
    ours, theirs = multiprocessing.Pipe(duplex=False)
    ours.close()
    child.work(request, theirs)
    assert capfd.readouterr().err == ""


def test_the_verdict_is_told_before_values_are_kept_and_anything_is_drawn(tmp_path, monkeypatch):
    """And each net is read once."""
    reads = []
    load = child.api.load_parts
    monkeypatch.setattr(child.api, "load_parts", lambda **given: reads.append(given) or load(**given))
    for letter, files in (("a", samples()["padding"].a), ("b", samples()["padding"].b)):
        (tmp_path / letter).mkdir()
        for name, content in files.items():
            (tmp_path / letter / name).write_bytes(content)
    request = request_in(tmp_path)

    class Watch(Pipe):
        def send(self, message):
            if message[0] == "verdict":
                assert not (tmp_path / child.DOCUMENT).exists()
            super().send(message)

    pipe = Watch()
    child.answer(request, pipe)
    (found,) = (message for message in pipe.said if message[0] == "verdict")
    assert found[1] == "different"
    assert "down1" in found[2]
    assert str(tmp_path) not in found[2]
    assert pipe.said.index(found) < pipe.said.index(("stage", "comparing: keep values"))
    assert pipe.said.index(found) < pipe.said.index(("stage", "drawing"))
    assert len(reads) == 2


def test_numbers_that_json_lacks_are_written_as_words(tmp_path):
    request = request_in(tmp_path)
    child._write(request, "x.json", {"a": [1.5, float("nan")], "b": float("-inf")})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [1.5, "nan"], "b": "-inf"}


def test_nets_in_one_drop_are_read_once_and_are_nets_of_their_own(visitor, monkeypatch):
    from netweave.web.models import Net, State
    from netweave.web.work import leases, storage, supervise
    from netweave.web.work.tasks import read_net

    runs = []

    def run(request, **_):
        runs.append(request.nets)
        child.answer(request, pipe := Pipe())
        assert pipe.said[-1] == ("done", "")

    monkeypatch.setattr(supervise, "run", run)
    key = visitor().make_net(**{"a.prototxt": NET, "b.prototxt": NET.replace(b"dim: 2", b"dim: 5")})
    read_net.call(key)
    first, second = Net.objects.order_by("created")
    assert runs == [("net",)]
    assert [net.state for net in (first, second)] == [State.DONE, State.DONE]
    assert first.facts["split"] == [str(second.pk)]
    assert (first.name, second.name) == ("a.prototxt", "b.prototxt")
    assert [[file.name for file in net.files.all()] for net in (first, second)] == [
        ["a.prototxt"],
        ["b.prototxt"],
    ]
    assert second.facts["sorting"] == {"nets": [["b.prototxt"]], "sizes": {}, "unused": []}
    documents = [storage.kept_json(net.document) for net in (first, second)]
    assert [document["title"] for document in documents] == [net.facts["name"] for net in (first, second)]
    assert documents[0] != documents[1]
    leases.queue(second, read_net)  # as a change of its sizes does
    read_net.call(str(second.pk))
    second.refresh_from_db()
    assert storage.kept_json(second.document) == documents[1]


class Inline:
    """A process that is none: this one may have threads of other tests, which a fork would lose."""

    def __init__(self, *, target, args):
        self._target, self._args, self.exitcode = target, args, None

    def start(self):
        self._target(*self._args)
        self.exitcode = 0

    def join(self):
        pass


@pytest.fixture(autouse=True)
def no_fork(monkeypatch):
    monkeypatch.setattr(child, "FORKED", SimpleNamespace(Process=Inline))


class Reader:
    """A child in this process: what it has read stays with it."""

    def __init__(self, request):
        self.said, self.is_ended = [], False
        self._read = child.answer(request, self)

    def send(self, message):
        self.said.append(message)

    def ask(self, request):
        child.answer(request, self, self._read)

    def follow(self, **_):
        assert self.said[-1] == ("done", "")

    def end(self):
        self.is_ended = True


@pytest.fixture
def children(monkeypatch):
    """Return the children that were made; they live in this process."""
    from netweave.web.work import supervise

    made = []

    def run(request, **_):
        made.append(process := Reader(request))
        process.follow()
        return process if request.stays else process.end()

    monkeypatch.setattr(supervise, "run", run)
    return made


def dropped_together(visitor):
    """Return two nets that came in one drop, read."""
    from netweave.web.models import Net
    from netweave.web.work.tasks import read_net

    other = NET.replace(b"type: 'ReLU'", b"type: 'TanH'")
    key = visitor.make_net(**{"a.prototxt": NET, "b.prototxt": other})
    read_net.call(key)
    return Net.objects.order_by("created")


def compared(a, b, **chosen):
    """Return the comparison of two nets, done."""
    from netweave.web import comparisons
    from netweave.web.work.tasks import compare_nets

    comparison = comparisons.start(a, b, chosen=chosen)
    compare_nets.call(str(comparison.pk))
    comparison.refresh_from_db()
    assert comparison.state == "done", comparison.error
    return comparison


def test_nets_that_came_together_are_compared_by_the_child_that_has_read_them(visitor, children):
    from netweave.web.work import storage

    a, b = dropped_together(visitor())
    (reader,) = children
    assert not reader.is_ended
    first = compared(b, a)
    assert (len(children), reader.is_ended) == (1, True)
    again = compared(b, a)
    assert len(children) == 2
    assert first.sentence == again.sentence
    assert storage.kept_json(first.document)["findings"] == storage.kept_json(again.document)["findings"]


@pytest.mark.parametrize(("is_swapped", "chosen"), [(False, {}), (True, {}), (False, {"seed": 3})])
def test_the_comparison_begins_before_it_is_asked_for(is_swapped, chosen, visitor, children, monkeypatch):
    """Of the nets in the order in which their files came; another one is begun anew."""
    begun = []
    compare = child._compare

    def count(request, told, graphs):
        begun.append([graph.files for graph in graphs])
        compare(request, told, graphs)

    monkeypatch.setattr(child, "_compare", count)
    a, b = dropped_together(visitor())
    assert len(begun) == 1
    found = compared(*((b, a) if is_swapped else (a, b)), **chosen)
    assert len(begun) == (2 if is_swapped or chosen else 1)
    assert begun[-1] == (begun[0][::-1] if is_swapped else begun[0])
    assert found.verdict == "different"
    assert len(children) == 1


def test_nets_are_ordered_as_their_files_came(tmp_path):
    (tmp_path / "net").mkdir()
    for name in ("a.prototxt", "b.prototxt"):
        (tmp_path / "net" / name).write_bytes(NET)
    request = replace(request_in(tmp_path), nets=("net",), arrived=("b.prototxt", "a.prototxt"), stays=True)
    read = child.answer(request, Pipe())
    child.answer(replace(request, nets=("a", "b"), read=(1, 0)), pipe := Pipe(), read)
    assert read.ahead._order == (1, 0)
    assert pipe.said[-1] == ("done", "")


def test_nets_are_drawn_though_the_process_that_draws_them_dies(tmp_path, monkeypatch):
    class Killed(Inline):
        def start(self):
            self.exitcode = -9

    monkeypatch.setattr(child, "FORKED", SimpleNamespace(Process=Killed))
    (tmp_path / "net").mkdir()
    for name in ("a.prototxt", "b.prototxt"):
        (tmp_path / "net" / name).write_bytes(NET)
    child.answer(replace(request_in(tmp_path), nets=("net",), stays=True), pipe := Pipe())
    assert pipe.said[-1] == ("done", "")
    assert json.loads((tmp_path / child.NET.format(1)).read_text())["title"]


def test_why_a_comparison_that_began_early_failed_is_said_when_it_is_asked_for(tmp_path, monkeypatch):
    def fail(*_):
        raise child.UsageError("these cannot be compared")

    monkeypatch.setattr(child, "_compare", fail)
    (tmp_path / "net").mkdir()
    for name in ("a.prototxt", "b.prototxt"):
        (tmp_path / "net" / name).write_bytes(NET)
    request = replace(request_in(tmp_path), nets=("net",), stays=True)
    read = child.answer(request, pipe := Pipe())
    assert pipe.said[-1] == ("done", "")
    child.answer(replace(request, nets=("a", "b"), read=(0, 1)), pipe, read)
    assert pipe.said[-1][:2] == ("failed", "these cannot be compared")


@pytest.mark.parametrize("change", ["another job", "other sizes", "another file", "its time is out"])
def test_a_child_that_has_read_nets_ends_when_it_is_not_needed(change, visitor, children, monkeypatch):
    from netweave.web import nets
    from netweave.web.work import readers, tasks

    if change == "its time is out":
        monkeypatch.setattr(readers, "STAY_SECONDS", 0.0)
    owner = visitor()
    a, b = dropped_together(owner)
    (reader,) = children
    chosen = {}
    if change == "another job":
        tasks.read_net.call(owner.make_net(**{"c.prototxt": NET}))
        assert reader.is_ended
    elif change == "other sizes":
        chosen = {"input_shapes_b": {"d": [3, 2]}}
    elif change == "another file":
        nets.add_file(b, "b.prototxt", io.BytesIO(NET), num_bytes=len(NET))
        tasks.read_net.call(str(b.pk))
        b.refresh_from_db()
    else:
        while not reader.is_ended:
            time.sleep(0.01)
    is_equal = compared(a, b, **chosen).verdict == "identical"
    assert is_equal == (change == "another file")
    assert reader.is_ended
    assert len(children) > 1
