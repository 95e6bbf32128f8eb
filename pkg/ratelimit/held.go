package ratelimit

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// SetRecords sets the number of records that the response costs. It is for
// handlers that Middleware.After runs, and has no effect in other handlers. If w
// wraps the original writer, w must have an Unwrap method, as
// http.ResponseController requires.
func SetRecords(w http.ResponseWriter, n int64) {
	switch w := w.(type) {
	case *heldResponse:
		w.records = n
	case interface{ Unwrap() http.ResponseWriter }:
		SetRecords(w.Unwrap(), n)
	}
}

// heldResponse is an http.ResponseWriter that buffers a response.
type heldResponse struct {
	header  http.Header
	status  int // 0 before WriteHeader
	body    bytes.Buffer
	records int64
}

// heldResponses keeps responses for reuse, because each list response would otherwise
// allocate a buffer of up to 150 KB.
var heldResponses = sync.Pool{New: func() any { return &heldResponse{header: make(http.Header)} }}

// maxPooledBody is the size, in bytes, of the largest buffer that is reused.
const maxPooledBody = 1 << 20

// free puts h into the pool, unless its buffer is too large.
func (h *heldResponse) free() {
	if h.body.Cap() > maxPooledBody {
		return
	}
	clear(h.header)
	h.body.Reset()
	h.status, h.records = 0, 0
	heldResponses.Put(h)
}

// Header implements http.ResponseWriter.
func (h *heldResponse) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter. It keeps only the first status, as
// net/http does, and ignores informational statuses (1xx).
func (h *heldResponse) WriteHeader(status int) {
	if h.status == 0 && status >= http.StatusOK {
		h.status = status
	}
}

// Write implements http.ResponseWriter. It never fails.
func (h *heldResponse) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

// writeTo writes the response to w. Header names keep their case. writeTo sets
// Content-Length, because without it net/http sends bodies over 2 KB in chunks.
func (h *heldResponse) writeTo(w http.ResponseWriter) {
	h.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), h.header)
	if h.body.Len() > 0 && len(w.Header()["Content-Length"]) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(h.body.Len()))
	}
	w.WriteHeader(h.status)
	if h.body.Len() > 0 { // some writers set Content-Type even on an empty write
		w.Write(h.body.Bytes()) //nolint:errcheck // the client may have disconnected
	}
}
