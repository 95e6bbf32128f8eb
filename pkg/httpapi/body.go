package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"sluice/pkg/record"
)

const (
	maxBodyBytes  = 256 << 10 // for one record, or for one element of a batch
	maxBatchBytes = 1 << 20
	maxAdminBytes = 16 << 10
)

// readBody reads the body and decompresses it if needed. The body may have at most limit bytes,
// both before and after decompression.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	compressed, err := contentCoding(r.Header)
	if err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, payloadTooLarge("the body", limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	switch {
	case err != nil:
		return nil, unreadable(err, limit)
	case compressed:
		return gunzip(body, limit)
	case isGzip(body):
		return nil, badRequest("malformed_gzip", "the body is compressed with gzip; send it with Content-Encoding: gzip")
	}
	return body, nil
}

func unreadable(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return payloadTooLarge("the body", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{status: http.StatusRequestTimeout, code: "request_timeout", cause: err,
			detail: "the body did not arrive in time, so nothing was done; send it again without pauses"}
	}
	return &apiError{status: http.StatusBadRequest, code: "incomplete_body", cause: err,
		detail: "the body ended early or its chunks are malformed, so nothing was done; send the whole body again"}
}

// payloadTooLarge returns a 413 that says which part of the request exceeds limit bytes.
func payloadTooLarge(what string, limit int64) error {
	return &apiError{status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		detail: fmt.Sprintf("%s is larger than %d bytes; send less in one request", what, limit)}
}

func checkContentType(value string) error {
	if value == "application/json" {
		return nil // nearly all clients send exactly this
	}
	mediaType, params, err := mime.ParseMediaType(value)
	charset := params["charset"]
	if err != nil || mediaType != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &apiError{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
			detail: fmt.Sprintf("the body must be sent as Content-Type: application/json in UTF-8, not %q", record.Shorten(value))}
	}
	return nil
}
