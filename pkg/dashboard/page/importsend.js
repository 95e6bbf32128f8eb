// Sends the records of a file in batches, one after the other, as fast as the limits allow.

const sendTries = 40; // tries of one batch; the pauses between them last at least 15 minutes in total

/** How the records of each resource are sent. */
const batchRoutes = {
  event: { path: 'create_events', member: 'events' },
  entity: { path: 'upsert_entities', member: 'entities' },
};

/**
 * Sends a batch until each record has a result. Calls onResult with each record and
 * its { status, problem }, and calls onFailure as insist does. Leaves other clients a
 * tenth of the limits. Waits for ready before each request; ready rejects to end
 * the batch. A request in progress is not aborted, because the service may have
 * stored its records. Rejects with an ApiError if the service denies access, or
 * still fails after many tries.
 */
async function sendBatch(resource, batch, sender) {
  const { ready, signal, onResult, onFailure } = sender;
  const { path, member } = batchRoutes[resource];
  let open = batch;
  const send = async () => {
    await ready();
    const text = `{"${member}":[${open.map((record) => record.json).join(',')}]}`;
    let answer;
    try {
      answer = await call('POST', path, { text });
    } catch (error) {
      if (!(error instanceof ApiError) || !error.results) throw error;
      answer = { data: error };
    }
    const { results } = answer.data;
    const fails = (i) => results[i].status >= 500 || results[i].status === 429;
    open.forEach((record, i) => fails(i) || onResult(record, results[i]));
    open = open.filter((_, i) => fails(i));
    if (open.length > 0) throw new ApiError({ status: 503, code: 'unavailable', detail: 'The service could not store some records' });
    return answer;
  };
  try {
    const { remaining = 1, reset = 0 } = await insist(send, onFailure, signal, sendTries);
    if (remaining < scarce) await sleep(Math.max(0, reset - (Date.now() + clockOffset)), signal);
  } catch (error) {
    if (!(error instanceof ApiError) || error.passing || error.status === 401 || error.status === 403) throw error;
    await refusedBatch(resource, open, error, sender);
  }
}

/** Sends the halves of a batch, to find the records that make the service reject all of it. */
async function refusedBatch(resource, batch, error, sender) {
  if (batch.length === 1) {
    sender.onResult(batch[0], { status: error.status, problem: { detail: error.message } });
    return;
  }
  const half = batch.length >> 1;
  await sendBatch(resource, batch.slice(0, half), sender);
  await sendBatch(resource, batch.slice(half), sender);
}
