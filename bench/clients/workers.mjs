// Runs a JavaScript client for the benchmark: workers.mjs CLIENT TASK URL SHARE MODULE < key > result.
//
// CLIENT is typescript, whose MODULE is the client, or p-retry (fetch with the package p-retry, which
// is MODULE). Tasks, workers and the result are those of workers.py.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

const workers = 4;
const [name, task, url, share, path] = process.argv.slice(2);
const key = readFileSync(0, "utf8").trim();
const module = await import(pathToFileURL(path));
const tries = [];

const drafts = (size, number) =>
  Array.from({ length: size }, (_, i) => ({
    id: `e-${number}-${i}`,
    name: "n",
    entity_id: `c-${i % 10}`,
    attributes: { n: i, total: i + 0.5 },
  }));

async function each(calls, one) {
  const left = Array(calls).keys();
  const work = async () => {
    for (const i of left) await one(i);
  };
  await Promise.all(Array.from({ length: workers }, work));
}

function count(file) {
  const lines = gunzipSync(file).toString().trimEnd().split("\n");
  return lines.filter((line) => JSON.parse(line).id).length;
}

async function timed(events, create, exported) {
  const began = performance.now();
  await each(events / 100, (i) => create(drafts(100, i)));
  const imported = performance.now();
  const found = count(Buffer.from(await exported()));
  if (found !== events) throw new Error(`the file has ${found} events`);
  return { import: (events / (imported - began)) * 1000, export: (events / (performance.now() - imported)) * 1000 };
}

async function typescript() {
  const onTry = ({ route, status }) => tries.push({ route, status, at: Date.now() / 1000 });
  const client = new module.Client(url, { key, share: Number(share), onTry });
  const create = async (events) => {
    const failed = (await client.createEvents(events)).find(({ error }) => error);
    if (failed) throw failed.error;
  };
  if (task === "pace") {
    await client.createEntity({ id: "one" });
    await each(2000, () => client.getEntity("one"));
    await each(500, (i) => create(drafts(10, i)));
    return {};
  }
  return timed(100_000, create, async () => {
    const [job] = await client.createExportJob("event");
    await client.waitForExportJob(job.id);
    return new Response(client.downloadExport(job.id)).arrayBuffer();
  });
}

async function retried() {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const call = (path, body) =>
    module.default(
      async () => {
        const response = await fetch(url + path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
        if (response.ok) return response.json();
        tries.push({ route: "", status: response.status, at: Date.now() / 1000 });
        throw new Error(`status ${response.status}`);
      },
      { retries: 20, minTimeout: 200, randomize: true },
    );
  return timed(
    100_000,
    (events) => call("/create_events", { events }),
    async () => {
      let job = await call("/create_export_job", { resource: "event", format: "ndjson" });
      while (job.status !== "succeeded") {
        await new Promise((resolve) => setTimeout(resolve, 100));
        job = await call(`/export_job/${job.id}`);
      }
      return (await fetch(job.download_url)).arrayBuffer();
    },
  );
}

const result = await (name === "p-retry" ? retried() : typescript());
const { user, system } = process.cpuUsage();
writeFileSync(1, JSON.stringify({ ...result, tries, cpu: (user + system) / 1e6 }));
