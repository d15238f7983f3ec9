"""Small detectors of Darknet and a set of images, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.yolo import make_data

if TYPE_CHECKING:
    from pathlib import Path

NET = """[net]
batch={batch}
subdivisions={subdivisions}
width=96
height=96
channels=3
momentum=0.9
decay=0.0005
saturation=1.5
exposure=1.5
hue=.1
learning_rate=0.002
burn_in=3
max_batches={updates}
policy=steps
steps=6,9
scales=.5,.1
"""

BODY = """[convolutional]
batch_normalize={norm}
filters=6
size=3
stride=4
pad=1
activation=leaky

[convolutional]
batch_normalize={norm}
filters=8
size=3
stride=4
pad=1
activation=leaky

[convolutional]
filters={channels}
size=1
activation=linear
"""

YOLO = "[yolo]\nmask=1,2\nnum=3\nclasses=3\nanchors=10,10, 20,24, 36,30\nignore_thresh=.5\ntruth_thresh=1\n"
REGION = (
    "[region]\nnum=2\nclasses=3\nanchors=1.2,1.5, 2.3,2.0\nsoftmax=1\nbias_match=1\nrescore=1\nthresh=.6\n"
    "object_scale=5\nnoobject_scale=1\nclass_scale=1\ncoord_scale=1\n"
)


def text(head: str = YOLO, *, batch: int = 8, subdivisions: int = 2, updates: int = 12, norm: int = 1) -> str:
    """Return a net."""
    net = NET.format(batch=batch, subdivisions=subdivisions, updates=updates)
    return net + BODY.format(norm=norm, channels=16) + head


def write(folder: Path, content: str | None = None, *, num_train: int = 24, num_test: int = 6) -> Path:
    """Write a net, and images below it; return the net."""
    make_data.write(folder, num_train=num_train, num_test=num_test)
    (folder / "net.cfg").write_text(text() if content is None else content)
    return folder / "net.cfg"
