package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
)

// The server is killed at times spread over the first 20 ms of an erasure. Then either nothing has
// happened, or a job completes the erasure; what was acknowledged is done. ERASURE_KILLS is the
// number of kills.
func TestNothingSaysErasedWithoutAJob(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("ERASURE_KILLS"), "4"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	acknowledged, erased := 0, 0
	for i := range kills {
		id := fmt.Sprint("ada-", i)
		s := startIn(t, append([]string{"DATA_DIR=" + dir}, unlimited...))
		c := newClient(t, s.url)
		if _, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: id}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateEvents(t.Context(), []event.Draft{{Name: "n", EntityID: id}, {Name: "n", EntityID: id}}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan int, 1)
		go func() {
			resp, err := http.Post(s.url+"/delete_entity", "application/json", strings.NewReader(`{"id":"`+id+`","events":true}`))
			if err != nil {
				ended <- 0
				return
			}
			resp.Body.Close() //nolint:errcheck // the status is enough
			ended <- resp.StatusCode
		}()
		<-time.After(20 * time.Millisecond * time.Duration(i) / time.Duration(max(kills-1, 1)))
		s.Kill()
		status := <-ended

		s = startIn(t, append([]string{"DATA_DIR=" + dir}, unlimited...))
		c = newClient(t, s.url)
		_, jobErr := c.GetErasureJob(t.Context(), id)
		tombstone := s.client(t).check(t, "GET", "/entity?updated_since=1970-01-01T00:00:00Z&order=desc&include_deleted=true&limit=1", "")
		says := strings.Contains(tombstone.body, `"erased":true`) && strings.Contains(tombstone.body, `"id":"`+id+`"`)
		if says != (jobErr == nil) || status == http.StatusAccepted && !says {
			t.Errorf("%s: status %d; the job: %v; the entity: %s", id, status, jobErr, tombstone.body)
		}
		want := 2
		if jobErr == nil {
			j, err := c.AwaitErasureJob(t.Context(), id, nil)
			if err != nil || j.Status != job.Succeeded {
				t.Errorf("%s: %+v, error %v", id, j, err)
			}
			erased, want = erased+1, 0
		}
		if status == http.StatusAccepted {
			acknowledged++
		}
		if page, err := c.ListEvents(t.Context(), client.EventQuery{EntityID: id}); err != nil || len(page.Data) != want {
			t.Errorf("%s: %d events are left, want %d; error %v", id, len(page.Data), want, err)
		}
		s.Kill()
	}
	t.Logf("%d kills: %d erasures had begun, %d were acknowledged", kills, erased, acknowledged)
}
