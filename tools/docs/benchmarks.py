"""Tables of the benchmarks' READMEs, from the files of results."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.__main__ import benchmarks, summary
from benchmarks.faults import table as faults
from benchmarks.ports import table as ports
from benchmarks.record import read_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

FOLDER = Path(__file__).parents[2] / "benchmarks"

READMES = tuple(f"benchmarks/{path.parent.name}/README.md" for path in sorted(FOLDER.glob("*/README.md")))
PAGES = ("benchmarks/README.md", *READMES)

Results = dict[str, Any]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells of each row begin at the left."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]).replace("|  |", "| |")


def _short(milliseconds: float) -> str:
    """Return milliseconds with three digits."""
    digits = 1 if milliseconds < 99.95 else 0
    return f"{milliseconds:,.{digits}f}"


def comparing(results: Results) -> str:
    """Return what commands took before and now."""
    head = ("net", "", "before", "now", "processor time before", "now", "peak before", "now")
    return markdown(head, (_comparing_row(row) for row in results["rows"] if "now" in row))


def _comparing_row(row: Results) -> list[str]:
    states = [row.get("before"), row["now"]]
    cells = [f"{one['seconds']:.1f} s" if one else "" for one in states]
    cells += [f"{one['cpu_seconds']:.1f} s" if one else "" for one in states]
    return [row["net"], row["task"], *cells, *(f"{one['peak_mb']:,} MB" if one else "" for one in states)]


def mending(results: Results) -> str:
    """Return what became of the fixes of planted faults."""
    ends = ("mended", "not applied", "not equal", "unreadable")
    forms = results["by_format"] | {"**all**": sum(map(Counter, results["by_format"].values()), Counter())}
    counts = {name: [row.get(end, 0) for end in ends] for name, row in forms.items()}
    rows = ([name, str(sum(row)), *map(str, row)] for name, row in counts.items())
    return markdown(("", "with a fix in a text file", *ends), rows)


TITLES = {
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
    "googlenet": "GoogLeNet",
    "inception-v3": "Inception-v3",
    "resnet50": "ResNet-50",
    "densenet121": "DenseNet-121",
    "squeezenet": "SqueezeNet 1.0",
    "mobilenet-v2": "MobileNet v2",
}
"""Nets of the table of prepared nets, in its order."""

RUNTIMES = {
    "f32": ("OpenVINO", "ONNX Runtime", "torch.compile", "OpenCV", "MXNet"),
    "bf16": ("OpenVINO", "torch.compile"),
}


def inference(results: Results, precision: str) -> str:
    """Return milliseconds of a run, by net, batch and runtime."""
    others = RUNTIMES[precision]
    head = ("", "Netweave", *others, "ratio", *(["by float32"] if precision != "f32" else []))
    rows = []
    for net, title in TITLES.items():
        for batch, found in sorted(results[precision][net].items(), key=lambda row: int(row[0])):
            ours, (middle, low, high) = found["candidates"]["netweave"], found["ratio"]
            backend = ours["name"].partition(", ")[2]
            cells = [f"{title}, {batch}", f"{_short(ours['ms'][0])} ({backend})"]
            cells += [_short(found["candidates"][other]["ms"][0]) for other in others]
            cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
            if precision != "f32":
                plain = results["f32"][net][batch]["candidates"]["netweave"]["ms"][0]
                cells.append(f"{plain / ours['ms'][0]:.1f}")
            rows.append(cells)
    return markdown(head, rows)


RANKED = {
    "torch:flat": "one blocking all-reduce",
    "torch:parameter": "all-reduce per parameter, from hooks",
    "torch:ddp-25": "DDP, 25 MB (default)",
    "torch:ddp-1": "DDP, 1 MB",
    "netweave:blocking": "Netweave `blocking`",
    "netweave:overlapped": "Netweave `overlapped`",
    "netweave:prioritised": "Netweave `prioritised`",
    "netweave:two-level": "Netweave `two-level`",
    "netweave:owner": "Netweave `owner`",
    "netweave:prioritised:fp16": "Netweave `prioritised`, fp16",
    "netweave:prioritised:bf16": "Netweave `prioritised`, bf16",
    "netweave:prioritised:2bit": "Netweave `prioritised`, 2bit",
    "torch:ddp-1-fp16": "DDP, 1 MB, fp16",
}
"""Candidates of an exchange, in the order of the tables."""

RESNET_CASES = {
    "resnet18-1gbit": "1 Gbit/s, batch 48",
    "resnet18-loopback": "loopback, batch 48",
    "resnet18-200mbit": "200 Mbit/s, batch 224",
}


def exchange(results: Results) -> str:
    """Return the steps of ResNet-18 on three links."""
    cases = [results[name] for name in RESNET_CASES]
    paths = [case["critical path"] for case in cases]
    both = "critical path of `prioritised`; with the exchange's processor time"
    rows = [_row_of_paths("computation alone; link alone", paths, ("compute", "link"))]
    for key, title in RANKED.items():
        cells = [_range(case["candidates"].get(key)) for case in cases]
        rows += [[title, *cells]] if any(cells) else []
    rows.append(_row_of_paths(both, paths, ("prioritised", "with the processor of the exchange")))
    return markdown(("", *RESNET_CASES.values()), rows)


def _row_of_paths(title: str, paths: Iterable[dict[str, float]], keys: Sequence[str]) -> list[str]:
    return [title, *("; ".join(f"{path[key]:,.0f}" for key in keys) for path in paths)]


def _range(row: Results | None) -> str:
    return f"{row['ms']:,.0f} ({row['fastest']:,.0f} to {row['slowest']:,.0f})" if row else ""


def exchange_case(results: Results, name: str) -> str:
    """Return the steps of one case, and how many times faster than DDP's best they are."""
    case = results[name]
    rows = [
        [title, _range(row), f"{row['of best DDP']:.2f}"]
        for key, title in RANKED.items()
        if (row := case["candidates"].get(key))
    ]
    path = case["critical path"]
    both = f"{path['prioritised']:,.0f}; {path['with the processor of the exchange']:,.0f}"
    rows.append(["critical path of `prioritised`; with the exchange's processor time", both, ""])
    return markdown(("", "ms of a step", "times faster than DDP's best"), rows)


