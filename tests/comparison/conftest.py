"""Has every comparison of these tests made in both orders of the two nets."""

from __future__ import annotations

import sys

import pytest

import netweave
from netweave import comparison
from tests.comparison.both_orders import BothOrders

_both_orders = BothOrders()


@pytest.fixture(scope="package", autouse=True)
def both_orders():
    """Replace ``compare``, wherever it was imported to, by one that compares in both orders."""
    wrapped = {each: _both_orders.wrap(each) for each in (netweave.compare, comparison.compare)}
    with pytest.MonkeyPatch.context() as patch:
        for module in [each for name, each in sys.modules.items() if _may_compare(name)]:
            for name, value in list(vars(module).items()):
                if any(value is each for each in wrapped):
                    patch.setattr(module, name, wrapped[value])
        yield


_IN_ONE_ORDER = ("slow", "exhaustive", "timing", "corpus", "oracle", "gpu", "multi", "browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Compare in both orders in unmarked tests, their fixtures included; marked ones are long enough."""
    on = not any(map(item.get_closest_marker, _IN_ONE_ORDER))
    with _both_orders.switched(on=on, with_findings=item.get_closest_marker("findings_by_order") is None):
        return (yield)


def _may_compare(module: str) -> bool:
    return module.split(".")[0] == "netweave" or module.startswith("tests.comparison.")
