package entity_test

import (
	"context"
	"reflect"
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
	found, err := s.GetEach(ctx, "default", []string{d.ID})
	if err != nil {
		return entity.Entity{}, false, err
	}
	var old *entity.Entity
	if e, exists := found[d.ID]; exists {
		old = &e
	}
	return entity.Upsert(ctx, s, "default", d, old)
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

// late is a Store in which another request creates an entity just before the caller does.
type late struct {
	entity.Store
	other entity.Draft
}

func (l *late) Write(ctx context.Context, workspace string, w entity.Write) (entity.Change, bool, error) {
	if w.Op == entity.CreateWrite {
		if _, _, err := entity.Create(ctx, l.Store, workspace, l.other); err != nil {
			return entity.Change{}, false, err
		}
	}
	return l.Store.Write(ctx, workspace, w)
}

func TestUpsertMergesIntoAConcurrentlyCreatedEntity(t *testing.T) {
	t.Parallel()
	s := &late{open(t, `{}`), change("new", "person", `{"b":2}`)}
	e, created, err := upsert(t.Context(), s, change("new", "", `{"a":1}`))
	if err != nil || created || e.Type != "person" || string(e.Attributes) != `{"b":2,"a":1}` {
		t.Errorf("%+v, created %t, error %v", e, created, err)
	}
}

func TestUpsertCreatesAConcurrentlyDeletedEntity(t *testing.T) {
	t.Parallel()
	s := open(t, `{"b":2}`)
	c := &contended{Store: s, between: func() {
		if err := entity.Delete(t.Context(), s, "default", "ada"); err != nil {
			t.Error(err)
		}
	}}
	e, created, err := upsert(t.Context(), c, change("ada", "", `{"a":1}`))
	if err != nil || !created || string(e.Attributes) != `{"a":1}` {
		t.Errorf("%+v, created %t, error %v", e, created, err)
	}
}
