// Writes src/api.ts, the types of the schemas in openapi.yaml: generate.mjs OPENAPI.YAML > api.ts.

import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const date = ts.factory.createTypeReferenceNode("Date");
const nodes = await openapiTS(pathToFileURL(process.argv[2]), {
  defaultNonNullable: false,
  transform: ({ format }) => (format === "date-time" ? date : undefined),
});
const components = nodes.find((node) => node.name?.text === "components");
const schemas = components.members.filter((member) => member.name.text === "schemas");
const { modifiers, name } = components;
const only = ts.factory.updateInterfaceDeclaration(components, modifiers, name, undefined, undefined, schemas);
process.stdout.write(`// Written by generate.mjs from openapi.yaml.\n${astToString(only)}`);
