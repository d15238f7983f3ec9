"""Objects of Keras by name and configuration."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from netweave.errors import UsageError
from netweave.formats.keras.weights import snake_case

T = TypeVar("T")


class Configured:
    """An object that its settings describe; the settings are the parameters of ``__init__``.

    Raises:
        UsageError: An argument is unknown, missing or given twice.
    """

    module: ClassVar[str] = ""
    """Where Keras has the class, as its files name it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse arguments that ``__init__`` does not have."""
        check_arguments(cls.__name__, inspect.signature(cls.__init__), (None, *args), kwargs)
        return super().__new__(cls)

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: to_json(getattr(self, name)) for name in names if hasattr(self, name)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """Return an object with settings that ``get_config`` returned."""
        return cls(**{name: value for name, value in config.items() if name != "dtype" or _has(cls, "dtype")})


def _has(kind: type, name: str) -> bool:
    return name in inspect.signature(kind.__init__).parameters  # type: ignore[misc]  # of the class itself, not of an instance


def to_json(value: Any) -> Any:
    """Return a value as Keras' files hold it: objects become their class and settings."""
    if isinstance(value, Configured):
        return serialize(value)
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def serialize(value: Configured) -> dict[str, Any]:
    """Return an object as Keras 3's files hold it."""
    kind = type(value)
    return {
        "module": kind.module or None,
        "class_name": kind.__name__,
        "config": value.get_config(),
        "registered_name": None if kind.module else kind.__name__,
    }


class Family(Generic[T]):
    """The classes of one kind by their names in any of Keras' spellings.

    Args:
        noun: What they are, for messages.
        module: Where Keras has them.
    """

    def __init__(self, noun: str, module: str) -> None:
        self.noun = noun
        self.module = module
        self.classes: dict[str, Callable[..., T]] = {}
        self.by_class: dict[str, Callable[..., T]] = {}

    def register(self, *aliases: str) -> Callable[[type], Any]:
        """Enter a class under its name, that in snake case, and others."""

        def enter(kind: type) -> Any:
            kind.module = self.module  # type: ignore[attr-defined]  # Keras' files name it
            self.by_class[kind.__name__] = kind  # a function may have the name in lower case: hinge
            for name in (kind.__name__, snake_case(kind.__name__), *aliases):
                self.classes[name.lower()] = kind
            return kind

        return enter

    def find(self, name: str) -> Callable[..., T]:
        """Return a class or function.

        Raises:
            UsageError: There is none of that name.
        """
        if name in self.by_class:
            return self.by_class[name]
        if name.lower() not in self.classes:
            raise UsageError(f"unknown {self.noun} {name!r}{suggestion(name.lower(), self.classes)}")
        return self.classes[name.lower()]

    def get(self, identifier: Any) -> Any:
        """Return an object: by a name, by what ``serialize`` returned, or as it is.

        Raises:
            UsageError: There is none of that name, or it has other settings.
        """
        if identifier is None:
            return None
        if isinstance(identifier, str):
            kind = self.find(identifier)
            return kind() if isinstance(kind, type) else kind
        if isinstance(identifier, Mapping):
            return self.from_json(identifier)
        if isinstance(identifier, type):
            return identifier()
        if isinstance(identifier, Configured) or callable(identifier):
            return identifier
        raise UsageError(f"{self.noun} is {identifier!r:.60}, expected a name, an object or its settings")

    def from_json(self, content: Mapping[str, Any]) -> Any:
        """Return the object that settings describe."""
        given = content.get("config")
        if "class_name" not in content:
            raise UsageError(f"{self.noun} is {dict(content)!r:.60}, expected class_name and config")
        if content.get("class_name") == "function" or isinstance(given, str):
            return self.get(given)
        kind: Any = self.find(str(content["class_name"]).rpartition(">")[2])
        return kind.from_config(given or {})


def check_arguments(
    what: str, signature: inspect.Signature, args: Iterable[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return arguments by parameter.

    Raises:
        UsageError: An argument is unknown, missing or given twice.
    """
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    known = [name for name in signature.parameters if name != "self"]
    unknown = [name for name in kwargs if name not in known]
    if unknown and not takes_all:
        raise UsageError(f"{what} has no argument {unknown[0]!r}{suggestion(unknown[0], known)}")
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"{what}: {error}; expected {', '.join(known) or 'no arguments'}") from error


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest known one, or all.

    >>> suggestion("unts", ["units", "activation"])
    '; did you mean units?'
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, 0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; expected one of {', '.join(sorted(names))}" if names else "; it has none"


REMEDIES = {
    "keras.mixed_precision": "leave it out: arrays are float32",
    "keras.distribution": "train on several devices with netweave.training.parallel",
    "keras.saving.load_model": "use keras.models.load_model",
    "keras.saving.register_keras_serializable": "leave it out: classes of your own cannot be in a file",
    "keras.callbacks.BackupAndRestore": "use fit(checkpoint_prefix=..., resume=True)",
    "keras.callbacks.ProgbarLogger": "use fit(verbose=1)",
    "keras.models.clone_model": "use keras.models.model_from_config(model.to_json())",
    "keras.models.model_from_json": "use keras.models.model_from_config",
    "keras.models.save_model": "use model.save(path)",
}
"""The way out for what is not here, by Keras' name."""


def missing(path: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name of Keras that is not here.

    An ``AttributeError``, since ``hasattr`` and ``from ... import`` rely on it.

    Args:
        path: The module: ``keras.layers``.
        name: The name in it.
        known: Names that are there, of which similar ones are proposed.
    """
    near = difflib.get_close_matches(name, [one for one in known if not one.startswith("_")], n=3)
    remedy = REMEDIES.get(f"{path}.{name}") or (near and f"is it one of {', '.join(near)}?")
    text = f"netweave.keras has no {path}.{name}"
    return AttributeError(
        f"{text}; {remedy}"
        if remedy
        else f"{text}; dir({path}) lists what is there, and "
        "docs/how-to/keras-habits.md says what is different"
    )
