package storetest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
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
// declarations, entities and their types change at random, and builds are killed. It also checks
// that a step of a build has a bounded size. indexed holds the declarations that the store uses when
// it writes. All checks share one store, each in its own workspace.
func FindEntities(t *testing.T, open func(t *testing.T, indexed *index.Current) IndexedEntities) {
	indexed := new(index.Current)
	s := open(t, indexed)
	tooLong := record.Cursor(strings.Repeat("A", base64.RawURLEncoding.EncodedLen(index.MaxKeyBytes+1))) // DynamoDB rejects keys of more than 1,024 bytes
	wantBadCursors(t, []record.Cursor{"A", "AB", "AA=", "A A", tooLong}, func(cursor record.Cursor) error {
		_, err := s.Find(t.Context(), workspace, index.Query{Cursor: cursor, Limit: 1})
		return err
	})
	buildLarge(t, s)
	findWhileValuesChange(t, s, indexed)
	checks, steps := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		f := &finding{
			ctx: t.Context(), store: s, building: building{keeper: s, indexed: indexed, declarations: new(memoryIndexes)},
			workspace: fmt.Sprintf("find-%d", checks), entities: make(map[string]entity.Draft),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"declare": f.declare,
			"remove":  f.remove,
			"work":    f.work, "work more": f.work,
			"upsert": f.upsert, "upsert more": f.upsert, "upsert most": f.upsert,
			"delete": f.delete,
			"find":   f.find, "find more": f.find,
			"": func(*rapid.T) { steps++ },
		})
	})
	t.Logf("%d steps in %d checks", steps, checks)
}

// buildLarge indexes more entities than fit into one step.
func buildLarge(t *testing.T, s IndexedEntities) {
	t.Helper()
	const n, size, atOnce = 13, 250_000, 1 + record.MaxPageBytes/250_000
	d := index.Declaration{Workspace: "large", Type: "t", Fields: index.Fields{{Name: "a", ValueType: index.Text}}, Place: 1, State: index.Building}
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
	const n = 21
	d := index.Declaration{Workspace: "moving", Type: "t", Fields: index.Fields{{Name: "a", ValueType: index.Number}}, Place: 1, State: index.Ready}
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
	if err := q.Where(index.Condition{Attribute: "a", Operator: index.GreaterOrEqual, Value: "0"}); err != nil {
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
	building
	ctx       context.Context
	store     IndexedEntities
	workspace string
	entities  map[string]entity.Draft
	erased    time.Time // when an entity was last erased
}

var (
	findTypes      = []string{"a", "a#1", "b"}
	findAttributes = []string{"x", "x[y]", "é\x00", "p"}
	findKinds      = []index.ValueType{index.Text, index.Number, index.Boolean}
)

func (f *finding) declare(rt *rapid.T) {
	d := index.Declaration{Workspace: f.workspace, Type: rapid.SampledFrom(findTypes).Draw(rt, "type")}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(findAttributes), 1, index.MaxFields, rapid.ID[string]).Draw(rt, "attributes")
	for i, name := range names {
		d.Fields[i] = index.Field{Name: name, ValueType: rapid.SampledFrom(findKinds).Draw(rt, "kind")}
		d.Fields[i].Fold = d.Fields[i].ValueType == index.Text && rapid.Bool().Draw(rt, "fold")
	}
	others := f.indexed.Load().Of(f.workspace, d.Type)
	if slices.ContainsFunc(others, func(other index.Declaration) bool { return other.On(names) }) {
		return
	}
	d, err := index.Add(f.ctx, f.declarations, d)
	if full := len(others) == index.Places; full != (err != nil) {
		rt.Fatalf("add %s beside %d others: %v", d.Name(), len(others), err)
	}
	f.load()
}

