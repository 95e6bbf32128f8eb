package dynamostore_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"sluice/internal/dynamolocal"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/storetest"
)

func open(t *testing.T) ratelimit.Store {
	s, err := dynamostore.New(dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

// meter asks for the capacity that each update consumes and adds it up.
type meter struct {
	client *dynamodb.Client
	calls  atomic.Int64
	units  float64
}

func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	m.calls.Add(1)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.UpdateItem(ctx, in, opts...)
	if err == nil {
		m.units += *out.ConsumedCapacity.CapacityUnits
	}
	return out, err
}

func TestAChargeIsOneCallAndOneWriteUnit(t *testing.T) {
	m := &meter{client: dynamolocal.Client(t)}
	s, err := dynamostore.New(m, dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	key := ratelimit.Key{Address: "2001:db8:1234:5678::/64", Class: ratelimit.General, Window: 1_800_000_000}
	// An address that calls every route there could be: the item stays within
	// the 1 KB that one write unit covers.
	for i := range 20 {
		rules := []ratelimit.Rule{{Counter: "records", Limit: 200}, {Counter: "r_create_export_job_" + string(rune('a'+i)), Limit: 200}}
		if _, ok, err := s.Charge(t.Context(), key, rules, ratelimit.Amounts{First: 1, Second: 1}); !ok || err != nil {
			t.Fatalf("admitted %v, error %v", ok, err)
		}
	}
	if m.calls.Load() != 20 || m.units != 20 {
		t.Errorf("20 charges of two rules took %d calls and %v write units, want 20 and 20", m.calls.Load(), m.units)
	}
}

func TestACostAboveTheLimitMakesNoCall(t *testing.T) {
	m := &meter{client: dynamolocal.Client(t)}
	s, err := dynamostore.New(m, "no-such-table")
	if err != nil {
		t.Fatal(err)
	}
	_, ok, err := s.Charge(t.Context(), ratelimit.Key{}, []ratelimit.Rule{{Counter: "a", Limit: 1}}, ratelimit.Amounts{First: 2})
	if ok || err != nil || m.calls.Load() != 0 {
		t.Errorf("admitted %v, error %v, %d calls", ok, err, m.calls.Load())
	}
}

func TestARefusalIsNothingToWarnOf(t *testing.T) {
	var log bytes.Buffer
	client := dynamolocal.Client(t, func(o *dynamodb.Options) { o.Logger = logging.NewStandardLogger(&log) })
	s, err := dynamostore.New(client, dynamolocal.Table(t, "CountersTable"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		_, admitted, err := s.Charge(t.Context(), ratelimit.Key{Address: "192.0.2.1"}, []ratelimit.Rule{{Counter: "a", Limit: 1}}, ratelimit.Amounts{First: 1})
		if err != nil || admitted != (i == 0) {
			t.Fatalf("charge %d: admitted %v, error %v", i, admitted, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the SDK says: %s", &log)
	}
}

func TestAMissingTableIsAnError(t *testing.T) {
	s, err := dynamostore.New(dynamolocal.Client(t), "no-such-table")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Charge(t.Context(), ratelimit.Key{Address: "192.0.2.1"}, []ratelimit.Rule{{Counter: "a", Limit: 1}}, ratelimit.Amounts{First: 1}); err == nil {
		t.Error("no error")
	}
}
