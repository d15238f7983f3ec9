"""Settings of constructors in JSON, TOML and YAML."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError, UsageError
from netweave.files.settings_file import read_settings

TEXTS = {
    "net.json": '{"model": {"depth": 18, "widths": [8, 16]}, "lr": 0.1}',
    "net.toml": "lr = 0.1\n[model]\ndepth = 18\nwidths = [8, 16]\n",
    "net.yaml": "lr: 0.1\nmodel:\n  depth: 18\n  widths: [8, 16]\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_each_kind_of_file_gives_the_same_settings(tmp_path, name):
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    path = tmp_path / name
    path.write_text(TEXTS[name])
    assert read_settings(path) == {"lr": 0.1, "model": {"depth": 18, "widths": [8, 16]}}
    assert read_settings(f"{path}:model") == {"depth": 18, "widths": [8, 16]}
    with pytest.raises(UsageError, match=r"has no key 'net' of 'net\.x'; there is: "):
        read_settings(f"{path}:net.x")
    with pytest.raises(ReadError, match="holds a int, expected settings by name"):
        read_settings(f"{path}:model.depth")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "cannot be read as settings"),
        ("a.toml", "[", "cannot be read as settings"),
        ("a.yaml", "a: [", "cannot be read as YAML"),
        ("a.yaml", "a: !!python/object/apply:os.system [ls]", "cannot be read as YAML"),
        ("a.yaml", "- 1", "holds a list, expected settings"),
        ("a.json", "", "the file is empty"),
    ],
)
def test_files_that_are_no_settings_are_refused(tmp_path, name, text, message):
    pytest.importorskip("yaml")
    (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        read_settings(tmp_path / name)
