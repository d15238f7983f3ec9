"""Which reader a file that says how to train goes to, and what each makes of the caller's options."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError, UsageError
from netweave.formats import FORMATS, find_job_format, read_job
from netweave.job import JobOptions
from tests.formats.singa.nets import conf

DETECTOR = "[net]\nwidth=32\n\n[convolutional]\nfilters=6\n\n[yolo]\nmask=0\nanchors=1,1\nclasses=1\nnum=1\n"
SOLVER = 'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed"\n'


def written(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def test_the_content_decides_and_not_the_name(tmp_path):
    solver = written(tmp_path, "job.conf", SOLVER)
    job = written(tmp_path, "solver.prototxt", conf(""))
    assert [find_job_format(path).name for path in (solver, job)] == ["caffe", "singa"]


def test_what_no_format_knows_is_refused_by_name(tmp_path):
    with pytest.raises(ReadError, match=r"gone\.prototxt: there is no such file"):
        read_job(tmp_path / "gone.prototxt", JobOptions())
    net = written(tmp_path, "net.prototxt", 'layer { name: "a" type: "ReLU" bottom: "x" top: "y" }')
    with pytest.raises(ReadError, match=r"net\.prototxt: is a .*, expected a solver"):
        read_job(net, JobOptions())


@pytest.mark.parametrize("options", [JobOptions(stages=("deploy",)), JobOptions(level=1)])
def test_settings_of_caffes_nets_are_refused_for_others(tmp_path, options):
    job = written(tmp_path, "job.conf", conf(""))
    with pytest.raises(UsageError, match=r"job\.conf: a job\.conf has no stages and no level"):
        read_job(job, options)


def test_each_row_that_names_such_files_reads_them(tmp_path):
    texts = {"caffe": SOLVER, "singa": conf(""), "darknet": DETECTOR}
    assert {row.name for row in FORMATS if row.jobs} == texts.keys()
    for name, text in texts.items():
        path = written(tmp_path, "file", text)
        assert [row.name for row in FORMATS if row.jobs and row.is_job(path)] == [name]
