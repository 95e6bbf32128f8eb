"""Writes rows of sluice.duckdb to Sluice (reverse ETL). Replace the queries with your own."""

import json
from collections.abc import Iterator
from typing import Any

import dlt
import duckdb
from sluice import sluice_destination

ENTITIES = "SELECT id, type, attributes, true AS replace FROM copy.entity"
EVENTS = "SELECT id, name, entity_id, occurred_at, attributes FROM copy.event"


def rows(query: str) -> Iterator[dict[str, Any]]:
    with duckdb.connect("sluice.duckdb", read_only=True) as database:
        result = database.execute(query)
        columns = [column[0] for column in result.description]
        while row := result.fetchone():
            values = dict(zip(columns, row))
            yield values | {"attributes": json.loads(values["attributes"])}


pipeline = dlt.pipeline("to_sluice", destination=sluice_destination)
entity = dlt.resource(rows(ENTITIES), name="entity")
event = dlt.resource(rows(EVENTS), name="event")
print(pipeline.run([entity, event]))
