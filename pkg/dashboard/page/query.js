// The page's URL. Its query describes what the page shows, so a link, a reload and the Back
// button lead to the same view. These are the parameters:
//
//   find                                     the text that was searched for
//   resource, order, type, entity_id, from, to   which records are listed
//   preset                                   the button that chose from and to
//   page                                     number of the page of the list, if it is not 1
//   id                                       the record that is open
//   address                                  the IP address, or key:<id>, whose usage is shown
//
// The cursors of a list are in the history entry and not in the query, because they
// belong to one walk through the list.

const queryNames = ['find', 'resource', 'order', 'type', 'entity_id', 'from', 'to', 'preset', 'page', 'id', 'address'];

/** Returns the parameters in the URL as an object. */
function readQuery() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(queryNames.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

/** Returns the URL with a query, relative to the page. */
function queryLink(query) {
  return withQuery(location.pathname, query);
}

/** Moves to a query with a new history entry, so that Back returns to the current one. */
function moveTo(query, state = null) {
  history.pushState(state, '', queryLink(query));
}

/** Changes some parameters of the URL without a new history entry. */
function amendQuery(change) {
  history.replaceState(history.state, '', queryLink({ ...readQuery(), ...change }));
}
