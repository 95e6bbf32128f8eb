"""Runs the SQL statements of a Markdown file and prints the rows of each as JSON."""

import json
import re
import sys

import duckdb

with open(sys.argv[1], encoding="utf-8") as page:
    for block in re.findall(r"^```sql\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL):
        for query in re.findall(r".+?;$", block, re.MULTILINE | re.DOTALL):
            result = duckdb.execute(query)
            print(json.dumps(result.fetchall() if result.description else [], default=str))
