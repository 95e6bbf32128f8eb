package connectors_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/servertest"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// service is a running service with two API keys. Requests to url come from the address
// 127.0.0.1, unless url belongs to the proxy of a caller.
type service struct {
	url      string
	key      string // API key with all scopes
	otherKey string // API key of another workspace
}

// startService starts the server that `sluice serve` runs, with default limits and API keys. Its
// records are at least an hour old, so that incremental syncs need not look back at them.
func startService(t *testing.T, entities, events int) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{key: servertest.CreateKey(t, dir, access.DefaultWorkspace), otherKey: servertest.CreateKey(t, dir, "other")}
	createRecords(t, dir, entities, events)
	s.url = servertest.Start(t, dir)
	return s
}

// createRecords writes records to a data directory, three a minute until an hour ago.
func createRecords(t *testing.T, dir string, entities, events int) {
	t.Helper()
	end, left := time.Now().Add(-time.Hour), entities+events
	now := func() time.Time { return end.Add(-time.Duration(left/3) * time.Minute) }
	stores, err := bolt.Open(dir, bolt.Config{Clock: entity.Clock{Now: now}, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close() //nolint:errcheck // if closing fails, the server fails too
	for i := range entities {
		left--
		d := entity.Draft{ID: fmt.Sprintf("e-%d", i), Type: "person", Attributes: attributes(i)}
		if _, _, err := entity.Create(t.Context(), stores.Entities, access.DefaultWorkspace, d); err != nil {
			t.Fatal(err)
		}
	}
	for i := range events {
		left--
		occurred := late(i)
		d := event.Draft{ID: fmt.Sprintf("v-%d", i), Name: "signed_up", OccurredAt: &occurred, Attributes: attributes(i)}
		switch {
		case i%2 == 0:
			d.EntityID = fmt.Sprintf("e-%d", i%entities)
		case i%50 == 1:
			d.EntityID = neverCreated
		}
		if _, _, err := event.Create(t.Context(), stores.Events, access.DefaultWorkspace, d); err != nil {
			t.Fatal(err)
		}
	}
}

// neverCreated is the entity_id of some events. There is no entity with that id.
const neverCreated = "never-created"

// attributes returns values that a tool might fail to preserve.
func attributes(i int) record.Attributes {
	return record.Attributes(fmt.Sprintf(`{"n":%d,"min":-9223372036854775808,"huge":1000000000000000000000000000000,"half":%d.5,"tiny":1e-7,`+
		`"text":"07 = \"é\" \u0000 🙂","time":"2026-01-02T03:04:05.678+02:00","null":null,"CamelCase":{"a.b":[true,{},[]]},"empty":""}`,
		firstN+i, i))
}

// firstN is the attribute n of the first record. No 64-bit float can represent it.
const firstN = 9007199254740993

// greatest returns the greatest value of the attribute n among this many records.
func greatest(records int) int64 { return int64(firstN + records - 1) }

// late returns an occurred_at that is years before the creation of the event.
func late(i int) record.Time {
	return record.TimeOf(time.Date(2019, 12, 31, 23, 59, 59, i%1000*1e6, time.UTC).Add(time.Duration(i) * time.Minute))
}

func (s *service) client(t *testing.T, key string) *client.Client {
	t.Helper()
	c, err := client.New(s.url, client.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lateEvents is how many events service.change creates with an occurred_at years in the past.
const lateEvents = 20

// change creates, updates and deletes records in 100 steps, and erases the events of neverCreated.
func (s *service) change(t *testing.T) {
	t.Helper()
	c, ctx := s.client(t, s.key), t.Context()
	for i := range 100 {
		var err error
		id := fmt.Sprintf("e-%d", 3*i)
		switch i % 5 {
		case 0: // change, remove and add an attribute
			_, err = c.UpdateEntity(ctx, id, record.Attributes(`{"n":9223372036854775807,"half":null,"new":{"a":1}}`))
		case 1: // delete; if the entity has events, erase them too
			err = s.remove(t, c, id, i%2 == 0)
		case 2: // delete as in case 1, and create another entity with the same id
			if err = s.remove(t, c, id, i%2 == 0); err == nil {
				_, _, err = c.CreateEntity(ctx, entity.Draft{ID: id, Type: "phoenix"})
			}
			if err == nil && i%2 == 0 {
				_, _, err = c.CreateEvent(ctx, event.Draft{ID: "of-" + id, Name: "signed_up", EntityID: id, Attributes: attributes(0)})
			}
		case 3: // create an entity, and sometimes delete it before a tool can read it
			id := fmt.Sprintf("new-%d", i)
			if _, _, err = c.CreateEntity(ctx, entity.Draft{ID: id, Attributes: attributes(i)}); err == nil && i%2 == 0 {
				err = c.DeleteEntity(ctx, id)
			}
		case 4: // create an event that occurred long ago
			at := late(i)
			_, _, err = c.CreateEvent(ctx, event.Draft{ID: fmt.Sprintf("late-%d", i), Name: "late", OccurredAt: &at, Attributes: attributes(i)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.remove(t, c, neverCreated, true); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an entity. If erase is true, it also erases the entity's events.
func (s *service) remove(t *testing.T, c *client.Client, id string, erase bool) error {
	if !erase {
		return c.DeleteEntity(t.Context(), id)
	}
	if _, err := c.EraseEntity(t.Context(), id); err != nil {
		return err
	}
	_, err := c.AwaitErasureJob(t.Context(), id, nil)
	return err
}

// exportChanges writes entity changes to a file, as "sluice export --since" does.
func (s *service) exportChanges(t *testing.T, path string) {
	t.Helper()
	page, err := s.client(t, s.key).ListEntityChanges(t.Context(), client.EntityChangeQuery{UpdatedSince: client.TimeOf(time.Now().Add(-30 * time.Minute)), IncludeDeleted: true, Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for _, c := range page.Data {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exportAll runs three export jobs, downloads their files into dir, and returns all records.
func (s *service) exportAll(t *testing.T, key, dir string) tables {
	t.Helper()
	c, all := s.client(t, key), tables{"entity": {}, "event": {}}
	var wg sync.WaitGroup
	for _, j := range []api.ExportOrder{
		{Resource: record.Entity, Format: record.NDJSON},
		{Resource: record.Event, Format: record.NDJSON},
		{Resource: record.Event, Format: record.CSV},
	} {
		wg.Go(func() {
			path := filepath.Join(dir, fmt.Sprintf("%s.%s.gz", j.Resource, j.Format))
			if err := download(t.Context(), c, j, path); err != nil {
				t.Error(err)
			} else if j.Format == record.NDJSON {
				all[string(j.Resource)].readFile(t, path)
			}
		})
	}
	wg.Wait()
	return all
}

func download(ctx context.Context, c *client.Client, j api.ExportOrder, path string) error {
	created, _, err := c.CreateExportJob(ctx, j)
	if err != nil {
		return err
	}
	ended, err := c.AwaitExportJob(ctx, created.ID, nil)
	if err != nil {
		return err
	}
	if ended.Status != job.Succeeded {
		return fmt.Errorf("export job %s: %s", ended.ID, ended.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // if the file is incomplete, reading it fails
	_, err = c.DownloadExport(ctx, ended.ID, 0, file)
	return err
}

// readFile adds the records of a compressed NDJSON file.
func (tb table) readFile(t *testing.T, path string) {
	file, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close() //nolint:errcheck // the file is only read
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Error(err)
		return
	}
	lines := bufio.NewScanner(plain)
	for lines.Scan() {
		tb.put(t, lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// caller calls the service through a proxy that connects from another address and observes the
// responses.
type caller struct {
	*service
	mu          sync.Mutex
	first, last time.Time   // times of the first and the last response
	statuses    map[int]int // number of responses by status
}

// callerAt returns a caller whose proxy connects from a loopback address. Clients with
// different addresses do not share limits.
func (s *service) callerAt(t *testing.T, address string) *caller {
	t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{service: &service{key: s.key, otherKey: s.otherKey}, statuses: make(map[int]int)}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      &http.Transport{DialContext: dialer.DialContext},
		ModifyResponse: c.observe,
	})
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *caller) observe(r *http.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.first.IsZero() {
		c.first = c.last
	}
	c.statuses[r.StatusCode]++
	return nil
}
