"""``netweave jobs``: the jobs that are being trained, as ``singa-console.sh`` lists, views and kills them."""

from __future__ import annotations

import time

import click

from netweave.cli.options import Command, CommandGroup


@click.group(cls=CommandGroup, examples=["netweave jobs list", "netweave jobs kill 0"])
def jobs() -> None:
    """List, view and stop the jobs that are being trained.

    Every netweave train is in a register on this machine, in ~/.local/state/netweave/jobs, or in the folder
    that the environment variable NETWEAVE_JOBS names.
    """


@jobs.command("list", cls=Command, examples=["netweave jobs list"])
def list_() -> None:
    """List the jobs that are running."""
    from netweave.api.jobs import list_jobs
    from netweave.cli.console import output_console

    console = output_console()
    rows = list_jobs()
    if rows:
        console.print("JOB ID  NAME                  WHERE                     RUNNING FOR")
    for job in rows:
        where = f"{job.host}|{job.pid}"
        console.print(
            f"{job.id:<7} {job.name:<21} {where:<25} {time.time() - job.started:,.0f} s", soft_wrap=True
        )
    if not rows:
        console.print("no jobs are running")


@jobs.command(cls=Command, examples=["netweave jobs view 0"])
@click.argument("number", metavar="ID", type=int)
def view(number: int) -> None:
    """Show where job ID runs, and what it trains."""
    from netweave.api.jobs import find_job
    from netweave.cli.console import output_console

    job = find_job(number)
    console = output_console()
    for name, value in (
        ("job", f"{job.id} ({job.name})"),
        ("process", f"{job.host}|{job.pid}"),
        ("file", job.file),
        ("folder", job.folder),
        ("started", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.started))),
    ):
        console.print(f"{name:<8} {value}", soft_wrap=True)


@jobs.command(cls=Command, examples=["netweave jobs kill 0", "netweave jobs kill 0 --now"])
@click.argument("number", metavar="ID", type=int)
@click.option("--now", is_flag=True, help="Kill it without a checkpoint, as singa-console.sh does.")
def kill(number: int, now: bool) -> None:
    """Stop job ID; it writes a checkpoint first."""
    from netweave.api.jobs import kill_job
    from netweave.cli.console import output_console

    job = kill_job(number, at_once=now)
    done = "killed" if now else "asked to write a checkpoint and stop"
    output_console().print(f"job {job.id} ({job.name}, process {job.pid}): {done}", soft_wrap=True)
