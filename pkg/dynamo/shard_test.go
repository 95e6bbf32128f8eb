package dynamo

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

func TestShardsAreInRange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		write, read string
		want        Shards // zero if an error is expected
		says        string
	}{
		{"", "", Shards{1, 1}, ""},
		{"1", "", Shards{1, 1}, ""},
		{"64", "", Shards{64, 64}, ""},
		{"", "64", Shards{1, 64}, ""},
		{"4", "8", Shards{4, 8}, ""},
		{"0", "", Shards{}, "EVENT_SHARDS=\"0\" must be a whole number"},
		{"65", "", Shards{}, "EVENT_SHARDS"},
		{"x", "", Shards{}, "EVENT_SHARDS"},
		{"", "65", Shards{}, "EVENT_READ_SHARDS"},
		{"4", "2", Shards{}, "EVENT_READ_SHARDS=2 must not be less than EVENT_SHARDS=4"},
	} {
		got, err := LoadShards(func(name string) string {
			return map[string]string{"EVENT_SHARDS": tt.write, "EVENT_READ_SHARDS": tt.read}[name]
		})
		if got != tt.want || (err == nil) != (tt.want != Shards{}) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q and %q: got %+v, error %v", tt.write, tt.read, got, err)
		}
	}
}

func TestRecordsAreSpreadEvenlyOverShards(t *testing.T) {
	t.Parallel()
	const each = 40
	of := Shards{Write: 16, Read: 16}
	counts := make(map[string]int)
	for i := range of.Write * each {
		counts[of.key("default", fmt.Sprintf("order-%04d", i))]++
	}
	for n := range of.Write {
		if got := counts[fmt.Sprintf("default#%d", n)]; got < each/2 || got > each*2 {
			t.Errorf("shard %d holds %d of %d records", n, got, of.Write*each)
		}
	}
}

// Two versions read and write during a deployment or a rollback. If readers get the higher
// number first, every reader returns every event at every step. If readers and writers get it
// in the same deployment, old readers miss what new writers store.
func TestTheNumberOfShardsIsRaisedInTwoDeployments(t *testing.T) {
	t.Parallel()
	const each = 10 // how many events each version writes in a step
	client := dynamolocal.Client(t)
	for name, tt := range map[string]struct {
		deployed []Shards // of each version, in the order of deployment
		complete bool
	}{
		"readers first":                 {[]Shards{{1, 1}, {1, 4}, {4, 4}}, true},
		"a rollback of the readers":     {[]Shards{{1, 1}, {1, 4}, {1, 1}}, true},
		"a rollback of the writers":     {[]Shards{{1, 1}, {1, 4}, {4, 4}, {1, 4}}, true},
		"at once":                       {[]Shards{{1, 1}, {4, 4}}, false},
		"a rollback of both at the end": {[]Shards{{4, 4}, {1, 1}}, false},
	} {
		table := dynamolocal.Table(t, "EventsTable")
		open := func(s Shards) *Events {
			events, err := NewEvents(client, table, EventsConfig{Shards: s})
			if err != nil {
				t.Fatal(err)
			}
			return events
		}
		written, complete := 0, true
		for i := range tt.deployed[1:] {
			versions := []*Events{open(tt.deployed[i]), open(tt.deployed[i+1])}
			for range each {
				for _, v := range versions {
					if _, _, err := event.Create(t.Context(), v, "w", event.Draft{ID: fmt.Sprint("e-", written), Name: "n"}); err != nil {
						t.Fatal(err)
					}
					written++
				}
			}
			for n, v := range versions {
				page, err := v.Changes(t.Context(), "w", record.SyncQuery{Limit: 200})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: from %+v to %+v, version %d returns %d of %d events", name, tt.deployed[i], tt.deployed[i+1], n, len(page.Records), written)
				complete = complete && len(page.Records) == written
			}
		}
		if complete != tt.complete {
			t.Errorf("%s: complete is %v, want %v", name, complete, tt.complete)
		}
	}
}
