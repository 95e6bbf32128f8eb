"""A client for Sluice that paces itself by the rate limit headers.

    import sluice_client as sluice

    with sluice.Client("http://127.0.0.1:3000", key="slc_…") as client:
        client.create_event(sluice.NewEvent("order_placed", id="order-1", entity_id="ada"))

Client blocks, and AsyncClient is the same for asyncio. A call that fails raises an Error.
"""

from ._async import AsyncClient
from ._asyncio import AsyncRecords
from ._blocking import Records
from ._client import Client
from ._engine import Config, Try
from ._errors import (
    ConflictError,
    Error,
    FieldError,
    NotFoundError,
    QuotaError,
    RateLimitError,
    RevisionMismatchError,
    UnknownOutcomeError,
)
from ._records import (
    Attributes,
    BatchResult,
    Change,
    Entity,
    ErasureJob,
    Event,
    ExportJob,
    NewEntity,
    NewEvent,
    Page,
)
from ._routes import Where

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncRecords",
    "Attributes",
    "BatchResult",
    "Change",
    "Client",
    "Config",
    "ConflictError",
    "Entity",
    "ErasureJob",
    "Error",
    "Event",
    "ExportJob",
    "FieldError",
    "NewEntity",
    "NewEvent",
    "NotFoundError",
    "Page",
    "QuotaError",
    "RateLimitError",
    "Records",
    "RevisionMismatchError",
    "Try",
    "UnknownOutcomeError",
    "Where",
]
