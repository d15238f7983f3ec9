"""The tools for agents, through the SDK's own client: answers, their length, and what is refused."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netweave.agents.answers import MAX_TOKENS, answer, num_tokens
from netweave.agents.server import AllowedFolders
from netweave.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
PADDING = ROOT / "examples" / "padding"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
}
PAIR = {"a": "leaves.prototxt", "b": "leaves-symbol.json"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    for file in ("leaves.prototxt", "leaves-symbol.json", "make_weights.py"):
        shutil.copy(PADDING / file, work)
    monkeypatch.chdir(work)
    subprocess.run([sys.executable, "make_weights.py"], check=True, env=ENVIRONMENT)
    (tmp_path / "secret.onnx").write_bytes(b"x")
    (work / "link.onnx").symlink_to(tmp_path / "secret.onnx")
    return work


def tokens_of(text):
    """Count pieces as tokenizers cut them: a word or number costs one for three letters, a sign one."""
    return sum((len(piece) + 2) // 3 for piece in re.findall(r"[A-Za-z0-9]+|[^A-Za-z0-9\s]|\n", text))


def test_answers_keep_within_their_tokens_and_say_what_is_left_out():
    text = answer(
        [f"layer.{number}: a_line of {number}" for number in range(2000)], last=["next: x"], more="n://1"
    )
    assert tokens_of(text) <= MAX_TOKENS
    assert num_tokens(text) > MAX_TOKENS * 0.9
    assert re.search(r"\n\(1,\d+ more lines: read n://1\)\nnext: x$", text)
    assert answer(["one"], last=["two"]) == "one\ntwo"


def test_only_files_in_the_allowed_folders_are_named(folder, tmp_path):
    folders = AllowedFolders.of([folder])
    assert folders.net("leaves.prototxt,leaves.caffemodel") == "leaves.prototxt,leaves.caffemodel"
    assert folders.net("port.py:Net(3, 'name')") == "port.py:Net(3, 'name')"
    outside = [
        "/etc/passwd", "dump:/etc/passwd", "dump:../secret.onnx", "../secret.onnx", "link.onnx",
        "leaves.prototxt,../secret.onnx",
        "port.py:Net('../x.yaml')", "port.py:Net(cfg={'file': ['/etc/passwd']})",
    ]  # fmt: skip
    for name in outside:
        with pytest.raises(UsageError, match=r"^\S+: lies outside the allowed folders \(.*\); see --allow$"):
            folders.net(name)
    with pytest.raises(UsageError, match="name the file of the module"):
        folders.net("torchvision.models:resnet18")
    with pytest.raises(UsageError, match=r"leaves-0000.params exists, and tools replace nothing"):
        folders.new_file("leaves.onnx")
    assert folders.new_file("new.onnx") == folder / "new.onnx"
    with pytest.raises(UsageError, match="is no folder"):
        AllowedFolders.of([tmp_path / "none"])


async def answers_of(server, calls):
    client = pytest.importorskip("mcp").Client
    results = []
    async with client(server) as connected:
        for name, arguments in calls:
            if name == "read":
                result = await connected.read_resource(arguments)
                results.append((False, result.contents[0].text))
                continue
            result = await connected.call_tool(name, arguments)
            results.append((result.is_error, result.content[0].text))
    return results


def over_stdio(folder, *calls):
    sdk = pytest.importorskip("mcp")
    command = ["-m", "netweave", "mcp", "--allow", str(folder)]
    server = sdk.StdioServerParameters(command=sys.executable, args=command, env=ENVIRONMENT, cwd=folder)
    return asyncio.run(answers_of(server, calls))


@pytest.mark.oracle
def test_tools_over_standard_input_and_output(folder):
    calls = [
        ("compare", PAIR),
        ("read", "netweave://comparison/1"),
        ("explain", {**PAIR, "layer": "pool1"}),
        ("explain", {**PAIR, "layer": "pol1"}),
        ("inspect", {"net": "leaves.prototxt"}),
        ("inspect", {"net": "link.onnx"}),
        ("fix", {**PAIR, "output": "mended.json"}),
        ("convert", {"net": "leaves.prototxt", "output": "port.onnx"}),
        ("convert", {"net": "leaves.prototxt", "output": "../port.onnx"}),
    ]
    compared, page, layer, unknown, net, outside, fixed, converted, refused = over_stdio(folder, *calls)
    assert compared[1].startswith("different: ")
    assert "first wrong place: leaves-symbol.json:15: down1" in compared[1]
    assert "fix: pad=(0, 0) and pooling_convention=full (tested: " in compared[1]
    assert compared[1].endswith("the port is not done")
    assert page[1].startswith("### ≠ different")
    assert "A: leaves.prototxt:11: layer 'pool1' (Pooling): pool=MAX" in layer[1]
    assert unknown[0]
    assert "expected one of pool1" in unknown[1]
    assert "leaves.prototxt:11: layer 'pool1' (Pooling) -> Nx16x16x16" in net[1]
    assert outside[0]
    assert "lies outside the allowed folders" in outside[1]
    assert '+     "attrs": {"pool_type": "max"' in fixed[1]
    assert "mended.json" in fixed[1]
    assert (folder / "mended.json").exists()
    assert converted[1].startswith("identical")
    assert refused[0]
    assert all(
        tokens_of(text) <= MAX_TOKENS
        for _, text in (compared, layer, unknown, net, outside, fixed, converted)
    )


PORT = """
import socket, torch
from pathlib import Path
class Net(torch.nn.Module):
    def forward(self, x):
        Path("{mark}").write_text("the code ran outside of the sandbox")
        return torch.relu(x)
"""


@pytest.mark.oracle
@pytest.mark.slow
def test_code_runs_in_the_sandbox_alone(folder):
    mark = folder / "mark"
    (folder / "port.py").write_text(PORT.format(mark=mark))
    call = {"a": "port.py:Net", "b": "port.py:Net", "input_shapes": {"x": [1, 3, 8, 8]}}
    ((failed, text),) = over_stdio(folder, ("compare", call))
    assert not mark.exists()
    assert failed
    assert re.search("No such file or directory|Read-only|Permission denied", text)


@pytest.mark.oracle
@pytest.mark.slow
def test_tools_over_http_on_the_loopback_interface(folder):
    pytest.importorskip("mcp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "netweave", "mcp", "--http", str(port)]
    with subprocess.Popen(command, env=ENVIRONMENT, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(200):
                with socket.socket() as knock:
                    if knock.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            url = f"http://127.0.0.1:{port}/mcp"
            ((failed, text),) = asyncio.run(answers_of(url, [("compare", PAIR)]))
        finally:
            server.terminate()
    assert not failed
    assert "leaves-symbol.json:15" in text


def test_without_the_sdk_the_command_says_what_to_install(monkeypatch):
    from netweave.agents import server
    from netweave.installation import need

    need.cache_clear()
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(UsageError, match=r"tools for agents need the package mcp: pip install .*mcp"):
        server.make_server(AllowedFolders.of([]), version="1")
    need.cache_clear()
