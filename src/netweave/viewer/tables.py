"""Tables of a document: a list for each field instead of an object for each row, and what repeats once.

A net of tens of thousands of nodes has hundreds of thousands of fields; to make an object for each row and
to write its keys took most of the time that a document took (decision 0213). As JSON, a table is::

    {"count": 3, "columns": {"name": ["a", "b", "c"], "type": {"values": ["Conv", "Relu"], "at": [0, 1, 0]}}}

A column is a list with an entry for each row; or values that repeat, with the place of each row's among them;
or one value, without places, that all rows share; or another table, whose rows are objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Column = Sequence[Any] | Json


def table(count: int, **columns: Column) -> Json:
    """Return a table; fields without a column are left out of its rows."""
    return {"count": count, "columns": columns}


def repeated(entries: Sequence[Hashable]) -> Column:
    """Return a column whose entries may repeat; entries that are equal must be the same in JSON.

    >>> repeated(["Conv", "Relu", "Conv"]), repeated([None, None]), repeated(["a", "b"])
    ({'values': ['Conv', 'Relu'], 'at': [0, 1, 0]}, {'values': [None]}, ['a', 'b'])
    """
    places = {entry: place for place, entry in enumerate(dict.fromkeys(entries))}
    if len(places) == len(entries) > 1:
        return entries
    return placed(list(places), list(map(places.__getitem__, entries)))


def placed(values: list[Any], at: list[int]) -> Column:
    """Return a column of which the values are known already, each once, and the place of each row's."""
    if len(values) == 1:
        return {"values": values}
    if len(values) == len(at):
        return [values[place] for place in at]
    return {"values": values, "at": at}


def rare(entries: Sequence[Any]) -> Column:
    """Return a column that most often holds nothing at all.

    >>> rare([None, None]), rare([None, 0.5])
    ({'values': [None]}, [None, 0.5])
    """
    return entries if any(entry is not None for entry in entries) else {"values": [None]}


def rows(kept: Mapping[str, Any]) -> list[Json]:
    """Return the rows of a table, each as an object.

    >>> rows(table(2, name=["a", "b"], cost=table(2, parameters=repeated([3, 3]))))
    [{'name': 'a', 'cost': {'parameters': 3}}, {'name': 'b', 'cost': {'parameters': 3}}]
    """
    count, names = kept["count"], list(kept["columns"])
    if not names:
        return [{} for _ in range(count)]
    columns = [_entries(column, count) for column in kept["columns"].values()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _entries(column: Any, count: int) -> Sequence[Any]:
    """Return the entry of each row."""
    if isinstance(column, (list, tuple)):
        return column
    if "columns" in column:
        return rows(column)
    values = column["values"]
    return [values[place] for place in column["at"]] if "at" in column else values * count
