// Reads an imported file by the rules of package importfile. A web worker runs that package as
// WebAssembly, so the page stays responsive and the rules are those of "sluice import".

/** An error that ends the reading of a file. Its message is for the user. */
class FileError extends Error {}

// A browser starts a worker only from a URL of a Trusted Types policy. The name of the policy can
// be used once, so no other script can start another worker.
const workerURL = (() => {
  const { worker } = $('main').dataset;
  return globalThis.trustedTypes?.createPolicy('importer', { createScriptURL: () => worker }).createScriptURL('') ?? worker;
})();

/** Whether this build of the page can import files. */
const canImport = Boolean($('main').dataset.worker);

let program; // resolves to the compiled importer, which most visits do not need

async function loadProgram() {
  const { body, ok, status } = await fetch($('main').dataset.program);
  if (!ok) throw new Error(`status ${status}`);
  const unpacked = body.pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compileStreaming(new Response(unpacked, { headers: { 'Content-Type': 'application/wasm' } }));
}

/** A file and the worker that reads it. */
class ImportFile {
  #worker; #file; #last = Promise.resolve(); #abort = () => {};

  constructor(file) { this.#file = file; }

  /** Ends the worker and rejects the request in progress. The next request starts another worker. */
  stop() {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#abort(new FileError('Reading the file was cancelled.'));
  }

  /**
   * Sends a request to the importer when earlier requests have ended, and resolves
   * to its reply. While the importer reads the file, onRead receives how many bytes
   * it has read, and the rows that it has rejected since. Rejects with a FileError.
   * If the signal is aborted, the worker ends.
   */
  ask(request, onRead = () => {}, signal) {
    const reply = this.#last.then(() => this.#ask(request, onRead, signal));
    this.#last = reply.catch(() => {});
    return reply;
  }

  async #ask(request, onRead, signal) {
    let compiled;
    try {
      compiled = await (program ??= loadProgram());
    } catch {
      program = undefined;
      throw new FileError('The part of the page that reads files could not be loaded. Choose the file again.');
    }
    const worker = this.#worker ??= new Worker(workerURL);
    const stop = () => this.stop();
    signal?.addEventListener('abort', stop);
    try {
      const reply = await new Promise((resolve, reject) => {
        this.#abort = reject;
        worker.onmessage = ({ data: { read, rejects, reply } }) => (reply === undefined ? onRead(read, JSON.parse(rejects)) : resolve(JSON.parse(reply)));
        worker.onerror = (event) => {
          event.preventDefault();
          this.stop();
          reject(new FileError(`The part of the page that reads files has failed: ${event.message || 'it could not be started'}. Choose the file again.`));
        };
        worker.postMessage({ program: compiled, file: this.#file, request: JSON.stringify(request) });
      });
      if (reply.error) throw new FileError(sentence(reply.error));
      return reply;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Yields the records of the file in batches as the importer returns them. It reads one batch ahead. */
  async* batches(description) {
    await this.ask({ do: 'open', description });
    for (let next = this.ask({ do: 'next' }), last = false; !last;) {
      const batch = await next;
      ({ last } = batch);
      if (!last) {
        next = this.ask({ do: 'next' });
        next.catch(() => {}); // reported when it is awaited
      }
      yield batch;
      if (batch.failure) throw new FileError(sentence(batch.failure));
    }
  }
}
