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

	"sluice/pkg/record"
)

const (
	readUnitBytes  = 4096 // what a query reads is charged in steps of this
	maxConcurrency = 16   // queries of one page at the same time

	// countItems is how many items one call counts at most. DynamoDB cuts an answer
	// off at a megabyte anyway; DynamoDB Local does so after it has read all that
	// the limit admits, without one to the end of the query.
	countItems = 1000
)

// Page runs in until it has limit items or as many bytes as a page may hold
// (record.PageFull, by the size of items). more says whether any are left. It
// sets in's Limit and ExclusiveStartKey, and takes a call for each megabyte,
// where DynamoDB cuts an answer off.
func Page(ctx context.Context, client Querier, in *dynamodb.QueryInput, limit int) (items []Item, more bool, err error) {
	return Merge(ctx, client, "", limit, in)
}

// Count is how many items queries find whose text attribute is at most value, in
// the order of bytes. It reads what it counts, but nothing of that is sent.
func Count(ctx context.Context, client Querier, attribute, value string, ins ...*dynamodb.QueryInput) (n int64, err error) {
	for _, in := range ins {
		in.Select, in.Limit = types.SelectCount, aws.Int32(countItems)
		in.FilterExpression = aws.String("#filtered <= :most")
		in.ExpressionAttributeNames["#filtered"], in.ExpressionAttributeValues[":most"] = attribute, Text(value)
		for {
			out, err := client.Query(ctx, in)
			if err != nil {
				return 0, err
			}
			n += int64(out.Count)
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				break
			}
		}
	}
	return n, nil
}

// Merge is Page over several queries as if they were one. Each must give its
// items in the order of the text attribute sortKey, all in the direction of the
// first, and no two the same item.
//
// It reads little that it does not return. One query is asked first, for its
// fair share of the page, since items are not known to be small; then the
// others, at once; then, at once again, those that ran dry before the page's
// end, for what the others say is likely to be there. Items that a read unit
// has room for are read along: they cost nothing, and may save a call.
func Merge(ctx context.Context, client Querier, sortKey string, limit int, ins ...*dynamodb.QueryInput) (items []Item, more bool, err error) {
	m := &merger{client: client, sortKey: sortKey, limit: limit}
	if forward := ins[0].ScanIndexForward; forward != nil && !*forward {
		m.descending = true
	}
	for _, in := range ins {
		m.parts = append(m.parts, &part{in: in})
	}
	if err := m.read(ctx, m.parts[:1], m.share); err != nil {
		return nil, false, err
	}
	if err := m.read(ctx, m.parts[1:], m.share); err != nil {
		return nil, false, err
	}
	for {
		found, end := m.merge()
		dry := m.dry(end)
		if len(dry) == 0 {
			items := make([]Item, 0, len(found))
			for _, c := range found {
				items = append(items, c.item)
			}
			return items, end != nil, nil
		}
		settled := m.settled(found, dry)
		ask := func(p *part) int { return m.guess(p, found, end, dry, m.wanted()-settled) }
		if err := m.read(ctx, dry, ask); err != nil {
			return nil, false, err
		}
	}
}

// merger is one call of Merge.
type merger struct {
	client     Querier
	sortKey    string
	descending bool
	limit      int
	parts      []*part
}

// part is what has been read of one query.
type part struct {
	in    *dynamodb.QueryInput
	items []candidate
	done  bool // there is nothing after items
}

// candidate is an item that may be on the page.
type candidate struct {
	item Item
	key  string // its place in the order
	size int    // bytes
	from *part
}

