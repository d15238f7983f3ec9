"""Guarded child processes that answer several questions: what still binds them, and when they end."""

from __future__ import annotations

import os
import textwrap
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from netweave.errors import CodeError
from netweave.files import persistent_child
from netweave.files.persistent_child import PersistentChild, keep_children, kept_children
from netweave.files.sandbox import Limits, has_guard

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.multi,
    pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed"),
]

SENT: dict[str, Any] = {"net": "model.py", "place": "model.py"}


def child(
    stack: ExitStack, folder: Path, code: str, *, trust: bool = False, **limits: float
) -> PersistentChild:
    path = folder / "program.py"
    work = textwrap.indent(textwrap.dedent(code), "    ")
    head = "import os, sys, time\nfrom pathlib import Path\nfrom netweave.files.seccomp import answer\n"
    path.write_text(f"{head}state = []\ndef work(request):\n    state.append(1)\n{work}\nanswer(work)\n")
    chosen = Limits(**limits)  # type: ignore[arg-type]
    return PersistentChild.start(stack, path, readable=[], place="model.py", trust=trust, limits=chosen)


def text(asked: PersistentChild, name: str = "made", **request: Any) -> str | None:
    with asked.ask(SENT | request, [name]) as outcome:
        file = outcome.file(name)
        return None if file is None else file.read_text()


@pytest.mark.parametrize("trust", [False, True])
def test_one_process_answers_all_questions_and_ends_with_its_context(tmp_path: Path, trust: bool) -> None:
    code = "Path('made').write_text(f'{len(state)} {request[\"n\"]} {sys.stdin.read()!r} {os.getpid()}')"
    with ExitStack() as stack:
        asked = child(stack, tmp_path, code, trust=trust)
        first, second = text(asked, n=7), text(asked, n=8)
        assert first is not None
        assert second is not None
        assert (first[:6], second[:6]) == ("1 7 ''", "2 8 ''")
        assert first.split()[-1] == second.split()[-1]
        assert asked.is_alive
        folder = asked._command.folder
    assert not asked.is_alive
    assert not folder.exists()


def test_a_file_that_is_given_later_can_be_read_and_not_written(tmp_path: Path) -> None:
    code = """
    try:
        Path(request["file"]).write_text("changed")
    except OSError:
        Path("made").write_text(Path(request["file"]).read_text())
    """
    with ExitStack() as stack:
        asked = child(stack, tmp_path, code)
        (asked.given / "later").write_text("given")
        assert text(asked, file=str(asked.given / "later")) == "given"


def test_what_goes_wrong_is_told_and_ends_the_process(tmp_path: Path) -> None:
    with ExitStack() as stack:
        asked = child(stack, tmp_path, "raise ValueError('wrong')")
        with asked.ask(SENT, ["made"]) as outcome:
            told = outcome.file("error.json")
            assert outcome.status == 1
            assert told is not None
            assert "ValueError: wrong" in told.read_text()
        assert not asked.is_alive


def test_each_question_has_its_time(tmp_path: Path) -> None:
    with ExitStack() as stack:
        asked = child(stack, tmp_path, "time.sleep(request['s']); Path('made').write_text('')", seconds=3)
        assert text(asked, s=0) == ""
        with pytest.raises(CodeError, match=r"^model.py: its code ran longer than 3 seconds"):
            text(asked, s=60)


def test_memory_ends(tmp_path: Path) -> None:
    with ExitStack() as stack:
        asked = child(stack, tmp_path, "bytearray(1 << 30)", memory_bytes=1 << 28)
        with pytest.raises(CodeError, match=r"^model.py: its code needs more than 268,435,456 bytes"):
            text(asked)


def test_limits_bind_while_nobody_asks(tmp_path: Path) -> None:
    code = """
    import threading
    def write():
        time.sleep(0.5)
        for n in range(300):
            open(f'f{n}', 'w')
        time.sleep(60)
    threading.Thread(target=write).start()
    Path('made').write_text('')
    """
    with ExitStack() as stack:
        asked = child(stack, tmp_path, code, files=200)
        assert text(asked) == ""
        until = time.monotonic() + 20
        while asked.is_alive and time.monotonic() < until:
            time.sleep(0.05)
        with pytest.raises(CodeError, match="writes more than 200 files"):
            text(asked)


def test_links_are_no_files_even_if_they_are_made_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with ExitStack() as stack:
        asked = child(stack, tmp_path, f"os.path.lexists('made') or os.symlink({str(secret)!r}, 'made')")
        assert text(asked) is None
        monkeypatch.setattr(persistent_child.Outcome, "file", lambda outcome, name: outcome.folder / name)
        with pytest.raises(OSError, match="symbolic link"):
            text(asked)


def test_children_stay_only_where_it_is_said(tmp_path: Path) -> None:
    assert kept_children() is None
    with keep_children():
        children = kept_children()
        assert children is not None
        made = [children.child("net", lambda stack: child(stack, tmp_path, "pass")) for _ in range(2)]
        assert made[0] is made[1] is not None
        os.kill(made[0]._process.pid, 9)
        assert made[0]._watch is not None
        made[0]._watch.join()
        again = children.child("net", lambda stack: child(stack, tmp_path, "pass"))
        assert again is not made[0]
    assert again is not None
    assert not again.is_alive
    assert children.child("net", lambda stack: child(stack, tmp_path, "pass")) is None
