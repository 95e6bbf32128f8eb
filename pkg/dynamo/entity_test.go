package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openEntities(t *testing.T, client EntitiesClient, table string) *Entities {
	t.Helper()
	s, err := NewEntities(client, table, EntitiesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEntities(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			storetest.Entities(t, func(t *testing.T) entity.Store {
				s, err := NewEntities(dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable"), EntitiesConfig{Shards: shards})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

func TestWalks(t *testing.T) {
	t.Parallel()
	storetest.WalkEntities(t, openEntities(t, dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")))
}

// log is a Client that records its calls.
type log struct {
	*dynamodb.Client
	calls []string
}

func (l *log) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	l.calls = append(l.calls, "put")
	return l.Client.PutItem(ctx, in, opts...)
}

func (l *log) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	l.calls = append(l.calls, "transaction")
	return l.Client.TransactWriteItems(ctx, in, opts...)
}

func (l *log) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	l.calls = append(l.calls, fmt.Sprintf("get, consistent %v", aws.ToBool(in.ConsistentRead)))
	return l.Client.GetItem(ctx, in, opts...)
}

func (l *log) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := l.Client.Query(ctx, in, opts...)
	if err == nil {
		l.calls = append(l.calls, fmt.Sprintf("query, consistent %v, read %d", aws.ToBool(in.ConsistentRead), out.ScannedCount))
	}
	return out, err
}

func TestEachMethodIsOneCall(t *testing.T) {
	t.Parallel()
	l := &log{Client: dynamolocal.Client(t)}
	s := openEntities(t, l, dynamolocal.Table(t, "EntitiesTable"))
	plain := func(id string) entity.Entity {
		return entity.Entity{ID: id, Type: "account", Attributes: record.Attributes(`{}`)}
	}
	for _, id := range []string{"a", "a", "b", "c", "d"} {
		if _, _, err := s.Create(t.Context(), "default", plain(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(t.Context(), "default", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), "default", entity.Query{Limit: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), "default", entity.Query{Type: "account", AfterID: "a", Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 3}); err != nil {
		t.Fatal(err)
	}
	if deleted, err := s.Delete(t.Context(), "default", plain("a"), record.TimeOf(time.Now())); !deleted || err != nil {
		t.Fatal(deleted, err)
	}
	want := []string{
		"transaction", "transaction", "transaction", "transaction", "transaction", "get, consistent true",
		"query, consistent false, read 3", "query, consistent false, read 2",
		"query, consistent false, read 4", "transaction",
	}
	if !slices.Equal(l.calls, want) {
		t.Errorf("calls %q, want %q", l.calls, want)
	}
}

// An update makes a strongly consistent read and a put. If the patch changes nothing, the
// update makes only the read.
func TestAnUpdateIsAReadAndAPut(t *testing.T) {
	t.Parallel()
	l := &log{Client: dynamolocal.Client(t)}
	s := openEntities(t, l, dynamolocal.Table(t, "EntitiesTable"))
	if _, _, err := s.Create(t.Context(), "default", entity.Entity{ID: "a", Type: "account", Attributes: record.Attributes(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	const read = "get, consistent true"
	for _, tt := range []struct {
		patch string
		calls []string
	}{
		{`{}`, []string{read}}, {`{"a":1}`, []string{read}}, {`{"b":null}`, []string{read}},
		{`{"a":2}`, []string{read, "put"}}, {`{"a":2}`, []string{read}},
	} {
		l.calls = nil
		if _, err := entity.Update(t.Context(), s, "default", "a", record.Attributes(tt.patch), time.Now()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(l.calls, tt.calls) {
			t.Errorf("%s: calls %q, want %q", tt.patch, l.calls, tt.calls)
		}
	}
}

// counter is a Client that counts puts.
type counter struct {
	EntitiesClient
	puts atomic.Int64
}

func (c *counter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	c.puts.Add(1)
	return c.EntitiesClient.PutItem(ctx, in, opts...)
}

// Each concurrent update is applied or returns an error. Together the updates make few puts
// (see also TestConcurrentUpdatesBackOff in package entity).
func TestConcurrentUpdatesOfOneEntityLoseNothing(t *testing.T) {
	t.Parallel()
	const updates = 200
	client := &counter{EntitiesClient: dynamolocal.Client(t)}
	s := openEntities(t, client, dynamolocal.Table(t, "EntitiesTable"))
	if _, _, err := s.Create(t.Context(), "default", entity.Entity{ID: "a", Type: "account", Attributes: record.Attributes(`{}`)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // like the timeout of the API
	defer cancel()
	applied := make([]bool, updates)
	var wg sync.WaitGroup
	for i := range applied {
		wg.Go(func() {
			_, err := entity.Update(ctx, s, "default", "a", record.Attributes(fmt.Sprintf(`{"%d":true}`, i)), time.Now())
			applied[i] = err == nil
			if err != nil && record.KindOf(err) != record.Unavailable {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e, err := s.Get(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	members, err := record.Members(e.Attributes)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range applied {
		stored := slices.ContainsFunc(members, func(m record.Member) bool { return m.Name == fmt.Sprint(i) })
		if applied[i] && !stored {
			t.Errorf("update %d is lost", i)
		}
		if stored {
			n++
		}
	}
	t.Logf("%d of %d updates were applied by %d puts", n, updates, client.puts.Load())
	if n == 0 || client.puts.Load() > 3*updates {
		t.Errorf("%d of %d updates were applied by %d puts", n, updates, client.puts.Load())
	}
}

// losesFirst forwards requests. It returns an error instead of the first response, as if
// that response had been lost.
type losesFirst struct {
	next aws.HTTPClient
	sent atomic.Int64
}

func (c *losesFirst) Do(r *http.Request) (*http.Response, error) {
	response, err := c.next.Do(r)
	if c.sent.Add(1) > 1 || err != nil {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errors.New("connection reset by peer")
}

func TestACreateIsRepeatedAndAppliedOnceIfItsResponseIsLost(t *testing.T) {
	t.Parallel()
	network := &losesFirst{}
	options := dynamolocal.Client(t).Options()
	network.next, options.HTTPClient = options.HTTPClient, network
	s := openEntities(t, dynamodb.New(options), dynamolocal.Table(t, "EntitiesTable"))

	want := entity.Entity{ID: "a", Type: "account", Attributes: record.Attributes(`{}`)}
	stored, created, err := s.Create(t.Context(), "default", want)
	if !created || err != nil || !reflect.DeepEqual(stored, want) {
		t.Errorf("created %v, error %v, stored %+v", created, err, stored)
	}
	if network.sent.Load() != 2 {
		t.Errorf("%d requests were sent, want 2", network.sent.Load())
	}
}
