"""Writes the blocking client into a folder, from the client for asyncio: generate.py FOLDER."""

import re
import subprocess
import sys
from pathlib import Path

FROM = Path(__file__).parent / "src/sluice_client"
FILES = {"_async.py": "_client.py", "_asyncio.py": "_blocking.py"}
WORDS = {
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncEvent": "Event",
    "AsyncRecords": "Records",
    "Asyncio": "Blocking",
    "StopAsyncIteration": "StopIteration",
    "Tasks": "Threads",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "_asyncio": "_blocking",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aiter_raw": "iter_raw",
}

CONFIG = Path(__file__).parent / "pyproject.toml"
FORMAT = [sys.executable, "-m", "ruff", "format", "--quiet", "--config", CONFIG]

for source, target in FILES.items():
    text = re.sub(r"\b(async|await) ", "", (FROM / source).read_text())
    text = re.sub(r"\w+", lambda m: WORDS.get(m[0], m[0]), text)
    path = Path(sys.argv[1]) / target
    path.write_text(f"# Written by generate.py from {source}.\n{text}")
    subprocess.run([*FORMAT, path], check=True)  # noqa: S603
