"""Runs the SQL blocks of a Markdown file and prints the rows of each block as JSON."""

import json
import re
import sys

import duckdb

with open(sys.argv[1], encoding="utf-8") as page:
    for query in re.findall(r"^```sql\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL):
        result = duckdb.execute(query)
        print(json.dumps(result.fetchall() if result.description else [], default=str))
