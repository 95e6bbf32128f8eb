package entity_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func change(id, typ, attributes string) entity.Draft {
	return entity.Draft{ID: id, Type: typ, Attributes: record.Attributes(attributes)}
}

func upsert(ctx context.Context, s entity.Store, d entity.Draft) (stored entity.Entity, created bool, err error) {
	u := entity.Upsert(ctx, s, "default", d.ID, []entity.Draft{d}, nil)
	return u.Entity, u.Created == 0, u.Errs[0]
}

func TestUpsertCreatesOrMerges(t *testing.T) {
	t.Parallel()
	now := noon
	s := openAt(t, `{}`, &now)
	for i, step := range []struct {
		id, typ, attributes string
		created             bool
		wantType, want      string
		changed             bool
	}{
		{"new", "", `{"a":1,"gone":null}`, true, "entity", `{"a":1}`, true},
		{"new", "", `{"a":1,"gone":null}`, false, "entity", `{"a":1}`, false},
		{"new", "", `{}`, false, "entity", `{"a":1}`, false},
		{"new", "entity", `{}`, false, "entity", `{"a":1}`, false},
		{"new", "", `{"b":{"c":null,"d":[null]}}`, false, "entity", `{"a":1,"b":{"d":[null]}}`, true},
		{"new", "person", `{}`, false, "person", `{"a":1,"b":{"d":[null]}}`, true},
		{"new", "", `{"b":null}`, false, "person", `{"a":1}`, true},
		{"new", "robot", `{"a":2}`, false, "robot", `{"a":2}`, true},
		{"typed", "person", `{}`, true, "person", `{}`, true},
		{"ada", "", `{"a":1}`, false, "person", `{"a":1}`, true},
	} {
		at := noon.Add(time.Duration(i+1) * time.Hour)
		now = at
		e, created, err := upsert(t.Context(), s, change(step.id, step.typ, step.attributes))
		if err != nil || created != step.created || e.Type != step.wantType || string(e.Attributes) != step.want || (e.UpdatedAt == record.TimeOf(at)) != step.changed {
			t.Errorf("step %d: %+v, created %t, error %v; want %+v", i, e, created, err, step)
		}
		if stored, err := s.Get(t.Context(), "default", step.id); err != nil || !reflect.DeepEqual(stored, e) {
			t.Errorf("step %d: stored %+v, error %v; want %+v", i, stored, err, e)
		}
	}
	if page, err := s.List(t.Context(), "default", entity.Query{Type: "robot", Limit: 9}); err != nil || len(page.Records) != 1 || page.Records[0].ID != "new" {
		t.Errorf("listed by the new type: %+v, error %v", page, err)
	}
}

