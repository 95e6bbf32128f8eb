"""Prints, as JSON, what the resource type schemas in cfn-lint say about types: the
permissions that CloudFormation's handlers need, and the properties whose change replaces a
resource.

Usage: schemas.py TYPE..., with the Python of cfn-lint.
"""

import json
import pathlib
import sys

import cfnlint

schemas = {}
for path in (pathlib.Path(cfnlint.__file__).parent / "data" / "schemas" / "resources").glob("*.json"):
    text = path.read_text()
    if not any(f'"{name}"' in text for name in sys.argv[1:]):
        continue
    schema = json.loads(text)
    if schema.get("typeName") in sys.argv[1:]:
        handlers = schema.get("handlers", {})
        schemas[schema["typeName"]] = {
            "permissions": sorted({p for h in ("create", "read", "update", "delete") for p in handlers.get(h, {}).get("permissions", [])}),
            "createOnly": [
                p.removeprefix("/properties/")
                for p in schema.get("createOnlyProperties", []) + schema.get("conditionalCreateOnlyProperties", [])
            ],
        }
json.dump(schemas, sys.stdout)
