package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

type response struct {
	status   int
	header   http.Header // in addition to the headers that every response has; may be nil
	body     any         // encoded as JSON; nil if raw or download is set or there is no body
	raw      []byte
	file     *file    // whose text raw is; nil if raw is no file
	download *os.File // the body, which may be too large for memory; nil if there is another
	records  int      // number of records in the body; an export is charged for each of them
}

// encode appends out.body to buffer as JSON, and sets out.raw to that JSON. It does nothing if
// out.body is nil.
func (out *response) encode(buffer *bytes.Buffer) error {
	if out.body == nil {
		return nil
	}
	text, err := appendJSON(buffer.AvailableBuffer(), out.body)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	buffer.Write(append(text, '\n'))
	out.raw = buffer.Bytes()
	return nil
}

type appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// appendJSON appends body to b as JSON. Records encode themselves, so that their attributes
// are kept byte for byte.
func appendJSON(b []byte, body any) ([]byte, error) {
	if body, ok := body.(appender); ok {
		return body.AppendJSON(b)
	}
	text, err := json.Marshal(body, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

type page[T any] struct {
	data        []T
	next        *string      // cursor of the next page; nil on the last page
	syncedUntil *record.Time // nil unless this is a list of changes in ascending order
	index       *api.EntityIndex
}

// AppendJSON appends the page in the JSON form of api.List[T].
func (p page[T]) AppendJSON(b []byte) (_ []byte, err error) {
	b = append(b, `{"data":[`...)
	for i := range p.data {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, &p.data[i]); err != nil {
			return nil, err
		}
	}
	b = append(b, `],"next_cursor":`...)
	if b, err = appendJSON(b, p.next); err != nil {
		return nil, err
	}
	if p.syncedUntil != nil {
		b = append(b, `,"synced_until":"`...)
		b, _ = p.syncedUntil.AppendText(b) // never fails for a record.Time
		b = append(b, '"')
	}
	if p.index != nil {
		b = append(b, `,"index":`...)
		if b, err = appendJSON(b, p.index); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// listResponse returns a page of the list that p describes, with a cursor if more records follow. err
// is the error of the store.
func listResponse[T any](r *request, p *parameters, found record.Page[T], err error) (response, error) {
	return pageResponse(r, p, found, page[T]{}, err)
}

// pageResponse is like listResponse, and adds the records and the cursor to body.
func pageResponse[T any](r *request, p *parameters, found record.Page[T], body page[T], err error) (response, error) {
	switch {
	case errors.Is(err, record.ErrCursor):
		return response{}, badParameters(record.Fields{badCursor})
	case err != nil:
		return response{}, err
	}
	out := response{status: http.StatusOK, records: len(found.Records)}
	body.data = found.Records
	if found.Next == "" {
		out.body = body
		return out, nil
	}
	text, err := cursor{Route: r.route.Name, Workspace: r.workspace, Filters: p.filters.Encode(), Store: found.Next, SyncedUntil: p.syncedUntil}.encode()
	if err != nil {
		return response{}, err
	}
	body.next = &text
	out.body = body
	out.header = http.Header{"Link": {fmt.Sprintf("<%s?%s>; rel=\"next\"", requestPath(r.Request), r.queryWith("cursor", text))}}
	return out, nil
}

// queryWith returns the encoded query of r, with one parameter changed or added.
func (r *request) queryWith(name, value string) string {
	query := maps.Clone(r.query)
	query.Set(name, value)
	return query.Encode()
}

// requestPath returns the path that the client requested, including the stage prefix that the
// adapter removed from r.URL.
func requestPath(r *http.Request) string {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return u.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// createResponse returns 201 for a new record, and 200 for a record that was already stored with
// the same content.
func createResponse[T any](stored T, isNew bool, err error) (response, error) {
	return response{status: createdStatus(isNew), body: stored}, err
}

func createdStatus(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

// newID returns a UUIDv7 for a record that was sent without an id. Such ids sort by time of
// creation (RFC 9562, section 5.7).
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}
