"""Pairs of ONNX files: equal ones in another form, and ones with a planted fault.

Nets, forms and faults are those of ``benchmarks.faults``, written with onnx alone; with a corpus, the
face-detection nets of Caffe and MXNet besides, which Netweave writes as ONNX.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.faults import onnx_faults
from benchmarks.faults.onnx_nets import NETS

if TYPE_CHECKING:
    from benchmarks.faults.model import Fault, Subject

NUM_FAULTS = 8
"""Faults of one net, spread evenly over all that can be planted in it."""


def is_drawn(name: str) -> bool:
    """Whether a net is one that is written here with drawn weights."""
    return name.removeprefix("onnx-") in NETS


def write_pairs(folder: Path, corpus: Path | None) -> list[dict[str, Any]]:
    """Write all pairs, and a list of them for the interpreter of the peers.

    A row says: the files ``a`` and ``b``, the form of ``a``, and, of a fault, the node of ``b`` that it was
    planted in (``layer``), what that node is called in ``a``, its kind and the mismatches that explain it.
    """
    rows = [row for subject in onnx_faults.subjects(is_drawn) for row in _rows(folder, subject)]
    if corpus is not None:
        rows += _ported(folder, corpus)
    (folder / "pairs.json").write_text(json.dumps(rows, indent=1))
    return rows


def _rows(folder: Path, subject: Subject) -> Iterator[dict[str, Any]]:
    own = folder / subject.name
    subject.net.write(own)
    partners = {"same": own / "net.onnx"}
    for form, net in subject.partners.items():
        place = own / form.replace(" ", "-")
        net.write(place)
        partners[form] = place / "net.onnx"
        yield {"a": str(partners[form]), "b": str(own / "net.onnx"), "form": form}
    for index, fault in enumerate(_spread(subject.faults)):
        place = own / f"fault-{index}"
        fault.net.write(place)
        for form in ("same", "renamed"):
            yield {
                "a": str(partners[form]),
                "b": str(place / "net.onnx"),
                "right": str(own / "net.onnx"),
                "form": form,
                "layer": fault.layer,
                "layer_a": subject.names.get(form, {}).get(fault.layer, fault.layer),
                "kind": fault.kind,
                "mismatches": sorted(fault.mismatches),
                "in_table": fault.in_table,
            }


def _spread(faults: Sequence[Fault]) -> list[Fault]:
    places = np.unique(np.linspace(0, len(faults) - 1, NUM_FAULTS).astype(int))
    return [faults[place] for place in places]


def _ported(folder: Path, corpus: Path) -> Iterator[dict[str, Any]]:
    import netweave
    from netweave import api
    from netweave.graph.passes import specialise

    for name in ("det1", "det2"):
        files = {form: folder / f"{name}-{form}.onnx" for form in ("caffe", "mxnet")}
        shapes = {"data": (1, 3, 24, 24)}
        for form, file in (("caffe", f"{name}.prototxt"), ("mxnet", f"{name}-symbol.json")):
            net = netweave.load(corpus / "mtcnn" / file, input_shapes=shapes)
            netweave.save(api.to_inference(specialise(net, shapes)), files[form])
        yield {"a": str(files["caffe"]), "b": str(files["mxnet"]), "form": "ported by people"}
