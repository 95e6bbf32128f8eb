package dynamo

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
	readUnitBytes  = 4096 // number of bytes per read unit, by which DynamoDB bills a query
	fillFactor     = 0.9  // fraction of the billed read units to fill; less than 1 because sizes vary
	maxConcurrency = 16   // maximum number of concurrent queries for one page

	// aheadBytes limits how many queries a merger continues at the same time. Their number
	// is at most the number of items of the mean size that fit into aheadBytes, or 1 if no
	// such item fits. The limit exists because the page may not need the items that these
	// queries return. aheadBytes is the size of one large item.
	aheadBytes = record.MaxAttributesBytes

	// If a page has manyParts queries or more, a query requests only one item as long as
	// the size of items is not known. If many queries requested their full shares of the
	// page, the responses could be too large together. With fewer queries, a query that
	// requests only one item would often need another call.
	manyParts = 48

	// countLimit is the maximum number of items that one call counts. DynamoDB ends a
	// response after a megabyte, but without a limit DynamoDB Local would first read all
	// items of the query.
	countLimit = 1000
)

// countItems returns the number of items in the results of queries that were created by until
// and had not expired by then. created_at (S) is the text of a record.Time, and expires_at (N,
// Unix time in seconds) is absent from items that do not expire. DynamoDB bills a count like a
// read of all items, but does not send them.
func countItems(ctx context.Context, client querier, until record.Time, ins ...*dynamodb.QueryInput) (n int64, err error) {
	for _, in := range ins {
		in.Select, in.Limit = types.SelectCount, aws.Int32(countLimit)
		filter := "#created_at <= :until AND (attribute_not_exists(#expires_at) OR #expires_at > :seconds)"
		if in.FilterExpression != nil {
			filter += " AND " + *in.FilterExpression
		}
		in.FilterExpression = &filter
		in.ExpressionAttributeNames["#created_at"], in.ExpressionAttributeValues[":until"] = "created_at", text(until.String())
		in.ExpressionAttributeNames["#expires_at"], in.ExpressionAttributeValues[":seconds"] = "expires_at", number(until.Time().Unix())
		for {
			out, err := client.Query(ctx, in)
			if err != nil {
				return 0, storeError("count in "+aws.ToString(in.TableName), err)
			}
			n += int64(out.Count)
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				break
			}
		}
	}
	return n, nil
}

// queryPage merges the results of queries and returns the first records. Their number is at
// most limit, and smaller if the page is full earlier (record.PageFull, by the size of
// items). The result more is true if further records follow. If there are several queries,
// each must return its items in the order of the string attribute sortKey, in the direction
// of the first query, and no item may be in two results. Page sets the Limit and the
// ExclusiveStartKey of the queries. It makes a call for each megabyte, because DynamoDB
// ends a response after a megabyte.
//
// A query with a filter passes at most about record.MaxPassedBytes of the items that the filter
// drops. Then the page ends, and the ID of page.Last is that of the last item that was read.
//
// Page reads few items that it does not return. First it runs one query for its share of
// the page, to learn the size of items. Then it runs all other queries concurrently. Then
// it continues the queries that may have further items of the page, until the page is
// complete. At any time, it continues at most n queries, where n is the number of items
// of the mean size that fit into aheadBytes, and at least 1. The limit of each query
// depends on the mean size of the items that it has returned. If a query has returned no
// items, its limit depends on the items of all queries.
func queryPage[R any](ctx context.Context, client querier, sortKey string, limit int, decode func(attributeValues) (R, error), ins ...*dynamodb.QueryInput) (page record.Page[R], err error) {
	if len(ins) == 0 {
		return page, nil
	}
	forward := ins[0].ScanIndexForward
	m := &merger{client: client, sortKey: sortKey, descending: forward != nil && !*forward, limit: min(limit, math.MaxInt32-1)}
	for _, in := range ins {
		m.parts = append(m.parts, &part{in: in})
	}
	items, more, err := m.page(ctx)
	if err != nil {
		return page, storeError("query "+aws.ToString(ins[0].TableName), err)
	}
	if page.More = more || m.stopped != nil; !more && m.stopped != nil {
		page.Last.ID = readItem(m.stopped).text("id")
	}
	page.Records, err = each(items, decode)
	return page, err
}

// merger is the state of one call of Page.
type merger struct {
	client     querier
	sortKey    string
	descending bool
	limit      int

	mu      sync.Mutex // guards the other fields while queries run
	parts   []*part
	sizes   mean            // mean size of the items of all parts
	stopped attributeValues // key of the last item that was read, if a query has passed too much
}

