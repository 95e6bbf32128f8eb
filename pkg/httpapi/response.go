package httpapi

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"sluice/pkg/record"
)

// response is the result of an action.
type response struct {
	status  int
	header  http.Header // additional headers; may be nil
	body    any         // value to encode as JSON; nil if raw is set or the response has no body
	raw     []byte      // the encoded body
	records int         // number of records in the body; an export is charged for them
}

// encode encodes out.body as JSON into buffer and sets out.raw to the result. It does
// nothing if out.body is nil.
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

// appender is a value that appends its own JSON.
type appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// appendJSON appends the JSON of body to b. Records append their own JSON, so their
// attributes keep every byte.
func appendJSON(b []byte, body any) ([]byte, error) {
	if body, ok := body.(appender); ok {
		return body.AppendJSON(b)
	}
	text, err := json.Marshal(body, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

// page is one page of a list.
type page[T any] struct {
	data        []T
	next        *string      // cursor of the next page; nil on the last page
	syncedUntil *record.Time // synced_until of the page; nil if the list is not incremental
}

// AppendJSON appends the JSON of api.List[T].
func (p page[T]) AppendJSON(b []byte) (_ []byte, err error) {
	b = append(b, `{"data":[`...)
	for i, record := range p.data {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, record); err != nil {
			return nil, err
		}
	}
	b = append(b, `],"next_cursor":`...)
	if b, err = appendJSON(b, p.next); err != nil {
		return nil, err
	}
	if p.syncedUntil != nil {
		b = append(b, `,"synced_until":"`...)
		b, _ = p.syncedUntil.AppendText(b) // AppendText of a record.Time never returns an error
		b = append(b, '"')
	}
	return append(b, '}'), nil
}

// listResponse returns the response with a page of a list, whose synced_until is that of next.
// If others follow, next is the cursor that leads to them.
func listResponse[T any](r *request, found record.Page[T], next cursor, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	out := response{status: http.StatusOK, records: len(found.Records)}
	body := page[T]{data: found.Records, syncedUntil: next.SyncedUntil}
	if !found.More {
		out.body = body
		return out, nil
	}
	next.Route, next.Workspace = r.route.Name, r.workspace
	text, err := next.encode()
	if err != nil {
		return response{}, err
	}
	body.next = &text
	out.body = body
	out.header = http.Header{"Link": {fmt.Sprintf("<%s?%s>; rel=\"next\"", requestPath(r.Request), r.queryWith("cursor", text))}}
	return out, nil
}

// queryWith returns the query of r with another value of one parameter.
func (r *request) queryWith(name, value string) string {
	query := maps.Clone(r.query)
	query.Set(name, value)
	return query.Encode()
}

// requestPath returns the path that the client requested, including a stage prefix
// that the adapter has removed from r.URL.
func requestPath(r *http.Request) string {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return u.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// createResponse returns the response to a create: 201 for a new record, 200 for a
// stored record with the same content.
func createResponse[T any](stored T, isNew bool, err error) (response, error) {
	return response{status: createdStatus(isNew), body: stored}, err
}

func createdStatus(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

// newID returns a UUIDv7. It is the id of a new record that the client sent without an
// id. These ids sort by creation time (RFC 9562, section 5.7).
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}
