"""Attackers of the workbench, each a loop until it is stopped, from a few addresses of this machine.

Run as a program, in a process of its own at the lowest priority:
``python -m benchmarks.hostile.visitors.attackers PORT SECONDS``. It prints, as JSON, how often each did its
thing. It reaches nothing but the loopback interface.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from benchmarks.hostile.visitors.user import User
from netweave.web.samples import samples
from tests.hostile.pickle_attacks import pickles
from tests.hostile.test_bombs import bombs
from tests.web.running import CSRF_TOKEN

SLOW, FAST = ("127.66.0.1", "127.66.0.2"), ("127.66.0.3", "127.66.0.4")
"""Addresses of those who hold connections, and of those who send requests: apart, since one address has only
so many threads, and the first would keep them from the others."""

NUM_SLOW = 64
PAUSE_S = 0.02
"""Between two requests of one attacker, of which there are some dozens; a flood without pauses would measure
how fast this process is, which has the same processors as the server."""

HUGE_BYTES = 3 << 30


class Held:
    """Connections that an attacker holds, closed when it ends."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        for one in list(self.sockets):
            self.drop(one)

    def add(self, made: socket.socket) -> socket.socket:
        """Hold a connection; return it."""
        self.sockets.append(made)
        return made

    def drop(self, one: socket.socket) -> None:
        """Close a connection."""
        self.sockets.remove(one)
        one.close()