def hybrid(results: Results) -> str:
    """Return the steps of data parallelism and of a hybrid, and how much faster than DDP they are."""
    cases = [results[f"hybrid-{rate}"]["candidates"] for rate in ("1gbit", "200mbit")]
    rows = [
        [title, *(f"{_range(case[key])}, {case[key]['of best DDP']:.2f} times" for case in cases)]
        for key, title in {**RANKED, "netweave:hybrid": "Netweave, dense layers by feature"}.items()
        if key in cases[0]
    ]
    return markdown(("", "1 Gbit/s", "200 Mbit/s"), rows)


SAME_BITS_CASES = {"loopback": "loopback", "1gbit": "1 Gbit/s", "200mbit": "200 Mbit/s"}


def same_bits(results: Results) -> str:
    """Return the steps of the overlapped exchange and of shards, and how many times as long these take."""
    cases = [results[f"same-bits-{name}"]["candidates"] for name in SAME_BITS_CASES]
    rows = []
    for key in dict.fromkeys(key for case in cases for key in case):
        shards = key.partition("shards=")[2]
        title = f"Netweave, {shards} shards with the same bits" if shards else RANKED[key]
        found = [case.get(key) for case in cases]
        prices = [f", {row['price']:.2f} times" if row and shards else "" for row in found]
        cells = [f"{_range(row)}{price}" for row, price in zip(found, prices, strict=True)]
        processor = [f"{row['processor ms']:,.0f}" if row else "" for row in found]
        rows.append([title, *cells, "; ".join(filter(None, processor))])
    return markdown(("", *SAME_BITS_CASES.values(), "processor"), rows)


def scale(results: Results) -> str:
    """Return time and memory of pairs of growing size."""
    rows = [
        [
            " and ".join(f"{count:,}" for count in row["nodes"]),
            f"{row['seconds']['median']:.1f} s",
            f"{row['comparing_seconds']['median']:.1f} s",
            f"{row['peak_mb']:,} MB",
        ]
        for row in results["pairs"].values()
    ]
    return markdown(("nodes of A and B", "whole", "of which comparing", "peak memory"), rows)


BATCHES = {"AlexNet": 32, "GoogLeNet": 16, "VGG-16": 8, "ResNet-50": 8}


def bf16(results: Results) -> str:
    """Return milliseconds of a step in both precisions, each net from its first run."""
    head = ("median ms of a step", "Netweave, f32", "Netweave, bf16", "PyTorch, autocast")
    rows = []
    for net, batch in BATCHES.items():
        steps = [results["nets"][net][0][key]["wall"][0] for key in ("netweave", "bf16", "autocast")]
        rows.append([f"{net}, {batch} images", *map(_short, steps), f"{steps[0] / steps[1]:.2f}"])
    return markdown((*head, "times as fast as f32"), rows)


def _faults(rows: Callable[[Results], Iterator[list[str]]], results: Results) -> str:
    head, _, *body = rows(results)
    return markdown(head, body)


def _ports(lines: Callable[[Results], list[str]], results: Results) -> str:
    return "\n".join(lines(results))


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "bf16": ("training/bf16.json", bf16),
    "comparing": ("comparing/result.json", comparing),
    "exchange": ("parallel/result.json", exchange),
    "exchange-alexnet": ("parallel/result.json", partial(exchange_case, name="alexnet-1gbit")),
    "exchange-hybrid": ("parallel/result.json", hybrid),
    "exchange-levels": ("parallel/result.json", partial(exchange_case, name="levels-200mbit")),
    "exchange-same-bits": ("parallel/result.json", same_bits),
    "faults": ("faults/result.json", partial(_faults, faults.rows)),
    "faults-bare": ("faults/result.json", partial(_faults, faults.bare_rows)),
    "faults-mended": ("faults/mending.json", mending),
    "inference": ("inference/result.json", partial(inference, precision="f32")),
    "inference-bf16": ("inference/result.json", partial(inference, precision="bf16")),
    "ports": ("ports/result.json", partial(_ports, ports.sums)),
    "ports-pairs": ("ports/result.json", partial(_ports, ports.pairs)),
    "scale": ("scale/result.json", scale),
}
"""The file and the table of each fragment, by the name in the comment that it stands after."""


def names() -> str:
    """Return the benchmarks with what each does."""
    rows = (
        [f"`{name}`", summary(path).rstrip(".").replace("``", "`")] for name, path in benchmarks().items()
    )
    return markdown(("name", "subject"), rows)


def fragment(name: str) -> str:
    """Return a table."""
    file, make = TABLES[name]
    return make(read_results(FOLDER / file))
