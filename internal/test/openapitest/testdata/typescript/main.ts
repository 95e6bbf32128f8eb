// Uses the types that openapi-typescript generates, with openapi-fetch.
import createClient from 'openapi-fetch';
import type { paths } from './api.js';

const client = createClient<paths>({ baseUrl: process.argv[2]! });
const attributes = { n: 1.5 };
const made = await client.POST('/create_entity', { body: { id: 'made-by-typescript', attributes } });
if (!made.data) throw new Error(JSON.stringify(made.error));
const got = await client.GET('/entity/{id}', { params: { path: { id: 'made-by-typescript' } } });
if (got.data?.attributes['n'] !== attributes.n) throw new Error(JSON.stringify(got));
const ids: string[] = [];
let cursor: string | null | undefined;
do {
  const page = await client.GET('/entity', { params: { query: { limit: 2, ...(cursor ? { cursor } : {}) } } });
  if (!page.data) throw new Error(JSON.stringify(page.error));
  ids.push(...page.data.data.map((entity) => entity.id));
  cursor = page.data.next_cursor;
} while (cursor);
console.log(JSON.stringify(ids));
