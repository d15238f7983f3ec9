"""Statements on single tables that are composed once, for what is asked with every upload.

Django's object mapper takes ten times as long to compose such a statement as a database to answer it, and
does so anew each time. In a burst of uploads that is most of the server's work (decision 0205). Everything
else goes through the object mapper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connection
from django.db.models import Model

if TYPE_CHECKING:
    from django.db.models import Field

M = TypeVar("M", bound=Model)


def select(model: type[M], **equals: Any) -> list[M]:
    """Return the rows whose fields have some values.

    Args:
        model: Of which table.
        equals: Values by field name; None for no value.
    """
    fields, values = _fields(model, equals), tuple(equals.values())
    condition, given = _condition(model, tuple(equals), _are_none(values)), _given(fields, values)
    return list(model._default_manager.raw(f'SELECT * FROM "{model._meta.db_table}" {condition}', given))


def select_one(model: type[M], **equals: Any) -> M | None:
    """Return the row whose fields have some values; None if there is none."""
    return next(iter(select(model, **equals)), None)


def update(row: Model, names: Sequence[str], **equals: Any) -> bool:
    """Store some fields of a row; False if there is no such row any more.

    Args:
        row: What is stored.
        names: Of the fields.
        equals: What other fields have in the database, or the row is left alone.
    """
    model = type(row)
    equals = {"pk": row.pk, **equals}
    values = tuple(equals.values())
    condition = _condition(model, tuple(equals), _are_none(values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_update(model, tuple(names))} {condition}",
            [*_stored(row, _fields(model, names)), *_given(_fields(model, equals), values)],
        )
        return bool(cursor.rowcount)


def insert(row: Model) -> None:
    """Store a new row; one whose key the database gives out goes without it, as nobody asks for it."""
    model = type(row)
    with connection.cursor() as cursor:
        cursor.execute(_insert(model), _stored(row, _inserted(model)))
    row._state.adding, row._state.db = False, connection.alias


def _fields(model: type[Model], names: Iterable[str]) -> list[Field[Any, Any]]:
    return [_field(model, name) for name in names]


@lru_cache
def _field(model: type[Model], name: str) -> Any:
    return model._meta.pk if name == "pk" else model._meta.get_field(name)


@lru_cache
def _inserted(model: type[Model]) -> Sequence[Any]:
    return [field for field in model._meta.concrete_fields if not field.db_returning]


@lru_cache
def _insert(model: type[Model]) -> str:
    columns = ", ".join(f'"{field.column}"' for field in _inserted(model))
    places = ", ".join(["%s"] * len(_inserted(model)))
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({places})'


@lru_cache
def _update(model: type[Model], names: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{field.column}" = %s' for field in _fields(model, names))
    return f'UPDATE "{model._meta.db_table}" SET {changes}'


@lru_cache
def _condition(model: type[Model], names: tuple[str, ...], are_none: tuple[bool, ...]) -> str:
    conditions = [
        f'"{field.column}" IS NULL' if is_none else f'"{field.column}" = %s'
        for field, is_none in zip(_fields(model, names), are_none, strict=True)
    ]
    return f"WHERE {' AND '.join(conditions)}"


def _are_none(values: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(value is None for value in values)


def _given(fields: Sequence[Field[Any, Any]], values: Sequence[Any]) -> list[Any]:
    """Return values as the database takes them; a row stands for its key."""
    keys = [value.pk if isinstance(value, Model) else value for value in values]
    return [
        field.get_db_prep_value(key, connection)
        for field, key in zip(fields, keys, strict=True)
        if key is not None
    ]


def _stored(row: Model, fields: Sequence[Field[Any, Any]]) -> list[Any]:
    return [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