func TestUpsertRejectsInvalidChanges(t *testing.T) {
	t.Parallel()
	s := open(t, `{"a":"`+strings.Repeat("x", record.MaxAttributesBytes/2)+`"}`)
	for name, c := range map[string]entity.Draft{
		"no id":                 change("", "", `{}`),
		"an invalid id":         change("a/b", "", `{}`),
		"an invalid type":       change("ada", strings.Repeat("x", 129), `{}`),
		"too large when merged": change("ada", "", `{"b":"`+strings.Repeat("x", record.MaxAttributesBytes/2)+`"}`),
	} {
		if _, _, err := upsert(t.Context(), s, c); record.CodeOf(err) != record.Invalid {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Drafts with one id are one change. What is wrong with one of them does not affect the others.
func TestDraftsWithOneIDAreStoredByOneWrite(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", record.MaxAttributesBytes/2)
	revision := func(n int64, d entity.Draft) entity.Draft { d.IfRevision = &n; return d }
	replace := func(d entity.Draft) entity.Draft { d.Replace = true; return d }
	remove := func(id string) entity.Draft { return entity.Draft{ID: id, Deleted: true} }
	for name, tt := range map[string]struct {
		drafts  []entity.Draft
		codes   []record.Code
		created int
		want    string
		now     int64 // the revision
	}{
		"merged in their order":         {[]entity.Draft{change("ada", "", `{"b":1}`), change("ada", "robot", `{"a":null,"b":2}`)}, []record.Code{0, 0}, -1, `robot {"b":2}`, 2},
		"created by the first":          {[]entity.Draft{change("new", "", `{"b":1}`), change("new", "robot", `{"c":2}`)}, []record.Code{0, 0}, 0, `robot {"b":1,"c":2}`, 1},
		"created by the first valid":    {[]entity.Draft{change("new", "", `{"b":"`+half+half+`"}`), change("new", strings.Repeat("x", 129), `{}`), change("new", "", `{"c":2}`)}, []record.Code{record.Invalid, record.Invalid, 0}, 2, `entity {"c":2}`, 1},
		"too large in between":          {[]entity.Draft{change("ada", "", `{"b":"`+half+`"}`), change("ada", "", `{"c":"`+half+`"}`), change("ada", "", `{"b":null}`)}, []record.Code{0, record.Invalid, 0}, -1, `person {"a":1}`, 1},
		"without a change":              {[]entity.Draft{change("ada", "", `{"b":1}`), change("ada", "", `{"b":null}`)}, []record.Code{0, 0}, -1, `person {"a":1}`, 1},
		"for the right revision":        {[]entity.Draft{revision(1, change("ada", "", `{"b":1}`)), change("ada", "", `{"c":1}`)}, []record.Code{0, 0}, -1, `person {"a":1,"b":1,"c":1}`, 2},
		"for another revision":          {[]entity.Draft{revision(2, change("ada", "", `{"b":1}`)), change("ada", "", `{"c":1}`)}, []record.Code{record.Mismatch, record.Mismatch}, -1, `person {"a":1}`, 1},
		"for no entity":                 {[]entity.Draft{revision(0, change("ada", "", `{"b":1}`))}, []record.Code{record.Mismatch}, -1, `person {"a":1}`, 1},
		"for no entity, and new":        {[]entity.Draft{revision(0, change("new", "", `{"b":1}`)), change("new", "", `{"c":1}`)}, []record.Code{0, 0}, 0, `entity {"b":1,"c":1}`, 1},
		"a condition on the second":     {[]entity.Draft{change("ada", "", `{"b":1}`), revision(1, change("ada", "", `{"c":1}`))}, []record.Code{0, record.Invalid}, -1, `person {"a":1,"b":1}`, 2},
		"a condition after an invalid":  {[]entity.Draft{change("ada", strings.Repeat("x", 129), `{}`), revision(1, change("ada", "", `{"c":1}`))}, []record.Code{record.Invalid, 0}, -1, `person {"a":1,"c":1}`, 2},
		"replaced":                      {[]entity.Draft{replace(change("ada", "robot", `{"b":{"c":null},"d":null}`))}, []record.Code{0}, -1, `robot {"b":{"c":null},"d":null}`, 2},
		"replaced without a type":       {[]entity.Draft{replace(change("ada", "", `{"a":1}`))}, []record.Code{0}, -1, `entity {"a":1}`, 2},
		"replaced by the same":          {[]entity.Draft{replace(change("ada", "person", `{"a":1}`))}, []record.Code{0}, -1, `person {"a":1}`, 1},
		"replaced without attributes":   {[]entity.Draft{replace(entity.Draft{ID: "ada"})}, []record.Code{0}, -1, `entity {}`, 2},
		"created by a replacement":      {[]entity.Draft{replace(change("new", "", `{"b":null}`))}, []record.Code{0}, 0, `entity {"b":null}`, 1},
		"replaced, then merged":         {[]entity.Draft{replace(change("ada", "", `{"b":null}`)), change("ada", "", `{"c":1}`)}, []record.Code{0, 0}, -1, `entity {"b":null,"c":1}`, 2},
		"replaced for another revision": {[]entity.Draft{revision(2, replace(change("ada", "", `{}`)))}, []record.Code{record.Mismatch}, -1, `person {"a":1}`, 1},
		"deleted":                       {[]entity.Draft{remove("ada")}, []record.Code{0}, -1, ` `, 0},
		"deleted with its content":      {[]entity.Draft{{ID: "ada", Type: "robot", Attributes: record.Attributes(`{"b":1}`), Replace: true, Deleted: true}}, []record.Code{0}, -1, ` `, 0},
		"deleted, though never there":   {[]entity.Draft{remove("new")}, []record.Code{0}, -1, ` `, 0},
		"deleted for the revision":      {[]entity.Draft{revision(1, remove("ada"))}, []record.Code{0}, -1, ` `, 0},
		"deleted for another revision":  {[]entity.Draft{revision(2, remove("ada"))}, []record.Code{record.Mismatch}, -1, `person {"a":1}`, 1},
		"deleted if it is not there":    {[]entity.Draft{revision(0, remove("ada"))}, []record.Code{record.Mismatch}, -1, `person {"a":1}`, 1},
		"changed, then deleted":         {[]entity.Draft{change("ada", "robot", `{"b":1}`), remove("ada")}, []record.Code{0, 0}, -1, ` `, 0},
		"deleted, then created":         {[]entity.Draft{remove("ada"), change("ada", "", `{"b":1,"c":null}`)}, []record.Code{0, 0}, -1, `entity {"b":1}`, 2},
		"created, then deleted":         {[]entity.Draft{change("new", "", `{"b":1}`), remove("new")}, []record.Code{0, 0}, -1, ` `, 0},
		"created, deleted and created":  {[]entity.Draft{change("new", "", `{"b":1}`), remove("new"), change("new", "", `{"c":1}`)}, []record.Code{0, 0, 0}, 2, `entity {"c":1}`, 1},
		"all invalid, so never created": {[]entity.Draft{change("new", strings.Repeat("x", 129), `{}`)}, []record.Code{record.Invalid}, -1, ` `, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, id := open(t, `{"a":1}`), tt.drafts[0].ID
			u := entity.Upsert(t.Context(), s, "default", id, tt.drafts, nil)
			var codes []record.Code
			for _, err := range u.Errs {
				codes = append(codes, record.CodeOf(err))
			}
			stored, err := s.Get(t.Context(), "default", id)
			if err != nil {
				stored = entity.Entity{}
			}
			if got := stored.Type + " " + string(stored.Attributes); !slices.Equal(codes, tt.codes) || u.Created != tt.created || got != tt.want || stored.Revision != tt.now {
				t.Errorf("%s, revision %d, errors %v, created %d, get: %v; want %+v", got, stored.Revision, u.Errs, u.Created, err, tt)
			}
			if gone := record.CodeOf(err) == record.NotFound; slices.Contains(codes, 0) && (u.Deleted != gone || !gone && !reflect.DeepEqual(u.Entity, stored)) {
				t.Errorf("returned %+v, want %+v, deleted %v", u, stored, gone)
			}
		})
	}
}

// A line of a walk is an element of an upsert.
func TestParseUpsertTakesWhatAWalkReturns(t *testing.T) {
	at := record.TimeOf(noon)
	e := entity.Entity{ID: "ada", Type: "person", Attributes: record.Attributes(`{"n":null}`), Revision: 7, CreatedAt: at, UpdatedAt: at}
	tombstone := entity.Entity{ID: "ada", Type: "person", Revision: 8, CreatedAt: at}
	for _, c := range []entity.Change{{Entity: e}, {Entity: e, ErasedAt: at}, {Entity: tombstone, Deleted: true, DeletedAt: at}, {Entity: tombstone, Deleted: true, DeletedAt: at, ErasedAt: at}} {
		line, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := entity.Draft{ID: "ada", Type: "person", Attributes: record.Attributes(`{}`), Deleted: c.Deleted}
		if !c.Deleted {
			want.Attributes = e.Attributes
		}
		if d, err := entity.ParseUpsert(line); err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%s: %+v, error %v; want %+v", line, d, err, want)
		}
	}
	filtered, err := entity.Change{Entity: tombstone, Deleted: true, Reason: record.Filtered}.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(filtered): "reason says that the entity has left a filter", `{"deleted":true}`: "id is required", `{"id":"a","replace":1}`: "replace must be true or false"} {
		if d, err := entity.ParseUpsert([]byte(text)); record.CodeOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v; want %s", text, d, err, want)
		}
	}
}
