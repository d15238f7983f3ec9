"""Names of packages that are not installed: what may be done with them, and what is refused."""

from __future__ import annotations

import sys
from types import new_class

import pytest

from netweave.errors import CodeError
from netweave.files.missing_modules import importing, with_bases, without


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
    assert Net.__name__ == "Net"  # a decorator leaves what it decorates
    assert not [name for name in sys.modules if name.startswith("gone_package")]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda package: package.parts.made(3), "calls gone_package.parts.made, and 'gone_package' is not"),
        (
            lambda package: new_class("Net", (package.parts.Base,))(3),
            "calls gone_package.parts.Base, and 'gone_package' is not",
        ),
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


def test_a_base_that_is_not_here_gives_way_to_one_that_is():
    with without({"gone_package"}), importing():
        from gone_package import Mixin, Other

        class Mixed(Mixin, dict):
            size: Mixin["n"] | None = None  # noqa: F821, UP037 - an axis by name, as annotations have it

        class Two(Mixin, Other):
            pass

    assert Mixed.__mro__ == (Mixed, dict, object)
    assert [each.__name__ for each in Two.__mro__] == ["Two", "Mixin", "object"]


def test_bases_can_be_another_framework_s():
    with without({"gone_package"}), importing(), with_bases(lambda name: dict if "Map" in name else object):
        from gone_package import Map, Plain

        class Own(Map):
            pass

        class Other(Plain):
            pass

    assert (Own.__base__, Other.__base__) == (dict, object)


def test_a_module_of_a_package_that_is_here_can_be_missing():
    with without({"json.fast"}):
        import json
        from json.fast import loads  # type: ignore[import-not-found]

        assert json.loads("1") == 1
        with pytest.raises(CodeError, match=r"calls json\.fast\.loads"):
            loads("1")
    assert "json" in sys.modules
    assert "json.fast" not in sys.modules
