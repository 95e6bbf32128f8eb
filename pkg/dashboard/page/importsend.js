// Sends the records of a file in batches, one after the other, as fast as the limits allow.

const mostInBatch = 100;
const mostBatchBytes = 900_000; // of at most 1 MB
const sendTries = 40; // of one batch; the pauses between them last at least 15 minutes in total

/** How a kind of records is sent. */
const batchRoutes = {
  event: { path: 'create_events', member: 'events' },
  entity: { path: 'upsert_entities', member: 'entities' },
};

/** Divides records into batches. Each record is { row, json }. */
function* batches(records) {
  let batch = [], size = 0;
  for (const record of records) {
    const bytes = new TextEncoder().encode(record.json).length + 1;
    if (batch.length === mostInBatch || (batch.length > 0 && size + bytes > mostBatchBytes)) {
      yield batch;
      [batch, size] = [[], 0];
    }
    batch.push(record);
    size += bytes;
  }
  if (batch.length > 0) yield batch;
}

/**
 * Sends a batch until each record has a result, and returns the results in order:
 * { status, problem }. It leaves a tenth of the limits to others. Rejects with an
 * ApiError if the service does not take the batch after many tries.
 */
async function sendBatch(kind, batch, signal, onFailure) {
  const { path, member } = batchRoutes[kind];
  const results = new Array(batch.length);
  let open = batch.map((_, i) => i);
  const send = async () => {
    const text = `{"${member}":[${open.map((i) => batch[i].json).join(',')}]}`;
    let answer;
    try {
      answer = await call('POST', path, { text, signal });
    } catch (error) {
      if (!(error instanceof ApiError) || !error.results) throw error;
      answer = { data: error };
    }
    answer.data.results.forEach((result, n) => { results[open[n]] = result; });
    open = open.filter((i) => results[i].status >= 500 || results[i].status === 429);
    if (open.length > 0) throw new ApiError({ status: 503, code: 'unavailable', detail: 'The service could not store some records' });
    return answer;
  };
  try {
    const { remaining = 1, reset = 0 } = await insist(send, onFailure, signal, sendTries);
    if (remaining < scarce) await sleep(Math.max(0, reset - (Date.now() + clockOffset)));
  } catch (error) {
    if (!(error instanceof ApiError) || error.passing || error.status === 401 || error.status === 403) throw error;
    return refusedBatch(kind, batch, error, signal, onFailure);
  }
  return results;
}

/** Finds the records for which the service refuses a whole batch. */
async function refusedBatch(kind, batch, error, signal, onFailure) {
  if (batch.length === 1) return [{ status: error.status, problem: { detail: error.message } }];
  const half = batch.length >> 1;
  return [
    ...await sendBatch(kind, batch.slice(0, half), signal, onFailure),
    ...await sendBatch(kind, batch.slice(half), signal, onFailure),
  ];
}