class Attack:
    """What all attackers share: where, until when, and what they have done."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.until = port, time.monotonic() + seconds
        self.done: Counter[str] = Counter()

    def is_on(self) -> bool:
        """Whether to go on."""
        return time.monotonic() < self.until

    def connect(self, addresses: Sequence[str]) -> socket.socket:
        """Return a connection from one of some addresses."""
        source = (random.choice(addresses), 0)
        made = socket.create_connection(("127.0.0.1", self.port), 30, source_address=source)
        made.settimeout(30)
        return made

    def drip(self, name: str, head: bytes, *, wait_s: float = 1.0) -> None:
        """Hold many connections, each with a byte now and then after its beginning."""
        with Held() as held:
            while self.is_on():
                with suppress(OSError):
                    while len(held.sockets) < NUM_SLOW:
                        held.add(self.connect(SLOW)).sendall(head)
                        self.done[name] += 1
                for one in list(held.sockets):
                    try:
                        one.send(b"x")
                    except OSError:
                        held.drop(one)
                time.sleep(wait_s)

    def read_slowly(self) -> None:
        """Ask for large answers and do not read them."""
        request = b"GET /static/viewer.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with Held() as held:
            while self.is_on():
                with suppress(OSError):
                    made = held.add(self.connect(SLOW))
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                    made.sendall(request * 20)
                    self.done["answers that are not read"] += 1
                for one in held.sockets[:-NUM_SLOW]:
                    held.drop(one)
                time.sleep(0.2)

    def flood(self, name: str, request: Callable[[], bytes]) -> None:
        """Send a small request again and again."""
        while self.is_on():
            with suppress(OSError), self.connect(FAST) as made:
                made.sendall(request())
                made.recv(4096)
                self.done[name] += 1
            time.sleep(PAUSE_S)


class Browser(User):
    """An attacker with a cookie and a token, that does as the pages do, and does not mind refusals."""

    def __init__(self, attack: Attack) -> None:
        super().__init__(attack.port, {}, within=0, stubborn=False)
        self.attack, self.address = attack, random.choice(FAST)
        self.token = CSRF_TOKEN.search(self.send("GET", "/")[1].decode())[1]  # type: ignore[index]

    def send(self, method: str, path: str, body: bytes | None = None, **more: str) -> tuple[int, bytes]:
        """Send one request; return status and content."""
        time.sleep(PAUSE_S)
        made = http.client.HTTPConnection("127.0.0.1", self.port, 60, source_address=(self.address, 0))
        try:
            made.request(method, path, body, {**self._headers(), **more})
            with made.getresponse() as response:
                for cookie in response.headers.get_all("Set-Cookie") or ():
                    name, _, value = cookie.partition(";")[0].partition("=")
                    self.cookies[name] = value
                return response.status, response.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            made.close()

    def net(self) -> str:
        """Make a net and return its key; "" if it is refused."""
        status, content = self.send("POST", "/api/nets", b"{}")
        return str(json.loads(content)["id"]) if status == 201 else ""


def huge_uploads(attack: Attack) -> None:
    """Announce gigabytes, and send for as long as somebody listens."""
    browser = Browser(attack)
    while attack.is_on():
        key = browser.net()
        with suppress(OSError), attack.connect(SLOW) as made:
            lines = [f"PUT /api/nets/{key}/files/huge.bin HTTP/1.1", "Host: localhost"]
            lines += [f"{name}: {value}" for name, value in browser._headers().items()]
            announced = random.choice([f"Content-Length: {HUGE_BYTES}", "Transfer-Encoding: chunked"])
            made.sendall("\r\n".join([*lines, announced, "", ""]).encode())
            attack.done["huge uploads"] += 1
            while attack.is_on():
                made.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
                time.sleep(PAUSE_S)
        time.sleep(PAUSE_S)


def bomb_uploads(attack: Attack) -> None:
    """Upload files that declare or unpack to far more than they hold."""
    files = [*bombs().values(), *((f"{n}.pkl", content) for n, content in enumerate(pickles().values()))]
    browser = Browser(attack)
    while attack.is_on():
        name, content = random.choice(files)
        with suppress(OSError):
            if len(content) < 1 << 20 and (key := browser.net()):
                browser.send("PUT", f"/api/nets/{key}/files/{name}", content)
                attack.done["bombs"] += 1


def many_nets(attack: Attack) -> None:
    """Make nets without end."""
    browser = Browser(attack)
    while attack.is_on():
        with suppress(OSError):
            attack.done["nets made"] += bool(browser.net())


def many_jobs(attack: Attack) -> None:
    """Start comparisons without end, each time as another browser when one has had enough."""
    while attack.is_on():
        with suppress(OSError, KeyError, TypeError):
            browser = Browser(attack)
            _, content = browser.send("POST", "/api/samples/padding")
            pair = json.loads(content)
            body = json.dumps({"a": pair["a"]["id"], "b": pair["b"]["id"]}).encode()
            while attack.is_on() and browser.send("POST", "/api/comparisons", body)[0] == 202:
                attack.done["comparisons started"] += 1


def full_quota(attack: Attack) -> None:
    """Upload as much as fits, in many requests at once, and delete it."""
    sample = next(iter(samples()["padding"].a.values()))
    while attack.is_on():
        with suppress(OSError):
            browser = Browser(attack)
            key = browser.net()
            threads = [
                threading.Thread(target=_put, args=(browser, f"/api/nets/{key}/files/{n}.bin", sample * 40))
                for n in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            attack.done["uploads at once"] += len(threads)
            browser.send("DELETE", f"/api/nets/{key}")


def _put(browser: Browser, path: str, content: bytes) -> None:
    with suppress(OSError):
        browser.send("PUT", path, content)


def bad_cookie() -> bytes:
    """Return a request whose cookies are forged."""
    noise = random.randbytes(2000).hex()
    return (
        "GET /comparisons/ HTTP/1.1\r\nHost: localhost\r\n"
        f"Cookie: netweave-workspace={noise}:{noise}; sessionid={noise}; csrftoken={noise}\r\n\r\n"
    ).encode()


def no_cookie() -> bytes:
    """Return a request of a browser that comes for the first time."""
    return b"POST /api/nets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY = b"POST /programs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n" + (
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
)


def attack_all(port: int, seconds: float) -> Counter[str]:
    """Attack a workbench in every way at once; return how often each was done."""
    attack = Attack(port, seconds)
    ways: list[Callable[[], object]] = [
        lambda: attack.drip("slow heads", HEAD),
        lambda: attack.drip("slow bodies", BODY),
        lambda: attack.drip("connections without a request", b""),
        attack.read_slowly,
        *[lambda: attack.flood("bad cookies", bad_cookie)] * 4,
        *[lambda: attack.flood("browsers without cookies", no_cookie)] * 4,
        *[lambda way=way: again(attack, way) for way in (huge_uploads, bomb_uploads, many_nets)],
        *[lambda: again(attack, many_jobs)] * 4,
        lambda: again(attack, full_quota),
    ]
    threads = [threading.Thread(target=way, daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 90)
    return attack.done


def again(attack: Attack, way: Callable[[Attack], None]) -> None:
    """Go on in one way for as long as the attack does, also where it fails at once."""
    while attack.is_on():
        with suppress(OSError, TypeError):  # the server was killed, or the page is a refusal
            way(attack)
        time.sleep(0.5)


if __name__ == "__main__":
    os.nice(19)
    print(json.dumps(attack_all(int(sys.argv[1]), float(sys.argv[2]))))
