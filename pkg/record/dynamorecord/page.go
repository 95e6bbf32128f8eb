package dynamorecord

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/record"
)

const (
	readUnitBytes  = 4096 // DynamoDB bills what a query reads in steps of this size
	fillFactor     = 0.9  // how much of read units to fill by the mean size of items, because sizes vary
	maxConcurrency = 16   // queries of one page at the same time

	// aheadBytes is about how much is read at once of items that may turn out not to
	// be on the page: one of the largest.
	aheadBytes = record.MaxAttributesBytes

	// manyParts is the number of queries from which on a share of the page from each
	// could be too much: before the size of any item is known, such a query asks for
	// one. With fewer queries, that would often cost one more.
	manyParts = 48

	// countItems bounds the items that one call counts. DynamoDB stops after a
	// megabyte in any case; DynamoDB Local does so only after it has read all that
	// the limit admits, without a limit to the end of the query.
	countItems = 1000
)

// Count returns the number of items that queries find whose text attribute is at
// most value, in the order of bytes. DynamoDB bills it like a read of all items
// that the queries find, but sends none of them.
func Count(ctx context.Context, client Querier, attribute, value string, ins ...*dynamodb.QueryInput) (n int64, err error) {
	for _, in := range ins {
		in.Select, in.Limit = types.SelectCount, aws.Int32(countItems)
		in.FilterExpression = aws.String("#filtered <= :most")
		in.ExpressionAttributeNames["#filtered"], in.ExpressionAttributeValues[":most"] = attribute, Text(value)
		for {
			out, err := client.Query(ctx, in)
			if err != nil {
				return 0, Error("count in "+aws.ToString(in.TableName), err)
			}
			n += int64(out.Count)
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				break
			}
		}
	}
	return n, nil
}

// Page runs queries, as if they were one, until it has limit records or as many
// bytes as a page may hold (record.PageFull, by the size of items). more reports
// whether any are left. Several queries must return their items in the order of the
// text attribute sortKey, all in the direction of the first, and no two the same
// item. It sets the Limit and the ExclusiveStartKey of the queries, and makes a call
// for each megabyte, after which DynamoDB ends a response.
//
// It reads little that it does not return. It asks one query first, for its share
// of the page, because it does not know how large items are; then the others, at
// once; then those that may have further items of the page, as many at once as have
// about aheadBytes of them, until none are left. What it asks a query for depends
// on the sizes of that query's items, and before it knows those, on the sizes of all
// items read until then.
func Page[R any](ctx context.Context, client Querier, sortKey string, limit int, decode func(Item) (R, error), ins ...*dynamodb.QueryInput) (records []R, more bool, err error) {
	if len(ins) == 0 {
		return nil, false, nil
	}
	forward := ins[0].ScanIndexForward
	m := &merger{client: client, sortKey: sortKey, descending: forward != nil && !*forward, limit: min(limit, math.MaxInt32-1)}
	for _, in := range ins {
		m.parts = append(m.parts, &part{in: in})
	}
	items, more, err := m.page(ctx)
	if err != nil {
		return nil, false, Error("query "+aws.ToString(ins[0].TableName), err)
	}
	records, err = Each(items, decode)
	return records, more, err
}

// merger is one call of Page.
type merger struct {
	client     Querier
	sortKey    string
	descending bool
	limit      int

	mu    sync.Mutex // while queries run
	parts []*part
	sizes mean // of the items of all parts
}

// page reads until it has the page.
func (m *merger) page(ctx context.Context) (items []Item, more bool, err error) {
	for _, parts := range [][]*part{m.parts[:1], m.parts[1:]} {
		if err := m.read(ctx, parts, 0); err != nil {
			return nil, false, err
		}
	}
	for {
		page, end := m.merge()
		missing := m.missing(end)
		if len(missing) == 0 {
			for _, c := range page {
				items = append(items, c.item)
			}
			return items, end != nil, nil
		}
		settled := 0 // items of the page that have no unread ones before them
		for settled < len(page) && m.reached(missing[0], page[settled].key) {
			settled++
		}
		nearest := max(1, int(aheadBytes/max(m.sizes.value(), 1)))
		if err := m.read(ctx, missing[:min(nearest, len(missing))], settled); err != nil {
			return nil, false, err
		}
	}
}

