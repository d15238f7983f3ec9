"""From pairs of stored arrays to a Comparison, layer by layer."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from netweave.comparison.names import list_stretch
from netweave.comparison.result.comparison import (
    Comparison,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
)
from netweave.comparison.result.verdicts import Verdict
from netweave.comparison.stored.arrays import stored_arrays
from netweave.comparison.stored.pairing import Pairing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.stored.arrays import Stored
    from netweave.comparison.stored.pairing import Pair
    from netweave.graph import Graph

NOTE = "only stored arrays are compared, since {} no net: what is computed with them may still differ"


def compare_stored(a: Graph, b: Graph) -> Comparison:
    """Compare two nets by their stored arrays alone.

    Args:
        a: The first net, or weights alone.
        b: The second net, or weights alone.
    """
    start = time.perf_counter()
    lacking = [name for name, graph in (("A", a), ("B", b)) if not graph.loaded or not graph.parameters]
    if lacking:
        said = f"not decidable: {' and '.join(lacking)} came without weights, and there is nothing else"
        return Comparison(a, b, Verdict.UNDECIDED, said)
    pairing = Pairing(stored_arrays(a), stored_arrays(b), b_is_net=a.only_weights and not b.only_weights)
    pairing.run()
    groups = _groups(a, pairing)
    verdict, sentence = _verdict(pairing, groups)
    bare = [name for name, graph in (("A", a), ("B", b)) if graph.only_weights]
    return Comparison(
        a,
        b,
        verdict,
        sentence,
        groups=tuple(groups),
        notes=(NOTE.format("A and B are" if len(bare) == 2 else f"{bare[0]} is"),),
        seconds={"compare weights": time.perf_counter() - start},
    )


def _groups(a: Graph, pairing: Pairing) -> list[Group]:
    """Return one group for each pair of layers, in A's order, then what only B has."""
    members: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for array in pairing.a:
        pair = pairing.pairs.get(array.key)
        if pair is not None:
            members[pair.a.layer, pair.b.layer].append(pair)
    groups = [_group(*layers, pairs) for layers, pairs in members.items()]
    groups += [_alone(array, side=0) for array in pairing.only_a]
    order = {key: index for index, key in enumerate(a.layers)}
    groups.sort(key=lambda group: order.get(group.layers_a[0], len(order)))
    return groups + [_alone(array, side=1) for array in pairing.only_b]


def _group(layer_a: str, layer_b: str, pairs: Sequence[Pair]) -> Group:
    main = max(pairs, key=lambda pair: (bool(pair.text), pair.a.values.size))
    wrong = [pair for pair in pairs if not pair.match.is_equal]
    status = Status.DIFFERENT if wrong else Status.MAPPED if main.text else Status.EQUAL
    mapping = TensorMapping.named(main.a.key, main.b.key, main.match.change, main.text)
    return Group(
        nodes_a=(),
        nodes_b=(),
        layers_a=(layer_a,),
        layers_b=(layer_b,),
        evidence=Evidence.WEIGHTS if all(pair.by_values for pair in pairs) else Evidence.NAME,
        status=status,
        error=max(pair.match.error for pair in pairs),
        mapping=mapping if mapping.text else None,
        finding=_finding(wrong) if wrong else None,
    )


def _finding(wrong: Sequence[Pair]) -> Finding:
    first = wrong[0]
    return Finding(
        mismatch="weights",
        cause="; ".join(map(_difference, wrong)),
        fix=f"take {', '.join(pair.b.key for pair in wrong)} from A",
        place_a=first.a.place,
        place_b=first.b.place,
        layer_a=first.a.layer,
        layer_b=first.b.layer,
    )


def _difference(pair: Pair) -> str:
    match, worst = pair.match, pair.match.worst
    if match.num_different == match.num_elements or worst is None:
        return f"{pair.a.key} and {pair.b.key} have no number in common"
    in_a, in_b = match.change.apply(pair.a.values)[worst], pair.b.values[worst]
    return (
        f"{match.num_different:,} of {match.num_elements:,} numbers of {pair.b.key} differ, most at "
        f"{list(worst)}: {in_a:.6g} in A and {in_b:.6g} in B"
    )


def _alone(array: Stored, *, side: int) -> Group:
    mine, other = ("A", "B") if side == 0 else ("B", "A")
    sizes = "x".join(map(str, array.values.shape)) or "one number"
    finding = Finding(
        mismatch="missing-layer",
        cause=f"{mine} stores {array.key} ({sizes}), {other} has no array like it",
        place_a=array.place if side == 0 else "",
        place_b=array.place if side == 1 else "",
        layer_a=array.layer if side == 0 else "",
        layer_b=array.layer if side == 1 else "",
    )
    return Group(
        nodes_a=(),
        nodes_b=(),
        layers_a=(array.layer,) if side == 0 else (),
        layers_b=(array.layer,) if side == 1 else (),
        evidence=Evidence.GUESS,
        status=Status.ONLY_A if side == 0 else Status.ONLY_B,
        finding=finding,
    )


def _verdict(pairing: Pairing, groups: Sequence[Group]) -> tuple[Verdict, str]:
    culprits = [group.finding for group in groups if group.finding is not None]
    if culprits:
        first = culprits[0]
        where = " / ".join(dict.fromkeys(name for name in (first.layer_a, first.layer_b) if name))
        more = (
            f"; {len(culprits) - 1} more difference{'s' * (len(culprits) > 2)}" if len(culprits) > 1 else ""
        )
        return Verdict.DIFFERENT, f"different weights at {where}: {first.cause}{more}"
    count = len(pairing.pairs)
    agree = f"all {count} arrays agree" if count > 1 else "the one array agrees"
    by_text: dict[str, list[str]] = defaultdict(list)
    for pair in pairing.pairs.values():
        if pair.text:
            by_text[pair.text].append(pair.a.layer)
    stated = "; ".join(f"{list_stretch(layers)} ({text})" for text, layers in by_text.items())
    differently = f"; stored differently in B: {stated}" if stated else ""
    return Verdict.EQUAL, f"equal weights: {agree}{differently}"
