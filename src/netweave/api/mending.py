"""Fixes of a comparison, applied to the text of the second net."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from netweave.api.comparing import compare
from netweave.api.reading import ReadOptions
from netweave.comparison import Comparison, Finding, fixes
from netweave.comparison.fixes import Mended
from netweave.errors import NetweaveError, UsageError
from netweave.files.output_files import write_file, writing


@dataclass(frozen=True, slots=True)
class FixedPort:
    """A port with fixes applied, in a file of its own.

    Attributes:
        file: The file that was written.
        mended: The changes, and the fixes that could not be applied.
        comparison: The first net against the mended one; None if that cannot be read or compared.
        problem: Why it cannot; empty if it can.
        name: How the mended net is given, ``FILE`` or ``FILE,WEIGHTS``: its weights stay where they were.
    """

    file: Path
    mended: Mended
    comparison: Comparison | None
    problem: str = ""
    name: str = ""


def mend(comparison: Comparison, findings: Iterable[Finding] | None = None) -> Mended:
    """Apply the fixes of a comparison to the text of the second net's files, in memory.

    Args:
        comparison: The comparison, of nets that were read from files.
        findings: Those of its findings whose fixes are applied; all that have an effect by default.
    """
    return fixes.mend(comparison, findings)


def check_target(target: str | Path, *, overwrite: bool = False) -> Path:
    """Return the file that a mended net is written to.

    Raises:
        UsageError: It exists, and is not to be replaced.
    """
    target = Path(target)
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists; give another name, or overwrite it (--overwrite, overwrite=True)")
    return target


def fix_port(
    a: str,
    b: str,
    comparison: Comparison,
    target: str | Path,
    *,
    findings: Iterable[Finding] | None = None,
    overwrite: bool = False,
    memory: int | str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Unpack[ReadOptions],
) -> FixedPort:
    """Write the second net with the fixes of a comparison applied, and compare again.

    Args:
        a: The first net as it was given, ``FILE`` or ``FILE,WEIGHTS``.
        b: The second net, likewise.
        comparison: What was found about them.
        target: The file to write; the files of the nets stay as they are.
        findings: As for ``mend``.
        overwrite: Replace the file if it is there.
        memory: As for ``compare``.
        input_shapes: As for ``compare``.
        options: As for ``load``.

    Raises:
        UsageError: No fix can be applied, the fixes change several files, or the file exists.
        WriteError: The file cannot be written.
    """
    target = check_target(target, overwrite=overwrite)
    mended = fixes.mend(comparison, findings)
    if not mended.after:
        reasons = "; ".join(refusal.why for refusal in mended.refused) or "nothing is to be fixed"
        raise UsageError(f"no fix can be applied to {b}: {reasons}")
    if len(mended.after) > 1:
        names = ", ".join(mended.after)
        raise UsageError(
            f"the fixes change several files ({names}); apply the patch that 'netweave fix' prints"
        )
    ((file, content),) = mended.contents.items()
    _bring_data(mended.data_files, Path(file).parent, target.parent)
    write_file(target, content)
    name = _renamed(b, file, target, comparison.b.files)
    try:
        again = compare(a, name, memory=memory, input_shapes=input_shapes, **options)
    except NetweaveError as error:
        return FixedPort(target, mended, None, str(error), name)
    return FixedPort(target, mended, again, name=name)


def _bring_data(names: Sequence[str], source: Path, folder: Path) -> None:
    """Copy the external data of a model beside its mended file.

    Raises:
        UsageError: Another file is there.
        WriteError: A file cannot be written.
    """
    for name in names:
        old, new = source / name, folder / name
        if not new.exists():
            with writing(new):
                new.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(old, new)
        elif not new.samefile(old) and not filecmp.cmp(old, new, shallow=False):
            raise UsageError(
                f"{new} is there and is not the external data of the model; choose another folder"
            )


def _renamed(net: str, file: str, target: Path, files: Sequence[str]) -> str:
    """Return how a net is given that has one of its files elsewhere; its weights stay where they are."""
    name, comma, weights = net.partition(",")
    entry = name.removeprefix(file)  # FILE:FACTORY
    if not comma:
        weights = next((other for other in files if Path(other).resolve() != Path(file).resolve()), "")
    return f"{target}{entry}" + (f",{weights}" if weights else "")
