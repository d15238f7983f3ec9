"""Single steps of a decoder through its cache, against one pass without it.

A decoder is called as its ``forward`` says: with a cache that it returns (``past_key_values``), with one that
its file has a class of, or with the place of the first token where it keeps the cache itself (``start_pos``,
``input_pos``). If the steps give something else, the code is run again with one suspected line answered
otherwise; the one after which both agree is the cause.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from netweave.files.library_errors import is_machinery, root_cause
from netweave.formats.pytorch.stepwise_calls import (
    Manner,
    NoCacheError,
    make_room,
    manners_of,
    parted,
    with_cache,
)

NOT_FLOAT32 = 0.05
"""Tolerance of nets with fewer bits than float32, whose kernels round otherwise for one token."""

SEEN = 1e-5
"""Relative change of an output by another token that is no rounding."""

MOST_ALTERED = 24
"""For so many tokens it is tried whether a step sees them."""


@dataclass(slots=True)
class _Stepping:
    """Runs of one module on one batch.

    Attributes:
        module: The module.
        batch: Its inputs by name.
        manner: How it is called.
        tolerance: Largest relative error of what agrees.
        chunk: Places of the tokens of the call in progress.
    """

    module: torch.nn.Module
    batch: Mapping[str, torch.Tensor]
    manner: Manner
    tolerance: float
    chunk: range = field(default=range(0))

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.batch[self.manner.tokens][0])

    def fresh(self) -> torch.nn.Module:
        """Return the module with an empty cache; its weights are shared."""
        if self.manner.caches:
            return self.module
        made = copy.deepcopy(self.module, {id(each): each for each in self.module.parameters()})
        make_room(made, len(self.batch[self.manner.tokens]), self.length)
        return made

    def arguments(self, start: int, end: int, *, is_cached: bool) -> dict[str, Any]:
        """Return the arguments of a call for the tokens of some places, without the cache."""
        return self.manner.arguments(self.module, self.batch, range(start, end), is_cached=is_cached)

    def plain(self, end: int | None = None) -> torch.Tensor:
        """Return what one pass over the first tokens gives."""
        self.chunk = range(self.length if end is None else end)
        arguments = self.arguments(0, self.chunk.stop, is_cached=not self.manner.caches)
        return parted(self.fresh()(**arguments), self.manner)[0]

    def through_cache(
        self, first: int, watch: Callable[[torch.nn.Module], Any] | None = None
    ) -> dict[int, torch.Tensor]:
        """Return what calls give for their last token, by the number of tokens that are given by then.

        Args:
            first: Tokens of the first call; the others have one each.
            watch: Called with the module before its last call.
        """
        made = self._calls(range(first, self.length + 1), watch)
        return {
            end: _last(output, is_each=output.ndim > 2 or output.shape[1:2] == (end - start,))
            for start, end, output in made
        }

    def at_once(self) -> float:
        """Return the error of a second call with all tokens of the latter part, against one pass over all."""
        whole, first = self.plain(), self.length // 2 + 1  # no two calls with as many tokens
        *_, (start, _, made) = self._calls((first, self.length))
        if whole.ndim < 2 or whole.shape[1] != self.length or made.shape != whole[:, start:].shape:
            return 0.0
        seen = torch.ones(whole.shape[0], self.length - start, dtype=torch.bool)
        for mask in self.manner.masks:
            seen &= self.batch[mask][:, start:] != 0
        return _error(whole[:, start:][seen], made[seen])

    def _calls(
        self, ends: Sequence[int], watch: Callable[[torch.nn.Module], Any] | None = None
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield the first and last places of the tokens of calls through the cache, and what they give."""
        module, caches = self.fresh(), self.manner.caches
        cache = dict(zip(caches, (self.manner.make(),), strict=True)) if self.manner.make is not None else {}
        start = 0
        for end in ends:
            self.chunk = range(start, end)
            arguments = self.arguments(start, end, is_cached=True) | cache
            if watch is not None and end == self.length:
                watch(module)
            output, returned = parted(module(**arguments), self.manner)
            cache = dict(zip(caches, returned, strict=True)) if returned else cache
            if caches and not cache:
                raise NoCacheError(f"nothing that it returns is a cache for {str(self.manner)!r}")
            if not caches and start == 0 and not self._keeps_tokens(module, arguments):
                raise NoCacheError("it keeps no cache")
            yield start, end, output
            start = end

    def _keeps_tokens(self, module: torch.nn.Module, arguments: Mapping[str, Any]) -> bool:
        """Return whether a module keeps something else after a call if it is given other tokens."""
        name, whole = self.manner.tokens, self.batch[self.manner.tokens]
        other = self.fresh()
        other(**{**arguments, name: whole.min() + whole.max() - arguments[name]})
        kept, of_others = _state(module), _state(other)
        return any(key not in of_others or not torch.equal(x, of_others[key]) for key, x in kept.items())

    def compare(self, first: int) -> tuple[float, int | None]:
        """Return the largest error of calls through the cache, and the number of tokens at the first off."""
        whole = self.plain()
        is_each = whole.ndim > 1 and whole.shape[1] == self.length
        worst, off = 0.0, None
        for end, made in self.through_cache(first).items():
            wanted = whole[:, end - 1] if is_each else _last(self.plain(end), is_each=whole.ndim > 2)
            seen = torch.ones(len(wanted), dtype=torch.bool)
            for mask in self.manner.masks:
                seen &= self.batch[mask][:, end - 1] != 0
            if made.shape != wanted.shape:
                raise NoCacheError("what single steps give has other sizes")
            error = _error(wanted[seen], made[seen])
            worst = max(worst, error)
            if off is None and error > self.tolerance:
                off = end
        return worst, off

    def is_causal(self, first: int) -> bool:
        """Return whether a pass over the first tokens gives for them what one over all tokens gives.

        Where it does not, as in an encoder or with a rotation that follows the length, steps cannot either.
        """
        whole, part = self.plain(), self.plain(first)
        if whole.ndim < 2 or whole.shape[1] != self.length or part.shape[1] != first:
            return True
        seen = torch.ones(len(whole), dtype=torch.bool)
        for mask in self.manner.masks:
            seen &= self.batch[mask][:, first - 1] != 0
        return _error(whole[seen, first - 1], part[seen, first - 1]) <= self.tolerance

    def cut(self, end: int) -> _Stepping:
        """Return the runs on the first tokens alone."""
        cut = {name: self.batch[name][:, :end] for name in (self.manner.tokens, *self.manner.masks)}
        return replace(self, batch={**self.batch, **cut})


