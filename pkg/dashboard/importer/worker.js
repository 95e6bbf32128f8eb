// The web worker that reads an imported file. It runs the importer, a Go program, which defines
// the function importFile. Go's wasm_exec.js comes before this text, in the same script.

let started;

async function start(program) {
  const go = new Go();
  const { importObject } = go;
  go.run(await WebAssembly.instantiate(program, importObject)); // never resolves
}

onmessage = async ({ data: { program, file, request } }) => {
  started ??= start(program);
  await started;
  postMessage({ reply: importFile(request, file, (read, rejects) => postMessage({ read, rejects })) });
};
