"""Plans of runs on several devices: what formulas say of them, and what a run does."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("torch")
from click.testing import CliRunner

from netweave import api
from netweave.cli import netweave
from netweave.errors import UsageError
from netweave.training.parallel.network import LATENCY_S, Network, measured_network
from netweave.training.planned_worker import Durations, Scheme, Worker
from netweave.training.planning import PlannedPipeline, device_named, plan_run
from tests.training.parallel import nets

LINK = 1e6
DEVICE = replace(device_named("h100"), kernel_s=1e-3, inside_bytes_per_s=LINK)


@pytest.fixture
def job(tmp_path):
    return nets.job(nets.write(tmp_path, "resnet", steps=1))


def trained_bytes(job):
    return 4 * sum(
        one.size for one in job.phases["train"].graph.parameters.values() if one.trainable and one.lr_mult
    )


def schemes(job, network, device=DEVICE):
    return {one.scheme.name: one for one in plan_run(job, network, device).schemes}


@pytest.mark.parametrize("size", [2, 3, 5])
def test_data_parallelism_sends_each_gradient_in_a_ring(job, size):
    found = schemes(job, Network(1, size, LINK, LINK))["batch"]
    assert found.sent == pytest.approx(2 * (size - 1) / size * trained_bytes(job), abs=10)


def worker_of(job, network, exchange):
    from netweave.training.loading import make_nets

    phases = {"train": job.phases["train"]}
    whole = make_nets(phases, seed=0, device="cpu")
    return Worker(replace(job, phases=phases), Scheme("batch", exchange=exchange), network, whole)


def test_blocking_takes_the_sum_and_overlapped_no_less_than_the_longest(job):
    network = Network(2, 1, LINK / 10, LINK)
    took = {}
    for exchange in ("blocking", "overlapped"):
        worker = worker_of(job, network, exchange)
        each = (0.02,) * len(worker.stages)
        durations = Durations(each, each, 0.0, 0.0, processor=0.0)
        took[exchange], sent = worker.clocked(durations)
    compute_s = 2 * sum(each)
    sums_s = took["blocking"] - compute_s - sent / network.between
    assert 0 < sums_s < 0.03  # of the loss, of batch statistics, and latencies
    assert max(compute_s, sent / network.between) < took["overlapped"] <= took["blocking"]


def test_layers_by_feature_are_held_once(tmp_path):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    found = schemes(job, Network(1, 3, LINK, LINK))
    hybrid = found["hybrid"]
    assert [(one.name, one.partition_dim) for one in hybrid.scheme.layers] == [
        ("ip1", 1),
        ("relu", 1),
        ("out", 1),
    ]
    # a third of the parameters, of their gradients and of the momentum, and no row to exchange gradients in
    saved = trained_bytes(job) * (4 - 3 / 3)
    assert found["batch"].memory - hybrid.memory == pytest.approx(saved, rel=0.15)
    assert hybrid.sent > 0


def test_a_slower_link_makes_every_scheme_slower_and_one_device_not(job):
    fast, slow = (plan_run(job, Network(2, 1, LINK / part, LINK), DEVICE) for part in (1, 10))
    assert slow.alone.step_s == fast.alone.step_s
    before = {one.scheme.name: one.step_s for one in fast.schemes}
    assert all(one.step_s > before[one.scheme.name] for one in slow.schemes)
    assert [one.step_s for one in slow.schemes] == sorted(one.step_s for one in slow.schemes)


def test_what_does_not_fit_comes_last(job):
    network = Network(1, 2, LINK, LINK)
    found = plan_run(job, network, DEVICE).schemes
    most = max(found, key=lambda one: one.memory)
    assert all(one.fits for one in found)
    plan = plan_run(job, network, replace(DEVICE, memory=most.memory - 1))
    assert [one.fits for one in plan.schemes] == [True] * (len(found) - 1) + [False]
    assert plan.schemes[-1].scheme == most.scheme


def test_small_sums_take_a_tree_where_there_are_trees():
    ring, tree = (
        Network(1024, 1, 1e9, 1e9, has_trees=has).collective("all-reduce", 8)[0] for has in (False, True)
    )
    assert ring == pytest.approx(2 * 1023 * LATENCY_S, rel=1e-6)
    assert tree == pytest.approx(2 * 10 * LATENCY_S, rel=1e-4)
    large = [Network(8, 1, 1e9, 1e9, has_trees=has).collective("all-reduce", 1e9)[0] for has in (False, True)]
    assert large == pytest.approx([1.75 + 14 * LATENCY_S] * 2)


def test_two_levels_are_planned_where_machines_have_several_devices(job):
    found = schemes(job, Network(2, 2, LINK / 100, LINK))
    assert found["batch, two-level"].step_s < found["batch"].step_s


def test_this_machine_is_measured_and_needs_the_same_memory(job):
    network = Network(1, 2, LINK, LINK)
    measured, table = (schemes(job, network, device) for device in (None, DEVICE))
    for name, one in measured.items():
        assert one.memory == table[name].memory
        assert one.sent == table[name].sent
        assert 0 < one.compute_s < one.step_s
        assert one.fits is None


def test_the_command_shows_the_fastest_first_and_how_to_run_it(tmp_path):
    solver = nets.write(tmp_path, "resnet", steps=1)
    arguments = ["plan", str(solver), "--machines", "2x1", "--link", "100mbit", "--device", "v100"]
    shown = CliRunner().invoke(netweave, arguments)
    assert shown.exit_code == 0, shown.output
    rows = re.findall(
        r"^ *(one device|batch|pipeline|hybrid|feature|bands) +([\d.,]+) ms", shown.output, re.MULTILINE
    )
    assert rows[0][0] == "one device"
    times = [float(ms.replace(",", "")) for _, ms in rows[1:]]
    assert times == sorted(times)
    assert "netweave train SOLVER --devices" in shown.output
    written = CliRunner().invoke(netweave, [*arguments, "--json", "-"])
    content = json.loads(written.output)
    assert content["batch"] == 2 * nets.BATCH  # as Caffe's -gpu, which multiplies it
    assert [one["scheme"]["name"] for one in content["schemes"]] == [name for name, _ in rows[1:]]
    assert len(re.findall(r"pipeline, stage [01]: computes [\d.]+ ms, [\d.]+ kB, sends", shown.output)) == 2


ERRORS = [
    ({"machines": "2"}, "machines are '2', expected machines x devices of each, such as 2x4"),
    ({"machines": "0x2"}, "machines are '0x2'"),
    ({"link": "fast"}, "the link is 'fast', expected bits per second and way such as 1gbit"),
    ({"device": "tpu"}, "unknown device 'tpu', expected one of k80, v100, a100, h100, h200"),
    ({"machines": "4x8", "batch": "split"}, "a batch of 10 cannot be split among 32 devices"),
]


@pytest.mark.parametrize(("settings", "message"), ERRORS)
def test_what_cannot_be_planned_is_told(job, settings, message):
    arguments = {"machines": "2x1", "link": "1gbit", "device": "h100", **settings}
    with pytest.raises(UsageError, match=re.escape(message)):
        api.plan_run(job, **arguments)


def pipeline_of(job, network, micro_batches):
    from netweave.training.loading import make_nets

    phases = {"train": job.phases["train"]}
    whole = make_nets(phases, seed=0, device="cpu")
    return PlannedPipeline(
        replace(job, phases=phases), Scheme("pipeline", micro_batches=micro_batches), network, whole
    )


@pytest.mark.parametrize(("size", "micro_batches"), [(2, 1), (2, 5), (3, 5)])
def test_equal_stages_take_as_many_turns_as_there_are_micro_batches_and_stages_but_one(
    job, size, micro_batches
):
    """(M + P - 1) (f + b), and the update of the first stage, whose backward is the last."""
    pipeline = pipeline_of(job, Network(1, size, 1e12, 1e12, inside_latency_s=0.0), micro_batches)
    each = Durations((0.02,), (0.04,), 1e-9, 0.0)
    turns = micro_batches + size - 1
    assert pipeline.clocked([each] * size) == pytest.approx(turns * 0.06, rel=1e-3)


def test_the_slowest_link_or_stage_decides_a_long_pipeline(job):
    slow = Durations((0.02,), (0.04,), 0.0, 0.0)
    fast = Durations((0.002,), (0.004,), 0.0, 0.0)
    quick = pipeline_of(job, Network(1, 2, 1e12, 1e12, inside_latency_s=0.0), 5)
    # where the first is slow, it computes one backward while the second ends the last micro-batch
    assert quick.clocked([slow, fast]) == pytest.approx(5 * 0.06, rel=1e-3)
    assert quick.clocked([fast, slow]) == pytest.approx(5 * 0.06 + 0.006, rel=1e-3)
    (message,) = quick.message_bytes().values()
    bound = pipeline_of(job, Network(2, 1, max(message), 1e12), 5)  # a message takes a second
    assert bound.clocked([fast, fast]) > 5 * 1.0


def test_messages_take_the_processors_of_both_stages(job):
    """Values are sent and received, then gradients: four times for each of a pair of equal stages."""
    network = Network(1, 2, 1e12, 1e12, inside_latency_s=0.0, message_processor_s=0.01)
    each = Durations((0.02,), (0.04,), 0.0, 0.0)
    for micro_batches in (1, 5):
        pipeline = pipeline_of(job, network, micro_batches)
        turns = (micro_batches + 1) * (0.06 + 2 * 0.01)
        assert pipeline.clocked([each] * 2) == pytest.approx(turns, rel=1e-3)
    per_byte = replace(network, message_processor_s=0.0, message_processor_s_per_byte=1e-6)
    (message,) = pipeline.message_bytes().values()
    pipeline = pipeline_of(job, per_byte, 1)
    assert pipeline.clocked([each] * 2) == pytest.approx(2 * 0.06 + 2 * sum(message) * 5 * 1e-6, rel=1e-3)


def test_one_machine_needs_no_link_and_several_do(job):
    plan = api.plan_run(job, machines="1x2", device="v100")
    assert plan.network.between == plan.network.inside
    with pytest.raises(UsageError, match="2 machines need a link between them; give its rate, such as link="):
        api.plan_run(job, machines="2x1", device="v100")


def test_what_a_message_costs_the_processor_is_measured():
    found = measured_network(1, 2, LINK)
    assert 0 < found.processor_s_of_message(64) < found.processor_s_of_message(1 << 24)


def test_a_pipeline_is_planned_beside_other_schemes_with_each_stage(job):
    found = schemes(job, Network(1, 2, LINK, LINK))["pipeline"]
    assert found.scheme.micro_batches == 5
    assert found.memory == max(memory for _, memory, _ in found.stages)
    first, last = found.stages
    pipeline = pipeline_of(job, Network(1, 2, LINK, LINK), 5)
    values = sum(edge.elements for edge in pipeline.plan.edges.values())
    assert first[2] == last[2] == 4 * values  # all values come back as gradients
    assert sum(pipeline.elements) * 4 == trained_bytes(job)


def test_a_trial_of_a_stage_takes_time_and_leaves_no_gradient_out(job):
    pipeline = pipeline_of(job, Network(1, 2, LINK, LINK), 5)
    for stage, net in enumerate(pipeline.nets):
        durations = pipeline.measured(stage)
        assert durations.forward[0] > 0
        assert durations.backward[0] > 0
        assert len(net.grads) == len([one for one in net.graph.parameters.values() if one.trainable])
