// Uses the types that openapi-typescript generates, with openapi-fetch.
import createClient from 'openapi-fetch';
import type { paths } from './api.js';

const client = createClient<paths>({
  baseUrl: process.argv[2]!,
  querySerializer: { object: { style: 'form', explode: true } }, // each condition is a parameter of its own
});
const attributes = { n: 1.5 };
const made = await client.POST('/create_entity', { body: { id: 'made-by-typescript', attributes } });
if (!made.data) throw new Error(JSON.stringify(made.error));
const got = await client.GET('/entity/{id}', { params: { path: { id: 'made-by-typescript' } } });
if (got.data?.attributes['n'] !== attributes.n) throw new Error(JSON.stringify(got));
const searches: Record<string, string>[] = [
  { 'attributes.email': 'ada+1@example.com' },
  { 'attributes.email[prefix]': 'ada+' },
  { 'attributes.born[gte]': '1815', 'attributes.born[lt]': '1816' },
];
for (const conditions of searches) {
  const found = await client.GET('/entity', { params: { query: { type: 'person', conditions } } });
  if (found.data?.data.map((entity) => entity.id).join() !== 'found') throw new Error(JSON.stringify(found));
}
const ids: string[] = [];
let cursor: string | null | undefined;
do {
  const page = await client.GET('/entity', { params: { query: { limit: 2, ...(cursor ? { cursor } : {}) } } });
  if (!page.data) throw new Error(JSON.stringify(page.error));
  ids.push(...page.data.data.map((entity) => entity.id));
  cursor = page.data.next_cursor;
} while (cursor);
console.log(JSON.stringify(ids));
