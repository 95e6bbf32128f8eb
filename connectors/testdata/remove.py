"""Deletes the entities with the ids in the arguments, with the destination of dlt."""

import sys

import dlt
from sluice import sluice_destination


@dlt.resource(name="entity", primary_key="id", columns={"gone": {"data_type": "bool", "hard_delete": True}})
def entity():
    yield [{"id": id, "gone": True} for id in sys.argv[1:]] + [{"id": "kept", "gone": False}]


print(dlt.pipeline("removal", destination=sluice_destination).run(entity()))
