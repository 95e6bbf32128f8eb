package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func openLimits(t *testing.T, client LimitsClient, table string) *Limits {
	t.Helper()
	s, err := NewLimits(client, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type fillableLimits struct{ *Limits }

func (s fillableLimits) Fill(t *testing.T, rows []ratelimit.Row) {
	t.Helper()
	const batch = 25
	for part := range slices.Chunk(rows, batch) {
		var requests []types.WriteRequest
		for _, r := range part {
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: rowToItem(r)}})
		}
		out, err := dynamolocal.Client(t).BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.table: requests}})
		if err != nil || len(out.UnprocessedItems) > 0 {
			t.Fatalf("%d unprocessed, error %v", len(out.UnprocessedItems), err)
		}
	}
}

func TestLimits(t *testing.T) {
	storetest.Limits(t, func(t *testing.T) storetest.FillableLimits {
		return fillableLimits{openLimits(t, dynamolocal.Client(t), dynamolocal.Table(t, "LimitsTable"))}
	})
}

type limitReader struct {
	*dynamodb.Client
	consistent bool
}

func (r *limitReader) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	r.consistent = aws.ToBool(in.ConsistentRead)
	return r.Client.Scan(ctx, in, opts...)
}

// "sluice limits list" shows what "sluice limits set" has just written. Instances read every minute.
func TestOnlyCommandsReadRowsStronglyConsistently(t *testing.T) {
	t.Parallel()
	client, table := &limitReader{Client: dynamolocal.Client(t)}, dynamolocal.Table(t, "LimitsTable")
	if _, err := openLimits(t, client, table).List(t.Context()); err != nil || !client.consistent {
		t.Errorf("of a command: consistent %v, error %v", client.consistent, err)
	}
	ofInstance, err := OpenLimits(client, func(string) string { return table })
	if err == nil {
		_, err = ofInstance.List(t.Context())
	}
	if err != nil || client.consistent {
		t.Errorf("of an instance: consistent %v, error %v", client.consistent, err)
	}
}

// docs/cost.md uses these figures.
func TestReadUnitsOfAList(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	table := dynamolocal.Table(t, "LimitsTable")
	client := dynamolocal.Client(t, func(o *dynamodb.Options) { o.BaseEndpoint = &proxy.URL })
	s, err := OpenLimits(client, func(string) string { return table })
	if err != nil {
		t.Fatal(err)
	}
	call := dynamoproxy.Call{Operation: "Scan", Table: table}
	count := 0
	for _, tt := range []struct {
		rows  int
		calls int
		most  float64 // read units
	}{{0, 1, 1}, {20, 1, 1}, {2 * ratelimit.MaxRows, 1, 30}} {
		var rows []ratelimit.Row
		for ; count < tt.rows; count++ {
			r := ratelimit.Row{
				CIDR: netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", count)), Action: ratelimit.ActionBlock, Note: strings.Repeat("n", 30),
				UpdatedAt: time.Unix(1_800_000_000, 0), ExpiresAt: time.Unix(1_900_000_000, 0),
			}
			if count%2 == 0 {
				r.Action, r.Records, r.Imports, r.Requests = ratelimit.ActionLimit, int64(count+1), int64(count%900+1), int64(count%900+1)
			}
			rows = append(rows, r)
		}
		fillableLimits{s}.Fill(t, rows)
		before := proxy.Usage()[call]
		if rows, err := s.List(t.Context()); err != nil || len(rows) != tt.rows {
			t.Fatalf("%d rows, error %v", len(rows), err)
		}
		after := proxy.Usage()[call]
		calls, units := after.Calls-before.Calls, after.Units-before.Units
		t.Logf("%d rows: %d calls, %v read units", tt.rows, calls, units)
		if calls != tt.calls || units > tt.most {
			t.Errorf("%d rows took %d calls and %v read units, want %d and at most %v", tt.rows, calls, units, tt.calls, tt.most)
		}
	}
}

// Somebody may edit the table in the AWS console.
func TestAnInvalidItemOfLimitsIsNamedAndTheOthersAreReturned(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "LimitsTable")
	text := text
	valid := ratelimit.Row{CIDR: netip.MustParsePrefix("198.51.100.7/32"), Action: ratelimit.ActionBlock, UpdatedAt: time.Unix(1, 0).UTC()}
	if err := openLimits(t, client, table).Put(t.Context(), valid); err != nil {
		t.Fatal(err)
	}
	for name, item := range map[string]attributeValues{
		"no action":    {"cidr": text("192.0.2.0/24")},
		"no block":     {"cidr": text("all"), "action": text("limit")},
		"host bits":    {"cidr": text("192.0.2.1/24"), "action": text("limit")},
		"other action": {"cidr": text("192.0.2.0/24"), "action": text("allow")},
		"other case":   {"cidr": text("192.0.2.0/24"), "action": text("Block")},
		"string limit": {"cidr": text("192.0.2.0/24"), "action": text("limit"), "records": text("5")},
		"fraction":     {"cidr": text("192.0.2.0/24"), "action": text("limit"), "records": &types.AttributeValueMemberN{Value: "0.5"}},
		"too many":     {"cidr": text("192.0.2.0/24"), "action": text("limit"), "imports": &types.AttributeValueMemberN{Value: "901"}},
	} {
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			t.Fatal(err)
		}
		rows, err := openLimits(t, client, table).List(t.Context())
		if cidr := readItem(item).text("cidr"); !errors.As(err, new(ratelimit.InvalidRows)) || !strings.Contains(err.Error(), cidr) || !slices.Equal(rows, []ratelimit.Row{valid}) {
			t.Errorf("%s: %+v, %v", name, rows, err)
		}
		if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: attributeValues{"cidr": item["cidr"]}}); err != nil {
			t.Fatal(err)
		}
	}
}
