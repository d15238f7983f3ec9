"""Ways to call a decoder step by step, by the names of its arguments and by what it takes back."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

OF_CACHE = re.compile(r"past|cache|present|kv")
"""Names of caches, in lower case: arguments, what is returned, classes, arrays that a module keeps."""

SWITCHES = re.compile(r"^(use|return|output|with)_.*(past|cache|kv|present)")
"""Names of arguments that turn a cache on."""

NUMBERS = re.compile(r"^(start|start_(pos|index|position)|(pos_)?offset|past_len(gth)?|cur(rent)?_pos)$")
"""Names of arguments that give the place of the first token as a number."""

PLACES = re.compile(r"^(input_pos|pos|position|positions|pos_ids|position_ids|cache_position)$")
"""Names of arguments that give the places of all tokens."""

SETUPS = ("setup_caches", "setup_cache", "set_kv_cache")
"""Methods that make room for a cache."""


class NoCacheError(Exception):
    """A call gives back no cache."""


@dataclass(frozen=True, slots=True)
class Manner:
    """One way to call a module step by step.

    Attributes:
        tokens: The argument that is given step by step.
        masks: Arguments that are given up to the last step.
        caches: The arguments that take the cache, mostly one; none if the module keeps it.
        make: Makes a first cache; None if the first call does.
        switches: Arguments that are true.
        places: Arguments that are given the places of the tokens, each as a number, a row, or rows.
        members: What of that which it returns is the cache, by key, for each of the arguments; nothing if
            names say it.
        is_guess: No name says that the argument takes a cache.
    """

    tokens: str
    masks: tuple[str, ...]
    caches: tuple[str, ...] = ()
    make: Callable[[], Any] | None = None
    switches: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    members: tuple[int | str, ...] = ()
    is_guess: bool = False

    def __str__(self) -> str:
        names = self.caches or (*self.switches, *(name for name, _ in self.places))
        return " and ".join(names) if self.caches else ", ".join(names)

    def arguments(
        self, module: torch.nn.Module, batch: Mapping[str, torch.Tensor], chunk: range, *, is_cached: bool
    ) -> dict[str, Any]:
        """Return the arguments of a call, without the cache.

        Args:
            module: The module.
            batch: Its inputs by name, for all tokens.
            chunk: Places of the tokens of the call.
            is_cached: It fills or reads the cache.
        """
        given: dict[str, Any] = dict(batch)
        given[self.tokens] = given[self.tokens][:, chunk.start : chunk.stop]
        given |= {name: batch[name][:, : chunk.stop] for name in self.masks}
        if is_cached:
            given |= dict.fromkeys(self.switches, True)
        row = torch.arange(chunk.start, chunk.stop)
        forms = {"number": chunk.start, "row": row, "rows": row.repeat(len(given[self.tokens]), 1)}
        needed = _required(module)
        return given | {
            name: forms[form]
            for name, form in self.places
            if is_cached or not self.caches or name in needed or name in batch
        }


def has_cache(module: torch.nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Return whether a module may take a cache, by the names of the arguments of its ``forward``.

    Args:
        module: The module.
        inputs: Arguments that it is traced with.
    """
    tensors = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    _, part, batches = with_cache(module, [tensors])
    return next(_manners(part, batches[0]), None) is not None


def with_cache(
    module: torch.nn.Module, batches: Sequence[Mapping[str, torch.Tensor]]
) -> tuple[str, torch.nn.Module, Sequence[Mapping[str, torch.Tensor]]]:
    """Return the part of a module that has all its weights and takes a cache, after its name, and its inputs.

    If there is none, it is the module itself.
    """
    part, path, given = module, "", batches
    while True:
        if next(_manners(part, batches[0]), None) is not None:
            return path, part, batches
        children = {
            name: child for name, child in part.named_children() if next(child.parameters(), None) is not None
        }
        own = next(part.parameters(recurse=False), None)
        if own is not None or len(children) != 1:
            return "", module, given
        name, part = children.popitem()
        path = ".".join(filter(None, (path, name)))
        tokens = [name for name, x in batches[0].items() if x.ndim == 2 and not x.dtype.is_floating_point]
        arguments = list(inspect.signature(part.forward).parameters)
        if len(batches[0]) != 1 or not tokens or not arguments:
            return "", module, given
        batches = [{arguments[0]: batch[next(iter(batch))]} for batch in batches]


def _required(module: torch.nn.Module) -> set[str]:
    known = inspect.signature(module.forward).parameters.values()
    return {each.name for each in known if each.default is each.empty}


