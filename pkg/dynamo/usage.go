package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/ratelimit"
)

// UsageReaders is how many calls a method of Usage makes concurrently.
const UsageReaders = 4

// UsageClient is the part of *dynamodb.Client that Usage uses.
type UsageClient interface {
	querier
	batchGetter
}

// Usage is a ratelimit.UsageStore that reads the table of Counters. Its reads are eventually
// consistent, so charges of the last second may be missing. It is safe for concurrent use.
type Usage struct {
	client UsageClient
	table  string
}

// NewUsage fails if client is nil or the table name is empty.
func NewUsage(client UsageClient, table string) (*Usage, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Usage{client: client, table: table}, nil
}

// Used implements ratelimit.UsageStore with one Query for each group and minute; the windows
// span one or two minutes. A Query takes half a read unit per 4 KB that it finds, at least
// half a unit. Of a key, it is one Query for each group.
func (s *Usage) Used(ctx context.Context, identity string, routes []ratelimit.Route, last ratelimit.Window) (ratelimit.Used, error) {
	if _, ok := ratelimit.KeyID(identity); ok {
		return s.usedByKey(ctx, identity, routes, last)
	}
	used := emptyUse()
	first := ratelimit.FirstUsageWindow(last)
	var mu sync.Mutex // guards used
	queries, ctx := errgroup.WithContext(ctx)
	queries.SetLimit(UsageReaders)
	for _, group := range ratelimit.Groups(routes) {
		for minute := minuteOf(first); minute <= last; minute += windowsPerMinute {
			queries.Go(func() error {
				items, err := s.query(ctx, counterPartition(identity, group, minute), first, last)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for window, counters := range items {
					maps.Copy(used.Seconds[window-first], counters)
				}
				return nil
			})
		}
	}
	return used, queries.Wait()
}

func emptyUse() ratelimit.Used {
	used := ratelimit.Used{Seconds: make([]map[string]int64, ratelimit.UsageWindows), Day: make(map[string]int64), Month: make(map[string]int64)}
	for i := range used.Seconds {
		used.Seconds[i] = make(map[string]int64)
	}
	return used
}

func (s *Usage) usedByKey(ctx context.Context, identity string, routes []ratelimit.Route, last ratelimit.Window) (ratelimit.Used, error) {
	used := emptyUse()
	var mu sync.Mutex // guards used
	queries, ctx := errgroup.WithContext(ctx)
	queries.SetLimit(UsageReaders)
	for _, group := range ratelimit.Groups(routes) {
		queries.Go(func() error {
			out, err := s.client.Query(ctx, &dynamodb.QueryInput{
				TableName:                 &s.table,
				KeyConditionExpression:    aws.String("pk = :pk"),
				ExpressionAttributeValues: attributeValues{":pk": text(ledgerPartition(identity, group))},
			})
			if err != nil {
				return fmt.Errorf("query ledger: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, item := range out.Items {
				l, err := readLedger(item)
				if err != nil {
					return err
				}
				l.addTo(used, group, routes, last)
			}
			return nil
		})
	}
	return used, queries.Wait()
}

// Sums implements ratelimit.UsageStore with a BatchGetItem for each 50 keys. Each key takes half a read unit
// for records and half for imports, also if it has used nothing.
func (s *Usage) Sums(ctx context.Context, identities []string, p ratelimit.Period, w ratelimit.Window) (map[string]ratelimit.PeriodUsage, error) {
	var keys []attributeValues
	for _, identity := range slices.Compact(slices.Sorted(slices.Values(identities))) {
		for _, class := range []ratelimit.Class{ratelimit.Export, ratelimit.Import} {
			keys = append(keys, ledgerID{identity, ratelimit.Route{Class: class}.Group()}.key())
		}
	}
	all := make(map[string]ratelimit.PeriodUsage)
	var mu sync.Mutex // guards all
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(UsageReaders)
	for chunk := range slices.Chunk(keys, maxBatchGet) {
		reads.Go(func() error {
			items, err := batchGet(ctx, s.client, s.table, chunk, false)
			if err != nil {
				return fmt.Errorf("read ledgers: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, item := range items {
				l, err := readLedger(item)
				if err != nil {
					return err
				}
				identity, _, _ := strings.Cut(readItem(item).text("pk"), "#")
				u := ratelimit.PeriodUsage{Start: p.Start(w), Records: all[identity].Records, Imports: all[identity].Imports}
				u.Records += l.counters[ledgerName(ratelimit.RuleRecords, p, w)] // each is in one of the two items
				u.Imports += l.counters[ledgerName(ratelimit.RuleImports, p, w)]
				if u.Records > 0 || u.Imports > 0 {
					all[identity] = u
				}
			}
			return nil
		})
	}
	return all, reads.Wait()
}

// addTo adds the counters of a group's ledger to what is used up to last.
func (l ledger) addTo(used ratelimit.Used, group ratelimit.Group, routes []ratelimit.Route, last ratelimit.Window) {
	names := make(map[string]string) // of counters, by code
	for _, r := range routes {
		if r.Group() == group {
			for _, counter := range r.Counters() {
				names[counterCode(counter)] = counter
			}
		}
	}
	first := ratelimit.FirstUsageWindow(last)
	for attribute, n := range l.counters {
		code, p, start, _ := parseLedgerName(attribute)
		switch name, known := names[code]; {
		case !known, p == ratelimit.Second && (start < first || start > last), p != ratelimit.Second && start != p.Start(last):
		case p == ratelimit.Day:
			used.Day[name] = n
		case p == ratelimit.Month:
			used.Month[name] = n
		default:
			used.Seconds[start-first][name] = n
		}
	}
}

// query returns the counters of a partition key, by window. They fit into one page: at most 60
// items of less than 1 KB each.
func (s *Usage) query(ctx context.Context, pk types.AttributeValue, first, last ratelimit.Window) (map[ratelimit.Window]map[string]int64, error) {
	out, err := s.client.Query(ctx, &dynamodb.QueryInput{
		TableName:                &s.table,
		KeyConditionExpression:   aws.String("pk = :pk AND #second BETWEEN :first AND :last"),
		ExpressionAttributeNames: map[string]string{"#second": "second"},
		ExpressionAttributeValues: attributeValues{
			":pk": pk, ":first": number(int64(first)), ":last": number(int64(last)),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("query counters: %w", err)
	}
	found := make(map[ratelimit.Window]map[string]int64, len(out.Items))
	for _, item := range out.Items {
		r := readItem(item)
		window := ratelimit.Window(r.number("second"))
		if found[window], err = readCounters(item); err != nil || r.err() != nil {
			return nil, cmp.Or(err, r.err())
		}
	}
	return found, nil
}
