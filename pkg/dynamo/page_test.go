package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// responses is a client that returns its outputs one after another, and records the limit and
// the start key of each call.
type responses struct {
	outputs []dynamodb.QueryOutput
	limits  []int32
	starts  []attributeValues
}

func (r *responses) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	r.limits = append(r.limits, *in.Limit)
	r.starts = append(r.starts, in.ExclusiveStartKey)
	if len(r.outputs) == 0 {
		return nil, errors.New("unexpected call")
	}
	out := r.outputs[0]
	r.outputs = r.outputs[1:]
	return &out, nil
}

func recordItem(id string) attributeValues {
	return attributeValues{"id": text(id)}
}

func same(item attributeValues) (attributeValues, error) { return item, nil }

func TestAPageContinuesAfterTheLastKeyOfAResponse(t *testing.T) {
	t.Parallel()
	client := &responses{outputs: []dynamodb.QueryOutput{
		{Items: []attributeValues{recordItem("a")}, LastEvaluatedKey: recordItem("a")},
		{LastEvaluatedKey: recordItem("x")}, // DynamoDB may end a response before the first item
		{Items: []attributeValues{recordItem("y"), recordItem("z")}, LastEvaluatedKey: recordItem("z")},
		{},
	}}
	page, err := queryPage(t.Context(), client, "id", 3, same, &dynamodb.QueryInput{})
	if want := []attributeValues{recordItem("a"), recordItem("y"), recordItem("z")}; err != nil || page.Next != "" || !reflect.DeepEqual(page.Records, want) {
		t.Errorf("got %v, error %v; want %v and no more", page, err, want)
	}
	if want := []int32{4, 3, 3, 1}; !reflect.DeepEqual(client.limits, want) {
		t.Errorf("asked for %v items, want %v", client.limits, want)
	}
	if want := []attributeValues{nil, recordItem("a"), recordItem("x"), recordItem("z")}; !reflect.DeepEqual(client.starts, want) {
		t.Errorf("started after %v, want %v", client.starts, want)
	}
}

func TestAnErrorOfALaterCallFailsThePage(t *testing.T) {
	t.Parallel()
	client := &responses{outputs: []dynamodb.QueryOutput{{Items: []attributeValues{recordItem("a")}, LastEvaluatedKey: recordItem("a")}}}
	if page, err := queryPage(t.Context(), client, "id", 3, same, &dynamodb.QueryInput{}); err == nil {
		t.Errorf("no error, page %v", page)
	}
}

var errBroken = errors.New("broken")

// partitions is a client for several partitions with sorted keys; it counts queries and items.
type partitions struct {
	keys map[string][]string
	mu   sync.Mutex
	read map[string]int // number of items read, by partition
	asks map[string]int // number of queries, by partition
}

func (p *partitions) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, keys, out := *in.IndexName, p.keys[*in.IndexName], &dynamodb.QueryOutput{}
	if name == "broken" {
		return nil, errBroken
	}
	if after, ok := in.ExclusiveStartKey["key"].(*types.AttributeValueMemberS); ok {
		keys = keys[slices.Index(keys, after.Value)+1:]
	}
	n := min(int(*in.Limit), len(keys))
	for _, key := range keys[:n] {
		out.Items = append(out.Items, attributeValues{"key": text(key)})
	}
	if n == int(*in.Limit) { // as in DynamoDB, even if no items follow
		out.LastEvaluatedKey = out.Items[n-1]
	}
	p.asks[name]++
	p.read[name] += n
	return out, nil
}

func TestSeveralQueriesAreMergedAsOne(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]map[string][]string{
		"mixed":     {"a": {"1", "4", "7"}, "b": {"2", "5", "8"}, "c": {"3", "6", "9"}},
		"one after": {"a": {"1", "2", "3", "4"}, "b": {"5", "6"}, "c": {"7", "8", "9"}},
		"all in b":  {"a": nil, "b": {"1", "2", "3", "4", "5", "6", "7"}, "c": nil},
		"none":      {"a": nil, "b": nil, "c": nil},
	} {
		var all []string
		for _, k := range keys {
			all = append(all, k...)
		}
		slices.Sort(all)
		for _, descending := range []bool{false, true} {
			if descending {
				slices.Reverse(all)
			}
			for limit := 1; limit <= 11; limit++ {
				client := &partitions{keys: make(map[string][]string), read: make(map[string]int), asks: make(map[string]int)}
				var ins []*dynamodb.QueryInput
				for _, p := range []string{"a", "b", "c"} {
					client.keys[p] = slices.Clone(keys[p])
					if descending {
						slices.Reverse(client.keys[p])
					}
					ins = append(ins, &dynamodb.QueryInput{IndexName: &p, ScanIndexForward: aws.Bool(!descending)})
				}
				page, err := queryPage(t.Context(), client, "key", limit, same, ins...)
				var got []string
				for _, item := range page.Records {
					got = append(got, readItem(item).text("key"))
				}
				n := min(limit, len(all))
				if err != nil || !slices.Equal(got, all[:n]) || (page.Next != "") != (len(all) > n) {
					t.Errorf("%s, limit %d, descending %v: got %v, next %q, error %v; want %v", name, limit, descending, got, page.Next, err, all[:n])
				}
			}
		}
	}
}

