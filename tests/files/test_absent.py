"""Names of packages that are not installed: what may be done with them, and what is refused."""

from __future__ import annotations

import sys

import pytest

from netweave.errors import CodeError
from netweave.files.absent import importing, without


def test_a_package_that_is_not_here_may_be_imported_subclassed_and_used_as_a_decorator():
    with without({"gone_package"}), importing():
        import gone_package  # type: ignore[import-not-found]
        from gone_package.parts.deep import Base  # type: ignore[import-not-found]

        @gone_package.registered("x")
        class Net(Base):
            pass

        class Own(Base):
            size = 3

        assert not gone_package.HAS_GPU
    assert Own().size == 3
    assert Own.__mro__ == (Own, object)
    assert Net is not None
    assert not [name for name in sys.modules if name.startswith("gone_package")]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda package: package.parts.made(3), "calls gone_package.parts.made, and 'gone_package' is not"),
        (lambda package: bool(package.FLAG), "decides by gone_package.FLAG, and 'gone_package' is not"),
    ],
)
def test_a_net_that_needs_it_is_refused_by_name(use, message):
    with without({"gone_package"}):
        import gone_package
    with pytest.raises(CodeError, match=message):
        use(gone_package)


def test_packages_that_are_here_stay():
    import json

    with without({"gone_package"}):
        import json as again
    assert again is json
    with pytest.raises(ModuleNotFoundError):
        import gone_package  # noqa: F401
