"""The command itself: light to start, errors of one line, exit statuses."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netweave import cli
from netweave.errors import RunError

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "rich", "netweave.api", "netweave.graph")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def test_help_loads_nothing_heavy():
    script = (
        "import sys\n"
        "from netweave.cli import main\n"
        "try:\n    main(['inspect', '--help'])\n"
        f"finally:\n    print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert python("-c", script).stdout.splitlines()[-1] == "[]"


def test_import_loads_nothing_heavy():
    script = f"import sys, netweave; print([name for name in {HEAVY} if name in sys.modules])"
    assert python("-c", script).stdout == "[]\n"


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_example_is_a_call_that_parses(command, netweave, monkeypatch):
    monkeypatch.setattr("netweave.viewer.check_front_end", lambda: None)  # which need not be built here
    shown = netweave(command.name, "--help")
    assert shown.status == 0
    assert command.examples
    for example in command.examples:
        assert f"  {example}\n" in shown.out
        words = shlex.split(example)
        if words[0] == "torchrun":  # which starts the module that ``netweave`` is
            words[: words.index("-m") + 1] = []
        if "|" in words:  # what it prints goes to another program
            words[words.index("|") :] = []
        program, name, *arguments = words
        assert (program, name) == ("netweave", command.name)
        command.make_context(name, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect"], "netweave: Missing argument 'NET' (see netweave inspect --help)\n"),
        (["inpsect"], "netweave: No such command 'inpsect'"),
        (["inspect", "x", "--btach"], "Did you mean '--batch'? (see netweave inspect --help)\n"),
        (["inspect", "x", "--input-shape", "1x3"], "'1x3' is not NAME=SIZES, such as data=1x3x224x224"),
        (["inspect", "x", "--input-shape", "data=1x0"], "'data=1x0' is not NAME=SIZES"),
        (["inspect", "no-such-file"], "netweave: no-such-file: there is no such file; check the name"),
        (["run", "x"], "give the inputs with --input FILE, or draw random ones with --random SEED"),
    ],
)
def test_wrong_call_is_one_line_and_status_2(arguments, message, netweave):
    called = netweave(*arguments)
    assert (called.status, called.out) == (2, "")
    assert message in called.err
    assert called.err.count("\n") == 1


def test_message_of_several_lines_becomes_one(netweave, monkeypatch):
    def load(net, **options):
        raise RunError("first\nsecond")

    monkeypatch.setattr("netweave.api.load_for_inspection", load)
    assert netweave("inspect", "x").err == "netweave: first second\n"


def test_bug_is_not_hidden(monkeypatch):
    monkeypatch.setattr("netweave.api.load_for_inspection", lambda net, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["inspect", "x"])


def test_closed_pipe_is_neither_an_error_nor_a_difference():
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(
        [sys.executable, "-m", "netweave"], stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert (closed.returncode, closed.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["inspect", "net.prototxt", "--json", "-"]])
def test_output_onto_a_full_disk_is_an_error_and_no_verdict(tmp_path, words):
    """It ended with a traceback and status 1, which says of a comparison that the nets differ."""
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "r" type: "ReLU" bottom: "x" top: "y" }\ninput: "x"'
    )
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "netweave", *words],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == (
        "netweave: standard output: cannot be written: No space left on device; "
        "free some space there, or write to another disk\n"
    )


def test_bare_command_shows_help(netweave):
    called = netweave()
    assert called.status == 0
    assert "inspect" in called.out


def test_terminal_without_a_sign_is_no_error(tmp_path):
    net = tmp_path / "größe≠.prototxt"
    net.write_text('input: "data" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4')
    shown = subprocess.run(
        [sys.executable, "-m", "netweave", "inspect", str(net)],
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        timeout=60,
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert "größe?.prototxt".encode("latin-1") in shown.stdout


def test_convert_carries_weights_into_a_port(netweave, tmp_path, monkeypatch):
    import shutil

    from examples.padding import demo, make_weights

    monkeypatch.chdir(tmp_path)
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, tmp_path)
    make_weights.write(tmp_path)
    (tmp_path / "leaves-0000.params").unlink()
    demo.mend(tmp_path / "mended-symbol.json")
    port = ("--into", "mended-symbol.json", "--into-shape", "image=1x3x32x32")
    called = netweave("convert", "leaves.prototxt", "mended-0001.params", *port)
    assert called.status == 0, called.err
    assert "wrote mended-0001.params" in called.out
    assert netweave("compare", "leaves.prototxt", "mended-symbol.json").status == 0


HOSTILE = r"""name: "net\033]0;title\007"
layer { name: "x\033[2Jy" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "r\033[31m\342\200\256" type: "%s" bottom: "data" top: "o\033[5m" }
"""


@pytest.mark.parametrize("command", ["inspect", "compare", "time"])
@pytest.mark.parametrize("layer", ["ReLU", r"ReLU\033[1m"])
def test_names_of_files_reach_no_terminal_as_escape_sequences(tmp_path, netweave, command, layer):
    if command == "time":
        pytest.importorskip("torch")
    file = tmp_path / "hostile.prototxt"
    file.write_text(HOSTILE % layer)
    nets = [str(file)] * (2 if command == "compare" else 1)
    called = netweave(command, *nets)
    shown = called.out + called.err
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert r"\x1b" in shown


def test_the_help_says_whole_sentences_in_sections(netweave):
    out = netweave("--help").out
    assert re.findall(r"^(\w+):$", out, re.MULTILINE) == ["Options", "Compare", "Convert", "Train", "Serve"]
    assert "..." not in out.partition("Compare:")[2]
    words = " ".join(out.split())
    for command in cli.COMMANDS:
        sentence = " ".join(command.help.split("\n\n")[0].split())
        assert f"{command.name} {sentence}" in words
    assert set(cli.COMMANDS) == set(cli.netweave.commands.values())


def completions(*words: str) -> list[str]:
    """Return what a shell is offered for the last of these words."""
    asked = {"COMP_WORDS": shlex.join(words), "COMP_CWORD": str(len(words) - 1)}
    environment = {**os.environ, **asked, "_NETWEAVE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "netweave"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    return done.stdout.splitlines()


def test_a_shell_completes_commands_options_and_files():
    assert completions("netweave", "com") == ["plain,compare"]
    assert completions("netweave", "compare", "--ht") == ["plain,--html"]
    assert completions("netweave", "compare", "lea") == ["file,lea"]


@pytest.mark.parametrize(
    ("shell", "said"), [("bash", "complete -o"), ("zsh", "#compdef netweave"), ("fish", "complete ")]
)
def test_a_shell_gets_its_script(shell, said):
    environment = {**os.environ, "_NETWEAVE_COMPLETE": f"{shell}_source"}
    command = [sys.executable, "-m", "netweave"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert said in done.stdout
