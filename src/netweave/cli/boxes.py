"""Commands of detectors: anchors and the evaluation of boxes."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING

import click

from netweave.cli.options import Command, json_option

if TYPE_CHECKING:
    from netweave.training.boxes import BoxScores


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
        result = api.find_anchors(data, count, net=net, seed=seed)
    if json_file:
        write_json(asdict(result), json_file)
    if json_file != "-":
        console = output_console()
        console.print(str(result), soft_wrap=True)
        number = f"{result.num_boxes:,} boxes of {result.num_images:,} images"
        console.print(f"mean IoU {result.mean_iou:.4f} over {number}")


_COLUMNS = {
    "boxes": "num_labels",
    "found": "num_found",
    "precision": "precision",
    "recall": "recall",
    "AP 11-point": "ap_11",
    "AP area": "ap_voc",
    "AP 50:95": "ap_coco",
    "AP 50": "ap_50",
    "AP 75": "ap_75",
}


@click.command(
    "evaluate-boxes",
    cls=Command,
    examples=[
        "netweave evaluate-boxes instances_val2017.json detections.json",
        "netweave evaluate-boxes VOC2007/Annotations results/Main --score 0.3",
        "netweave evaluate-boxes labels.json detections.json --json scores.json",
    ],
)
@click.argument("labels", metavar="LABELS")
@click.argument("detections", metavar="DETECTIONS")
@click.option(
    "--iou",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="X",
    default=0.5,
    show_default=True,
    help="Minimum overlap (IoU) of a correct detection. COCO's columns use their own.",
)
@click.option(
    "--score",
    "least_score",
    type=float,
    metavar="X",
    default=0.5,
    show_default=True,
    help="Minimum score of the detections that precision and recall count.",
)
@json_option
def evaluate_boxes(
    labels: str, detections: str, iou: float, least_score: float, json_file: str | None
) -> None:
    """Score DETECTIONS against LABELS: precision, recall and average precision per class.

    LABELS is a COCO JSON file or a folder of Pascal VOC XML files. DETECTIONS is a COCO results JSON, a VOC
    results file for one class (comp4_det_test_car.txt), or a folder of these. AP 11-point is the metric of
    VOC 2007, AP area that of VOC 2010 and later, AP 50:95 that of COCO.
    """
    from netweave import api
    from netweave.cli.console import output_console, working, write_json

    with working(f"scoring {detections}"):
        scores = api.evaluate_boxes(labels, detections, iou=iou, least_score=least_score)
    if json_file:
        write_json(scores.to_json(), json_file)
    if json_file != "-":
        output_console().print(_table(scores))


def _table(scores: BoxScores) -> object:
    from rich.box import SIMPLE
    from rich.table import Table

    title = (
        f"{scores.num_images:,} images; precision and recall at a score of {scores.least_score:g} or more "
        f"and an overlap of {scores.iou:g}"
    )
    table = Table(box=SIMPLE, title=title, title_justify="left", title_style="", pad_edge=False)
    table.add_column("class")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for row in scores.classes:
        table.add_row(row.name, *(_shown(getattr(row, field)) for field in _COLUMNS.values()))
    table.add_section()
    table.add_row(scores.mean.name, *(_shown(getattr(scores.mean, field)) for field in _COLUMNS.values()))
    return table


def _shown(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if isnan(value) else f"{value:.3f}"
