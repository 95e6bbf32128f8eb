package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"sluice/pkg/record"
)

// response is what an action returns.
type response struct {
	status  int
	header  http.Header // in addition to the headers of every response; may be nil
	body    any         // encoded as JSON; nil for none
	raw     []byte      // the body as bytes, instead of body
	records int         // records in the body, which an export is charged for
}

// encode sets out.raw to the JSON of out.body, in buffer. It does nothing if
// out has no body to encode.
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

// appender is a record that writes its own JSON.
type appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// appendJSON appends the JSON of a response's body to b. Records write their
// own; their attributes come out byte for byte as they were stored.
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
	next        *string      // cursor of the next page; nil on the last one
	syncedUntil *record.Time // of a walk; nil for other lists
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
		b, _ = p.syncedUntil.AppendText(b) // it never fails
		b = append(b, '"')
	}
	return append(b, '}'), nil
}

// listResponse returns the response that holds a page of a list. If more
// records follow, next is where the following page begins; its SyncedUntil is that
// of the page too.
func listResponse[T any](r *request, records []T, more bool, next cursor) (response, error) {
	out := response{status: http.StatusOK, records: len(records)}
	body := page[T]{data: records, syncedUntil: next.SyncedUntil}
	if !more {
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
	out.header = http.Header{"Link": {fmt.Sprintf("<%s>; rel=\"next\"", nextURI(r.Request, text))}}
	return out, nil
}

// nextURI returns the URI of the next page, relative to the service's host.
func nextURI(r *http.Request, cursor string) string {
	query := r.URL.Query()
	query.Set("cursor", cursor)
	return requestPath(r) + "?" + query.Encode()
}

// requestPath returns the path that the client requested, with the prefix that a
// gateway may have removed from r.URL.
func requestPath(r *http.Request) string {
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return u.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// createResponse returns the response to a create: 201 with a new record, 200 with the
// one that was there.
func createResponse[T any](stored T, isNew bool, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	return response{status: createdStatus(isNew), body: stored}, nil
}

func createdStatus(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

// newID returns the id of a record whose client gave none: a UUIDv7, so that ids
// sort by creation (RFC 9562, section 5.7).
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}
