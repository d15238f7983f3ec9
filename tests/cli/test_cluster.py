"""``netweave inspect --cluster``: the table of who holds what."""

from __future__ import annotations

import pytest

from netweave.cli import main
from tests.training import small
from tests.training.singa_jobs import CLASSIFIER, RATE, job_text


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


def test_train_refuses_a_cluster_that_one_process_cannot_be(tmp_path, capsys):
    job = job_text(CLASSIFIER, updater=f"type: kSGD {RATE}", alg="kBP", more="train_steps: 1", workspace="w")
    (tmp_path / "job.conf").write_text(job)
    (tmp_path / "cluster.conf").write_text("\nnworkers_per_group: 2")
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["train", str(tmp_path / "job.conf"), "--cluster", str(tmp_path / "cluster.conf")])
    assert "cluster.conf:2: the cluster has 2 workers and 1 server" in capsys.readouterr().err


def test_inspect_shows_the_halos_of_images_in_quarters(tmp_path, capsys):
    convolution = "convolution_param { num_output: 2 kernel_size: 3 pad: 1 }"
    layers = [
        f'layer {{ name: "c{number}" type: "Convolution" bottom: "{bottom}" top: "c{number}" {convolution} }}'
        for number, bottom in enumerate(["data", "c0"])
    ]
    image = "input_param { shape { dim: 4 dim: 1 dim: 7 dim: 5 } }"
    (tmp_path / "net.prototxt").write_text(
        "\n".join([f'layer {{ name: "in" type: "Input" top: "data" {image} }}', *layers])
    )
    cuts = "".join(f'layer {{ name: "c{number}" image_grid: "2x2" }}' for number in (0, 1))
    (tmp_path / "cluster.conf").write_text(f"nworkers_per_group: 4 {cuts}")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["inspect", str(tmp_path / "net.prototxt"), "--cluster", str(tmp_path / "cluster.conf")])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any("worker 3: rows 4 to 6, columns 3 to 4" in line for line in lines)
    # around 4 x 3, 4 x 2, 3 x 3 and 3 x 2 places there are 8, 7, 7 and 6 of others: 28, of 2 maps in 4 images
    assert "c0 Halo image image 224 896 B" in lines


def test_inspect_shows_who_computes_what_of_a_net_that_is_cut_by_layer(tmp_path, capsys):
    small.write(tmp_path)
    shapes = "input_param { shape { dim: 5 dim: 6 } shape { dim: 5 } }"
    net = small.NET.replace('"HDF5Data"', '"Input"')
    net = net.replace('hdf5_data_param { source: "list.txt" batch_size: 5 }', shapes)
    (tmp_path / "net.prototxt").write_text(net)
    cluster = tmp_path / "cluster.conf"
    cluster.write_text('nworkers_per_group: 3 layer { name: "ip" partition_dim: 1 }')
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["inspect", str(tmp_path / "net.prototxt"), "--cluster", str(cluster)])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ip feature features of worker 0: 0 to 1; 1: 2; 2: 3" in lines
    # each of 3 workers lacks 3, 3 or 4 of 5 samples of 6 numbers; then each keeps its rows of its outputs
    assert "data Gather batch whole 60 240 B" in lines
    assert "ip Regroup feature batch 13 52 B" in lines
    assert "0 14 56 B" in lines
