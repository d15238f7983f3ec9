"""``netweave sample``: text from a trained net of characters."""

from __future__ import annotations

import click

from netweave.cli.options import Command


@click.command(
    cls=Command,
    examples=[
        "netweave sample job.conf workspace/checkpoint/step2000-worker0 --start 'The '",
        "netweave sample job.conf step2000-worker0 --length 1000 --temperature 0.7 --seed 3",
    ],
)
@click.argument("job", metavar="JOB")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--length",
    type=click.IntRange(0),
    metavar="N",
    default=200,
    show_default=True,
    help="Number of characters.",
)
@click.option(
    "--start",
    metavar="TEXT",
    default="",
    help="Text to continue; by default the first character is random.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0),
    metavar="T",
    default=1.0,
    show_default=True,
    help="Below 1 likely characters become likelier; 0 always takes the likeliest, as SINGA does.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="S",
    default=0,
    show_default=True,
    help="Seed of the random numbers.",
)
def sample(job: str, checkpoint: str, length: int, start: str, temperature: float, seed: int) -> None:
    """Write text, one character after the other, with the net of characters that JOB has trained.

    JOB is SINGA's job.conf with a kCharRNN, or its sample.conf. CHECKPOINT is a file of its training, such as
    step2000-worker0.
    """
    from netweave.api import stream_sample
    from netweave.graph.printable import printable_text

    characters = stream_sample(
        job, checkpoint, length=length, start=start, temperature=temperature, seed=seed
    )
    click.echo(printable_text(start), nl=False)
    for character in characters:
        click.echo(printable_text(character), nl=False)
    click.echo()
