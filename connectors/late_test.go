package connectors_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/pkg/record"
)

// lateService lists three records of each kind, ten seconds apart and an hour old. The second one
// appears only after arrived is set, although the third one is there from the beginning.
func lateService(t *testing.T, arrived *atomic.Bool) *service {
	t.Helper()
	start := time.Now().Add(-time.Hour)
	at := func(second int) string { return record.TimeOf(start.Add(time.Duration(second) * time.Second)).String() }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since, form := r.FormValue("created_since"), `{"id":%q,"name":"n","entity_id":null,"occurred_at":%[2]q,"attributes":{},"created_at":%[2]q}`
		if r.URL.Path == "/entity" {
			since, form = r.FormValue("updated_since"), `{"id":%q,"type":"t","attributes":{},"revision":1,"created_at":%[2]q,"updated_at":%[2]q}`
		}
		from, err := record.ParseTime(since)
		if err != nil {
			t.Error(err)
		}
		settled := at(5)
		if arrived.Load() {
			settled = at(30)
		}
		var found []string
		for i, id := range []string{"early", "late", "last"} {
			if stamp := at(10 * i); stamp >= from.String() && (id != "late" || arrived.Load()) {
				found = append(found, fmt.Sprintf(form, id, stamp))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-RateLimit-Remaining", "200")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+1, 10))
		fmt.Fprintf(w, `{"data":[%s],"next_cursor":null,"synced_until":%q}`, strings.Join(found, ","), settled)
	}))
	t.Cleanup(server.Close)
	return &service{url: server.URL, key: "key"}
}

func TestAChangeThatReachesTheIndexLateIsCopied(t *testing.T) {
	t.Parallel()
	_, err := os.Stat(tool(t, "python"))
	child.Require(t, err, "run: make connector-tools")
	var wg sync.WaitGroup
	for name, run := range map[string]func(t *testing.T, s *service, dir string, copied tables){"airbyte": syncAirbyte, "dlt": syncDLT, "singer": syncSinger} {
		dir := t.TempDir()
		wg.Go(func() {
			arrived, copied := new(atomic.Bool), tables{"entity": {}, "event": {}}
			s := lateService(t, arrived)
			for _, want := range []int{2, 3} {
				run(t, s, dir, copied)
				if e, v := copied["entity"], copied["event"]; len(e) != want || len(v) != want {
					t.Errorf("%s: the copy has the entities %v and the events %v, want %d of each", name, e, v, want)
				}
				arrived.Store(true)
			}
		})
	}
	wg.Wait()
}
