package ratelimit

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// SetRecords reports the number of records in a response that After holds back,
// which may be behind writers with an Unwrap method, as for
// http.ResponseController. It does nothing for other responses.
func SetRecords(w http.ResponseWriter, n int64) {
	switch w := w.(type) {
	case *heldResponse:
		w.records = n
	case interface{ Unwrap() http.ResponseWriter }:
		SetRecords(w.Unwrap(), n)
	}
}

// heldResponse is a response that has not been sent yet.
type heldResponse struct {
	header  http.Header
	status  int // 0 until WriteHeader
	body    bytes.Buffer
	records int64
}

// heldResponses keeps responses for reuse, as a list needs up to 150 KB.
var heldResponses = sync.Pool{New: func() any { return &heldResponse{header: make(http.Header)} }}

// maxPooledBody is the size, in bytes, of the largest buffer that is reused.
const maxPooledBody = 1 << 20

// free makes h available for reuse.
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

// WriteHeader implements http.ResponseWriter. The first status counts, as in
// net/http; informational ones are dropped.
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

// writeTo writes the response to w. Header names keep their case. It sets
// Content-Length, without which net/http sends bodies over 2 KB in chunks.
func (h *heldResponse) writeTo(w http.ResponseWriter) {
	h.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), h.header)
	if h.body.Len() > 0 && len(w.Header()["Content-Length"]) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(h.body.Len()))
	}
	w.WriteHeader(h.status)
	if h.body.Len() > 0 { // some writers set a Content-Type even if a write is empty
		w.Write(h.body.Bytes()) //nolint:errcheck // the client may have gone
	}
}
