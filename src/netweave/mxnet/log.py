"""``mx.log``: a logger."""

from __future__ import annotations

import logging

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


def get_logger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """Return a logger of a name, with a level, that writes to a file if there is one."""
    logger = logging.getLogger(name)
    if filename:
        logger.addHandler(logging.FileHandler(filename, filemode or "a"))
    elif not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    logger.setLevel(level)
    return logger


getLogger = get_logger  # noqa: N816 - MXNet's name
