"""Uses the client that openapi-python-client generates."""

import json
import sys

from sluice_client import Client
from sluice_client.api.export import get_entity, list_entity
from sluice_client.api.import_ import create_entity
from sluice_client.models import Entity, EntityPage, ListEntityConditions, NewEntity

client = Client(base_url=sys.argv[1])
attributes = {"n": 12345678901234567890}
made = create_entity.sync(client=client, body=NewEntity.from_dict({"id": "made-by-python", "attributes": attributes}))
assert isinstance(made, Entity), made
got = get_entity.sync("made-by-python", client=client)
assert isinstance(got, Entity) and got.attributes.to_dict() == attributes, got
for conditions in (
    {"attributes.email": "ada+1@example.com"},
    {"attributes.email[prefix]": "ada+"},
    {"attributes.born[gte]": "1815", "attributes.born[lt]": "1816"},
):
    found = list_entity.sync(client=client, type_="person", conditions=ListEntityConditions.from_dict(conditions))
    assert isinstance(found, EntityPage) and [e.id for e in found.data] == ["found"], found
ids, cursor = [], None
while True:
    page = list_entity.sync(client=client, limit=2, **({"cursor": cursor} if cursor else {}))
    assert isinstance(page, EntityPage), page
    ids += [entity.id for entity in page.data]
    cursor = page.next_cursor
    if not cursor:
        break
print(json.dumps(ids))
