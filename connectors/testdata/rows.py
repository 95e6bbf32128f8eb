"""Prints the rows of the tables entity and event of a DuckDB file as JSON."""

import json
import sys

import duckdb

TIME = "strftime({0} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ') AS {0}"
COLUMNS = {
    "entity": ["id", "type", "attributes", "revision", TIME.format("created_at"), TIME.format("updated_at")],
    "event": ["id", "name", "entity_id", TIME.format("occurred_at"), "attributes", TIME.format("created_at")],
}

with duckdb.connect(sys.argv[1], read_only=True) as database:
    for table, columns in COLUMNS.items():
        result = database.execute(f"SELECT {', '.join(columns)} FROM copy.{table}")
        names = [column[0] for column in result.description]
        for values in result.fetchall():
            row = dict(zip(names, values))
            row["attributes"] = json.loads(row["attributes"])
            print(json.dumps({"stream": table, "record": row}))
