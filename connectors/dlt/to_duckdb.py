"""Copies the entities and events of Sluice to sluice.duckdb. Later runs copy only changes."""

import dlt
from sluice import drop_erased, sluice

pipeline = dlt.pipeline("sluice", destination="duckdb", dataset_name="copy")
print(pipeline.run(sluice()))
drop_erased(pipeline)
