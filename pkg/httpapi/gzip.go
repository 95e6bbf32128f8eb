package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"sluice/pkg/record"
)

// minCompressed is a size in bytes. A smaller body fits into one packet without compression.
const minCompressed = 1400

// contentCoding reports whether a body is compressed with gzip. Any coding other than gzip
// and identity is an error.
func contentCoding(header http.Header) (compressed bool, err error) {
	value := strings.Join(header.Values("Content-Encoding"), ", ")
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip": // x-gzip is an alias (RFC 9110, section 8.4.1.3)
		return true, nil
	}
	return false, &apiError{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", header: http.Header{"Accept-Encoding": {"gzip"}},
		detail: fmt.Sprintf("the body must be compressed once with gzip or not at all, not with Content-Encoding: %s", record.Shorten(value))}
}

// gunzip fails as soon as the result exceeds limit bytes.
func gunzip(body []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, malformedGzip(err)
	}
	text, err := io.ReadAll(io.LimitReader(z, limit+1))
	switch {
	case int64(len(text)) > limit:
		return nil, payloadTooLarge("the decompressed body", limit)
	case err != nil:
		return nil, malformedGzip(err)
	case isGzip(text):
		return nil, badRequest("malformed_gzip", "the body is compressed twice; compress it once")
	}
	return text, nil
}

func malformedGzip(err error) error {
	what := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		what = "the compressed data ends early, or other bytes follow it"
	}
	return &apiError{status: http.StatusBadRequest, code: "malformed_gzip", cause: err,
		detail: fmt.Sprintf("Content-Encoding says gzip, but the body is not valid gzip (%s), so nothing was done; compress it once and send all of it", what)}
}

// isGzip looks for gzip's magic number (RFC 1952, section 2.3.1). JSON never begins with it.
func isGzip(b []byte) bool { return bytes.HasPrefix(b, []byte("\x1f\x8b")) }

// compress compresses the response body if the client accepts gzip and the body has at least
// minCompressed bytes, unless it is itself a gzip file. The compressed body follows the plain one
// in r.buffer, unless it is a file.
func (out *response) compress(r *request) error {
	if out.header == nil {
		out.header = make(http.Header)
	}
	out.header.Add("Vary", "Accept-Encoding")
	if len(out.raw) < minCompressed || isGzip(out.raw) || !acceptsGzip(r.Header) {
		return nil
	}
	out.header.Set("Content-Encoding", "gzip")
	if out.file != nil {
		out.raw = out.file.zipped()
		return nil
	}
	start := r.buffer.Len()
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(r.buffer)
	if _, err := z.Write(out.raw); err != nil {
		return fmt.Errorf("compress response: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compress response: %w", err)
	}
	out.raw = r.buffer.Bytes()[start:]
	return nil
}

// file is a response body that never changes.
type file struct {
	text   func() []byte
	etag   func() string
	zipped func() []byte
}

// newFile returns a file whose compressed form and ETag are computed when first needed, so that
// they do not delay the start of a function. The ETag is weak, because it stands for both forms.
func newFile(text func() []byte) *file {
	return &file{
		text: text,
		etag: sync.OnceValue(func() string {
			sum := sha256.Sum256(text())
			return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
		}),
		zipped: sync.OnceValue(func() []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails only if the level is invalid
			z.Write(text())                                       //nolint:errcheck // a buffer
			z.Close()                                             //nolint:errcheck // a buffer
			return b.Bytes()
		}),
	}
}

// Gzip writers are reused because each allocates about 1 MB.
var gzipWriters = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only if the level is invalid
	return z
}}

// acceptsGzip reports whether Accept-Encoding allows gzip and does not prefer the uncompressed
// response (RFC 9110, section 12.5.3).
func acceptsGzip(header http.Header) bool {
	weights := make(map[string]float64)
	for entry := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		coding, parameter, _ := strings.Cut(entry, ";")
		weights[strings.ToLower(strings.TrimSpace(coding))] = weight(parameter)
	}
	for _, coding := range []string{"gzip", "x-gzip", "*"} {
		if q, ok := weights[coding]; ok {
			return q > 0 && q >= weights["identity"]
		}
	}
	return false
}

// weight parses the parameter q, a number from 0 to 1. It returns 1 if q is absent, and 0 if it
// is invalid.
func weight(parameter string) float64 {
	if strings.TrimSpace(parameter) == "" {
		return 1
	}
	name, value, _ := strings.Cut(parameter, "=")
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !strings.EqualFold(strings.TrimSpace(name), "q") || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}
