"""Tables of the README: sums over all pairs, and one row for each."""

from __future__ import annotations

from typing import Any

from benchmarks.ports.pairs import load_pairs

SUMS = ("true", "found", "explained", "applicable", "fixed", "false")
SUMS_WITHOUT_EFFECT = ("latent_true", "latent_found", "latent_false")
Row = dict[str, Any]


def sums(states: dict[str, dict[str, Row]]) -> list[str]:
    """Return the table of sums over the pairs that were compared in every state."""
    common = set.intersection(*(set(rows) for rows in states.values()))
    lines = [
        f"| {len(common)} pairs | compared | true | found | explained | in a text | fixed | false | "
        "without effect | found | false |",
        "| --- " * 11 + "|",
    ]
    for state, rows in states.items():
        chosen = [rows[name] for name in sorted(common)]
        counts = [sum(row["score"][name] for row in chosen) for name in (*SUMS, *SUMS_WITHOUT_EFFECT)]
        compared = sum("error" not in row for row in chosen)
        lines.append(f"| {state} | {compared} | " + " | ".join(map(str, counts)) + " |")
    return lines


def pairs(states: dict[str, dict[str, Row]]) -> list[str]:
    """Return the table of all pairs, each state's figures as found of true, explained and false ones."""
    lines = [
        "| pair | weights | true | " + " | ".join(states) + " | steps |",
        "| --- " * (4 + len(states)) + "|",
    ]
    for pair in load_pairs():
        rows = [rows.get(pair.name) for rows in states.values()]
        last = next((row for row in reversed(rows) if row is not None), None)
        if last is None:
            continue
        true, latent = last["score"]["true"], last["score"]["latent_true"]
        shown = f"{true}" + (f" + {latent}" if latent else "")
        steps = f"{last['steps']}, equal" if last["equal_at_last"] else str(last["steps"])
        cells = " | ".join("" if row is None else cell(row) for row in rows)
        lines.append(f"| {pair.name} | {pair.weights} | {shown} | {cells} | {steps} |")
    return lines


def cell(row: Row) -> str:
    """Return what one comparison found, in a few numbers."""
    if "error" in row:
        return "not compared"
    score = row["score"]
    found = f"{score['found']} found, {score['explained']} explained" if score["true"] else row["verdict"]
    false = score["false"] + score["latent_false"]
    return found + (f", {false} false" if false else "")
