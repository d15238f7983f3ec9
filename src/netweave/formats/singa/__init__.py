"""Apache SINGA 0.1 to 0.3: ``job.conf`` and its checkpoints, without SINGA.

``match`` and ``read`` are the reader of nets, ``is_job`` and ``read_job`` that of trainings. Facts that the
code follows are cited by the name of the file in Apache's repository.
"""

from netweave.formats.singa.job import is_job, read_job
from netweave.formats.singa.reader import match, read

__all__ = ["is_job", "match", "read", "read_job"]
