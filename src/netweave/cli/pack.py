"""``netweave pack``: images or arrays packed into a file or database for training."""

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
        "netweave pack photos.lst train.rec --split-size 256MB",
        "netweave pack train-images-idx3-ubyte train_data.bin --to kvfile",
    ],
)
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--to",
    "--as",
    "kind",
    metavar="KIND",
    help="Format of TARGET: lmdb, recordio, hdf5, mnist or kvfile (SINGA).",
)
@click.option(
    "--from",
    "read_as",
    metavar="KIND",
    help="Format of SOURCE: lmdb, recordio, folder, images, hdf5, mnist, cifar, csv, numpy, kvfile, textfile "
    "or hbase.",
)
@click.option("--labels", metavar="FILE", help="File of the labels, if they are in a separate file.")
@click.option(
    "--root",
    metavar="FOLDER",
    help="Folder that paths in a list are relative to; by default the folder of the list.",
)
@click.option(
    "--shape", metavar="SIZES", callback=parse_sizes, help="Shape of a numeric record, such as 3x32x32."
)
@click.option(
    "--resize",
    metavar="SIZES",
    callback=parse_sizes,
    help="Resize all images to HEIGHTxWIDTH, or their shorter side to one number.",
)
@click.option("--gray", is_flag=True, help="Convert to one channel.")
@click.option("--shuffle", is_flag=True, help="Write the records in random order.")
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the random order.")
@click.option("--encode", type=click.Choice([".png", ".jpg"]), help="Encode the pixels as image files.")
@click.option(
    "--quality", type=click.IntRange(1, 100), metavar="N", default=95, show_default=True, help="JPEG quality."
)
@click.option(
    "--split-size",
    metavar="SIZE",
    help="Write several files of at most about SIZE (64MB), which are read as one by the name TARGET.",
)
@click.option(
    "--mean",
    metavar="FILE",
    help="Write the mean of all packed images to FILE: .binaryproto for Caffe, any other name for SINGA.",
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
    split_size: str | None,
    mean: str | None,
) -> None:
    """Pack the records of SOURCE into TARGET, for training.

    SOURCE is a folder with one subfolder of images per class, a list of images (Caffe's .txt, MXNet's .lst),
    or an LMDB, .rec, .h5, .npz, .npy, .csv, idx, CIFAR or .kvfile file, or hbase://HOST/TABLE. URLs such as
    s3://... are read in place. TARGET is an MXNet .rec (with its .idx), an .h5, a .kvfile, or else a folder
    for a Caffe LMDB.
    """
    from netweave import api
    from netweave.cli.console import output_console, working
    from netweave.training.data.location import part_names

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
            split_size=split_size,
            mean=mean,
        )
    parts = part_names(target) if split_size else []
    spread = f" in {len(parts)} files, {parts[0]} to {parts[-1]}" if parts else ""
    output_console().print(f"{target}: {count:,} records{spread}", soft_wrap=True)
