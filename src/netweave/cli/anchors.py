"""``netweave anchors``: anchors for a detector from the boxes of its images."""

from __future__ import annotations

from dataclasses import asdict

import click

from netweave.cli.options import Command, json_option


@click.command(
    cls=Command,
    examples=[
        "netweave anchors voc.data --count 9",
        "netweave anchors VOCdevkit/VOC2007 --count 5 --net yolov2-tiny.cfg",
    ],
)
@click.argument("data", metavar="DATA")
@click.option("--count", type=click.IntRange(1), metavar="N", default=5, show_default=True, help="How many.")
@click.option(
    "--net",
    metavar="CFG",
    help="The Darknet net that they are for; by default one with an input of 416 x 416, in pixels.",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Random seed.")
@json_option
def anchors(data: str, count: int, net: str | None, seed: int, json_file: str | None) -> None:
    """Find anchors for the boxes of DATA by k-means, and print them as a .cfg has them.

    DATA is a Darknet .data file, or a folder like Pascal VOC's. The distance between two boxes is 1 - IoU.
    """
    from netweave import api
    from netweave.cli.console import output_console, working, write_json

    with working(f"reading {data}"):
        found = api.find_anchors(data, count, net=net, seed=seed)
    if json_file:
        write_json(asdict(found), json_file)
    if json_file != "-":
        console = output_console()
        console.print(str(found), soft_wrap=True)
        number = f"{found.num_boxes:,} boxes of {found.num_images:,} images"
        console.print(f"mean IoU {found.mean_iou:.4f} over {number}")
