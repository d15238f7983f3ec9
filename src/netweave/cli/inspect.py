"""Commands that show nets: inspect, show and memory."""

from __future__ import annotations

import functools
from typing import Any

import click

from netweave.cli.caffe import in_state
from netweave.cli.options import NET, Command, everything_option, html_option, json_option, reads_nets


@click.command(cls=Command, examples=["netweave inspect deploy.prototxt --input-shape data=1x3x227x227"])
@NET("net")
@click.option("--nodes", is_flag=True, help="Show the ONNX operators of the layers.")
@click.option(
    "--inference", is_flag=True, help="Show the net in inference form, without losses, metrics and labels."
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Batch size for which multiply-adds are counted.",
)
@click.option(
    "--cluster",
    metavar="FILE",
    help="Also show which process of a cluster holds which parameters, or computes which layers; FILE has "
    "the words of a job.conf's cluster.",
)
@click.option(
    "--tiny",
    is_flag=True,
    help="Construct a Hugging Face model folder from its config.json, shrunk to few layers, heads and "
    "features.",
)
@json_option
@html_option
@functools.partial(reads_nets, several=True)
def inspect(
    net: str,
    nodes: bool,
    inference: bool,
    batch: int,
    cluster: str | None,
    tiny: bool,
    json_file: str | None,
    html_file: str | None,
    reading: dict[str, Any],
) -> None:
    """Show the layers of NET: settings, shapes, parameters and multiply-adds.

    NET is FILE or FILE,WEIGHTS. Sizes that the file leaves to its data are shown as letters.
    """
    from netweave import api
    from netweave.cli.console import output_console, working

    with working(f"reading {net}"):
        graph = api.load_for_inspection(net, inference=inference, tiny=tiny, **reading)
    if html_file:
        api.save_page(graph, html_file)
    if json_file:
        from netweave.cli.console import write_json
        from netweave.graph import graph_to_json

        write_json(graph_to_json(graph, batch=batch), json_file)
    if json_file != "-":
        from netweave.cli.net_view import show_net

        show_net(output_console(), graph, nodes=nodes, batch=batch)
    if cluster and json_file != "-":
        partition = api.plan_partition(graph, cluster)
        if partition is not None:
            from netweave.cli.partition_view import show_partition

            show_partition(output_console(), partition)
        else:
            from netweave.cli.net_view import show_cluster

            show_cluster(output_console(), api.plan_cluster(graph, cluster))


@click.command(cls=Command, examples=["netweave show ab.json --all"])
@click.argument("file", metavar="FILE")
@everything_option
@json_option
@html_option
def show(file: str, everything: bool, json_file: str | None, html_file: str | None) -> int:
    """Show a comparison saved by 'netweave compare A B --json FILE', and exit with its status."""
    from netweave import api
    from netweave.cli.compare_view import show_comparison
    from netweave.cli.console import output_console, write_json

    comparison = api.open_comparison(file)
    if html_file:
        api.save_page(comparison, html_file)
    if json_file:
        write_json(comparison.to_json(), json_file)
    if json_file != "-":
        show_comparison(output_console(), comparison, everything=everything)
    return comparison.exit_status


@click.command(
    cls=Command,
    examples=[
        "netweave memory deploy.prototxt --batch 32",
        "netweave memory train_val.prototxt --batch 32 --train --plot memory.svg",
        "netweave memory net.onnx --train --limit 1GB --measure",
    ],
)
@NET("net")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Records in a batch; by default those of the net, or 1 if it takes any number.",
)
@click.option("--train", "training", is_flag=True, help="Plan a training step instead of a run forward.")
@click.option(
    "--limit",
    metavar="SIZE",
    help="What the last plan is to stay within (500MB): values of a step are computed again, layers of a run "
    "forward tiled.",
)
@click.option("--measure", is_flag=True, help="Run the net as well, and count what the allocator gives out.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    help="Draw the bytes alive at each step into FILE (.png, .svg, .pdf) as well.",
)
@click.option("--trust", is_flag=True, help="Run code in the files without the guarded process around it.")
@json_option
@in_state
def memory(
    net: str,
    batch: int | None,
    training: bool,
    limit: str | None,
    measure: bool,
    picture: str | None,
    trust: bool,
    json_file: str | None,
    state: dict[str, Any],
) -> None:
    """Show how much memory NET needs: in place, co-shared, with values computed again.

    NET is FILE or FILE,WEIGHTS. Torch carries out the plan "both", within what the liveness bound says, and
    the last one where 'netweave train --memory' asks for it.
    """
    from netweave import api
    from netweave.cli.console import output_console, working, write_json
    from netweave.cli.run_view import memory_json, show_memory

    with working(f"reading {net}"):
        graph = api.load_for_timing(
            net,
            "TRAIN" if training else "TEST",
            trust=trust,
            **state,
        )
    with working("planning"):
        plan = api.plan_memory(graph, batch=batch, training=training, limit=limit)
    measured = None
    if measure:
        with working("measuring"):
            measured = api.measure_memory(graph, batch=batch, training=training)
    if picture:
        api.save_memory_picture(plan, picture)
    if json_file:
        write_json(memory_json(plan, measured), json_file)
    if json_file != "-":
        show_memory(output_console(), plan, measured)
