"""Images per second of MXNet's ImageRecordIter: ``python input_mxnet.py RECORDS THREADS BATCH``.

It reads seconds from standard input, line by line, and answers each with a rate; see ``input.py``.
"""

from __future__ import annotations

import sys
import time

import mxnet as mx


def main() -> None:
    """Serve."""
    records, threads, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = mx.io.ImageRecordIter(
        path_imgrec=records,
        data_shape=(3, 224, 224),
        batch_size=batch,
        rand_crop=True,
        rand_mirror=True,
        mean_r=123.0,
        mean_g=117.0,
        mean_b=104.0,
        shuffle=True,
        preprocess_threads=threads,
    )

    def run(seconds: float) -> float:
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            try:
                made.next().data[0].wait_to_read()
            except StopIteration:
                made.reset()
                continue
            count += batch
        return count / (time.perf_counter() - began)

    run(1.0)
    print("@ready", flush=True)
    for line in sys.stdin:
        print(f"@{run(float(line))}", flush=True)


if __name__ == "__main__":
    main()
