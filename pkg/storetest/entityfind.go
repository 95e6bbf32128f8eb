package storetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

type IndexedEntities interface {
	entity.Store
	index.Finder
	index.Keeper
}

// FindEntities checks that a store finds what a naive search through all entities finds, while
// declarations, entities and their types change at random, and that a step of a build has a bounded
// size. indexed holds the declarations that the store uses when it writes. All checks share one
// store, each in its own workspace.
func FindEntities(t *testing.T, open func(t *testing.T, indexed *index.Current) (IndexedEntities, index.Store)) {
	indexed := new(index.Current)
	s, declarations := open(t, indexed)
	tooLong := record.Cursor(strings.Repeat("A", base64.RawURLEncoding.EncodedLen(index.MaxKeyBytes+1))) // DynamoDB rejects keys of more than 1,024 bytes
	wantBadCursors(t, []record.Cursor{"A", "AB", "AA=", "A A", tooLong}, func(cursor record.Cursor) error {
		_, err := s.Find(t.Context(), workspace, index.Query{Cursor: cursor, Limit: 1})
		return err
	})
	buildLarge(t, s)
	findWhileValuesChange(t, s, indexed)
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		f := &finding{
			ctx: t.Context(), store: s, declarations: declarations, indexed: indexed,
			workspace: fmt.Sprintf("find-%d", checks), entities: make(map[string]entity.Draft),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"declare": f.declare,
			"remove":  f.remove,
			"upsert":  f.upsert, "upsert more": f.upsert, "upsert most": f.upsert,
			"delete": f.delete,
			"find":   f.find, "find more": f.find,
		})
	})
}

// buildLarge indexes 7.5 MB of entities.
func buildLarge(t *testing.T, s IndexedEntities) {
	t.Helper()
	const n, size, atOnce = 30, 250_000, 1 + record.MaxPageBytes/250_000
	d := index.Declaration{Workspace: "large", Type: "t", Attribute: "a", ValueType: index.Text, Place: 1, State: index.Building}
	for i := range n {
		e := entity.Draft{ID: fmt.Sprint(i), Type: d.Type, Attributes: record.Attributes(fmt.Sprintf(`{"a":"%d","text":"%s"}`, i, strings.Repeat("x", size)))}
		if _, _, err := entity.Create(t.Context(), s, d.Workspace, e); err != nil {
			t.Fatal(err)
		}
	}
	var indexed int64
	for cursor, more := record.Cursor(""), true; more; {
		step, err := s.BuildKeys(t.Context(), d, cursor, 1000)
		if err != nil || step.Indexed > atOnce {
			t.Fatalf("%d entities of %d bytes in one step, want at most %d; error %v", step.Indexed, size, atOnce, err)
		}
		indexed, cursor, more = indexed+step.Indexed, step.Next, step.Next != ""
	}
	if indexed != n {
		t.Errorf("%d entities were indexed, want %d", indexed, n)
	}
}

// findWhileValuesChange reads page by page while some entities get other values. An entity
// whose value stays is found once; others may be found twice, or not at all.
func findWhileValuesChange(t *testing.T, s IndexedEntities, indexed *index.Current) {
	t.Helper()
	const n = 40
	d := index.Declaration{Workspace: "moving", Type: "t", Attribute: "a", ValueType: index.Number, Place: 1, State: index.Ready}
	indexed.Store(index.NewSet([]index.Declaration{d}))
	defer indexed.Store(index.NewSet(nil))
	set := func(i, value int) {
		e := entity.Draft{ID: fmt.Sprintf("%02d", i), Type: d.Type, Attributes: record.Attributes(fmt.Sprintf(`{"a":%d}`, value))}
		if err := entity.Upsert(t.Context(), s, d.Workspace, e.ID, []entity.Draft{e}, nil).Errs[0]; err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		set(i, i)
	}
	found := make(map[string]int)
	q := index.Query{Declaration: d, Limit: 3}
	if err := q.Where(index.Condition{Operator: index.GreaterOrEqual, Value: "0"}); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		page, err := s.Find(t.Context(), d.Workspace, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Records {
			found[e.ID]++
		}
		for i := 1; i < n; i += 10 { // those that have been read come again, and those before are missed
			set(i, (i+7*len(found))%n)
		}
		q.Cursor, more = page.Next, page.Next != ""
	}
	for i := 0; i < n; i += 2 {
		if id := fmt.Sprintf("%02d", i); found[id] != 1 {
			t.Errorf("%s was found %d times, although its value did not change", id, found[id])
		}
	}
}

// finding is a store with indexes and a model of its entities.
type finding struct {
	ctx          context.Context
	store        IndexedEntities
	declarations index.Store
	indexed      *index.Current
	workspace    string
	entities     map[string]entity.Draft
}

var (
	findTypes      = []string{"a", "a#1", "b"}
	findAttributes = []string{"x", "x[y]", "é\x00", "p", "q"}
	findKinds      = []index.ValueType{index.Text, index.Number, index.Boolean}
)

