// The web worker that reads an imported file. It runs the importer, a Go program, which defines
// the function importFile. Go's wasm_exec.js comes before this text, in the same script.

// The slice that was read last. Go copies it, and so keeps no reference to the many arrays that
// FileReaderSync makes.
const slice = new Uint8Array(1 << 20);
const sliceReader = new FileReaderSync();

/** Reads up to slice.length bytes of a file into slice, and returns how many. */
function readSlice(file, start, length) {
  const read = new Uint8Array(sliceReader.readAsArrayBuffer(file.slice(start, start + Math.min(length, slice.length))));
  slice.set(read);
  return read.length;
}

let started;

async function start(program) {
  Object.assign(globalThis, { readSlice, slice });
  const go = new Go();
  go.run(await WebAssembly.instantiate(program, go.importObject)); // never resolves
}

onmessage = async ({ data: { program, file, request } }) => {
  started ??= start(program);
  await started;
  postMessage({ reply: importFile(request, file, (read, rejects) => postMessage({ read, rejects })) });
};
