"""A change that depends on what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _routes
from ._engine import Engine, Event, Retries, Steps, Wait
from ._errors import RevisionMismatchError
from ._records import Entity


def update(
    engine: Engine,
    event: Event,
    id_: str,
    func: Callable[[Entity], Mapping[str, Any] | None],
) -> Steps[Entity]:
    """Read an entity and change it, again and again until it has not changed in between."""
    rounds = Retries(engine.config)
    while True:
        entity = yield from engine.call(_routes.get_entity(id_), event)
        patch = func(entity)
        if patch is None:
            return entity
        change = _routes.update_entity(id_, patch, entity.revision)
        try:
            return (yield from engine.call(change, event))
        except RevisionMismatchError as e:
            e.retryable = True
            wait = rounds.failed(e, e.route, e.status)
            if wait is None:
                raise
        event.clear()
        yield Wait(wait)
