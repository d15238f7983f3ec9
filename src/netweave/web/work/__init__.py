"""The work behind the pages: nets are read and compared by worker processes, each job once.

A job is a row of ``models``. ``leases`` has its steps, ``tasks`` is what a worker does with one, ``child``
the process that touches the files, under limits; ``worker`` is the worker's program.
"""
