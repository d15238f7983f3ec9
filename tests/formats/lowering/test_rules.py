from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

import netweave
from netweave.formats.lowering import RuleTable

SOURCE = Path(netweave.__file__).parent
FAMILIES = sorted(
    path.parent for path in SOURCE.rglob("__init__.py") if "import_families(__name__)" in path.read_text()
)


@dataclass(frozen=True)
class Rule:
    function: object
    size: int = 1


def test_a_rule_is_found_by_each_of_its_names():
    table: RuleTable[object, Rule] = RuleTable(Rule)

    @table.register("Pool", "MaxPool", size=2)
    def pool() -> None: ...

    assert table == {"Pool": Rule(pool, 2), "MaxPool": Rule(pool, 2)}


def test_a_name_has_one_rule():
    table: RuleTable[object, Rule] = RuleTable(Rule)
    table.register("Pool")(len)
    with pytest.raises(AssertionError, match="Pool has two rules"):
        table.register("Pool")(max)


def test_an_option_that_no_entry_has_fails_where_it_stands():
    table: RuleTable[object, Rule] = RuleTable(Rule)
    with pytest.raises(TypeError, match="sizes"):
        table.register("Pool", sizes=2)(len)


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda folder: folder.relative_to(SOURCE).as_posix())
def test_a_package_of_rules_imports_every_file_in_it(folder):
    package = import_module(".".join(folder.relative_to(SOURCE.parent).parts))
    stems = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert len(stems) > 1
    assert not [stem for stem in stems if not hasattr(package, stem)]
