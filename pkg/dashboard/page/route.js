// The page's URL. Its query describes what the page shows, so a link, a reload and the Back
// button lead to the same view, under any stage or domain. These are the parameters:
//
//   view                                     the view, if it is not records
//   find                                     the text that was searched for
//   resource, order, dir, limit, type, entity_id, name, from, to, attributes.…   which records are listed
//   preset                                   the button that chose from and to
//   page                                     number of the page of the list, if it is not 1
//   id, of                                   the record that is open, and its resource if it is not that of the list
//   new, for                                 the resource of a record that is being created, and the entity of an event
//   address                                  the IP address, or key:<id>, whose usage is shown
//   identities, sort                         the period and the order of the list of those who use the most
//   id, new, workspace, by, thing            in a view of administration: what is open or being made, and the filters
//
// The cursors of a list are in the history entry and not in the query, because they
// belong to one walk through the list.

const queryNames = ['view', 'find', 'resource', 'order', 'dir', 'limit', 'type', 'entity_id', 'name', 'from', 'to', 'preset', 'page', 'id', 'of', 'new', 'for', 'address', 'identities', 'sort', 'workspace', 'by', 'thing'];
const attributePrefix = 'attributes.';

/** Returns the parameters in the URL as an object. */
function readQuery() {
  return Object.fromEntries([...new URLSearchParams(location.search)].filter(([name, value]) => value && (queryNames.includes(name) || name.startsWith(attributePrefix))));
}

/** Returns the URL with a query, relative to the page. */
const queryLink = (query) => withQuery(location.pathname, query);

/** Moves to a query with a new history entry, so that Back returns to the current one. */
function moveTo(query, state = null) {
  history.pushState(state, '', queryLink(query));
}

/** Changes some parameters of the URL without a new history entry. */
function amendQuery(change) {
  history.replaceState(history.state, '', queryLink({ ...readQuery(), ...change }));
}

/** A link within the page. A click does not load the page again; keep makes the list beside a record stay as it is. */
const Link = ({ query, keep = false, children, ...others }) => html`<a href=${queryLink(query)} data-query=${keep ? 'keep' : ''} ...${others}>${children}</a>`;

/** Follows links within the page, unless the click opens another tab. */
function followLinks(follow) {
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[data-query]');
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState(link.dataset.query === 'keep' ? { ...history.state, inside: true } : null, '', link.getAttribute('href'));
    follow();
  });
}
