"""Images per second of MXNet's ImageRecordIter: ``python input_mxnet.py RECORDS THREADS BATCH``.

It reads seconds from standard input, line by line, and answers each with a rate; see ``input.py``.
"""

from __future__ import annotations

import sys

import mxnet as mx
from rates import serve


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

    def take() -> None:
        try:
            made.next().data[0].wait_to_read()
        except StopIteration:
            made.reset()
            take()

    serve(take, batch)


if __name__ == "__main__":
    main()
