"""Copies Sluice's entities and events into sluice.duckdb; later runs, what has changed."""

import dlt
from sluice import sluice

pipeline = dlt.pipeline("sluice", destination="duckdb", dataset_name="copy")
print(pipeline.run(sluice()))
