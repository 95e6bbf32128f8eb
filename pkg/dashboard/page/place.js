// The page's address. Its query carries what the page shows, so that a link, a
// reload and the browser's Back button lead to the same view. The parameters:
//
//   kind, order, type, entity_id, from, to   which records are listed
//   id                                       the record that is open
//   address                                  whose usage is shown
//
// The place in a list is not in the query but in the entry of the history: it
// belongs to one walk through the list.

const placeNames = ['kind', 'order', 'type', 'entity_id', 'from', 'to', 'id', 'address'];

/** What the address says, as an object of the parameters that it has. */
function readPlace() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(placeNames.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
}

/** The reference to a place, relative to the page. */
function placeLink(place) {
  return withQuery(location.pathname, place);
}

/** Moves to a place in a way that Back undoes. state is for the entry of the history. */
function moveTo(place, state = null) {
  history.pushState(state, '', placeLink(place));
}

/** Changes some parameters of the address in place: Back does not undo it. */
function amendPlace(change) {
  history.replaceState(history.state, '', placeLink({ ...readPlace(), ...change }));
}