def _manners(
    module: torch.nn.Module, batch: Mapping[str, torch.Tensor], *, is_named: bool = True
) -> Iterator[Manner]:
    """Yield the ways to call a module step by step, the likely ones first.

    Args:
        module: The module.
        batch: Its inputs by name.
        is_named: Only those that names of arguments suggest.
    """
    known = inspect.signature(module.forward).parameters
    of_steps = [
        name for name, x in batch.items() if x.ndim == 2 and not x.dtype.is_floating_point and name in known
    ]
    plain = [name for name in of_steps if "mask" not in name and not PLACES.match(name)]
    decoded = [name for name in plain if name.startswith("decoder")] or plain
    if not decoded:
        return
    tokens = decoded[0]
    masks = tuple(
        name
        for name in of_steps
        if "mask" in name
        and batch[name].shape == batch[tokens].shape
        and name.startswith("decoder") == tokens.startswith("decoder")
    )
    switches = tuple(name for name in known if SWITCHES.match(name))
    places = [name for name in known if NUMBERS.match(name) or PLACES.match(name)]
    takes = [
        name
        for name in known
        if OF_CACHE.search(name.lower()) and name not in {*switches, *places, *batch} and name != tokens
    ]
    needed = _required(module)
    optional = all(known[name].default is None and name not in batch for name in places)
    forms = [tuple((name, "number" if NUMBERS.match(name) else "row") for name in places)]
    forms += [tuple((name, "rows" if form == "row" else form) for name, form in forms[0])]
    forms += [tuple((name, "row") for name in places)]
    forms = [()] * (optional and not needed & set(places)) + forms
    zeros = [name for name, each in known.items() if type(each.default) is int and not each.default]
    forms += [(*form, *((name, "number") for name in zeros if name not in places)) for form in forms]
    forms = list(dict.fromkeys(forms))
    if takes:
        several = [tuple(takes)] * (len(takes) > 1)
        yield from (Manner(tokens, masks, taken, None, switches, form) for taken in several for form in forms)
        for make in [None, *_makers(module)]:
            yield from (Manner(tokens, masks, (takes[0],), make, switches, form) for form in forms)
    elif switches or places:
        yield from (Manner(tokens, masks, (), None, switches, form) for form in forms if form or switches)
    if is_named:
        return
    rest = [
        (name,)
        for name, argument in known.items()
        if argument.default is None and name not in {tokens, *takes, *masks, *places, *batch}
    ]
    guesses = [(takes[0],)] if takes else rest + [sum(rest, ())] * (len(rest) == 2)
    turned = [(name,) for name, argument in known.items() if argument.default is False]
    for on in [switches] if switches else [()] * (not takes) + turned:
        yield from (
            Manner(tokens, masks, taken, None, on, form, is_guess=True) for taken in guesses for form in forms
        )


