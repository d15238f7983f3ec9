"""Names of Python for names of other frameworks, which may hold anything."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import TYPE_CHECKING

from netweave.graph.naming import take_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.files.source_code.steps import Step

KINDS = {
    "ConvNorm": "conv",
    "nn.Conv1d": "conv",
    "nn.Conv2d": "conv",
    "nn.Conv3d": "conv",
    "nn.ConvTranspose1d": "deconv",
    "nn.ConvTranspose2d": "deconv",
    "nn.ConvTranspose3d": "deconv",
    "nn.Linear": "fc",
    "nn.BatchNorm1d": "norm",
    "nn.BatchNorm2d": "norm",
    "nn.BatchNorm3d": "norm",
    "nn.LayerNorm": "norm",
    "nn.MultiheadAttention": "attention",
    "nn.PReLU": "prelu",
    "nn.Parameter": "factor",
    "nn.Embedding": "embedding",
}
"""What a module is called that has no usable name of its own."""

TAKEN = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_parameter get_submodule half ipu
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    requires_grad_ share_memory state_dict to to_empty train training type
    xpu zero_grad F nn torch json Path WEIGHTS self x
    """.split()  # noqa: SIM905 (a list of fifty strings is harder to read)
)
"""Names that modules of PyTorch, or the written file, have already."""


class Names:
    """Identifiers of one scope, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def free(self, wanted: str, *, fallback: str = "layer") -> str:
        """Return an identifier like the wanted name.

        >>> names = Names()
        >>> names.free("inception_3a/1x1"), names.free("3x3"), names.free("class"), names.free("3x3")
        ('inception_3a_1x1', 'layer_3x3', 'class_', 'layer_3x3_2')
        """
        return take_name(identifier(wanted, fallback=fallback), self._taken)


def identifier(name: str, *, fallback: str = "layer") -> str:
    """Return an identifier of ASCII letters, digits and underscores for a name."""
    stem = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or fallback
    if stem[0].isdigit():
        stem = f"{fallback}_{stem}"
    if keyword.iskeyword(stem) or keyword.issoftkeyword(stem) or stem in TAKEN or hasattr(builtins, stem):
        stem += "_"
    return stem


def class_name(name: str) -> str:
    """Return a name for a class.

    >>> class_name("bvlc_googlenet"), class_name("ResNet-50"), class_name("3d"), class_name("")
    ('BvlcGooglenet', 'ResNet50', 'Net3d', 'Net')
    """
    parts = [part for part in re.split(r"[^0-9A-Za-z]+", name) if part]
    joined = "".join(part[0].upper() + part[1:] for part in parts)
    if not joined or joined[0].isdigit():
        joined = f"Net{joined}"
    return f"{joined}Net" if keyword.iskeyword(joined) or hasattr(builtins, joined) else joined


def kind_name(step: Step) -> str:
    """Return what a step's module is called for want of a better name."""
    return KINDS.get(step.module.type, "layer") if step.module else "layer"


def shared_prefix(names: Sequence[str]) -> str:
    """Return what names begin with in common, up to a place where a word ends.

    >>> shared_prefix(["res2a_branch1", "res2a_branch2a"]), shared_prefix(["3a/1x1", "3a/3x3"])
    ('res2a_', '3a/')
    """
    found = _shared(names)
    words = re.match(r".*[^0-9A-Za-z]", found)
    return words[0] if words else ""


def _shared(names: Sequence[str]) -> str:
    """Return the characters that all names begin with."""
    first, last = (min(names), max(names)) if names else ("", "")
    count = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None)
    return first[: len(last) if count is None else count]


def stem_of(names: Sequence[str]) -> str:
    """Return what names of blocks begin with in common, without a broken word at the end.

    >>> stem_of(["res2a", "res2b", "res2c"]), stem_of(["a", "b"]), stem_of(["stage1_unit1", "stage1_unit2"])
    ('res2', '', 'stage1_unit')
    """
    return re.sub(r"[^0-9A-Za-z]+$", "", _shared(names))


def member_names(blocks: Sequence[Sequence[Step]]) -> list[str]:
    """Return a name for each step of a class of blocks: of the source, if all blocks agree, or its kind."""
    prefixes = [shared_prefix([step.name for step in steps if step.module]) for steps in blocks]
    names = Names(TAKEN)
    found: list[str] = []
    for each in zip(*blocks, strict=True):
        ends = {step.name.removeprefix(prefix) for step, prefix in zip(each, prefixes, strict=True)}
        wanted = ends.pop() if len(ends) == 1 else ""
        kind = kind_name(each[0])
        found.append(names.free(wanted or kind, fallback=kind) if each[0].module else "")
    return found


def block_name(steps: Sequence[Step]) -> str:
    """Return the source's name of a block: what its modules' names begin with in common."""
    return re.sub(r"[^0-9A-Za-z]+$", "", shared_prefix([step.name for step in steps if step.module]))