// part is what has been read of one query.
type part struct {
	in    *dynamodb.QueryInput
	items []candidate
	sizes mean
	done  bool // there is nothing after items
}

// candidate is an item that may be on the page.
type candidate struct {
	item Item
	key  string // value of the sort key
	size int    // in bytes
}

// mean is a mean of numbers.
type mean struct{ sum, count int }

func (m *mean) add(n int) { m.sum, m.count = m.sum+n, m.count+1 }

// value returns 0 if there are no numbers.
func (m mean) value() float64 { return float64(m.sum) / float64(max(m.count, 1)) }

// compare orders keys in the direction of the page.
func (m *merger) compare(a, b string) int {
	if m.descending {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// merge returns the items of the page among those that have been read, and the
// item after the page, nil if that has not been read.
func (m *merger) merge() (page []candidate, end *candidate) {
	var all []candidate
	for _, p := range m.parts {
		all = append(all, p.items...)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return m.compare(a.key, b.key) })
	pageBytes := 0
	for i, c := range all {
		if i == m.limit || record.PageFull(i, pageBytes, c.size) {
			return all[:i], &all[i]
		}
		pageBytes += c.size
	}
	return all, nil
}

// missing returns the parts that may have unread items before the end of the page,
// in the order in which these may come.
func (m *merger) missing(end *candidate) (missing []*part) {
	for _, p := range m.parts {
		if !p.done && (end == nil || !m.reached(p, end.key)) {
			missing = append(missing, p)
		}
	}
	slices.SortStableFunc(missing, func(a, b *part) int {
		if len(a.items) == 0 || len(b.items) == 0 {
			return cmp.Compare(len(a.items), len(b.items))
		}
		return m.compare(a.items[len(a.items)-1].key, b.items[len(b.items)-1].key)
	})
	return missing
}

// reached reports whether p, which is not done, has no unread items before key.
func (m *merger) reached(p *part, key string) bool {
	return len(p.items) > 0 && m.compare(p.items[len(p.items)-1].key, key) >= 0
}

// read reads on in parts, at once, to find the items of the page that are not
// settled.
func (m *merger) read(ctx context.Context, parts []*part, settled int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrency)
	for _, p := range parts {
		group.Go(func() error { return m.readPart(ctx, p, settled) })
	}
	return group.Wait()
}

// share returns how many items to ask p for: as many of those that the page lacks
// as each part has on average, and those that most likely fit into the same read
// units. The latter cost nothing, and may save a call.
func (m *merger) share(p *part, settled int) int {
	size := cmp.Or(p.sizes.value(), m.sizes.value())
	if size == 0 && len(m.parts) >= manyParts {
		return 1
	}
	unread := 0
	for _, p := range m.parts {
		if !p.done {
			unread++
		}
	}
	lacking := m.limit + 1 - settled // with the one that shows that there are more
	if mean := m.sizes.value(); mean > 0 {
		lacking = min(lacking, int(record.MaxPageBytes/mean)+2-settled)
	}
	n := max((lacking+unread-1)/unread, 1)
	if size > 0 {
		paid := math.Ceil(float64(n)*size/readUnitBytes) * readUnitBytes
		n = max(n, min(int(fillFactor*paid/size), lacking))
	}
	return n
}

// readPart reads the next items of p.
func (m *merger) readPart(ctx context.Context, p *part, settled int) error {
	m.mu.Lock()
	p.in.Limit = aws.Int32(int32(m.share(p, settled)))
	m.mu.Unlock()
	out, err := m.client.Query(ctx, p.in)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range out.Items {
		c := candidate{item: item, size: size(item)}
		if s, ok := item[m.sortKey].(*types.AttributeValueMemberS); ok {
			c.key = s.Value
		}
		p.items = append(p.items, c)
		p.sizes.add(c.size)
		m.sizes.add(c.size)
	}
	p.in.ExclusiveStartKey = out.LastEvaluatedKey
	p.done = len(out.LastEvaluatedKey) == 0
	return nil
}
