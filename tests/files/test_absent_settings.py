"""Settings by packages that are not installed: what the code put in comes out, as from the packages."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from netweave.errors import CodeError
from netweave.files.missing_modules import Absent, importing, without

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = {"easydict", "ml_collections", "munch", "omegaconf", "yacs"}


def test_attributes_and_keys_are_the_same():
    with without(PACKAGES), importing():
        from easydict import EasyDict

        settings = EasyDict({"net": {"depths": [2, {"last": 3}]}}, classes=4)
    settings.net.width = 0.5
    settings["new"] = {"inner": 1}
    assert settings.classes == settings["classes"] == 4
    assert settings.net.depths[1].last == 3
    assert settings["net"]["width"] == 0.5
    assert settings.new.inner == 1
    with pytest.raises(AttributeError, match="have no 'missing'"):
        _ = settings.missing
    copy = deepcopy(settings)
    copy.net.width = 2
    assert settings.net.width == 0.5


def test_nodes_of_yacs_are_overlaid(tmp_path: Path):
    yaml = pytest.importorskip("yaml")
    with without(PACKAGES), importing():
        from yacs.config import CfgNode

        cfg = CfgNode()
        cfg.MODEL = CfgNode()
        cfg.MODEL.NAME, cfg.MODEL.DEPTH = "resnet", 18
    (tmp_path / "net.yaml").write_text(yaml.safe_dump({"MODEL": {"DEPTH": 50}, "SEED": 1}))
    other = cfg.clone()
    other.merge_from_file(str(tmp_path / "net.yaml"))
    other.freeze()
    assert (other.MODEL.NAME, other.MODEL.DEPTH, other.SEED) == ("resnet", 50, 1)
    assert cfg.MODEL.DEPTH == 18


def test_configurations_of_omegaconf_are_made_merged_and_made_plain():
    with without(PACKAGES), importing():
        from omegaconf import DictConfig, OmegaConf

        made = OmegaConf.create()
        made.head = {"classes": 90}
        merged = OmegaConf.merge(made, {"head": {"anchors": [1, 2]}}, DictConfig({"name": "d0"}))
        OmegaConf.set_struct(merged, True)
    assert merged.head.classes == 90
    assert OmegaConf.to_container(merged) == {"head": {"classes": 90, "anchors": [1, 2]}, "name": "d0"}
    assert made.get("name") is None
    with pytest.raises(CodeError, match=r"OmegaConf.create a text"):
        OmegaConf.create("a: 1")


def test_a_file_of_settings_that_is_not_there_is_an_error_of_the_code(tmp_path: Path):
    with without(PACKAGES), importing():
        from yacs.config import CfgNode
    with pytest.raises(FileNotFoundError):
        CfgNode().merge_from_file(str(tmp_path / "private.yaml"))


def test_folders_of_results_are_named_by_the_time_in_some_zone():
    with without({"pytz"}), importing():
        import pytz
    now = datetime.now(pytz.timezone("Asia/Seoul"))
    assert abs(now - datetime.now(pytz.utc)) < timedelta(minutes=1)
    assert now.astimezone(pytz.timezone("Europe/Paris")).strftime("%y%m%d")


def test_everything_else_of_these_packages_is_absent():
    with without(PACKAGES), importing():
        import omegaconf
    assert isinstance(omegaconf.II, Absent)
