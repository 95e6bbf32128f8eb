package localserver

import (
	"net/http"
	"strings"
	"testing"
)

func TestProfilesAreOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:6060", "localhost:0", "6060"} {
		if stop, err := startProfiles(addr, t.Output()); err == nil {
			stop()
			t.Errorf("profiles are served at %s", addr)
		}
	}
	var out strings.Builder
	stop, err := startProfiles("127.0.0.1:0", &out)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(out.String(), "Profiles are at "))
	resp, err := http.Get(url + "heap")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, error %v", resp, err)
	}
	resp.Body.Close() //nolint:errcheck // the body was only read
	stop()
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close() //nolint:errcheck // the body was only read
		t.Error("profiles are still served")
	}
}
