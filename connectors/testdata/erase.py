"""Loads entity.ndjson and event.ndjson, runs the SQL of a Markdown file, and prints the ids of the events that are left."""

import json
import re
import sys

import duckdb

OPTIONS = "format = 'newline_delimited'"

duckdb.execute(f"""CREATE TABLE entity AS SELECT id, max(erased_at) AS erased_at
    FROM read_json('entity.ndjson', {OPTIONS}, columns = {{id: 'VARCHAR', erased_at: 'TIMESTAMPTZ'}}) GROUP BY id""")
duckdb.execute(f"""CREATE TABLE event AS FROM read_json('event.ndjson', {OPTIONS},
    columns = {{id: 'VARCHAR', entity_id: 'VARCHAR', created_at: 'TIMESTAMPTZ'}})""")
with open(sys.argv[1], encoding="utf-8") as page:
    for statement in re.findall(r"^```sql\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL):
        duckdb.execute(statement)
print(json.dumps([row[0] for row in duckdb.sql("SELECT id FROM event").fetchall()]))
