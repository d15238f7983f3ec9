"""A character-level net of unrolled GRUs, as SINGA's job.conf, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import netweave
from tests.training.singa_jobs import job_text

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.job import Job

HIDDEN, RUN, STREAMS = 16, 6, 3
VOCABULARY = " abcdefghijklmnopqrstuvwxyz.\n"
TEXT = "the quick brown fox jumps over the lazy dog.\n" * 6
GRU = ("z_hx", "r_hx", "c_hx", "z_hh", "r_hh", "c_hh", "z_b", "r_b", "c_b")
INIT = "init { type: kUniform low: -0.3 high: 0.3 }"
RULE = (
    "type: kRMSProp rmsprop_conf { rho: 0.95 } clip_low: -0.05 clip_high: 0.05 learning_rate { type: kStep "
)
RULE += "base_lr: 0.01 step_conf { gamma: 0.9 change_freq: 20 } }"


def net() -> str:
    gru = " ".join(f'param {{ name: "{name}" {INIT} }}' for name in GRU)
    return f"""
layer {{ name: "data" type: kCharRNN unroll_len: 1
  char_rnn_conf {{ path: "text.txt" vocab_path: "vocab.txt" unroll_len: {RUN} batchsize: {STREAMS} }} }}
layer {{ name: "onehot" type: kOneHot srclayers: "data" unroll_conn_type: kUnrollOneToAll
  onehot_conf {{ vocab_size: {len(VOCABULARY)} }} }}
layer {{ name: "label" type: kRNNLabel srclayers: "data" unroll_conn_type: kUnrollOneToAll }}
layer {{ name: "gru" type: kGRU srclayers: "onehot" gru_conf {{ dim_hidden: {HIDDEN} }} {gru} }}
layer {{ name: "ip" type: kInnerProduct srclayers: "gru" innerproduct_conf {{ num_output: {len(VOCABULARY)} }}
  param {{ name: "w" {INIT} }} param {{ name: "b" {INIT} }} }}
layer {{ name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "label" }}
"""


def write(folder: Path, steps: int, more: str = "") -> None:
    """Write text, vocabulary and job.conf."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text(TEXT)
    (folder / "vocab.txt").write_text(VOCABULARY)
    text = job_text(
        net(), updater=RULE, alg="kBPTT", more=f"train_steps: {steps} {more}", workspace=str(folder)
    )
    (folder / "job.conf").write_text(text.replace("neuralnet {", f"neuralnet {{ unroll_len: {RUN}"))


def load(folder: Path) -> Job:
    """Return the Job, which always draws the same."""
    return replace(netweave.load_job(folder / "job.conf"), seed=5)
