"""Clusters of SINGA's words: alone, in a job, and what is wrong or without effect."""

from __future__ import annotations

import pytest

import netweave
from netweave.errors import SourceError, UsageError
from netweave.formats.singa.cluster import read_cluster
from netweave.job import Cluster
from tests.training.singa_jobs import CLASSIFIER, RATE, job_text


def read(tmp_path, text):
    path = tmp_path / "cluster.conf"
    path.write_text(text)
    return read_cluster(path)


def test_fields_of_singa_and_our_own(tmp_path):
    text = """nworker_groups: 4
nserver_groups: 2  nworkers_per_group: 3 nservers_per_group: 5
server_worker_separate: true sync_freq: 16 staleness: 2 placement: "split"
outer: "nesterov" outer_rate: 0.5 outer_momentum: 0.25"""
    expected = Cluster(
        worker_groups=4,
        server_groups=2,
        workers_per_group=3,
        servers_per_group=5,
        separate=True,
        sync_every=16,
        staleness=2,
        placement="split",
        outer="nesterov",
        outer_rate=0.5,
        outer_momentum=0.25,
        file=str(tmp_path / "cluster.conf"),
    )
    assert read(tmp_path, text) == expected
    assert read(tmp_path, f"cluster {{ {text} }}").server_groups == 2
    assert expected.lines == {}
    assert read(tmp_path, text).lines["sync_every"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nworker_groups: -1", r"cluster.conf:1: 'nworker_groups' is -1, expected 1 or more"),
        ("\nnworkers_per_group: 0", r"cluster.conf:2: 'nworkers_per_group' is 0"),
        ("nserver_groups: 0", "'nserver_groups' is 0"),
        ("nservers_per_group: 0", "'nservers_per_group' is 0"),
        ("nworkers_per_procs: 0", "'nworkers_per_procs' is 0, expected 1 or more"),
        ("sync_freq: 0", "'sync_freq' is 0"),
        ("\n\nnworker_groups: 3\nnserver_groups: 2", r"cluster.conf:4: 3 worker groups cannot be divided"),
        ("workers: 3", "unknown field 'workers' in ClusterProto"),
        ('workspace: "run"', "has no setting of a cluster, expected any of nworker_groups"),
    ],
)
def test_bad_clusters_are_refused_with_file_and_line(text, message, tmp_path):
    with pytest.raises((SourceError, UsageError), match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("sync_freq: 4", "'sync_freq' changes nothing: one server group has no other"),
        (
            "nworkers_per_procs: 2",
            "'nworkers_per_procs' is ignored: each worker and each server has a process",
        ),
        ("share_memory: true", "'share_memory' changes nothing: worker groups share no memory"),
        ("staleness: 3", "'staleness' changes nothing: no two worker groups have a server in common"),
        ('placement: "boxes"', "'placement' changes nothing: the only server of a group holds all"),
        ("nworker_groups: 2 nserver_groups: 2 outer_rate: 0.5", "'outer_rate' changes nothing with"),
        ("nworker_groups: 2 nserver_groups: 2 outer_momentum: 0.5", "'outer_momentum' changes nothing"),
    ],
)
def test_settings_without_effect_are_named(text, note, tmp_path):
    whole = job_text(
        CLASSIFIER, updater=f"type: kSGD {RATE}", alg="kBP", more="train_steps: 1", workspace="w"
    )
    path = tmp_path / "job.conf"
    path.write_text(whole.replace("workspace:", f"{text} workspace:"))
    assert any(found.startswith(note) for found in netweave.load_job(path).notes)


def test_a_job_that_speaks_of_a_folder_alone_has_no_cluster(tmp_path):
    path = tmp_path / "job.conf"
    path.write_text(
        job_text(CLASSIFIER, updater=f"type: kSGD {RATE}", alg="kBP", more="train_steps: 1", workspace="w")
    )
    assert netweave.load_job(path).cluster is None


@pytest.mark.parametrize("devices", [None, "cpu:2"])
def test_another_number_of_devices_is_refused_before_anything_starts(devices, tmp_path):
    path = tmp_path / "job.conf"
    path.write_text(
        job_text(CLASSIFIER, updater=f"type: kSGD {RATE}", alg="kBP", more="train_steps: 1", workspace="w")
    )
    with pytest.raises(UsageError, match=r"2 workers and 3 servers.*it needs 5 processes"):
        netweave.train(
            path, cluster=Cluster(workers_per_group=2, servers_per_group=3, separate=True), devices=devices
        )
