package functions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/ratelimit"
)

// Requests that bypass the CloudFront distribution get 403 and are charged to the address of
// their connection, even if their headers contain another address. Requests through the
// distribution are charged to the address of the viewer.
func TestForgedAddressesHaveNoEffectAroundTheDistribution(t *testing.T) {
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, "CLIENT_IP_HEADER=CloudFront-Viewer-Address", "ORIGIN_SECRET=the-old-secret-of-the-origin,the-new-secret-of-the-origin")
	instance := d.start(t, "list-entity", 1)[0]
	begun := ratelimit.WindowAt(time.Now())

	const requests = 10
	send := func(sourceIP, secret, viewer string, status int) {
		t.Helper()
		ev := lambdatest.Event("GET", "/entity", sourceIP, "")
		ev.Headers["cloudfront-viewer-address"] = viewer
		if secret != "" {
			ev.Headers["x-origin-secret"] = secret
		}
		resp := invoke(t, instance, ev, status)
		if status == http.StatusForbidden && !strings.Contains(resp.Body, `"code":"direct_request"`) || resp.Headers["X-RateLimit-Remaining"] == "" {
			t.Errorf("%s: %s %v", viewer, resp.Body, resp.Headers)
		}
	}
	for i := range requests {
		forged := fmt.Sprintf("203.0.113.%d:1234", i+1)
		send("192.0.2.1", "", forged, http.StatusForbidden)
		send("192.0.2.1", "a-guess-at-the-secret", forged, http.StatusForbidden)
		send("198.51.100.1", "the-old-secret-of-the-origin", "203.0.113.200:1234", http.StatusOK)
		send("198.51.100.2", "the-new-secret-of-the-origin", "2001:db8::5:443", http.StatusOK)
	}
	for address, want := range map[string]int64{
		"192.0.2.1": 2 * requests, "203.0.113.200": requests, "2001:db8::/64": requests,
		"203.0.113.1": 0, "198.51.100.1": 0, "198.51.100.2": 0,
	} {
		var charged int64
		for w := begun; w <= ratelimit.WindowAt(time.Now()); w++ {
			charged += d.counter(t, ratelimit.Key{Address: address, Scope: "export", Window: w}, "r_list_entity")
		}
		if charged != want {
			t.Errorf("%s was charged %d requests, want %d", address, charged, want)
		}
	}
}
