// Writes src/api.ts, the types of the schemas in openapi.yaml that the client uses:
// generate.mjs OPENAPI.YAML > api.ts.

import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const used = ["Entity", "Tombstone", "FilteredEntity", "NewEntity", "EntityChange", "Event", "NewEvent"];
used.push("ExportJob", "ErasureJob", "EntityIndex", "FieldError");

const date = ts.factory.createTypeReferenceNode("Date");
const nodes = await openapiTS(pathToFileURL(process.argv[2]), {
  defaultNonNullable: false,
  transform: ({ format }) => (format === "date-time" ? date : undefined),
});
const named = (members, name) => members.find((member) => member.name?.text === name);
const components = named(nodes, "components");
const schemas = named(components.members, "schemas");
for (const name of used) {
  for (const [, other] of astToString(named(schemas.type.members, name)).matchAll(/\["schemas"\]\["(\w+)"\]/g)) {
    if (!used.includes(other)) used.push(other);
  }
}
const members = schemas.type.members.filter((member) => used.includes(member.name.text));
const kept = ts.factory.updatePropertySignature(
  schemas,
  schemas.modifiers,
  schemas.name,
  schemas.questionToken,
  ts.factory.createTypeLiteralNode(members),
);
const only = ts.factory.updateInterfaceDeclaration(
  components,
  components.modifiers,
  components.name,
  undefined,
  undefined,
  [kept],
);
process.stdout.write(`// Written by generate.mjs from openapi.yaml.\n${astToString(only)}`);