// A merge requests more than a shard's share only if the page needs more items of that shard.
func TestAMergeReadsFewItemsThatItDoesNotReturn(t *testing.T) {
	t.Parallel()
	client := &partitions{keys: make(map[string][]string), read: make(map[string]int), asks: make(map[string]int)}
	var ins []*dynamodb.QueryInput
	for p := range 8 {
		name := strconv.Itoa(p)
		for i := range 100 {
			// Two items of this length do not fit into one read unit.
			client.keys[name] = append(client.keys[name], fmt.Sprintf("%03d.%d%s", i, p, strings.Repeat("x", 3000)))
		}
		ins = append(ins, &dynamodb.QueryInput{IndexName: &name})
	}
	page, err := queryPage(t.Context(), client, "key", 40, same, ins...)
	if err != nil || len(page.Records) != 40 || page.Next == "" {
		t.Fatalf("%d items, next %q, error %v", len(page.Records), page.Next, err)
	}
	total, asks := 0, 0
	for name := range client.read {
		total, asks = total+client.read[name], asks+client.asks[name]
	}
	if total > 48 || asks > 8 {
		t.Errorf("%d items were read in %d queries for a page of 40 that is spread evenly over 8", total, asks)
	}
}

// sized is a client for parts with different item sizes; within a part, all items have the
// same size. The keys are random. As in DynamoDB, a call returns at most about a megabyte.
type sized struct {
	sizes []int      // size of an item in bytes, by part
	keys  [][]string // sorted, by part

	mu           sync.Mutex
	items, bytes int // how much was read
}

func newSized(seed uint64, sizes ...int) *sized {
	s, random := &sized{sizes: sizes}, rand.New(rand.NewPCG(seed, 0))
	for range sizes {
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = fmt.Sprintf("%016x", random.Uint64())
		}
		slices.Sort(keys)
		s.keys = append(s.keys, keys)
	}
	return s
}

func (s *sized) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	part, err := strconv.Atoi(*in.IndexName)
	if err != nil {
		return nil, err
	}
	keys, size, out := s.keys[part], s.sizes[part], &dynamodb.QueryOutput{}
	if after, ok := in.ExclusiveStartKey["key"].(*types.AttributeValueMemberS); ok {
		keys = keys[slices.Index(keys, after.Value)+1:]
	}
	n := min(int(*in.Limit), len(keys), 1+1<<20/size)
	for _, key := range keys[:n] {
		out.Items = append(out.Items, attributeValues{"key": text(key), "text": text(strings.Repeat("x", size))})
	}
	if n < len(keys) {
		out.LastEvaluatedKey = out.Items[n-1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items += n
	s.bytes += n * size
	return out, nil
}

// merge reads a page of at most 200 items and checks that no earlier item is missing.
func (s *sized) merge(t *testing.T) []attributeValues {
	t.Helper()
	var ins []*dynamodb.QueryInput
	for i := range s.sizes {
		ins = append(ins, &dynamodb.QueryInput{IndexName: aws.String(strconv.Itoa(i))})
	}
	page, err := queryPage(t.Context(), s, "key", 200, same, ins...)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(slices.Values(slices.Concat(s.keys...)))
	for i, item := range page.Records {
		if key := readItem(item).text("key"); key != all[i] {
			t.Fatalf("item %d is %s, want %s", i, key, all[i])
		}
	}
	return page.Records
}

const large = 255_000

func TestAMergeOfManyPartsReadsOneLargeItemAhead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := newSized(seed, slices.Repeat([]int{large}, 64)...)
		if seed == 0 {
			s.keys[0] = nil // the first query returns nothing, so the size of items stays unknown
		}
		if page := s.merge(t); len(page) != 9 || s.items > len(s.sizes)+len(page) {
			t.Errorf("seed %d: %d items were read from %d parts for a page of %d", seed, s.items, len(s.sizes), len(page))
		}
	}
}

// The parts that are read first have small items, and all other parts have large items.
func TestAMergeIsNotMisledBySmallItems(t *testing.T) {
	t.Parallel()
	const parts, bound = 64, 36 << 20
	for _, small := range []int{1, 8, 32} {
		sizes := slices.Concat(slices.Repeat([]int{300}, small), slices.Repeat([]int{large}, parts-small))
		s := newSized(0, sizes...)
		if s.merge(t); s.bytes > bound {
			t.Errorf("%d parts with small items: %d bytes were read, want at most %d", small, s.bytes, bound)
		}
	}
}

func TestAnErrorOfOneQueryFailsTheMerge(t *testing.T) {
	t.Parallel()
	client := &partitions{keys: map[string][]string{"a": {"1"}, "b": {"2"}}, read: make(map[string]int), asks: make(map[string]int)}
	for _, names := range [][]string{{"broken", "a", "b"}, {"a", "b", "broken"}} {
		var ins []*dynamodb.QueryInput
		for _, name := range names {
			ins = append(ins, &dynamodb.QueryInput{IndexName: &name})
		}
		if page, err := queryPage(t.Context(), client, "key", 3, same, ins...); !errors.Is(err, errBroken) {
			t.Errorf("error %v, page %v", err, page)
		}
	}
}

func TestACountContinuesAfterTheLastKeyOfAResponse(t *testing.T) {
	t.Parallel()
	client := &responses{outputs: []dynamodb.QueryOutput{
		{Count: 3, LastEvaluatedKey: recordItem("c")},
		{LastEvaluatedKey: recordItem("x")},
		{Count: 2},
		{Count: 10}, // response to the second query
	}}
	in := func() *dynamodb.QueryInput {
		return &dynamodb.QueryInput{ExpressionAttributeNames: map[string]string{}, ExpressionAttributeValues: attributeValues{}}
	}
	n, err := countItems(t.Context(), client, record.Time{}, in(), in())
	if n != 15 || err != nil {
		t.Errorf("counted %d, error %v", n, err)
	}
	if want := []attributeValues{nil, recordItem("c"), recordItem("x"), nil}; !reflect.DeepEqual(client.starts, want) {
		t.Errorf("started after %v, want %v", client.starts, want)
	}
	for _, limit := range client.limits {
		if limit != 1000 {
			t.Errorf("a call has the limit %d", limit)
		}
	}
}