// load makes the store use the stored declarations, and returns those of the workspace.
func (f *finding) load(rt *rapid.T) []index.Declaration {
	all, err := f.declarations.List(f.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	f.indexed.Store(index.NewSet(all))
	return f.indexed.Load().In(f.workspace)
}

// run takes a declaration through its states.
func (f *finding) run(rt *rapid.T, d index.Declaration) {
	f.load(rt)
	b := index.NewBuilder(f.declarations, f.store, index.BuilderConfig{TakeUp: -1, Rate: 1e9, Progress: func(index.Declaration, bool) { f.load(rt) }})
	if _, err := b.Run(f.ctx, d); err != nil {
		rt.Fatalf("%s: %v", d.Name(), err)
	}
	f.load(rt)
}

func (f *finding) declare(rt *rapid.T) {
	d := index.Declaration{
		Workspace: f.workspace,
		Type:      rapid.SampledFrom(findTypes).Draw(rt, "type"),
		Attribute: rapid.SampledFrom(findAttributes).Draw(rt, "attribute"),
		ValueType: rapid.SampledFrom(findKinds).Draw(rt, "kind"),
	}
	same := 0
	for _, other := range f.indexed.Load().Of(f.workspace, d.Type) {
		if same++; other.Attribute == d.Attribute {
			return
		}
	}
	d, err := index.Add(f.ctx, f.declarations, d)
	if full := same == index.Places; full != (err != nil) {
		rt.Fatalf("add %s beside %d others: %v", d.Name(), same, err)
	}
	if err == nil {
		f.run(rt, d)
	}
}

func (f *finding) remove(rt *rapid.T) {
	all := f.load(rt)
	if len(all) == 0 {
		return
	}
	d := rapid.SampledFrom(all).Draw(rt, "declaration")
	d, err := index.Remove(f.ctx, f.declarations, d.Workspace, d.Type, d.Attribute)
	if err != nil {
		rt.Fatal(err)
	}
	f.run(rt, d)
}

func (f *finding) upsert(rt *rapid.T) {
	d := entity.Draft{ID: rapid.SampledFrom([]string{"1", "2", "3", "a", "A", "a-", "z"}).Draw(rt, "id")}
	d.Type = rapid.SampledFrom(findTypes).Draw(rt, "type")
	d.Replace = rapid.Bool().Draw(rt, "replace")
	attributes := make(map[string]json.RawMessage)
	if old, exists := f.entities[d.ID]; exists && !d.Replace {
		if err := json.Unmarshal(old.Attributes, &attributes); err != nil {
			rt.Fatal(err)
		}
	}
	patch := make(map[string]json.RawMessage)
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(findAttributes), 0, 3, rapid.ID[string]).Draw(rt, "attributes") {
		patch[name] = json.RawMessage(rapid.SampledFrom(findValues).Draw(rt, "value").json)
	}
	for name, value := range patch {
		if attributes[name] = value; string(value) == "null" && !d.Replace {
			delete(attributes, name)
		}
	}
	d.Attributes = object(patch)
	if err := entity.Upsert(f.ctx, f.store, f.workspace, d.ID, []entity.Draft{d}, nil).Errs[0]; err != nil {
		rt.Fatal(err)
	}
	d.Attributes, d.Replace = object(attributes), false
	f.entities[d.ID] = d
}

// object encodes members in the order of their names. Values keep their bytes.
func object(members map[string]json.RawMessage) record.Attributes {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		quoted, _ := json.Marshal(name)
		parts = append(parts, string(quoted)+":"+string(members[name]))
	}
	return record.Attributes("{" + strings.Join(parts, ",") + "}")
}

func (f *finding) delete(rt *rapid.T) {
	ids := slices.Sorted(maps.Keys(f.entities))
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(rt, "id")
	var err error
	switch rapid.SampledFrom([]string{"erase", "delete", "upsert"}).Draw(rt, "how") {
	case "erase":
		_, _, err = f.store.Write(f.ctx, f.workspace, entity.Erasure(id, record.TimeOf(time.Now()), time.Time{}))
	case "delete":
		err = entity.Delete(f.ctx, f.store, f.workspace, id, nil)
	case "upsert":
		err = entity.Upsert(f.ctx, f.store, f.workspace, id, []entity.Draft{{ID: id, Deleted: true}}, nil).Errs[0]
	}
	if err != nil {
		rt.Fatal(err)
	}
	delete(f.entities, id)
}

