"""The workbench's database: workspaces, nets with their files, and comparisons.

Nets and comparisons are both jobs: a worker reads or compares them in its own time. A job belongs to the
worker that holds its lease; ``work.leases`` has the only steps from one state to the next.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.functional import cached_property

if TYPE_CHECKING:
    from netweave.api import Verdict


class State(models.TextChoices):
    """Progress of a job."""

    EMPTY = "empty", "waiting for files"
    QUEUED = "queued", "waiting for a worker"
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


UNFINISHED = (State.QUEUED, State.RUNNING)

SILENCE = timedelta(seconds=10)
"""A worker that gave no sign of life for this long is taken for dead."""


class Workspace(models.Model):
    """Whose nets and comparisons these are: an account's, or a browser's where there are no accounts.

    Attributes:
        origin: The address it came from, where anybody may make one; empty otherwise. All workspaces of an
            address have one share of the workers: a browser that forgets its cookie gets another workspace.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE)
    token_hash = models.CharField(max_length=64, blank=True, db_index=True)
    reads_code = models.BooleanField(default=False)
    origin = models.CharField(max_length=45, blank=True, default="", db_index=True)
    created = models.DateTimeField(default=timezone.now)

    @property
    def token_id(self) -> str:
        """Identifier of the token in forms; empty if there is none."""
        return self.token_hash[:12]

    def make_token(self) -> str:
        """Return a new token for programs; only its hash is kept, and an older one ends."""
        token = f"nw_{secrets.token_urlsafe(32)}"
        self.token_hash = token_hash(token)
        self.save(update_fields=["token_hash"])
        return token


def token_hash(token: str) -> str:
    """Return what is kept of a token; it has 256 random bits, so that no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


class Job(models.Model):
    """A task that a worker runs once.

    Attributes:
        stage: What is being done, in words.
        error: Why it failed, in words for the user.
        lease: Known to the worker that holds the job, and to nobody else.
        touched: The last sign of life of that worker, or when the job was queued.
        attempts: How many workers have begun it since it was queued.
        task: The entry in the queue; empty while the job waits outside of it (``work.shares``).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.EMPTY)
    stage = models.CharField(max_length=200, blank=True)
    error = models.TextField(blank=True)
    lease = models.CharField(max_length=32, blank=True)
    touched = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveSmallIntegerField(default=0)
    task = models.CharField(max_length=36, blank=True)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        abstract = True
        ordering: ClassVar = ["-created"]


class Net(Job):
    """A net: its files, and what was read from them.

    Attributes:
        input_shapes: Input sizes by name that the user gave.
        entry: The class or function of a file of code that makes the net, if the user named one.
        facts: What was read (``work.facts``).
        document: Name in the storage of the net as the viewer shows it, compressed.
    """

    input_shapes = models.JSONField(default=dict, blank=True)
    entry = models.CharField(max_length=100, blank=True)
    facts = models.JSONField(default=dict, blank=True)
    document = models.CharField(max_length=200, blank=True)

    class Meta(Job.Meta):
        indexes: ClassVar = [models.Index(fields=["state", "touched"], name="net_by_state")]

    @cached_property
    def listed_files(self) -> list[File]:
        """The files by name; whoever has read or changed them sets this, so that nobody asks again."""
        return list(self.files.all())


class File(models.Model):
    """A file of a net, under the name that it came with, made safe."""

    net = models.ForeignKey(Net, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(max_length=120)
    stored = models.CharField(max_length=200)
    num_bytes = models.BigIntegerField()

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["net", "name"], name="one_file_of_a_name")]


class Upload(models.Model):
    """Room that is taken for a file while it arrives; a ``File`` takes its place, or it goes.

    Attributes:
        workspace: Whose room.
        stored: Name in the storage of what has arrived.
        num_bytes: The room: the size as announced, or what was left if it was not.
        touched: When something last arrived.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    stored = models.CharField(max_length=200, unique=True)
    num_bytes = models.BigIntegerField()
    touched = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["touched"], name="upload_by_age")]


class OwnInput(models.Model):
    """A file of inputs that comparisons run on: an image, or arrays by name.

    Attributes:
        workspace: Whose it is.
        name: The name that it came with, made safe.
        stored: Its name in the storage.
        num_bytes: Its size.
        created: When it arrived; one that no comparison uses goes after a day.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=120)
    stored = models.CharField(max_length=200)
    num_bytes = models.BigIntegerField()
    created = models.DateTimeField(default=timezone.now)


class Comparison(Job):
    """Two nets and what was found about them; it outlives the nets.

    Attributes:
        settings: What the user chose besides (``web.chosen_options``).
        own_input: The file of inputs that the nets were run on; None for drawn ones.
        net_a: The first net.
        net_b: The second net.
        name_a: Its name at the time.
        name_b: Its name at the time.
        verdict: Name of the verdict.
        sentence: The result in one sentence.
        seconds: How long it took.
        result: Name in the storage of the result, as ``netweave compare --json`` has it, compressed.
        document: Name in the storage of the comparison as the viewer shows it, compressed.
        fixes: Name in the storage of the second net's texts with fixes applied, compressed.
        share: The secret in the link that anybody may open; empty if it is not shared.
    """

    settings = models.JSONField(default=dict, blank=True)
    own_input = models.ForeignKey(OwnInput, null=True, on_delete=models.SET_NULL, related_name="comparisons")
    net_a = models.ForeignKey(Net, null=True, on_delete=models.SET_NULL, related_name="+")
    net_b = models.ForeignKey(Net, null=True, on_delete=models.SET_NULL, related_name="+")
    name_a = models.CharField(max_length=200)
    name_b = models.CharField(max_length=200)
    verdict = models.CharField(max_length=40, blank=True)
    sentence = models.TextField(blank=True)
    seconds = models.FloatField(null=True)
    result = models.CharField(max_length=200, blank=True)
    document = models.CharField(max_length=200, blank=True)
    fixes = models.CharField(max_length=200, blank=True, default="")
    share = models.CharField(max_length=43, blank=True, db_index=True)

    class Meta(Job.Meta):
        indexes: ClassVar = [
            models.Index(fields=["state", "touched"], name="comparison_by_state"),
            models.Index(fields=["workspace", "-created"], name="comparison_by_owner"),
        ]

    @property
    def found(self) -> Verdict | None:
        """The verdict; None while there is none, or for one of another version."""
        from netweave.api import Verdict

        try:
            return Verdict(self.verdict)
        except ValueError:
            return None

    def make_share(self) -> str:
        """Return the secret of the shared link, made if there is none."""
        if not self.share:
            self.share = secrets.token_urlsafe(32)
            self.save(update_fields=["share"])
        return self.share


class Count(models.Model):
    """Number of a user's actions in a window of time (``safety.limits``)."""

    key = models.CharField(max_length=100)
    window = models.BigIntegerField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["key", "window"], name="one_count_a_window")]


Facts = dict[str, Any]
