package dynamostore_test

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/entity/dynamostore"
	"sluice/pkg/record"
	"sluice/pkg/record/dynamorecord"
)

// counter is a Client that counts the puts of another.
type counter struct {
	dynamostore.Client
	puts atomic.Int64
}

func (c *counter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	c.puts.Add(1)
	return c.Client.PutItem(ctx, in, opts...)
}

// oneItem is a table of one item. Each call takes 5 ms, half of them each way.
type oneItem struct {
	dynamostore.Client

	mu   sync.Mutex
	item dynamorecord.Item
}

const oneWay = 2500 * time.Microsecond

func (o *oneItem) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	time.Sleep(oneWay)
	o.mu.Lock()
	item := o.item
	o.mu.Unlock()
	time.Sleep(oneWay)
	return &dynamodb.GetItemOutput{Item: item}, nil
}

// PutItem evaluates conditions of the form #n = :n AND … and no others.
func (o *oneItem) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	time.Sleep(oneWay)
	defer time.Sleep(oneWay)
	o.mu.Lock()
	defer o.mu.Unlock()
	for condition := range strings.SplitSeq(*in.ConditionExpression, " AND ") {
		name, value, _ := strings.Cut(condition, " = ")
		if !reflect.DeepEqual(o.item[in.ExpressionAttributeNames[name]], in.ExpressionAttributeValues[value]) {
			return nil, &types.ConditionalCheckFailedException{Item: o.item} // as with ALL_OLD
		}
	}
	o.item = in.Item
	return &dynamodb.PutItemOutput{}, nil
}

const contenders = 200

// contend counts up an entity by concurrent updates, and returns how many were
// applied and how many puts they made. Each must be applied or fail with kind
// Unavailable, which leaves open whether it was: its time may have ended while its
// put was on the way.
func contend(t *testing.T, client dynamostore.Client, table string) (applied, puts int64) {
	t.Helper()
	counted := &counter{Client: client}
	var succeeded, unavailable atomic.Int64
	var wg sync.WaitGroup
	for range contenders {
		s := open(t, counted, table) // as if in an instance of its own
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := s.Update(ctx, "default", "a", func(e entity.Entity) (entity.Entity, error) {
				n, err := strconv.Atoi(string(e.Attributes))
				e.Attributes = record.Attributes(strconv.Itoa(n + 1))
				return e, err
			})
			switch failure := new(record.Error); {
			case err == nil:
				succeeded.Add(1)
			case errors.As(err, &failure) && failure.Kind == record.Unavailable:
				unavailable.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e, err := open(t, client, table).Get(t.Context(), "default", "a")
	if err != nil {
		t.Fatal(err)
	}
	counts, err := strconv.ParseInt(string(e.Attributes), 10, 64)
	if least, most := succeeded.Load(), succeeded.Load()+unavailable.Load(); err != nil || counts < least || counts > most {
		t.Errorf("the entity counts %s, want %d to %d updates; error %v", e.Attributes, least, most, err)
	}
	t.Logf("%d updates: %d applied, %d puts", contenders, succeeded.Load(), counted.puts.Load())
	return succeeded.Load(), counted.puts.Load()
}

var zero = entity.Entity{ID: "a", Type: "account", Attributes: record.Attributes(`0`)}

func TestConcurrentUpdatesOfOneEntityBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := &oneItem{item: dynamorecord.Item{}}
		for name, value := range map[string]string{"id": "a", "type": "account", "attributes": "0", "created_at": "2026-01-02T15:04:05.678Z", "updated_at": "2026-01-02T15:04:05.678Z"} {
			client.item[name] = dynamorecord.Text(value)
		}
		applied, puts := contend(t, client, "entities")
		if puts > 3*contenders {
			t.Errorf("%d puts by %d updates, want 3 each at most on average", puts, contenders)
		}
		if applied < contenders/2 {
			t.Errorf("only %d of %d updates were applied", applied, contenders)
		}
	})
}

func TestConcurrentUpdatesOfOneEntityLoseNothing(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	if _, _, err := open(t, client, table).Create(t.Context(), "default", zero); err != nil {
		t.Fatal(err)
	}
	if applied, _ := contend(t, client, table); applied == 0 {
		t.Error("no update was applied")
	}
}
