"""``netweave inspect --cluster``: the table of who holds what."""

from __future__ import annotations

import pytest

from netweave.cli import main
from tests.training import small


def test_inspect_shows_who_holds_what(tmp_path, capsys):
    small.write(tmp_path)
    shapes = "input_param { shape { dim: 5 dim: 6 } shape { dim: 5 } }"
    net = small.NET.replace('"HDF5Data"', '"Input"')
    net = net.replace('hdf5_data_param { source: "list.txt" batch_size: 5 }', shapes)
    (tmp_path / "net.prototxt").write_text(net)
    cluster = tmp_path / "cluster.conf"
    cluster.write_text('nworkers_per_group: 2 nservers_per_group: 2 placement: "round-robin" sync_freq: 3')
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["inspect", str(tmp_path / "net.prototxt"), "--cluster", str(cluster)])
    output = capsys.readouterr().out
    assert "worker 0 of worker group 0 and server 0 of server group 0" in output
    assert "96   ip/0" in output
    assert "the largest server holds 1.71 times the mean" in output
    assert "note: 'sync_every' changes nothing" in output
