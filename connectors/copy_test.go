package connectors_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// table maps the ids of records to the records as canonical JSON.
type table map[string]string

// tables has the tables "entity" and "event".
type tables map[string]table

// put stores a record as canonical JSON, so that equal records have equal text. Times are equal
// if they are the same instant, and null is the same as an absent member.
func (tb table) put(t *testing.T, text []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var r map[string]any
	if err := decoder.Decode(&r); err != nil {
		t.Errorf("%v: %s", err, text)
		return
	}
	for name, value := range r {
		instant, isText := value.(string)
		switch {
		case value == nil:
			delete(r, name)
		case isText && strings.HasSuffix(name, "_at"):
			at, err := time.Parse(time.RFC3339Nano, instant)
			if err != nil {
				t.Error(err)
			}
			r[name] = at.UTC()
		default:
			r[name] = canonical(value)
		}
	}
	canonicalText, err := json.Marshal(r)
	if err != nil {
		t.Error(err)
	}
	id, _ := r["id"].(string)
	tb[id] = string(canonicalText)
}

// canonical turns numbers into fractions. Integers of more than 64 bits become strings of digits
// instead, because dlt loads them that way.
func canonical(value any) any {
	switch v := value.(type) {
	case json.Number:
		n, ok := new(big.Rat).SetString(v.String())
		switch {
		case ok && n.IsInt() && n.Num().BitLen() > 64:
			return n.Num().String()
		case ok:
			return "number " + n.String()
		}
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = canonical(v[name])
		}
	}
	return value
}

// compare reports at most three differing records per table.
func compare(t *testing.T, who string, got, want tables) {
	t.Helper()
	for name := range want {
		differences := 0
		for _, id := range slices.Sorted(maps.Keys(want[name])) {
			if got[name][id] != want[name][id] && differences < 3 {
				differences++
				t.Errorf("%s: %s %s is\n%s, want\n%s", who, name, id, got[name][id], want[name][id])
			}
		}
		for _, id := range slices.Sorted(maps.Keys(got[name])) {
			if _, ok := want[name][id]; !ok && differences < 3 {
				differences++
				t.Errorf("%s: %s %s is in the copy only: %s", who, name, id, got[name][id])
			}
		}
		if len(got[name]) != len(want[name]) {
			t.Errorf("%s: %d records in the copy of %s, want %d", who, len(got[name]), name, len(want[name]))
		}
	}
}