func (f *finding) remove(rt *rapid.T) {
	if len(f.declarations.all) == 0 {
		return
	}
	d := f.declarations.all[rapid.IntRange(0, len(f.declarations.all)-1).Draw(rt, "declaration")]
	if _, err := index.Remove(f.ctx, f.declarations, d.Workspace, d.Type, d.Fields.Names()...); err != nil {
		rt.Fatal(err)
	}
	f.load()
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
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(findAttributes), 0, 4, rapid.ID[string]).Draw(rt, "attributes") {
		patch[name] = json.RawMessage(drawValue(rt, "value", func(findValue) bool { return true }).json)
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
		f.erased = f.erased.Add(time.Millisecond) // an erasure of the same millisecond would do nothing
		if now := time.Now(); now.After(f.erased) {
			f.erased = now
		}
		_, _, err = f.store.Write(f.ctx, f.workspace, entity.Erasure(id, record.TimeOf(f.erased), time.Time{}))
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

// query draws conditions that a ready index serves. accept says which values of each field they
// select; accept is nil if the index rejects a condition.
func (f *finding) query(rt *rapid.T, d index.Declaration) (q index.Query, accept func([]findValue) bool) {
	q = index.Query{Declaration: d, Descending: rapid.Bool().Draw(rt, "descending")}
	accept = func([]findValue) bool { return true }
	fields := d.Fields.List()
	conditioned := rapid.IntRange(1, len(fields)).Draw(rt, "conditioned")
	var conditions []index.Condition
	size := 0 // of the longest value of each field
	for i, field := range fields[:conditioned] {
		operators := []index.Operator{index.Equal}
		if i == conditioned-1 && (i > 0 || len(fields) == 1) {
			operators = rapid.SampledFrom([][]index.Operator{{""}, {"gt"}, {"gte"}, {"lt"}, {"lte"}, {"prefix"}, {"gt", "lte"}, {"gte", "lt"}}).Draw(rt, "operators")
		}
		longest := 0
		for _, op := range operators {
			v := drawValue(rt, "bound", func(v findValue) bool { return v.kind == field.ValueType })
			c := index.Condition{Attribute: field.Name, Operator: op, Value: v.text()}
			conditions = append(conditions, c)
			err := q.Where(c)
			longest = max(longest, len(v.text()))
			unfit := v.kind == index.Boolean && op != "" || v.kind != index.Text && op == "prefix" || size+longest > 800
			if unfit != (err != nil) {
				rt.Fatalf("%s[%s]=%.40s: %v", d.Name(), op, v.json, err)
			}
			if unfit {
				return q, nil
			}
			before := accept
			accept = func(values []findValue) bool { return before(values) && values[i].matches(op, v.in(field)) }
		}
		size += longest
	}
	serving := index.Serving(f.indexed.Load().Of(f.workspace, d.Type), conditions)
	if !slices.Contains(serving, d) || len(serving[0].Fields.List()) > len(fields) {
		rt.Fatalf("%s serves %q: %v", d.Name(), conditions, serving)
	}
	return q, accept
}

func (f *finding) find(rt *rapid.T) {
	ready := slices.DeleteFunc(slices.Clone(f.declarations.all), func(d index.Declaration) bool { return d.State != index.Ready })
	if len(ready) == 0 {
		return
	}
	q, accept := f.query(rt, ready[rapid.IntRange(0, len(ready)-1).Draw(rt, "declaration")])
	if accept == nil {
		return
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
func (f *finding) search(q index.Query, accept func([]findValue) bool) (ids []string) {
	matches := make(map[string][]findValue)
	for id, e := range f.entities {
		attributes := make(map[string]json.RawMessage)
		if e.Type != q.Declaration.Type || json.Unmarshal(e.Attributes, &attributes) != nil {
			continue
		}
		var values []findValue
		size := 0
		for _, field := range q.Declaration.Fields.List() {
			i := slices.IndexFunc(findValues, func(v findValue) bool {
				return v.json == string(attributes[field.Name]) && v.kind == field.ValueType
			})
			if i >= 0 {
				values, size = append(values, findValues[i].in(field)), size+len(findValues[i].text())
			}
		}
		if len(values) == len(q.Declaration.Fields.List()) && size <= 800 && accept(values) { // the code of a number has another size than its text, but only one text comes near the limit
			matches[id] = values
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(slices.CompareFunc(matches[a], matches[b], findValue.compare), strings.Compare(a, b))
	})
	if q.Descending {
		slices.Reverse(ids)
	}
	return ids
}
