"""Scripts and networks of MXNet's examples, run by MXNet and by Netweave, and compared."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.mxnet_scripts import symbols
from benchmarks.mxnet_scripts.runner import Runner
from benchmarks.record import Namespace, Record, option, read_results

GOOD = {"ends", "runs"}
Row = dict[str, object]


OPTIONS = (
    option("folders", nargs="+", type=Path, help="folders of releases, each with its example"),
    option("--mxnet", required=True, help="a Python that has MXNet 1.9.1"),
    option("--netweave", default=sys.executable, help="the Python of the other side"),
    option("--count", default=100, help="how many scripts that MXNet runs are drawn; 0 keeps those known"),
    option("--seed", default=18),
    option("--limit", default=25, help="seconds; a script that still runs then counts"),
    option("--only", default="", help="a regular expression for names"),
    option("--symbols", default=False, help="try the networks of the symbol files"),
    option(
        "--known", type=Path, help="a result: its runs under MXNet, and networks that agree, are not repeated"
    ),
    option("--retry", default=False, help="of those known, run only what fails here"),
)


def main(options: Namespace, record: Record) -> None:
    """Run what the command line names."""
    with tempfile.TemporaryDirectory() as scratch:
        pythons = {"mxnet": options.mxnet, "netweave": options.netweave}
        runner = Runner(Path(scratch), pythons=pythons, limit=options.limit)
        for folder in options.folders:
            runner.add(folder.absolute())
        report = Report(options, record)
        if options.symbols:
            _symbols(runner, report)
        _scripts(runner, report, options)


def _symbols(runner: Runner, report: Report) -> None:
    """Run each network, but for those that are known to agree, or whose name is not asked for."""
    for network in symbols.networks(runner.folders):
        row: Row = {**dataclasses.asdict(network)}
        known = report.known_symbols.get(tuple(row.values()))
        if re.search(report.only, f"{network.script} {network.network}"):
            agrees = known and str(known.get("numbers")).startswith("agrees")
            report.add_symbol(known if known and agrees else {**row, **runner.symbol(network)})
        elif known:
            report.add_symbol(known)


def _scripts(runner: Runner, report: Report, args: Namespace) -> None:
    """Walk through all scripts in an order drawn by the seed, until MXNet has run as many as are wanted.

    That is the same as drawing from those that MXNet runs, without running all.
    """
    if not args.count:
        return
    order = runner.scripts()
    random.Random(args.seed).shuffle(order)
    report.pool = len(order)
    for release, script in order:
        if report.runnable >= args.count:
            return
        if not re.search(args.only, script):
            continue
        known = report.known.get((release, script), {})
        row: Row = {"release": release, "script": script}
        row["mxnet"] = known.get("mxnet") or runner.script("mxnet", release, script)
        if row["mxnet"] in GOOD:
            row["lines"] = runner.lines(release, script)
            kept = known.get("netweave") if args.retry and known.get("netweave") in GOOD else None
            row["netweave"] = kept or runner.script("netweave", release, script)
        report.add(row)


class Report:
    """The rows, written after each of them.

    Args:
        args: The command line.
        record: What writes them.
    """

    def __init__(self, args: Namespace, record: Record) -> None:
        self._args, self._record = args, record
        self._rows: list[Row] = []
        self._symbols: list[Row] = []
        self.only: str = args.only
        self.pool, self._limit_s = 0, args.limit
        self.known: dict[tuple[str, str], dict[str, str]] = {}
        self.known_symbols: dict[tuple[object, ...], Row] = {}
        if args.known:
            known = read_results(args.known)
            self.known = {(row["release"], row["script"]): row for row in known["rows"]}
            if not args.count:
                self._rows, self.pool, self._limit_s = known["rows"], known["scripts"], known["limit_s"]
            names = [field.name for field in dataclasses.fields(symbols.Network)]
            self.known_symbols = {tuple(row.get(name) for name in names): row for row in known["symbols"]}

    @property
    def runnable(self) -> int:
        """How many of the scripts MXNet ran."""
        return sum("netweave" in row for row in self._rows)

    def add(self, row: Row) -> None:
        """Add a script."""
        self._rows.append(row)
        self._write(row)

    def add_symbol(self, row: Row) -> None:
        """Add a network."""
        self._symbols.append(row)
        self._write(row)

    def _write(self, row: Row) -> None:
        print(json.dumps(row), flush=True)
        counted = [row for row in self._rows if "netweave" in row]
        good = [row for row in counted if row["netweave"] in GOOD]
        summary = {
            "limit_s": self._limit_s,
            "seed": self._args.seed,
            "scripts": self.pool,
            "tried": len(self._rows),
            "mxnet runs": len(counted),
            "netweave runs": len(good),
            "by lines changed": dict(sorted(Counter(str(row["lines"]) for row in good).items())),
            "networks": len(self._symbols),
            "networks that agree": sum(str(row.get("numbers")).startswith("agrees") for row in self._symbols),
            "symbols": self._symbols,
            "rows": self._rows,
        }
        self._record.save(summary)