def compare_steps(
    module: torch.nn.Module, batches: Sequence[Mapping[str, torch.Tensor]], tolerance: float
) -> dict[str, Any]:
    """Return whether single steps through a decoder's cache give what one pass gives, as JSON values.

    Args:
        module: The module, as it predicts. If it has no cache, and one part with all weights, that part.
        batches: Inputs by name, the first with the fewest tokens. The first is also run one token at a time
            from the beginning; of all, the last tokens are given one at a time after the others.
        tolerance: Largest relative error of what agrees.

    Returns:
        ``how`` (the arguments), empty if the module has no cache or is not causal; ``reason``, why it could
        not be run; ``error`` and ``num_steps``; where steps are off ``step``, ``place`` (a part), ``cause``
        and ``line``.
    """
    path, module, batches = with_cache(module, batches)
    kinds = {each.dtype for each in module.parameters() if each.dtype.is_floating_point}
    tolerance = tolerance if kinds <= {torch.float32, torch.float64} else NOT_FLOAT32
    outcome: dict[str, Any] = {"how": "", "reason": ""}
    left: dict[str, Any] | None = None
    for manner in manners_of(module, batches[0]):
        try:
            found = _outcome(_Stepping(module, batches[0], manner, tolerance), batches)
        except Exception as error:  # noqa: BLE001 - any code's any error
            is_none = isinstance(error, NoCacheError)
            if not outcome["how"] and not (is_none and not manner.caches):
                outcome = {"how": str(manner), "reason": str(error) if is_none else root_cause(error)}
            continue
        if "step" not in found:
            return found
        found["place"] = ".".join(filter(None, (path, found["place"])))
        if left is None or (found["line"] and not left["line"]):  # a cause that an experiment shows
            left = found
    return left or outcome


