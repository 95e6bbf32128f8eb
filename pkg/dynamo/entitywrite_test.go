package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// lossy is an HTTP client that sends writes one at a time, and loses some of the responses.
type lossy struct {
	next aws.HTTPClient
	lose func() bool // called after each write

	mu     sync.Mutex
	writes int
}

func (l *lossy) Do(r *http.Request) (*http.Response, error) {
	if target := r.Header.Get("X-Amz-Target"); !strings.HasSuffix(target, ".UpdateItem") && !strings.HasSuffix(target, ".PutItem") {
		return l.next.Do(r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	response, err := l.next.Do(r)
	if err != nil || !l.lose() {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

func behind(t *testing.T, lose func() bool) (*dynamodb.Client, *lossy) {
	t.Helper()
	options := dynamolocal.Client(t).Options()
	l := &lossy{next: options.HTTPClient, lose: lose}
	options.HTTPClient = l
	return dynamodb.New(options), l
}

// step is one client's call for the entity ada.
type step func(s entity.Store) error

func creates(typ, attributes string) step {
	return func(s entity.Store) error {
		_, created, err := entity.Create(context.Background(), s, "default", entity.Draft{ID: "ada", Type: typ, Attributes: record.Attributes(attributes)})
		if err == nil && !created {
			err = errors.New("not created")
		}
		return err
	}
}

func updates(patch string) step {
	return func(s entity.Store) error {
		_, err := entity.Update(context.Background(), s, "default", "ada", record.Attributes(patch), nil)
		return err
	}
}

func deletes(s entity.Store) error {
	return entity.Delete(context.Background(), s, "default", "ada", nil)
}

func erases(s entity.Store) error {
	_, _, err := s.Write(context.Background(), "default", entity.Erasure("ada", record.TimeOf(noon), time.Time{}))
	return err
}

func steps(all ...step) step {
	return func(s entity.Store) (err error) {
		for _, do := range all {
			err = errors.Join(err, do(s))
		}
		return err
	}
}

func ada(t *testing.T, s entity.Store) string {
	t.Helper()
	page, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 10})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%+v, error %v", page, err)
	}
	switch c := page.Records[0]; {
	case c.Deleted && c.Erased():
		return "erased"
	case c.Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("%s %s", c.Type, c.Attributes)
	}
}

// The SDK retries the write, but another client may have changed the entity in between, in the same
// millisecond. Applying the write again could undo that change.
func TestAWriteWhoseResponseIsLost(t *testing.T) {
	t.Parallel()
	create := creates("person", `{"a":1}`)
	for name, tt := range map[string]struct {
		before, write, between step
		known                  bool // whether the caller learns that the write has succeeded
		want                   string
	}{
		"create":                                 {steps(), create, steps(), true, `person {"a":1}`},
		"create, then a deletion":                {steps(), create, deletes, false, "deleted"},
		"create, then an update":                 {steps(), create, updates(`{"c":1}`), false, `person {"a":1,"c":1}`},
		"create, then a deletion and a creation": {steps(), create, steps(deletes, creates("robot", `{}`)), false, `robot {}`},
		"update":                                 {create, updates(`{"a":2}`), steps(), true, `person {"a":2}`},
		"update, then another":                   {create, updates(`{"a":2}`), updates(`{"a":3}`), false, `person {"a":3}`},
		"update, then back":                      {create, updates(`{"a":2}`), updates(`{"a":1}`), false, `person {"a":1}`},
		"update, then a deletion":                {create, updates(`{"a":2}`), deletes, false, "deleted"},
		"delete":                                 {create, deletes, steps(), true, "deleted"},
		"delete, then a creation":                {create, deletes, creates("robot", `{}`), false, `robot {}`},
		"erase":                                  {create, erases, steps(), true, "erased"},
		"erase, then a creation":                 {create, erases, creates("robot", `{}`), false, `robot {}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, now := dynamolocal.Table(t, "EntitiesTable"), noon
			open := func(client EntitiesClient) *Entities {
				s, err := NewEntities(client, table, EntitiesConfig{Clock: entity.Clock{Now: func() time.Time { return now }}})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			direct := open(dynamolocal.Client(t))
			if err := tt.before(direct); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Millisecond)
			first := true
			client, network := behind(t, func() bool {
				lost := first
				if first = false; lost {
					if err := tt.between(direct); err != nil {
						t.Error(err)
					}
				}
				return lost
			})
			err := tt.write(open(client))
			if (err == nil) != tt.known || err != nil && record.CodeOf(err) != record.Unavailable {
				t.Errorf("error %v", err)
			}
			if got := ada(t, direct); got != tt.want || network.writes != 2 {
				t.Errorf("the entity is %s after %d writes, want %s after 2", got, network.writes, tt.want)
			}
		})
	}
}

// The throttled write was not applied, but another client's was, so the update merges again.
func TestAThrottledWriteIsNotLost(t *testing.T) {
	t.Parallel()
	table := dynamolocal.Table(t, "EntitiesTable")
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	direct := openEntities(t, dynamolocal.Client(t), table)
	if err := creates("person", `{}`)(direct); err != nil {
		t.Fatal(err)
	}
	first := true
	proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
		if call.Operation != "UpdateItem" || !first {
			return dynamoproxy.Fault{}
		}
		first = false
		if err := updates(`{"b":1}`)(direct); err != nil {
			t.Error(err)
		}
		return dynamoproxy.Fault{Skip: true, Error: dynamoproxy.Throttled}
	})
	s := openEntities(t, dynamolocal.Client(t, func(o *dynamodb.Options) { o.BaseEndpoint = &proxy.URL }), table)
	if err := updates(`{"a":1}`)(s); err != nil {
		t.Error(err)
	}
	if got := ada(t, direct); got != `person {"b":1,"a":1}` {
		t.Error(got)
	}
}

// The first attempt is applied, even if the SDK's retry comes too late to be sent.
func TestNoAttemptIsSentTooLate(t *testing.T) {
	t.Parallel()
	entities, events := dynamolocal.Table(t, "EntitiesTable"), dynamolocal.Table(t, "EventsTable")
	for lag, want := range map[time.Duration]int{record.WriteTimeout - time.Millisecond: 2, record.WriteTimeout: 1} {
		now := noon
		first := true
		client, network := behind(t, func() bool {
			lost := first
			if first = false; lost {
				now = now.Add(lag)
			}
			return lost
		})
		clock := func() time.Time { return now }
		s, err := NewEntities(client, entities, EntitiesConfig{Clock: entity.Clock{Now: clock}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = entity.Create(t.Context(), s, "default", entity.Draft{ID: lag.String(), Type: "person", Attributes: record.Attributes(`{}`)})
		if network.writes != want || (err == nil) != (want == 2) || err != nil && record.CodeOf(err) != record.Unavailable {
			t.Errorf("an entity, %s late: %d attempts, error %v; want %d", lag, network.writes, err, want)
		}
		if _, err := s.Get(t.Context(), "default", lag.String()); err != nil {
			t.Error(err)
		}
		now, first, network.writes = noon, true, 0
		v, err := NewEvents(client, events, EventsConfig{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = event.Create(t.Context(), v, "default", event.Draft{ID: lag.String(), Name: "n"})
		if network.writes != want || (err == nil) != (want == 2) || err != nil && record.CodeOf(err) != record.Unavailable {
			t.Errorf("an event, %s late: %d attempts, error %v; want %d", lag, network.writes, err, want)
		}
	}
}

// serial is an HTTP client that sends one request at a time.
type serial struct {
	next aws.HTTPClient
	then func() // called after each request
	mu   sync.Mutex
}

func (s *serial) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.then()
	return s.next.Do(r)
}

// Twelve clients update one entity, each with its own values, while a proxy loses a third of
// the responses. No client repeats a request. A value that was replaced must not come back.
func TestNoValueComesBackAfterLostResponses(t *testing.T) {
	t.Parallel()
	const clients, each = 12, 4
	table := dynamolocal.Table(t, "EntitiesTable")
	direct := openEntities(t, dynamolocal.Client(t), table)
	if err := creates("person", `{"v":"none"}`)(direct); err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
		drop := call.Operation != "GetItem" && rand.IntN(3) == 0
		if drop {
			lost.Add(1)
		}
		return dynamoproxy.Fault{Drop: drop}
	})
	var values []string // in the order in which they were stored
	s := openEntities(t, dynamolocal.Client(t, func(o *dynamodb.Options) {
		o.BaseEndpoint = &proxy.URL
		o.HTTPClient = &serial{next: o.HTTPClient, then: func() {
			e, err := direct.Get(t.Context(), "default", "ada")
			if err != nil {
				t.Error(err)
			}
			if v := string(e.Attributes); len(values) == 0 || v != values[len(values)-1] {
				values = append(values, v)
			}
		}}
	}), table)
	var wg sync.WaitGroup
	var unknown atomic.Int64
	for c := range clients {
		wg.Go(func() {
			for n := range each {
				_, err := entity.Update(t.Context(), s, "default", "ada", record.Attributes(fmt.Sprintf(`{"v":"%d-%d"}`, c, n)), nil)
				if err != nil {
					unknown.Add(1)
				}
				if err != nil && record.CodeOf(err) != record.Unavailable {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d updates were stored, %d responses lost, %d outcomes unknown", len(values)-1, clients*each, lost.Load(), unknown.Load())
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			t.Errorf("%s came back: %s", v, values)
		}
	}
	if lost.Load() == 0 || len(values) <= clients*each-int(unknown.Load()) {
		t.Errorf("%d responses were lost, and the entity had the values %s", lost.Load(), values)
	}
}
