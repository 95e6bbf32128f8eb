// The view of indexes.

const indexPanel = new AdminPanel('indexes', (signal) => call('GET', 'entity_index', { signal }));

const IndexesView = () => html`<${AdminView} panel=${indexPanel} needs=${['admin']} command="sluice indexes add person email"><//>`;
