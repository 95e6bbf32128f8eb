package clients

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/internal/localserver"
	"sluice/internal/template"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/servertest"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

var (
	workers    = flag.Int("workers", 8, "how many workers increment one counter at once")
	increments = flag.Int("increments", 10, "how often each worker increments it")
)

// tally says what became of the increments of a counter.
type tally struct {
	Acknowledged int `json:"acknowledged"`
	Unknown      int `json:"unknown"`  // errors that match ErrUnknownOutcome
	Repeated     int `json:"repeated"` // calls that gave up and were made again
}

// Workers that increment the same attribute lose no increment. Where the responses of the store
// are lost, the clients say which increments may have been made.
func TestNoIncrementIsLost(t *testing.T) {
	t.Parallel()
	limits := map[string]string{"AUTH_MODE": "none", "LIMIT_RECORDS": "1000000", "LIMIT_IMPORTS": "900", "LIMIT_REQUESTS": "900"}
	t.Run("bbolt", func(t *testing.T) {
		t.Parallel()
		checkCounters(t, servertest.StartWith(t, limits, localserver.Options{DataDir: t.TempDir()}))
	})
	for _, lost := range []float64{0, 0.05} {
		t.Run(fmt.Sprintf("DynamoDB that loses %v %% of its responses", lost*100), func(t *testing.T) {
			t.Parallel()
			proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
			url := servertest.StartWith(t, withTables(t, limits), localserver.Options{DataDir: t.TempDir(), DynamoDB: proxy.URL})
			proxy.SetFault(func(dynamoproxy.Call) dynamoproxy.Fault { return dynamoproxy.Fault{Drop: rand.Float64() < lost} })
			checkCounters(t, url)
		})
	}
}

// withTables adds the names of new tables to environment variables.
func withTables(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	tables, err := template.Parse(sluice.Template)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, table := range tables {
		all[table.EnvVar()] = dynamolocal.Table(t, table.LogicalID)
	}
	maps.Copy(all, env)
	return all
}

// checkCounters lets the workers of each client increment a counter.
func checkCounters(t *testing.T, url string) {
	t.Helper()
	c, err := client.New(url, client.Config{Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(t *testing.T, id string) tally{
		"go":           func(t *testing.T, id string) tally { return incrementGo(t, c, id) },
		"python-sync":  func(t *testing.T, id string) tally { return incrementPython(t, "sync", url, id) },
		"typescript":   func(t *testing.T, id string) tally { return incrementNode(t, url, id) },
		"python-async": func(t *testing.T, id string) tally { return incrementPython(t, "async", url, id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := c.CreateEntity(t.Context(), entity.Draft{ID: name, Attributes: record.Attributes(`{"n":0}`)}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got := run(t, name)
			took := time.Since(began)
			e, err := c.GetEntity(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			count, err := strconv.Atoi(strings.Trim(string(e.Attributes), `{"n:}`))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("after %s, the counter is %d and its revision %d: %+v", took.Round(time.Millisecond), count, e.Revision, got)
			if all := *workers * *increments; got.Acknowledged+got.Unknown != all || int64(count)+1 != e.Revision {
				t.Errorf("%d increments ended as %+v, and the counter %d has the revision %d", all, got, count, e.Revision)
			}
			if count < got.Acknowledged || count > got.Acknowledged+got.Unknown {
				t.Errorf("the counter is %d after %+v", count, got)
			}
		})
	}
}

func incrementGo(t *testing.T, c *client.Client, id string) (all tally) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			var mine tally
			for range *increments {
				if err := incrementOnce(t.Context(), c, id, &mine); err != nil {
					t.Error(err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = tally{all.Acknowledged + mine.Acknowledged, all.Unknown + mine.Unknown, all.Repeated + mine.Repeated}
		})
	}
	wg.Wait()
	return all
}

// incrementOnce repeats a call that gave up, but not one whose outcome is unknown.
func incrementOnce(ctx context.Context, c *client.Client, id string, t *tally) error {
	for {
		_, err := c.UpdateEntityFunc(ctx, id, increment("n"))
		switch failure, _ := errors.AsType[*client.Error](err); {
		case err == nil:
			t.Acknowledged++
			return nil
		case errors.Is(err, client.ErrUnknownOutcome):
			t.Unknown++
			return nil
		case failure == nil || !failure.Retryable():
			return err
		}
		t.Repeated++
	}
}

func incrementPython(t *testing.T, mode, url, id string) tally {
	t.Helper()
	return tallyOf(t, newestPython().command(t, "python/tests/counter.py", mode, url, id, fmt.Sprint(*workers), fmt.Sprint(*increments)))
}

func incrementNode(t *testing.T, url, id string) tally {
	t.Helper()
	return tallyOf(t, node(t, "counter.js", url, id, fmt.Sprint(*workers), fmt.Sprint(*increments)))
}

func tallyOf(t *testing.T, cmd *exec.Cmd) (got tally) {
	t.Helper()
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}
