package index

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

type Operator string

// Prefix is only for texts. Equal is the only operator for booleans.
const (
	Equal          Operator = ""
	Greater        Operator = "gt"
	GreaterOrEqual Operator = "gte"
	Less           Operator = "lt"
	LessOrEqual    Operator = "lte"
	Prefix         Operator = "prefix"
)

type Condition struct {
	Attribute string
	Operator  Operator
	Value     string
}

// Cut splits the name of a query parameter, such as born[gte], into attribute and operator.
func Cut(name string) (attribute string, op Operator) {
	for _, op := range []Operator{Greater, GreaterOrEqual, Less, LessOrEqual, Prefix} {
		if attribute, ok := strings.CutSuffix(name, "["+string(op)+"]"); ok {
			return attribute, op
		}
	}
	return name, Equal
}

// Serving returns the declarations that can serve a query with these conditions, the most specific
// first, which is the one with the fewest attributes.
func Serving(all []Declaration, conditions []Condition) (serving []Declaration) {
	for _, d := range all {
		if d.serves(conditions) {
			serving = append(serving, d)
		}
	}
	slices.SortStableFunc(serving, func(a, b Declaration) int {
		return cmp.Or(cmp.Compare(len(a.Fields.List()), len(b.Fields.List())), a.Compare(b))
	})
	return serving
}

// serves reports whether the conditions are on leading attributes of d: equality on each but the
// last of them, which may have any operators. The first one of several attributes chooses the
// partition, so it needs equality in any case.
func (d Declaration) serves(conditions []Condition) bool {
	operators := make(map[string][]Operator)
	for _, c := range conditions {
		operators[c.Attribute] = append(operators[c.Attribute], c.Operator)
	}
	fields := d.Fields.List()
	if len(operators) == 0 || len(operators) > len(fields) {
		return false
	}
	for i, f := range fields[:len(operators)] {
		given := operators[f.Name]
		anyOperator := i == len(operators)-1 && (i > 0 || len(fields) == 1)
		if len(given) == 0 || !anyOperator && !slices.Equal(given, []Operator{Equal}) {
			return false
		}
	}
	return true
}

// Query requests entities, ordered by the values of the indexed attributes and then by id. Its
// declaration must serve its conditions.
type Query struct {
	Declaration Declaration
	Descending  bool
	Cursor      record.Cursor // Next of the previous page; "" for the first page
	Limit       int           // at least 1

	ranges [MaxFields]valueRange // by field
}

// valueRange are the values that the conditions on an attribute select. The codes in between are
// selected; none equals low or high.
type valueRange struct {
	equal     string // the only code that is selected; "" if there may be others
	low, high string // "" for no bound
	size      int    // of the longest value, as it counts toward maxTextBytes
}

var errValues = fmt.Errorf("makes the values of the query longer than %d bytes in all, and no entity with such values is indexed", maxTextBytes)

// Where adds a condition. Its error says what to change in the value.
func (q *Query) Where(c Condition) error {
	i := slices.Index(q.Declaration.Fields.Names(), c.Attribute)
	if i < 0 {
		return errors.New("is not an attribute of the index")
	}
	f := q.Declaration.Fields[i]
	if c.Operator != Equal && f.ValueType == Boolean {
		return errors.New("cannot compare a boolean; use =true or =false")
	}
	if c.Operator == Prefix && f.ValueType != Text {
		return errors.New("needs an attribute that is indexed as text; this one is a number, so use [gte] and [lt]")
	}
	code, err := f.parse(c.Value)
	if err != nil {
		return err
	}
	r := &q.ranges[i]
	low, high := "", last+last
	switch c.Operator {
	case Equal:
		r.equal = code
	case Greater:
		low = code + last
	case GreaterOrEqual:
		low = code
	case Less:
		high = code
	case LessOrEqual:
		high = code + last
	case Prefix:
		low = strings.TrimSuffix(code, endOfText)
		high = low + last
	}
	r.low, r.high = max(r.low, low), min(cmp.Or(r.high, high), high)
	r.size = max(r.size, f.ValueType.size(code))
	size := 0
	for _, r := range q.ranges {
		size += r.size
	}
	if size > maxTextBytes { // DynamoDB would reject longer bounds
		return errValues
	}
	return nil
}

// CursorAfter returns the cursor of a page that starts after a Key.Rest.
func CursorAfter(rest string) record.Cursor {
	return record.Cursor(base64.RawURLEncoding.EncodeToString([]byte(rest)))
}

// Bounds select the keys with a Lead whose Rest is between Low and High. No Rest equals either. If
// they select nothing, Low may be greater than High.
type Bounds struct{ Lead, Low, High string }

// Bounds returns the bounds of exactly the keys that q selects. The error is record.ErrCursor.
func (q Query) Bounds() (Bounds, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(q.Cursor))
	if err != nil || len(raw) > MaxKeyBytes {
		return Bounds{}, record.ErrCursor
	}
	b, after := q.selected(), string(raw)
	switch n := len(after) - 1; {
	case n < 0:
	case !q.Descending:
		b.Low = max(b.Low, after+"\x00")
	case after[n] == 0:
		b.High = min(b.High, after)
	default: // lowering the last byte by one and adding \xff gives a bound above all keys before after
		b.High = min(b.High, after[:n]+string([]byte{after[n] - 1})+last)
	}
	return b, nil
}

// selected returns the bounds of the keys that the conditions select.
func (q Query) selected() (b Bounds) {
	equal := ""
	fields := q.Declaration.Fields.List()
	for i := range fields {
		r := q.ranges[i]
		switch {
		case r.equal == "":
			b.Low, b.High = equal+max(r.low, first), equal+cmp.Or(r.high, last+last)
			return b
		case i == 0 && len(fields) > 1:
			b.Lead = r.equal
		default:
			equal += r.equal
		}
	}
	b.Low, b.High = equal, equal+last
	return b
}

// Key returns an entity's key for q's declaration.
func (q Query) Key(id string, attributes json.RawMessage) (key Key) {
	key, _ = q.Declaration.Key(id, attributes)
	return key
}

// Finder finds entities by indexed attributes. It is safe for concurrent use.
type Finder interface {
	// Find returns the entities that q selects, with their current values. An entity changed a
	// moment ago may be missing. The page and the error are as in entity.Store.List.
	Find(ctx context.Context, workspace string, q Query) (record.Page[entity.Entity], error)
}
