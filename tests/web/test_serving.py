"""The workbench as it runs: verdicts over HTTP, parts that are killed, limits."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import sqlite3
import time
import urllib.request
import zipfile

import pytest

from tests.web.running import Workbench

pytestmark = [pytest.mark.multi, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    data = tmp_path_factory.mktemp("bench")
    data.chmod(0o755)
    with Workbench(data, workers=2) as running:
        yield running


def ends(data, table):
    """Return state and attempts of all jobs of a kind, read past the workbench."""
    with sqlite3.connect(data / "netweave.sqlite3") as database:
        return database.execute(f"select state, attempts from web_{table}").fetchall()


@pytest.mark.corpus
def test_the_files_of_two_frameworks_get_a_verdict(bench, corpus):
    program, nets = bench.program(), corpus / "mtcnn"
    a = program.upload(nets / "det1.prototxt", nets / "det1.caffemodel")
    b = program.upload(nets / "det1-symbol.json", nets / "det1-0001.params")
    facts = [program.wait(f"/nets/{net}")["facts"] for net in (a, b)]
    assert [fact["title"] for fact in facts] == ["Caffe", "MXNet"]
    assert [fact["parameters"] for fact in facts] == [6632, 6632]  # counted by hand from the prototxt
    assert [fact["loaded"] for fact in facts] == [True, True]
    key = program.compare(a, b)
    found = program.wait(f"/comparisons/{key}")
    assert found["verdict"] == "equal under a mapping"
    assert "height and width swapped, channels reversed" in found["sentence"]
    result = program.call("GET", f"/comparisons/{key}/result")
    assert result["exit_status"] == 0
    assert result["a"]["files"] == ["det1.prototxt", "det1.caffemodel"]
    assert str(bench.data) not in str(result)
    assert "/tmp" not in str(program.call("GET", f"/comparisons/{key}/document"))


def test_the_samples_get_the_verdicts_that_the_examples_promise(bench):
    program = bench.program()
    verdicts = {}
    for sample in program.call("GET", "/samples"):
        pair = program.call("POST", f"/samples/{sample['key']}")
        key = program.compare(pair["a"]["id"], pair["b"]["id"])
        verdicts[sample["key"]] = program.wait(f"/comparisons/{key}")["verdict"]
    assert verdicts == {"padding": "different", "mended": "identical"}


def test_what_is_kept_is_for_its_owner_only_also_in_a_folder_that_was_there_before(bench):
    assert bench.data.stat().st_mode & 0o055, "made by this test, open to others"
    bench.program().call("POST", "/samples/padding")
    kept = [path for name in ("netweave.sqlite3*", "files", "files/**/*") for path in bench.data.glob(name)]
    assert len(kept) > 5
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_a_net_without_weights_says_so_and_is_read_again_with_them(bench, tmp_path):
    program = bench.program()
    pair = program.call("POST", "/samples/padding")
    net = pair["a"]["id"]
    program.call("DELETE", f"/nets/{net}/files/leaves.caffemodel")
    assert program.wait(f"/nets/{net}")["facts"]["loaded"] is False


def test_missing_sizes_are_asked_for_and_taken(bench):
    program = bench.program()
    net = program.call("POST", "/samples/padding")["b"]["id"]
    program.call("DELETE", f"/nets/{net}/files/leaves-0000.params")
    found = program.wait(f"/nets/{net}")
    assert found["state"] == "failed"
    assert "the sizes of the input 'image' are unknown" in found["error"]
    program.call("PATCH", f"/nets/{net}", {"input_shapes": {"image": [1, 3, 32, 32]}})
    assert program.wait(f"/nets/{net}")["state"] == "done"


def test_a_worker_that_is_killed_leaves_nothing_undone_and_nothing_done_twice(tmp_path):
    with Workbench(tmp_path / "data", workers=2) as bench:
        program = bench.program()
        pair = program.call("POST", "/samples/padding")
        keys = [program.compare(pair["a"]["id"], pair["b"]["id"]) for _ in range(12)]
        time.sleep(1.0)
        for worker in bench.processes("netweave.web.work.worker"):
            os.kill(worker, signal.SIGKILL)
        found = [program.wait(f"/comparisons/{key}", 90) for key in keys]
        assert {row["verdict"] for row in found} == {"different"}
        assert len({row["id"] for row in program.call("GET", "/comparisons")}) == len(keys)
        results = list((bench.data / "files" / "results").rglob("*-result.json.gz"))
        assert len(results) == len(keys)


def test_a_server_that_is_killed_with_all_goes_on_where_it_was_after_the_next_start(tmp_path):
    bench = Workbench(tmp_path / "data", workers=2)
    bench.start()
    program = bench.program()
    pair = program.call("POST", "/samples/padding")
    keys = [program.compare(pair["a"]["id"], pair["b"]["id"]) for _ in range(8)]
    bench.process.kill()
    bench.process.wait()
    deadline = time.monotonic() + 10
    while bench.processes("netweave"):  # the parts end by themselves
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert any(state in {"queued", "running"} for state, _ in ends(bench.data, "comparison"))
    (bench.data / "log").unlink()
    with bench:
        found = [program.wait(f"/comparisons/{key}", 90) for key in keys]
        assert {row["verdict"] for row in found} == {"different"}
        results = list((bench.data / "files" / "results").rglob("*-result.json.gz"))
        assert len(results) == len(keys)


def test_a_comparison_whose_process_is_killed_is_tried_again(tmp_path):
    with Workbench(tmp_path / "data", workers=2) as bench:
        program = bench.program()
        pair = program.call("POST", "/samples/padding")
        keys = [program.compare(pair["a"]["id"], pair["b"]["id"]) for _ in range(6)]
        for _ in range(3):
            time.sleep(0.7)
            for process in bench.processes("multiprocessing.forkserver"):
                os.kill(process, signal.SIGKILL)
        found = [program.wait(f"/comparisons/{key}", 90) for key in keys]
        assert {row["verdict"] for row in found} == {"different"}


def test_a_part_that_is_killed_is_started_again(tmp_path):
    with Workbench(tmp_path / "data") as bench:
        for server in bench.processes("gunicorn"):
            os.kill(server, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while not bench._answers():
            assert time.monotonic() < deadline, bench.log
            time.sleep(0.2)


def test_a_comparison_that_takes_too_long_or_too_much_is_ended_with_a_reason(tmp_path):
    with Workbench(tmp_path / "slow", settings="max_seconds = 0.001") as bench:
        program = bench.program()
        net = program.call("POST", "/samples/padding")["a"]["id"]
        assert "took longer than the 0.001 seconds" in program.wait(f"/nets/{net}")["error"]
    with Workbench(tmp_path / "small", settings="max_memory_mb = 200") as bench:
        program = bench.program()
        bomb = tmp_path / "bomb.pt"
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb/data.pkl", b"\0" * (1 << 29))
            archive.writestr("bomb/version", b"3")
        net = program.upload(bomb)
        found = program.wait(f"/nets/{net}")
        assert found["state"] == "failed"
        assert found["error"]
        assert program.call("GET", "/samples")


def test_a_running_comparison_can_be_cancelled_and_deleted(bench):
    program = bench.program()
    pair = program.call("POST", "/samples/padding")
    keys = [program.compare(pair["a"]["id"], pair["b"]["id"]) for _ in range(6)]
    cancelled = program.call("POST", f"/comparisons/{keys[-1]}/cancel")
    assert cancelled["state"] == "cancelled"
    program.call("DELETE", f"/comparisons/{keys[0]}")
    for key in keys[1:-1]:
        assert program.wait(f"/comparisons/{key}")["state"] == "done"
    assert program.call("GET", f"/comparisons/{keys[-1]}")["state"] == "cancelled"
    assert len(program.call("GET", "/comparisons")) == 5


@pytest.mark.slow
def test_clients_that_stand_still_hold_no_thread_for_long(bench):
    """Three kinds: a head without its end, a body that does not come, and answers that are not read."""
    host, port = bench.url.removeprefix("http://").split(":")
    clients = [socket.create_connection((host, int(port))) for _ in range(96)]
    starts = [
        b"GET /help/ HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"POST /programs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\n",
        b"GET /static/viewer.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
    ]
    for number, client in enumerate(clients):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.sendall(starts[number % 3])
    started = time.monotonic()
    other = http.client.HTTPConnection(host, int(port), timeout=60, source_address=("127.0.0.2", 0))
    with contextlib.closing(other):
        other.request("GET", "/help/")
        with other.getresponse() as answer:
            assert answer.status == 200
    assert time.monotonic() - started < 5  # another address waits for none of them
    with urllib.request.urlopen(f"{bench.url}/help/", timeout=150) as response:
        assert response.status == 200  # this one has its turn as well
    for client in clients[::3][:4]:
        client.settimeout(60)
        assert client.recv(4096) == b""  # the server has ended the connection
    for client in clients:
        client.close()
