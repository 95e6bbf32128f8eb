"""Prints, as JSON, the permissions that the CloudFormation handlers of resource types
need, according to the resource type schemas in cfn-lint.

Usage: permissions.py TYPE..., with the Python of cfn-lint.
"""

import json
import pathlib
import sys

import cfnlint

schemas = pathlib.Path(cfnlint.__file__).parent / "data" / "schemas" / "resources"
permissions = {name: set() for name in sys.argv[1:]}
for path in schemas.glob("*.json"):
    text = path.read_text()
    if not any(f'"{name}"' in text for name in permissions):
        continue
    schema = json.loads(text)
    if schema.get("typeName") in permissions:
        for operation in ("create", "read", "update", "delete"):
            permissions[schema["typeName"]].update(schema.get("handlers", {}).get(operation, {}).get("permissions", []))
json.dump({name: sorted(p) for name, p in permissions.items()}, sys.stdout)
