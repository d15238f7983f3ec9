"""Statements that are composed once do what the object mapper's do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from netweave.web.models import Comparison, File, Net, State, Workspace
from netweave.web.prepared_statements import insert, select, select_one, update

MOMENT = datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)


@pytest.fixture
def workspace():
    return Workspace.objects.create(origin="10.0.0.1")


def values(row) -> dict:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def net_with_all(workspace) -> Net:
    """Return a net that is not stored, with a value in each of its fields."""
    return Net(
        workspace=workspace,
        name="模型 'a' \"b\" %s %",
        state=State.RUNNING,
        stage="reading",
        error="two\nlines",
        lease="f" * 32,
        touched=MOMENT,
        attempts=3,
        task="t",
        created=timezone.now(),
        input_shapes={"data": [1, 3, 224, 224]},
        entry="LeNet",
        facts={"layers": 2, "loaded": True, "notes": ["%s", None]},
        document="documents/x",
    )


def test_what_is_inserted_is_what_the_object_mapper_finds(workspace):
    net = net_with_all(workspace)
    insert(net)
    assert values(Net.objects.get(pk=net.pk)) == values(net)
    assert not net._state.adding
    net.name = "other"
    net.save(update_fields=["name"])  # the row is known to be stored
    assert Net.objects.get().name == "other"


def test_the_database_gives_out_keys_of_files(workspace):
    net = net_with_all(workspace)
    insert(net)
    for name in "ab":
        insert(File(net=net, name=name, stored=f"nets/{name}", num_bytes=1 << 40))
    found = File.objects.all()
    assert [(file.name, file.num_bytes) for file in found] == [("a", 1 << 40), ("b", 1 << 40)]
    assert len({file.pk for file in found} - {None}) == 2


def test_what_is_selected_is_what_the_object_mapper_finds(workspace):
    other = Workspace.objects.create()
    nets = [net_with_all(owner) for owner in (workspace, workspace, other)]
    for net in nets:
        net.save()
    found = select(Net, workspace=workspace)
    assert {net.pk for net in found} == {net.pk for net in nets[:2]}
    for net in found:
        assert values(net) == values(Net.objects.get(pk=net.pk))
    assert select_one(Net, pk=nets[2].pk, workspace=other) == nets[2]
    assert select_one(Net, pk=str(nets[2].pk), workspace=other) == nets[2]
    assert select_one(Net, pk=nets[2].pk, workspace=workspace) is None
    assert select(Net, name="' OR 1=1 --") == []


def test_no_value_is_not_any_value(workspace):
    from django.contrib.auth.models import User

    owned = Workspace.objects.create(user=User.objects.create(username="ada"))
    assert select_one(Workspace, pk=owned.pk, user=None) is None
    assert select_one(Workspace, pk=owned.pk, user=owned.user) == owned
    assert select_one(Workspace, pk=workspace.pk, user=None) == workspace


def test_an_update_changes_the_fields_that_are_named_where_the_rest_is_as_said(workspace):
    net, untouched = net_with_all(workspace), net_with_all(workspace)
    for row in (net, untouched):
        row.save()
    before = values(net)
    net.name, net.state, net.error = "new", State.QUEUED, "not stored"
    assert not update(net, ("name", "state"), state=State.QUEUED)
    assert values(Net.objects.get(pk=net.pk)) == before
    assert update(net, ("name", "state"), state=State.RUNNING)
    assert values(Net.objects.get(pk=net.pk)) == before | {"name": "new", "state": "queued"}
    assert values(Net.objects.get(pk=untouched.pk)) == values(untouched)
    Net.objects.all().delete()
    net.pk = before["id"]
    assert not update(net, ("name",))


def test_jobs_of_both_kinds_are_updated(workspace):
    row = Comparison.objects.create(workspace=workspace, name_a="a", name_b="b")
    row.touched = MOMENT
    assert update(row, ("touched",))
    assert Comparison.objects.get().touched == MOMENT


def test_each_is_one_statement(workspace):
    with CaptureQueriesContext(connection) as asked:
        net = net_with_all(workspace)
        insert(net)
        select_one(Net, pk=net.pk)
        update(net, ("name",))
    assert [query["sql"].split()[0] for query in asked] == ["INSERT", "SELECT", "UPDATE"]