// compare orders places in the direction of the page.
func (m *merger) compare(a, b string) int {
	if m.descending {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}

// wanted is how many items make a full page and show that there are more, as
// far as the sizes seen so far tell how many fit.
func (m *merger) wanted() int {
	wanted := min(m.limit, math.MaxInt32-1) + 1
	if _, mean, _ := m.sizes(); mean > 0 && len(m.parts) > 1 {
		wanted = min(wanted, int(record.MaxPageBytes/mean)+2)
	}
	return wanted
}

// sizes are how many items have been read, their mean size and its standard
// deviation, in bytes.
func (m *merger) sizes() (count, mean, deviation float64) {
	var sum, squares float64
	for _, p := range m.parts {
		for _, c := range p.items {
			count++
			sum += float64(c.size)
			squares += float64(c.size) * float64(c.size)
		}
	}
	if count == 0 {
		return 0, 0, 0
	}
	mean = sum / count
	return count, mean, math.Sqrt(max(squares/count-mean*mean, 0))
}

// share is how many items of a full page each part holds on average.
func (m *merger) share(*part) int { return ceil(m.wanted(), len(m.parts)) }

// read asks the parts for as many items as ask says, all at once.
func (m *merger) read(ctx context.Context, parts []*part, ask func(*part) int) error {
	limits := make([]int, len(parts))
	for i, p := range parts { // before any of them changes
		limits[i] = m.fillUnit(max(ask(p), 1))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrency)
	for i, p := range parts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := p.read(ctx, m.client, m.sortKey, limits[i]); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	return first
}

// fillUnit is n raised to what the read units of n items most likely have room
// for, as far as sizes are known.
func (m *merger) fillUnit(n int) int {
	seen, mean, deviation := m.sizes()
	if mean == 0 || len(m.parts) == 1 {
		return n
	}
	// A unit too many costs more than an item too few: leave room for one and a
	// half times the spread of what n items weigh, judged by those seen.
	weight := func(n float64) float64 { return n*mean + 1.5*deviation*math.Sqrt(n+n*n/seen) }
	paid := math.Ceil(float64(n)*mean/readUnitBytes) * readUnitBytes
	for wanted := m.wanted(); n < wanted && weight(float64(n+1)) <= paid; {
		n++
	}
	return n
}

// read asks for the next n items.
func (p *part) read(ctx context.Context, client Querier, sortKey string, n int) error {
	p.in.Limit = aws.Int32(int32(n))
	out, err := client.Query(ctx, p.in)
	if err != nil {
		return err
	}
	for _, item := range out.Items {
		c := candidate{item: item, size: size(item), from: p}
		if s, ok := item[sortKey].(*types.AttributeValueMemberS); ok {
			c.key = s.Value
		}
		p.items = append(p.items, c)
	}
	p.in.ExclusiveStartKey = out.LastEvaluatedKey
	p.done = len(out.LastEvaluatedKey) == 0
	return nil
}

// merge puts what has been read in order: the items of the page and the one
// at which it ends, which is not on it; nil if there is none yet.
func (m *merger) merge() (found []candidate, end *candidate) {
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

// dry are the parts of which items before the end of the page may be missing.
func (m *merger) dry(end *candidate) (dry []*part) {
	for _, p := range m.parts {
		if !p.done && (end == nil || len(p.items) == 0 || m.compare(p.lastKey(), end.key) < 0) {
			dry = append(dry, p)
		}
	}
	return dry
}

// lastKey is the place up to which p has been read; p has items.
func (p *part) lastKey() string { return p.items[len(p.items)-1].key }

// settled counts the items of the page before which none can be missing.
func (m *merger) settled(found []candidate, dry []*part) int {
	for i, c := range found {
		for _, p := range dry {
			if len(p.items) == 0 || m.compare(p.lastKey(), c.key) < 0 {
				return i
			}
		}
	}
	return len(found)
}

// guess is how many items to ask a dry part for: as many as the parts that
// have been read to the page's end have, on average, beyond p's last, and the
// one that shows that p is no longer dry. It is never more than the page lacks.
func (m *merger) guess(p *part, found []candidate, end *candidate, dry []*part, lacking int) int {
	covering := len(m.parts) - len(dry)
	if end == nil || covering == 0 {
		return ceil(lacking, len(dry))
	}
	beyond := 0
	for _, c := range found {
		if !slices.Contains(dry, c.from) && (len(p.items) == 0 || m.compare(p.lastKey(), c.key) < 0) {
			beyond++
		}
	}
	return min(beyond/covering+1, lacking)
}

// ceil is a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }
