package functions_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/lambdatest"
)

func compressed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// codedEvent returns an event with a compressed body. API Gateway encodes such a body
// as base64.
func codedEvent(path, coding, body string) events.APIGatewayV2HTTPRequest {
	ev := lambdatest.Event("POST", path, "192.0.2.1", base64.StdEncoding.EncodeToString([]byte(body)))
	ev.IsBase64Encoded = true
	ev.Headers["content-encoding"] = coding
	return ev
}

func TestCompressedBodiesInTheRealFunctions(t *testing.T) {
	d := deploy(t, dynamolocal.Endpoint(t))
	create, list := d.start(t, "create-entity", 1)[0], d.start(t, "list-entity", 1)[0]
	for i := range 10 {
		body := fmt.Sprintf(`{"id":"e-%d","attributes":{"a":%q}}`, i, strings.Repeat("word ", 40))
		invoke(t, create, codedEvent("/create_entity", "gzip", compressed(t, body)), 201)
	}
	ev := lambdatest.Event("GET", "/entity", "192.0.2.1", "")
	plain := invoke(t, list, ev, 200)
	ev.Headers["accept-encoding"] = "gzip, br"
	resp := invoke(t, list, ev, 200)
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(resp.Body)))
	if err != nil {
		t.Fatalf("%v: %v %s", err, resp.Headers, resp.Body)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain.Body || plain.IsBase64Encoded || !resp.IsBase64Encoded {
		t.Errorf("%v: %s, want %s", err, text, plain.Body)
	}
}

func TestInvalidGzipBodiesNeedLittleMemory(t *testing.T) {
	d := deploy(t, dynamolocal.Endpoint(t))
	instance := d.start(t, "create-events", 1)[0]
	whole := compressed(t, `{"events":[{"name":"n"}]}`)
	invoke(t, instance, codedEvent("/create_events", "gzip", compressed(t, strings.Repeat(" ", 2<<20))), 413)
	before, err := instance.Memory("VmHWM")
	if err != nil {
		t.Skip(err)
	}
	bomb := compressed(t, strings.Repeat(" ", 32<<20))
	for range 3 {
		for _, tt := range []struct {
			coding, body string
			status       int
			code         string
		}{
			{"gzip", bomb, 413, "body_too_large"},
			{"gzip", whole[:len(whole)-4], 400, "malformed_gzip"},
			{"gzip", "not gzip", 400, "malformed_gzip"},
			{"gzip", compressed(t, whole), 400, "malformed_gzip"},
			{"gzip, gzip", compressed(t, whole), 415, "unsupported_media_type"},
		} {
			if resp := invoke(t, instance, codedEvent("/create_events", tt.coding, tt.body), tt.status); !strings.Contains(resp.Body, tt.code) {
				t.Errorf("%s, want %s", resp.Body, tt.code)
			}
		}
	}
	after, err := instance.Memory("VmHWM")
	t.Logf("peak memory: %d MB, and %d MB before the invalid bodies", after>>20, before>>20)
	if err != nil || after > before+16<<20 {
		t.Errorf("peak memory: %d bytes, and %d bytes before the invalid bodies, error %v", after, before, err)
	}
	if n := count(t, d.events); n != 0 {
		t.Errorf("%d events were written", n)
	}
}
