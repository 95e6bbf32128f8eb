package dynamo

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func openCounters(t *testing.T) ratelimit.Store {
	s, err := NewCounters(dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func one(counter string, limit int64) []ratelimit.Cost {
	return []ratelimit.Cost{{Rule: ratelimit.Rule{Name: counter, Counter: counter, Limit: limit}, Amount: 1}}
}

// byKey counts by a key what the tests count by an address.
type byKey struct{ ratelimit.Store }

func (s byKey) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	key.Identity = ratelimit.KeyIdentity(key.Identity)
	return s.Store.Charge(ctx, key, costs)
}

func TestLedgers(t *testing.T) {
	storetest.Counters(t, func(t *testing.T) ratelimit.Store {
		s, err := NewCounters(dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable"))
		if err != nil {
			t.Fatal(err)
		}
		return byKey{s}
	})
}

func TestCounters(t *testing.T) { storetest.Counters(t, openCounters) }

type counterMeter struct {
	client *dynamodb.Client
	calls  atomic.Int64
	units  float64
}

func (m *counterMeter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	m.calls.Add(1)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.UpdateItem(ctx, in, opts...)
	if err == nil {
		m.units += *out.ConsumedCapacity.CapacityUnits
	}
	return out, err
}

func TestAChargeIsOneCallAndOneWriteUnit(t *testing.T) {
	m := &counterMeter{client: dynamolocal.Client(t)}
	s, err := NewCounters(m, dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	key := ratelimit.Key{Identity: "2001:db8:1234:5678::/64", Group: "usage", Window: 1_800_000_000}
	// One write unit covers 1 KB, enough for more routes than the service has.
	for i := range 20 {
		costs := append(one("records", 200), one("r_create_export_job_"+string(rune('a'+i)), 200)...)
		if result, err := s.Charge(t.Context(), key, costs); !result.Admitted || err != nil {
			t.Fatalf("%+v, error %v", result, err)
		}
	}
	if m.calls.Load() != 20 || m.units != 20 {
		t.Errorf("20 charges of two rules took %d calls and %v write units, want 20 and 20", m.calls.Load(), m.units)
	}
}

func TestACostAboveTheLimitMakesNoCall(t *testing.T) {
	m := &counterMeter{client: dynamolocal.Client(t)}
	s, err := NewCounters(m, "no-such-table")
	if err != nil {
		t.Fatal(err)
	}
	costs := []ratelimit.Cost{{Rule: ratelimit.Rule{Counter: "a", Limit: 1}, Amount: 2}}
	if result, err := s.Charge(t.Context(), ratelimit.Key{}, costs); result.Admitted || err != nil || m.calls.Load() != 0 {
		t.Errorf("%+v, error %v, %d calls", result, err, m.calls.Load())
	}
}

func TestARefusalLogsNoWarning(t *testing.T) {
	var log bytes.Buffer
	client := dynamolocal.Client(t, func(o *dynamodb.Options) { o.Logger = logging.NewStandardLogger(&log) })
	s, err := NewCounters(client, dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		result, err := s.Charge(t.Context(), ratelimit.Key{Identity: "192.0.2.1"}, one("a", 1))
		if err != nil || result.Admitted != (i == 0) {
			t.Fatalf("charge %d: %+v, error %v", i, result, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the SDK logged: %s", &log)
	}
}
