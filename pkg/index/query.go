package index

import (
	"cmp"
	"context"
	"encoding/base64"
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
	Cursor      record.Cursor // Next of the previous page; "" for the first page
	Limit       int           // at least 1

	low, high string // bounds of the matching keys; no key equals either bound
}

// Where adds a condition. Its error says what to change in the value.
func (q *Query) Where(c Condition) error {
	if c.Operator == Prefix && q.Declaration.ValueType != Text {
		return errors.New("needs an attribute that is indexed as text; this one is a " + string(q.Declaration.ValueType))
	}
	if c.Operator != Equal && q.Declaration.ValueType == Boolean {
		return errors.New("cannot compare a boolean; use =true or =false")
	}
	code, err := q.Declaration.ValueType.parse(c.Value)
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

// CursorAfter returns the cursor of a page that starts after a key.
func CursorAfter(key string) record.Cursor {
	return record.Cursor(base64.RawURLEncoding.EncodeToString([]byte(key)))
}

// Bounds returns two texts that enclose exactly the keys that q selects. No key equals either
// text. If q selects nothing, low may be greater than high. The error is record.ErrCursor.
func (q Query) Bounds() (low, high string, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(q.Cursor))
	if err != nil || len(b) > MaxKeyBytes {
		return "", "", record.ErrCursor
	}
	low, high = q.low, q.high
	after := string(b)
	switch n := len(after) - 1; {
	case n < 0:
	case !q.Descending:
		low = max(low, after+"\x00")
	case after[n] == 0:
		high = min(high, after)
	default: // lowering the last byte by one and adding \xff gives a bound above all keys before after
		high = min(high, after[:n]+string([]byte{after[n] - 1})+last)
	}
	return low, high, nil
}

// Key returns an entity's key for the attribute of q, or "" if the entity has none.
func (q Query) Key(id string, attributes json.RawMessage) (key string) {
	key, _ = q.Declaration.Key(id, attributes)
	return key
}

// Finder finds entities by indexed attributes. It is safe for concurrent use.
type Finder interface {
	// Find returns the entities that q selects, with their current values. An entity changed a
	// moment ago may be missing. The page and the error are as in entity.Store.List.
	Find(ctx context.Context, workspace string, q Query) (record.Page[entity.Entity], error)
}