func (f *finding) find(rt *rapid.T) {
	all := f.indexed.Load().In(f.workspace)
	if len(all) == 0 {
		return
	}
	q := index.Query{Declaration: rapid.SampledFrom(all).Draw(rt, "declaration"), Descending: rapid.Bool().Draw(rt, "descending")}
	accept := func(findValue) bool { return true }
	for _, op := range rapid.SampledFrom([][]index.Operator{{""}, {"gt"}, {"gte"}, {"lt"}, {"lte"}, {"prefix"}, {"gt", "lte"}, {"gte", "lt"}}).Draw(rt, "operators") {
		v := rapid.SampledFrom(findValues).Filter(func(v findValue) bool { return v.kind == q.Declaration.ValueType }).Draw(rt, "bound")
		err := q.Where(index.Condition{Operator: op, Value: v.text()})
		unfit := v.kind == index.Boolean && op != "" || v.kind != index.Text && op == "prefix"
		if unfit != (err != nil) {
			rt.Fatalf("%s[%s]=%s: %v", q.Declaration.Name(), op, v.json, err)
		}
		if unfit {
			return
		}
		before := accept
		accept = func(other findValue) bool { return before(other) && other.matches(op, v) }
	}
	want := f.search(q, accept)
	var got []string
	for {
		q.Limit = rapid.IntRange(1, 4).Draw(rt, "limit")
		page, err := f.store.Find(f.ctx, f.workspace, q)
		if err != nil || len(page.Records) > q.Limit {
			rt.Fatalf("a page of %d: %d, %v", q.Limit, len(page.Records), err)
		}
		for _, e := range page.Records {
			got = append(got, e.ID)
			if !record.SameAttributes(e.Attributes, f.entities[e.ID].Attributes) {
				rt.Fatalf("%s: %s", e.ID, e.Attributes)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("got %q, want %q", got, want)
	}
}

// search returns the ids of matching entities in the order of the list.
func (f *finding) search(q index.Query, accept func(findValue) bool) []string {
	type match struct {
		value findValue
		id    string
	}
	var matches []match
	for id, e := range f.entities {
		attributes := make(map[string]json.RawMessage)
		if e.Type != q.Declaration.Type || json.Unmarshal(e.Attributes, &attributes) != nil {
			continue
		}
		for _, v := range findValues {
			if v.json == string(attributes[q.Declaration.Attribute]) && v.kind == q.Declaration.ValueType && accept(v) {
				matches = append(matches, match{v, id})
			}
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		if n := a.value.compare(b.value); n != 0 {
			return n
		}
		return strings.Compare(a.id, b.id)
	})
	var ids []string
	for _, m := range matches {
		ids = append(ids, m.id)
	}
	if q.Descending {
		slices.Reverse(ids)
	}
	return ids
}

// findValue is a JSON value. kind is "" if the value cannot be indexed.
type findValue struct {
	json string
	kind index.ValueType
}

var findValues = []findValue{
	{`""`, index.Text}, {`"a"`, index.Text}, {`"ab"`, index.Text}, {`"A"`, index.Text}, {`"a\u0000"`, index.Text}, {`"a\u0000b"`, index.Text},
	{`"a\u0001"`, index.Text}, {`"b"`, index.Text}, {`"é"`, index.Text}, {`"\ue000"`, index.Text}, {`"😀"`, index.Text}, {`"1"`, index.Text},
	{`"` + strings.Repeat("y", 800) + `"`, index.Text}, {`"` + strings.Repeat("y", 801) + `"`, ""},
	{`0`, index.Number}, {`-0.0e5`, index.Number}, {`1`, index.Number}, {`1.0`, index.Number}, {`1e3`, index.Number}, {`1000`, index.Number}, {`999.9`, index.Number},
	{`12345678901234567890`, index.Number}, {`12345678901234567891`, index.Number}, {`0.1`, index.Number}, {`1E-1`, index.Number}, {`0.11`, index.Number},
	{`-1`, index.Number}, {`-5`, index.Number}, {`-50`, index.Number}, {`-4.5`, index.Number}, {`-51`, index.Number}, {`9.9e125`, index.Number}, {`1e-125`, index.Number}, {`-1e125`, index.Number},
	{strings.Repeat("9", 38), index.Number}, {strings.Repeat("9", 39), ""}, {`1e126`, ""}, {`1e-126`, ""}, {`1e99999999999999999999`, ""},
	{`true`, index.Boolean}, {`false`, index.Boolean}, {`null`, ""}, {`[1]`, ""}, {`{"x":1}`, ""},
}

// text returns the value as it appears in a query.
func (v findValue) text() string {
	var s string
	if json.Unmarshal([]byte(v.json), &s) == nil {
		return s
	}
	return v.json
}

func (v findValue) compare(other findValue) int {
	if v.kind != index.Number {
		return strings.Compare(v.text(), other.text())
	}
	a, _ := new(big.Rat).SetString(v.json)
	b, _ := new(big.Rat).SetString(other.json)
	return a.Cmp(b)
}

func (v findValue) matches(op index.Operator, bound findValue) bool {
	n := v.compare(bound)
	switch op {
	case index.Greater:
		return n > 0
	case index.GreaterOrEqual:
		return n >= 0
	case index.Less:
		return n < 0
	case index.LessOrEqual:
		return n <= 0
	case index.Prefix:
		return strings.HasPrefix(v.text(), bound.text())
	}
	return n == 0
}
