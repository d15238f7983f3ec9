"""Apache SINGA 0.1 to 0.3: ``job.conf`` and its checkpoints, without SINGA.

``reader`` reads nets, ``job`` trainings. Facts that the code follows are cited by the name of the file in
Apache's repository.
"""

from netweave.formats.singa.files import match

__all__ = ["match"]
