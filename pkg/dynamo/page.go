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
	readUnitBytes  = 4096 // the unit by which DynamoDB bills a query
	fillFactor     = 0.9  // share of the billed units to fill; less than 1, because item sizes vary
	maxConcurrency = 16   // concurrent queries per page

	// aheadBytes divided by the mean item size is the maximum number of queries that continue at
	// the same time, but never less than one. The page may not need all that they return, so
	// aheadBytes is only the size of one large item.
	aheadBytes = record.MaxAttributesBytes

	// With manyParts queries or more, each query requests a single item until the size of items
	// is known, because the sum of their shares of the page could be too large. With fewer
	// queries, a request for a single item would often cost a second call.
	manyParts = 48

	// countLimit is the maximum number of items that one call counts. DynamoDB ends a response
	// after a megabyte, but DynamoDB Local would read all items of the query first.
	countLimit = 1000
)

// countItems counts the items that the queries find, except items that were created after the
// cutoff or had expired by then. created_at (S) is the text of a record.Time. expires_at (N,
// Unix time in seconds) is absent from items that do not expire. DynamoDB bills a count as a
// read of all its items, but does not send them.
func countItems(ctx context.Context, client querier, cutoff record.Time, ins ...*dynamodb.QueryInput) (n int64, err error) {
	for _, in := range ins {
		in.Select, in.Limit = types.SelectCount, aws.Int32(countLimit)
		filter := "#created_at <= :until AND (attribute_not_exists(#expires_at) OR #expires_at > :seconds)"
		if in.FilterExpression != nil {
			filter += " AND " + *in.FilterExpression
		}
		in.FilterExpression = &filter
		in.ExpressionAttributeNames["#created_at"], in.ExpressionAttributeValues[":until"] = "created_at", text(cutoff.String())
		in.ExpressionAttributeNames["#expires_at"], in.ExpressionAttributeValues[":seconds"] = "expires_at", number(cutoff.Time().Unix())
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

// queryPage merges the results of the queries and returns the first records: limit of them, or
// fewer if their items fill the page sooner (record.PageFull) or no more exist. The queries must
// sort by the string attribute sortKey, in the direction of the first query, and have no items in
// common. queryPage sets their Limit and ExclusiveStartKey. DynamoDB ends a response after a
// megabyte, so there is at least one call per megabyte.
//
// If further records follow, page.Next is the sort key of the last item on the page. When filters
// have dropped items of about record.MaxPassedBytes in all (twice that if there are several
// queries), the page ends where the query that is furthest behind has stopped, and page.Next is the
// sort key of the last item that it read.
//
// queryPage reads few items that it does not return. To learn the size of items, it first runs
// one query for its share of the page, and then all other queries concurrently. After that, it
// continues the queries that may have further items of the page, as many at a time as
// aheadBytes allows. A query's Limit depends on the mean size of the items that it has
// returned so far or, if it has returned none, of the items of all queries.
func queryPage[R any](ctx context.Context, client querier, sortKey string, limit int, decode func(attributeValues) (R, error), ins ...*dynamodb.QueryInput) (page record.Page[R], err error) {
	if len(ins) == 0 {
		return page, nil
	}
	forward := ins[0].ScanIndexForward
	m := &merger{client: client, sortKey: sortKey, descending: forward != nil && !*forward, limit: min(limit, math.MaxInt32-1)}
	for _, in := range ins {
		m.parts = append(m.parts, &part{in: in})
	}
	items, next, err := m.page(ctx)
	if err != nil {
		return page, storeError("query "+aws.ToString(ins[0].TableName), err)
	}
	page.Next = record.Cursor(next)
	page.Records, err = each(items, decode)
	return page, err
}

// cursorAt returns the cursor of a page that starts after an item, or "" if there is no item.
func cursorAt(item attributeValues, sortKey string) record.Cursor {
	return record.Cursor(readItem(item).optionalText(sortKey))
}

// merger is the state of one call of queryPage.
type merger struct {
	client     querier
	sortKey    string
	descending bool
	limit      int

	mu    sync.Mutex // guards the fields below while queries run
	parts []*part
	sizes mean // of the items of all parts
}

// page returns the items of the page and, if others may follow, the sort key after which they do.
func (m *merger) page(ctx context.Context) (items []attributeValues, next string, err error) {
	for _, parts := range [][]*part{m.parts[:1], m.parts[1:]} {
		if err := m.read(ctx, parts, 0); err != nil {
			return nil, "", err
		}
	}
	for {
		page, end := m.merge()
		missing := m.missing(end)
		switch {
		case len(missing) > 0 && m.passed() < record.MaxPassedBytes*9/10:
		case len(missing) > 0:
			next = missing[0].at
			return itemsOf(slices.DeleteFunc(page, func(c candidate) bool { return m.compare(c.key, next) > 0 })), next, nil
		case end != nil:
			return itemsOf(page), page[len(page)-1].key, nil
		default:
			return itemsOf(page), "", nil
		}
		settled := 0 // how many items have their final position, because no unread item can precede them
		for settled < len(page) && m.reached(missing[0], page[settled].key) {
			settled++
		}
		nearest := max(1, int(aheadBytes/max(m.sizes.value(), 1)))
		if err := m.read(ctx, missing[:min(nearest, len(missing))], settled); err != nil {
			return nil, "", err
		}
	}
}

// part is one query and what it has returned so far.
type part struct {
	in      *dynamodb.QueryInput
	items   []candidate
	sizes   mean   // of items
	scanned int    // how many items DynamoDB has read, including those that the filter dropped
	bytes   int    // size of the scanned items
	at      string // value of the sort key of the last scanned item
	done    bool   // whether the query has ended
}

// passed returns how many bytes the filters have dropped.
func (m *merger) passed() (n int) {
	for _, p := range m.parts {
		if p.scanned > len(p.items) {
			n += max(0, p.bytes-p.sizes.sum)
		}
	}
	return n
}

func itemsOf(page []candidate) (items []attributeValues) {
	for _, c := range page {
		items = append(items, c.item)
	}
	return items
}

type candidate struct {
	item attributeValues
	key  string // value of the sort key
	size int    // in bytes
}

type mean struct{ sum, count int }

func (m *mean) add(n int) { m.sum, m.count = m.sum+n, m.count+1 }

// value returns 0 if nothing was added.
func (m mean) value() float64 { return float64(m.sum) / float64(max(m.count, 1)) }

// compare follows the direction of the page.
func (m *merger) compare(a, b string) int {
	if m.descending {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// merge returns as much of the page as has been read. end is the first item after the page, or
// nil if no such item has been read.
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

// missing returns the parts that may have unread items of the page, sorted by how far they have
// been read.
func (m *merger) missing(end *candidate) (missing []*part) {
	for _, p := range m.parts {
		if !p.done && (end == nil || !m.reached(p, end.key)) {
			missing = append(missing, p)
		}
	}
	slices.SortStableFunc(missing, func(a, b *part) int { return m.compare(a.at, b.at) })
	return missing
}

// reached reports whether p has been read as far as key. p.done must be false.
func (m *merger) reached(p *part, key string) bool { return m.compare(p.at, key) >= 0 }

// read makes one further query for each part, concurrently. settled is how many items already
// have their final position on the page.
func (m *merger) read(ctx context.Context, parts []*part, settled int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrency)
	for _, p := range parts {
		group.Go(func() error { return m.readPart(ctx, p, settled) })
	}
	return group.Wait()
}

// share returns how many items to request from p: the number that the page lacks, divided by the
// number of unfinished parts. DynamoDB bills whole read units, so share rounds up to fill the last
// unit, within what the page lacks: the additional items cost nothing and may save a call.
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
	lacking := m.limit + 1 - settled // one more than the page holds, to learn whether the list continues
	if mean := m.sizes.value(); mean > 0 {
		lacking = min(lacking, int(record.MaxPageBytes/mean)+2-settled)
	}
	n := max((lacking+unread-1)/unread, 1)
	if size > 0 {
		paid := math.Ceil(float64(n)*size/readUnitBytes) * readUnitBytes
		n = max(n, min(int(fillFactor*paid/size), lacking))
	}
	scanned, bytes := 0, 0
	for _, p := range m.parts {
		scanned, bytes = scanned+p.scanned, bytes+p.bytes
	}
	if scanned <= m.sizes.count {
		return n
	}
	// Assume that the filters drop the same share of the next items, and stay within
	// MaxPassedBytes. A part's first query may need as much again, because the page cannot
	// advance further than the part that is furthest behind.
	passed := m.passed()
	if p.scanned == 0 {
		passed = 0
	}
	room := (record.MaxPassedBytes - passed) / unread * scanned / max(bytes, 1)
	if m.sizes.count > 0 {
		room = min(room, n*scanned/m.sizes.count)
	}
	return max(room, 1)
}

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
		c.key = readItem(item).optionalText(m.sortKey)
		p.items = append(p.items, c)
		p.sizes.add(c.size)
		m.sizes.add(c.size)
	}
	p.scanned += int(out.ScannedCount)
	if out.ConsumedCapacity != nil {
		p.bytes += int(aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) * 2 * readUnitBytes) // an eventually consistent read takes half a unit per 4 KB
	}
	p.in.ExclusiveStartKey = out.LastEvaluatedKey
	p.at, p.done = readItem(out.LastEvaluatedKey).optionalText(m.sortKey), len(out.LastEvaluatedKey) == 0
	return nil
}