def _outcome(run: _Stepping, batches: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, Any]:
    """Return what ``compare_steps`` does, for one way to call the module."""
    found: dict[str, Any] = {"how": str(run.manner), "reason": "", "error": 0.0, "num_steps": 0}
    for at, first in _plans(run, batches):
        is_shortest = at.batch is batches[0]
        try:
            is_causal = at.is_causal(max(first, at.length // 2))  # one token may be taken for a step
            error, off = at.compare(first) if is_causal else (0.0, None)
        except NoCacheError:
            raise
        except Exception:
            if is_shortest:
                raise
            continue  # longer than its tables
        if not is_causal and is_shortest:
            return {"how": "", "reason": ""}
        if is_causal:
            found["error"] = max(found["error"], min(error, LARGEST))
            found["num_steps"] += at.length - first
        if off is not None:
            shown = at.cut(max(off, 2))  # a pass over one token may be a step itself
            return found | _explained(shown, min(first, shown.length)) | {"step": off}
    with suppress(Exception):  # many caches are made for one token, and say so
        if (error := run.at_once()) > run.tolerance:
            found["at_once"] = min(error, LARGEST)
            found |= _order(run, found["at_once"])
    return found


def _order(run: _Stepping, error: float) -> dict[str, Any]:
    """Return the place, cause and line of a cache that holds later tokens first, if that is what is wrong."""
    answering = _Answering("order", run)
    with answering:
        is_mended = run.at_once() <= run.tolerance
    if not is_mended or not answering.sites:
        return {}
    at = next(reversed(answering.sites))
    wrong, line, part = answering.sites[at]
    place = next((name for name, each in run.module.named_modules() if each is part), "")
    cause = SUSPECTS["order"].format(right=at.start, place=wrong)
    return {"step": run.length, "place": place, "cause": cause, "line": line, "error": error}


def _plans(run: _Stepping, batches: Sequence[Mapping[str, torch.Tensor]]) -> Iterator[tuple[_Stepping, int]]:
    """Yield runs with the number of tokens of the first call."""
    yield run, 1
    yield run, max(1, run.length // 2)
    for batch in batches[1:]:
        longer = replace(run, batch=batch)
        yield longer, max(1, longer.length - STEPS_BEYOND)


LARGEST = 1e30
"""Errors beyond it, infinite ones among them, are told as this one."""

STEPS_BEYOND = 6
"""Single steps after a longer first call."""


def _last(output: torch.Tensor, *, is_each: bool = True) -> torch.Tensor:
    return output[:, -1] if is_each else output


def _error(wanted: torch.Tensor, made: torch.Tensor) -> float:
    """Return the largest difference relative to the rms; infinity for what is not finite in one alone."""
    if not wanted.numel():
        return 0.0
    rms = float(wanted.square().mean().sqrt())
    error = float((wanted - made).abs().max())
    if error == 0:
        return 0.0
    return error / rms if rms and math.isfinite(error) and math.isfinite(rms) else math.inf


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that a module keeps and that are no parameters."""
    kept, of_all = dict[str, torch.Tensor](), vars(torch.nn.Module())
    for path, part in module.named_modules():
        for key, value in {**vars(part), **dict(part.named_buffers(recurse=False))}.items():
            if key in of_all or isinstance(value, torch.nn.Module):
                continue
            leaves = torch.utils._pytree.tree_leaves(value)
            kept |= {f"{path}.{key}.{i}": x for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)}
    return kept


ATTENTION = torch.nn.functional.scaled_dot_product_attention


class _Answering(TorchFunctionMode):  # type: ignore[misc]  # torch is not looked into
    """Answers one kind of calls of the code as the places of a call's tokens say.

    Attributes:
        sites: What was answered otherwise in the last call: the place that the code had, its line, and the
            module that this is in.
    """

    def __init__(self, kind: str, run: _Stepping) -> None:
        super().__init__()
        self.kind, self.run = kind, run
        self.sites: dict[range, tuple[int, str, Any]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, chunk = kwargs or {}, self.run.chunk
        if self.kind == "positions" and func in {torch.arange, torch.tensor}:
            made = func(*args, **kwargs)
            right = torch.arange(chunk.start, chunk.stop)
            if made.numel() == len(chunk) and not made.dtype.is_floating_point and made.dtype != torch.bool:
                if not torch.equal(made.flatten(), right.to(made.dtype)):
                    self._note(int(made.flatten()[0]))
                return right.to(made.dtype).reshape(made.shape)
            return made
        if self.kind == "rows" and func is torch.Tensor.__getitem__:
            args = (args[0], self._index(args[1], args[0]))
        elif self.kind == "writes" and func is torch.Tensor.__setitem__:
            args = (args[0], self._index(args[1], args[0]), args[2])
        elif self.kind == "order" and func in {torch.cat, torch.concat, torch.concatenate}:
            args = (self._ordered(args[0]), *args[1:])
        elif self.kind == "causal" and func is ATTENTION and kwargs.get("is_causal") and len(chunk) == 1:
            kwargs = {**kwargs, "is_causal": False}
            self._note(0)
        return func(*args, **kwargs)

    def _index(self, index: Any, of: torch.Tensor) -> Any:
        """Return an index whose ranges of as many places as there are tokens begin at the first token's."""
        chunk = self.run.chunk
        members = list(index) if isinstance(index, tuple) else [index]
        after = members.index(...) if any(each is ... for each in members) else len(members)
        for number, each in enumerate(members[:after]):
            if not isinstance(each, slice) or each.step not in {None, 1}:
                continue
            start, stop = each.start or 0, each.stop
            if not isinstance(start, int) or not isinstance(stop, int) or of.shape[number] < chunk.stop:
                continue
            if stop - start == len(chunk) and start >= 0 and start != chunk.start:
                self._note(start)
                members[number] = slice(chunk.start, chunk.stop)
        return tuple(members) if isinstance(index, tuple) else members[0]

    def _ordered(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Return tensors in their order, if they are of the tokens of a call and of those before it."""
        sizes = [list(each.shape) for each in tensors]
        apart = [(x, y) for x, y in zip(*sizes, strict=True) if x != y] if len(sizes) == 2 else []
        if apart != [(len(self.run.chunk), self.run.chunk.start)]:
            return tensors
        self._note(0)
        return tensors[::-1]

    def _note(self, place: int) -> None:
        frame, line, part = inspect.currentframe(), "", None
        while frame is not None and not line:
            name = frame.f_code.co_filename
            if name != __file__ and not is_machinery(name):
                line, part = f"{Path(name).name}:{frame.f_lineno}", frame.f_locals.get("self")
            frame = frame.f_back
        self.sites.setdefault(self.run.chunk, (place, line, part))


SUSPECTS = {
    "positions": "the token at position {right} is given position {place} when it is a step of its own",
    "rows": "the step of position {right} reads row {place} of a table or mask",
    "writes": "the cache gets the keys and values of position {right} at place {place}",
    "order": "the keys of the tokens from position {right} on stand before those of the tokens before them",
    "causal": "is_causal is set for a single token, which then sees the first key alone",
}
"""Mistakes that the code may make, each with the words for it."""


def _explained(run: _Stepping, first: int) -> dict[str, Any]:
    """Return where and why the last of some steps is off, as JSON values.

    Args:
        run: The runs, cut after the step that is off.
        first: Tokens of the first call.
    """
    recorded = _recorded(run, first)
    part = _place(run, first, recorded)
    place = part[0]
    for kind, words in SUSPECTS.items():
        answering = _Answering(kind, run)
        try:
            with answering:
                is_mended = run.compare(first)[1] is None
        except Exception:  # noqa: BLE001 - the answer does not suit the code
            continue
        if is_mended and answering.sites:
            at = next(reversed(answering.sites))
            wrong, line, _ = answering.sites[at]
            return {"place": place, "cause": words.format(right=at.start, place=wrong), "line": line}
    if _sees_other_samples(run, first):
        cause = f"the step of position {run.length - 1} depends on the tokens of other samples of the batch"
    elif first == run.length:
        cause = "the call that fills the cache gives something else than one without it"
    else:
        cause = _seen_in_words(run, first, part, recorded)
    return {"place": place, "cause": cause, "line": ""}


def _recorded(run: _Stepping, first: int) -> tuple[_Recorded, _Recorded]:
    """Return what the parts of a module compute in one pass, and at its last step."""
    of_whole, of_step = _Recorded(), _Recorded()
    whole = run.fresh()
    with of_whole.watching(whole):
        whole(**run.arguments(0, run.length, is_cached=not run.manner.caches))
    with ExitStack() as stack:
        run.through_cache(first, lambda module: stack.enter_context(of_step.watching(module)))
    return of_whole, of_step


def _place(run: _Stepping, first: int, recorded: tuple[_Recorded, _Recorded]) -> tuple[str, int]:
    """Return the first part whose inputs agree at the step that is off and whose output does not."""
    of_whole, of_step = recorded
    given = run.length if first == run.length else 1

    def differs(name: tuple[str, int], kind: str) -> bool:
        x, y = getattr(of_whole, kind).get(name), getattr(of_step, kind).get(name)
        if x is None or y is None or x.ndim < 2:
            return False
        axis = 0 if x.ndim == 2 else 1  # of a table of positions, tokens come first
        if x.shape[axis] != run.length or y.shape[axis] != given:
            return False
        x, y = x.select(axis, -1), y.select(axis, -1)
        return x.shape != y.shape or _error(x, y) > run.tolerance

    off = [name for name in of_step.outputs if differs(name, "outputs")]
    begun = [name for name in off if not differs(name, "inputs")]
    return next((name for name in [*begun, *off] if name[0]), ("", 0))


@dataclass(slots=True)
class _Recorded:
    """Inputs and outputs of a module's parts, by name and number of the call."""

    inputs: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    outputs: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)

    def watching(self, module: torch.nn.Module) -> ExitStack:
        """Record what the parts of a module compute, until the context ends."""
        counts: dict[str, itertools.count[int]] = {}

        def hook(name: str, _: Any, args: Any, kwargs: Any, made: Any) -> None:
            key = name, next(counts.setdefault(name, itertools.count()))
            given = [
                x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor) and x.is_floating_point()
            ]
            out = [x for x in torch.utils._pytree.tree_leaves(made) if isinstance(x, torch.Tensor)]
            if given:
                self.inputs[key] = given[0].detach().float().clone()
            if out:
                self.outputs[key] = out[0].detach().float().clone()

        stack = ExitStack()
        for name, part in module.named_modules():
            handle = part.register_forward_hook(partial(hook, name), with_kwargs=True)
            stack.callback(handle.remove)
        return stack


def _seen_in_words(
    run: _Stepping, first: int, part: tuple[str, int], recorded: tuple[_Recorded, _Recorded]
) -> str:
    """Say which tokens the last step sees, in one pass and through the cache.

    Args:
        run: The runs.
        first: Tokens of the first call.
        part: The first part that is off: what its output depends on counts, since later ones see further.
        recorded: What the parts computed.
    """
    last = run.length - 1
    tried = [*range(4), *range(4, run.length)[-(MOST_ALTERED - 4) :]]
    tokens = run.batch[run.manner.tokens]
    seen: tuple[list[int], list[int]] = [], []
    both = [_last(each.outputs[part]) for each in recorded if part in each.outputs]
    errors = [_error(x, y) for x, y in zip(*both, strict=True)] if len(both) == 2 else []
    off = [at for at, error in enumerate(errors) if error > run.tolerance] or slice(None)
    for number in [each for each in tried if each < last]:
        other = tokens.clone()
        other[:, number] = _altered(tokens)[:, number]
        altered = replace(run, batch={**run.batch, run.manner.tokens: other})
        for numbers, before, after in zip(seen, recorded, _recorded(altered, first), strict=True):
            x, y = before.outputs.get(part), after.outputs.get(part)
            if x is not None and y is not None and _error(_last(x)[off], _last(y)[off]) > SEEN:
                numbers.append(number)
    lost = sorted(set(seen[0]) - set(seen[1]))
    more = sorted(set(seen[1]) - set(seen[0]))
    said = [f"does not see {_numbers(lost)}"] * bool(lost) + [f"sees {_numbers(more)} as well"] * bool(more)
    if said:
        return f"the step of position {last} {' and '.join(said)}, other than one pass over all tokens"
    return (
        f"the step of position {last} sees the same tokens before it as one pass: what it sees of itself, "
        "their positions or what the cache holds of them differ"
    )


def _altered(tokens: torch.Tensor) -> torch.Tensor:
    """Return other tokens in the place of all, of those that occur."""
    least, most = tokens.min(), tokens.max()
    return torch.where(tokens == most, least, most)


def _sees_other_samples(run: _Stepping, first: int) -> bool:
    """Return whether what calls through the cache give for one sample changes with the others."""
    tokens = run.batch[run.manner.tokens]
    if len(tokens) == 1:
        return False
    other = torch.cat((tokens[:1], _altered(tokens)[1:]))
    altered = replace(run, batch={**run.batch, run.manner.tokens: other})
    made = [each.through_cache(first)[run.length][0] for each in (run, altered)]
    return _error(*made) > SEEN


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"tokens {numbers[0]} to {numbers[-1]}"
    return f"token{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