// page reads items until the page is complete, and returns it.
func (m *merger) page(ctx context.Context) (items []attributeValues, more bool, err error) {
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
		settled := 0 // number of items whose place at the start of the page is final, because no unread item can precede them
		for settled < len(page) && m.reached(missing[0], page[settled].key) {
			settled++
		}
		nearest := max(1, int(aheadBytes/max(m.sizes.value(), 1)))
		if err := m.read(ctx, missing[:min(nearest, len(missing))], settled); err != nil {
			return nil, false, err
		}
	}
}

// part is one query and the items that were read from it.
type part struct {
	in      *dynamodb.QueryInput
	items   []candidate
	sizes   mean // mean size of items
	scanned int  // number of items that DynamoDB has read, including those that the filter drops
	bytes   int  // their size
	done    bool // whether the query is not continued
}

// passed returns the size of the items that the filter has dropped.
func (p *part) passed() int { return p.bytes - p.sizes.sum }

// candidate is an item that may be on the page.
type candidate struct {
	item attributeValues
	key  string // value of the sort key
	size int    // size of the item in bytes
}

// mean is the mean of a series of numbers.
type mean struct{ sum, count int }

func (m *mean) add(n int) { m.sum, m.count = m.sum+n, m.count+1 }

// value returns the mean, or 0 if no number was added.
func (m mean) value() float64 { return float64(m.sum) / float64(max(m.count, 1)) }

// compare orders keys in the direction of the page.
func (m *merger) compare(a, b string) int {
	if m.descending {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// merge returns the items of the page that have been read so far. The result end is the
// first item after the page, or nil if that item has not been read.
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

// missing returns the parts that may have unread items before the end of the page, sorted
// by the earliest possible position of an unread item.
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

// reached reports whether all items of p before key have been read. p.done must be false.
func (m *merger) reached(p *part, key string) bool {
	return len(p.items) > 0 && m.compare(p.items[len(p.items)-1].key, key) >= 0
}

// read reads further items from all given parts at the same time. The parameter settled is
// the number of items whose place on the page is final.
func (m *merger) read(ctx context.Context, parts []*part, settled int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrency)
	for _, p := range parts {
		group.Go(func() error { return m.readPart(ctx, p, settled) })
	}
	return group.Wait()
}

// share returns the number of items to request from p. It divides the number of items
// that the page lacks by the number of unfinished parts. DynamoDB rounds the size of the
// result of a query up to whole read units. If these units probably have room for further
// items that the page lacks, share adds the number of these items to its result. They cost
// nothing and may save a call.
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
	lacking := m.limit + 1 - settled // including one item after the page, which shows that the list continues
	if mean := m.sizes.value(); mean > 0 {
		lacking = min(lacking, int(record.MaxPageBytes/mean)+2-settled)
	}
	n := max((lacking+unread-1)/unread, 1)
	if size > 0 {
		paid := math.Ceil(float64(n)*size/readUnitBytes) * readUnitBytes
		n = max(n, min(int(fillFactor*paid/size), lacking))
	}
	if p.scanned <= len(p.items) {
		return n
	}
	// Expect the filter to drop the same share of the next items, and keep to MaxPassedBytes.
	room := (record.MaxPassedBytes - p.passed()) * p.scanned / max(p.bytes, 1)
	if len(p.items) > 0 {
		room = min(room, n*p.scanned/len(p.items))
	}
	return max(room, 1)
}

// readPart reads the next items of p.
func (m *merger) readPart(ctx context.Context, p *part, settled int) error {
	m.mu.Lock()
	p.in.Limit = aws.Int32(int32(m.share(p, settled)))
	m.mu.Unlock()
	if p.in.FilterExpression != nil {
		p.in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	}
	out, err := m.client.Query(ctx, p.in)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range out.Items {
		c := candidate{item: item, size: itemSize(item)}
		if s, ok := item[m.sortKey].(*types.AttributeValueMemberS); ok {
			c.key = s.Value
		}
		p.items = append(p.items, c)
		p.sizes.add(c.size)
		m.sizes.add(c.size)
	}
	p.scanned += int(out.ScannedCount)
	if out.ConsumedCapacity != nil {
		p.bytes += int(aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) * 2 * readUnitBytes) // an eventually consistent read takes half a unit
	}
	p.in.ExclusiveStartKey = out.LastEvaluatedKey
	if p.done = len(out.LastEvaluatedKey) == 0; !p.done && p.scanned > len(p.items) && p.passed() >= record.MaxPassedBytes*9/10 {
		p.done, m.stopped = true, out.LastEvaluatedKey
	}
	return nil
}
