"""The text of the written file: classes, constructors, comments with the source's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.source_code.forward import Forward
from netweave.files.source_code.text import WIDTH, commented, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.files.source_code.steps import Module, Step

CONV_NORM = '''class ConvNorm(nn.Module):
    """A convolution, then normalisation by stored statistics."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=False, eps={eps}, momentum={momentum},
    ):
        super().__init__()
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        self.norm = nn.BatchNorm2d(out_channels, eps, momentum)

    def forward(self, x):
        return self.norm(self.conv(x))
'''

LOAD = '''WEIGHTS = Path(__file__).with_suffix(".safetensors")


def load(path=WEIGHTS):
    """Return the net with its weights, ready to predict; they are numbers behind a header of JSON."""
    content = bytearray(Path(path).read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    types = {{"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}}
    state = {{}}
    for name, entry in json.loads(content[8:begin]).items():
        if name != "__metadata__":
            first, last = (begin + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(content[first:last], dtype=types[entry["dtype"]])
            state[name] = values.reshape(entry["shape"])
    net = {name}()
    net.load_state_dict(state)
    return net.eval(){form}
'''

CHANNELS_LAST = ".to(memory_format=torch.channels_last)"
"""How images lie in memory: as in Netweave's own runs, so that both round alike (decision 0114)."""


def constructor(module: Module, given: Mapping[str, str], defaults: Mapping[str, Any]) -> str:
    """Return the call that makes a module.

    Args:
        module: The module.
        given: Expressions for fields that are no literals: arguments of the class that it stands in.
        defaults: Other defaults than PyTorch's, of classes that the file defines.
    """
    if module.type == "nn.Parameter":
        sizes = given.get("shape") or ", ".join(map(str, module.fields[0].value))
        return f"nn.Parameter(torch.empty({sizes}))"
    return f"{module.type}({', '.join(module.arguments(given, defaults))})"


def signature(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the first line of a method, or lines where it is too long for one."""
    line = f"    def {name}({', '.join(['self', *arguments])}):"
    if len(line) <= WIDTH:
        return [line]
    lines = ["        self,"]
    for argument in arguments:
        if len(lines[-1]) + len(argument) + 2 > WIDTH - 10:
            lines.append("       ")
        lines[-1] += f" {argument},"
    return [f"    def {name}(", *lines, "    ):"]


def forward_lines(
    steps: Sequence[Step],
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    modules: Mapping[int, str],
    *,
    has_comments: bool,
) -> list[str]:
    """Return the method ``forward``, indented as it stands in its class."""
    body = Forward(steps, inputs, outputs, modules)
    lines = signature("forward", list(inputs.values()))
    for text, layers in body.lines:
        line = f"        {text}"
        lines += wrapped(commented(line, layers) if has_comments else line)
    return lines
