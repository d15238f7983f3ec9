"""Apache SINGA 0.1 to 0.3: ``job.conf`` and its checkpoints, without SINGA.

``reader`` reads nets, ``is_job`` and ``read_job`` trainings. Facts that the
code follows are cited by the name of the file in Apache's repository.
"""

from netweave.formats.singa.files import match
from netweave.formats.singa.job import is_job, read_job

__all__ = ["is_job", "match", "read_job"]
