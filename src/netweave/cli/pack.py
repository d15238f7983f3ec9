"""``netweave pack``: images or arrays in one file or data base that nets are trained from."""

from __future__ import annotations

import click

from netweave.cli.options import Command, parse_sizes


@click.command(
    cls=Command,
    examples=[
        "netweave pack flowers/ flowers_lmdb --resize 256x256 --shuffle",
        "netweave pack train.txt train.rec --root images/ --resize 256",
        "netweave pack train-images-idx3-ubyte.gz train_lmdb",
        "netweave pack rows.csv rows.h5 --shape 3x32x32 --labels labels.csv",
    ],
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--as", "kind", metavar="KIND", help="What to write: lmdb, recordio, hdf5 or mnist.")
@click.option(
    "--from",
    "read_as",
    metavar="KIND",
    help="What SOURCE is: lmdb, recordio, folder, images, hdf5, mnist, cifar, csv or numpy.",
)
@click.option("--labels", metavar="FILE", help="The file of the labels, where it is another one.")
@click.option("--root", metavar="FOLDER", help="What names in a list are relative to; the list by default.")
@click.option(
    "--shape", metavar="SIZES", callback=parse_sizes, help="Sizes of a record of numbers, such as 3x32x32."
)
@click.option(
    "--resize",
    metavar="SIZES",
    callback=parse_sizes,
    help="HEIGHTxWIDTH of all images, or one number for the shorter side.",
)
@click.option("--gray", is_flag=True, help="Keep one channel.")
@click.option("--shuffle", is_flag=True, help="Write in a random order.")
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of that order.")
@click.option("--encode", type=click.Choice([".png", ".jpg"]), help="Write pixels as image files.")
@click.option(
    "--quality", type=click.IntRange(1, 100), metavar="N", default=95, show_default=True, help="Of JPEG."
)
def pack(
    source: str,
    target: str,
    kind: str | None,
    read_as: str | None,
    labels: str | None,
    root: str | None,
    shape: tuple[int, ...],
    resize: tuple[int, ...],
    gray: bool,
    shuffle: bool,
    seed: int,
    encode: str | None,
    quality: int,
) -> None:
    """Write the records of SOURCE into TARGET, which nets are trained from.

    SOURCE is a folder of images in folders of their classes, a list of images (Caffe's .txt, MXNet's .lst),
    an LMDB, .rec, .h5, .npz, .npy, .csv, idx or CIFAR file; s3://... and the like are fetched. TARGET is
    MXNet's .rec (with its .idx), an .h5, or else a folder with an LMDB of Caffe's.
    """
    from netweave import api
    from netweave.cli.console import output_console, working

    with working(f"packing {source}"):
        count = api.pack(
            source,
            target,
            kind=kind,
            read_as=read_as,
            labels=labels,
            root=root,
            shape=shape,
            resize=resize,
            gray=gray,
            shuffle=shuffle,
            seed=seed,
            encode=encode,
            quality=quality,
        )
    output_console().print(f"{target}: {count:,} records", soft_wrap=True)
