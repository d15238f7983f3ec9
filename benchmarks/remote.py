"""Decoded images per second of records over HTTP, beside those of a local file.

    python -m benchmarks.remote [--limit-mb N] [--threads N] [--seconds S] [--turns N] [--json FILE]

A server in a process of its own offers one RecordIO file of ten times the memory that the reading process
may have (``RLIMIT_DATA``). The file is made as it is asked for: the records of 128 images, repeated. The
local file holds the same records, a tenth of them, since its size does not matter to reading by ``pread``.
Both are read in turns, in their order and shuffled; shown are medians.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TIMES = 10
"""Size of the remote file, in limits of memory."""


def serve(period_file: str, times: int) -> None:
    """Serve the file and its index until standard input ends."""
    import threading

    period = Path(period_file).read_bytes()
    whole = memoryview(period * 3)
    starts = [
        int(line.split("\t")[1]) for line in Path(period_file).with_suffix(".idx").read_text().splitlines()
    ]
    index = "".join(
        f"{turn * len(starts) + number}\t{turn * len(period) + start}\n"
        for turn in range(times)
        for number, start in enumerate(starts)
    ).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_HEAD(self) -> None:
            self.answer(head=True)

        def do_GET(self) -> None:
            self.answer(head=False)

        def answer(self, *, head: bool) -> None:
            if not self.path.endswith((".rec", ".idx")):
                self.send_error(404)
                return
            size = times * len(period) if self.path.endswith(".rec") else len(index)
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, stop = (int(asked[1]), int(asked[2]) + 1) if asked else (0, size)
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            if head:
                return
            if self.path.endswith(".idx"):
                self.wfile.write(index[start:stop])
                return
            while start < stop:
                offset = start % len(period)
                count = min(stop - start, 2 * len(period))
                self.wfile.write(whole[offset : offset + count])
                start += count

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # who asks only whether there is a file hangs up
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def read(local: str, remote: str, *, limit: int, threads: int, seconds: float, turns: int) -> None:
    """Read both files in turns under a limit of memory; print rates as JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    from benchmarks.input import BATCH, TRANSFORMS
    from netweave.job import DataSource
    from netweave.runtime.engine import ThreadedEngine
    from netweave.training.data import Loader, Order, open_source

    def opened(path: str, how: str, stack: ExitStack) -> Loader:
        engine = stack.enter_context(ThreadedEngine({"input": threads}))
        source = open_source(DataSource("recordio", ("data", "label"), BATCH, {"path": path}))
        order = Order(num_records=len(source), batch_size=BATCH, shuffle=how == "shuffled")
        names = ("data", "label")
        return stack.enter_context(
            Loader(source, names, engine=engine, order=order, transforms=TRANSFORMS, threads=threads)
        )

    def rate(loader: Loader) -> float:
        for _ in range(16):
            loader.take()  # what was made ahead in the other's turn
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            loader.take()
            count += BATCH
        return count / (time.perf_counter() - began)

    rates: dict[str, list[float]] = {}
    for how in ("in order", "shuffled"):
        with ExitStack() as stack:
            loaders = {"local": opened(local, how, stack), "remote": opened(remote, how, stack)}
            for _ in range(turns):
                for place, loader in loaders.items():
                    rates.setdefault(f"{place} {how}", []).append(rate(loader))
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    print(json.dumps({"rates": rates, "peak_bytes": int(peak[1]) << 10}))


def pack_records(folder: Path, limit: int) -> tuple[int, int]:
    """Write one period of records, and the local file; return the size of the period and its repetitions."""
    from benchmarks.input import draw
    from netweave.training.data.pack import pack
    from netweave.training.data.sources.images import ImageFolder

    draw(folder / "images")
    pack(ImageFolder(str(folder / "images")), folder / "period.rec", "recordio")
    period = (folder / "period.rec").read_bytes()
    lines = (folder / "period.idx").read_text().splitlines()
    starts = [int(line.split("\t")[1]) for line in lines]
    times = -(-TIMES * limit // len(period))
    with (folder / "local.rec").open("wb") as records, (folder / "local.idx").open("w") as index:
        for turn in range(times // TIMES):
            records.write(period)
            rows = (f"{turn * len(starts) + n}\t{turn * len(period) + at}\n" for n, at in enumerate(starts))
            index.writelines(rows)
    assert bisect.bisect(starts, starts[-1]) == len(starts)  # the index is in the order of the file
    return len(period), times


def main() -> None:
    """Start server and reader, and show what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-mb", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=2)
    parser.add_argument("--read", nargs=2)
    options = parser.parse_args()
    limit = options.limit_mb << 20
    measure = {"limit": limit, "threads": options.threads, "seconds": options.seconds, "turns": options.turns}
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return
    if options.read:
        read(*options.read, **measure)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        period, times = pack_records(folder, limit)
        module = [sys.executable, "-m", "benchmarks.remote"]
        with subprocess.Popen(
            [*module, "--serve", str(folder / "period.rec"), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/x.rec"
            names = ("threads", "seconds", "turns")
            given = [f"--{name}={getattr(options, name)}" for name in names]
            command = [*module, f"--limit-mb={options.limit_mb}", *given]
            command += ["--read", str(folder / "local.rec"), url]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            server.communicate("")
    medians = {key: statistics.median(rates) for key, rates in found["rates"].items()}
    size, peak = period * times, found["peak_bytes"]
    print(f"remote file {size:,} bytes, memory limit {limit:,}, resident at most {peak:,}")
    for how in ("in order", "shuffled"):
        local, remote = medians[f"local {how}"], medians[f"remote {how}"]
        print(f"{how}: local {local:,.0f} images/s, remote {remote:,.0f}: {remote / local:.1%}")
    if options.json:
        result = {**measure, "bytes": size, **found, "medians": medians}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
