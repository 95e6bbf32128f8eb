package dynamo

import (
	"strings"
	"testing"
)

func TestShardsAreInRange(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{-1: false, 0: false, 1: true, 64: true, 65: false} {
		if got, err := newShards(n); (err == nil) != ok || ok && int(got) != n {
			t.Errorf("%d shards: got %d, error %v", n, got, err)
		}
	}
	for text, want := range map[string]Shards{"": 1, "1": 1, "64": 64, "0": 0, "65": 0, "x": 0} { // want is 0 if an error is expected
		got, err := LoadShards(func(string) string { return text })
		if got != want || (err == nil) != (want != 0) || err != nil && !strings.Contains(err.Error(), "EVENT_SHARDS") {
			t.Errorf("EVENT_SHARDS=%q: got %d, error %v", text, got, err)
		}
	}
}
