package index

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	Operator Operator
	Value    string
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

// Query requests entities, ordered by the value of an indexed attribute and then by id.
type Query struct {
	Declaration Declaration
	Descending  bool
	After       string // key after which the page starts; "" for the first page
	Limit       int    // at least 1

	low, high string // bounds of the matching keys; no key equals either bound
}

// Where adds a condition. Its error says what to change in the value.
func (q *Query) Where(c Condition) error {
	if c.Operator == Prefix && q.Declaration.Kind != Text {
		return errors.New("needs an attribute that is indexed as text; this one is a " + string(q.Declaration.Kind))
	}
	if c.Operator != Equal && q.Declaration.Kind == Boolean {
		return errors.New("cannot compare a boolean; use =true or =false")
	}
	code, err := q.Declaration.Kind.parse(c.Value)
	if err != nil {
		return err
	}
	low, high := "", last+last
	switch c.Operator {
	case Equal:
		low, high = code, code+last
	case Greater:
		low = code + last
	case GreaterOrEqual:
		low = code
	case Less:
		high = code
	case LessOrEqual:
		high = code + last
	case Prefix:
		low, high = escape(c.Value), escape(c.Value)+last
	}
	q.low, q.high = max(q.low, low, first), min(cmp.Or(q.high, high), high)
	return nil
}

// Bounds returns two texts that enclose exactly the keys that q selects. No key equals either
// text. If q selects nothing, low may be greater than high.
func (q Query) Bounds() (low, high string) {
	low, high = q.low, q.high
	switch n := len(q.After) - 1; {
	case n < 0:
	case !q.Descending:
		low = max(low, q.After+"\x00")
	case q.After[n] == 0:
		high = min(high, q.After)
	default: // lowering the last byte by one and adding \xff gives a bound above all keys before q.After
		high = min(high, q.After[:n]+string([]byte{q.After[n] - 1})+last)
	}
	return low, high
}

// Key returns an entity's key for the attribute of q, or "" if the entity has none.
func (q Query) Key(id string, attributes json.RawMessage) (key string) {
	key, _ = q.Declaration.Key(id, attributes)
	return key
}

// Finder finds entities by indexed attributes. It is safe for concurrent use.
type Finder interface {
	// Find returns the entities that q selects, with their current values. An entity changed a
	// moment ago may be missing. As in entity.Store.List, a page may have fewer than q.Limit even if
	// More is true. The next page starts after the index key Last.ID. The error may have kind
	// Unavailable.
	Find(ctx context.Context, workspace string, q Query) (record.Page[entity.Entity], error)
}
