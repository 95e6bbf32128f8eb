package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
)

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Bodies that are not text are base64-encoded in API Gateway events.
func TestCompressedBodiesGoInAndOutAsBase64(t *testing.T) {
	s := newService(t)
	for i := range 10 {
		ev := lambdatest.Sample(t, "create-entity")
		body := compressed(t, fmt.Sprintf(`{"id":"e-%d","attributes":{"a":%q}}`, i, strings.Repeat("word ", 40)))
		ev.Body, ev.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
		ev.Headers["content-encoding"] = "gzip"
		if resp := s.invoke(t, "create-entity", ev); resp.StatusCode != 201 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
	}
	ev := lambdatest.Sample(t, "list-entity")
	ev.RawQueryString, ev.QueryStringParameters = "", nil
	delete(ev.Headers, "accept-encoding")
	plain := s.invoke(t, "list-entity", ev)
	// The adapter splits this header into two values, at the comma.
	ev.Headers["accept-encoding"] = "deflate, gzip;q=0.8"
	resp := s.invoke(t, "list-entity", ev)
	if !resp.IsBase64Encoded || resp.Headers["Content-Encoding"] != "gzip" || resp.Headers["Vary"] != "Accept-Encoding" {
		t.Fatalf("%d %v, base64: %t", resp.StatusCode, resp.Headers, resp.IsBase64Encoded)
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(resp.Body)))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain.Body || plain.IsBase64Encoded {
		t.Errorf("%v: %s, want %s", err, text, plain.Body)
	}
}