def manners_of(module: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> Iterator[Manner]:
    """Yield the ways to call a module step by step, with what of that which it returns is its cache.

    Where names do not say which argument takes a cache, it is one that takes back what a call returns, if
    that then holds one token more.
    """
    for manner in _manners(module, batch, is_named=False):
        members: tuple[int | str, ...] = ()
        if manner.caches and manner.make is None:
            try:
                members = _taken_back(module, batch, manner)
            except Exception:  # noqa: BLE001 - any code's any error
                members = ()
        if members or not (manner.is_guess or len(manner.caches) > 1):
            yield replace(manner, members=members)


def _taken_back(
    module: torch.nn.Module, batch: Mapping[str, torch.Tensor], manner: Manner
) -> tuple[int | str, ...]:
    """Return what of that which a module returns it takes back as a cache, by key; nothing if it does not.

    A cache holds one token more after one more, or is of one size and written at one place.
    """
    length = len(batch[manner.tokens][0])

    def called(chunk: range, **cache: Any) -> Any:
        return module(**manner.arguments(module, batch, chunk, is_cached=True), **cache)

    whole = called(range(length))
    if not isinstance(whole, Mapping | list | tuple):
        return ()
    keys: list[Any] = list(whole) if isinstance(whole, Mapping) else list(range(len(whole)))
    output = next(key for key in keys if isinstance(whole[key], torch.Tensor))
    keys = [key for key in keys if key != output and _tensors(whole[key])]
    count = len(manner.caches)
    for members in [tuple(keys[at : at + count]) for at in range(len(keys) - count, -1, -1)]:
        part = called(range(length - 1))
        before = [x.clone() for key in members for x in _tensors(part[key])]
        given = {name: part[key] for name, key in zip(manner.caches, members, strict=True)}
        try:
            made = called(range(length - 1, length), **given)
            after = [x for key in members for x in _tensors(made[key])]
            is_step = made[output].shape == whole[output][:, -1:].shape
        except Exception:  # noqa: BLE001 - it does not take it
            continue
        of_whole = [x for key in members for x in _tensors(whole[key])]
        is_alike = is_step and len(before) == len(after) == len(of_whole)
        if is_alike and any(map(_is_kept, before, after, of_whole)):
            return members
    return ()


def _is_kept(before: torch.Tensor, after: torch.Tensor, whole: torch.Tensor) -> bool:
    """Return whether a tensor that a step takes and returns holds the tokens before it.

    Args:
        before: The tensor after all tokens but one.
        after: What a step with the last token makes of it.
        whole: The tensor after all tokens at once.
    """
    if not before.ndim == after.ndim == whole.ndim:
        return False
    axes = [axis for axis in range(whole.ndim) if before.shape[axis] != whole.shape[axis]]
    if axes:  # a wrong cache may lose a token, and hidden states are those of the step alone
        return len(axes) == 1 and after.shape[axes[0]] > 1 + before.shape[axes[0]] // 2
    if before.shape != after.shape:
        return False
    changed = (before != after).nonzero()
    axes = [axis for axis, size in enumerate(before.shape) if size > 1]
    return any(len(changed[:, axis].unique()) == 1 for axis in axes)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def returned_caches(module: torch.nn.Module, inputs: Mapping[str, Any]) -> list[int] | None:
    """Return which of a module's outputs are a cache, which it takes back in its next call.

    Args:
        module: The module, as it predicts.
        inputs: Arguments that it is traced with.

    Returns:
        Their places among the tensors that the module returns for these inputs; none where it returns a
        cache only if an argument says so, and None if it takes nothing back.
    """
    batch = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor)}
    for manner in manners_of(module, batch):
        if manner.members:
            made = module(**inputs)
            is_alike = isinstance(made, Mapping | list | tuple) and len(made) > 1
            taken = {id(x) for key in manner.members for x in _tensors(made[key])} if is_alike else set()
            return [place for place, x in enumerate(_tensors(made)) if id(x) in taken]
    return None


def _makers(module: torch.nn.Module) -> Iterator[Callable[[], Any]]:
    """Yield functions that make a cache: of a class in the module's file, or a list of as many as layers."""
    lists = [len(part) for part in module.modules() if isinstance(part, torch.nn.ModuleList)]
    layers = max(lists, default=0)
    beside = getattr(sys.modules.get(type(module).__module__), "__dict__", {})
    beside = beside | getattr(type(module).forward, "__globals__", {})
    for name, kind in beside.items():
        if isinstance(kind, type) and OF_CACHE.search(name.lower()) and not issubclass(kind, torch.nn.Module):
            try:
                wanted = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
            except (TypeError, ValueError):
                continue
            if not wanted:
                yield kind
            elif len(wanted) == 1 and "layer" in wanted[0].name:
                yield lambda kind=kind: kind(layers)  # type: ignore[misc]  # a default that mypy does not see
    if layers:
        yield lambda: [None] * layers


def make_room(module: torch.nn.Module, count: int, length: int) -> None:
    """Let a module make room for its cache, where it has a method that does.

    Args:
        module: The module.
        count: Number of samples.
        length: Number of tokens.

    Raises:
        NoCacheError: The method needs something else than sizes.
    """
    for method in [getattr(module, name) for name in SETUPS if hasattr(module, name)]:
        given = {}
        for name, argument in inspect.signature(method).parameters.items():
            if "batch" in name:
                given[name] = count
            elif re.search(r"len|seq|size", name):
                given[name] = length
            elif argument.default is argument.empty:
                raise NoCacheError(f"its {method.__name__} also needs {name!r}")
        method(**given)


def parted(made: Any, manner: Manner) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Return the first tensor of what a module returns, and the cache that it returns, for each argument."""
    if isinstance(made, torch.Tensor):
        return made.detach().float(), ()
    if isinstance(made, Mapping):
        output = next(x for x in made.values() if isinstance(x, torch.Tensor))
        named = [
            x
            for name, x in made.items()
            if x is not None and (name in manner.caches or OF_CACHE.search(name.lower()))
        ]
    elif isinstance(made, list | tuple):
        output = next(x for x in made if isinstance(x, torch.Tensor))
        named = [x for x in made if x is not None and x is not output][-1:]
    else:
        raise NoCacheError(f"it returns a {type(made).__name__}")
    if manner.members:
        named = [made[key] for key in manner.members]
    return output.detach().float(), tuple(named[: len(manner.caches)])
