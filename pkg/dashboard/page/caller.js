// The caller, which is the sender of the page's requests.

/** The caller as GET /usage returns it: { workspace, key_id, scopes }. */
let caller = { workspace: '', key_id: null, scopes: [] };

/** Shows, in the header of the page, the caller that GET /usage returned. */
function showCaller(usage) {
  caller = usage.caller;
  const fact = (name, ...values) => make('div', {}, make('dt', {}, name), make('dd', {}, ...values));
  const id = (text, what) => [make('code', {}, stored(text)), copyButton(text, what)];
  $('about-summary').replaceChildren('Workspace ', stored(caller.workspace));
  $('caller').replaceChildren(
    fact('Your address', ...id(usage.address, 'your address')),
    caller.key_id === null ? fact('API key', 'keys are off') : fact('API key', ...id(caller.key_id, 'the id of your key')),
    fact('Scopes', caller.scopes.join(', ')));
}

/** Returns whether the caller may read records and export jobs. */
const mayRead = () => caller.scopes.includes('export');

/** Returns whether the caller may see the usage of other addresses and keys. */
const mayWatch = () => caller.scopes.includes('operator');

/** Returns whether the caller may store records. */
const mayImport = () => caller.scopes.includes('import');

/** Returns whether the caller may erase an entity with its events. */
const mayErase = () => mayImport() && caller.scopes.includes('erase');

/** Returns a curl command for a request by the caller. */
const commandOf = (path, body) => curlCommand(path, { body, keyed: caller.key_id !== null });

/**
 * Creates an element with a curl command for a request by the caller, and a button
 * that copies the command.
 */
const apiCommand = (path, body) => commandLine(commandOf(path, body));
