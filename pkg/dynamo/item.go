package dynamo

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// attributeValues maps attribute names to values, as in an item or a key.
type attributeValues = map[string]types.AttributeValue

func text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func blob(s string) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: []byte(s)}
}

// itemSize is roughly the size of the record as JSON, in bytes: the length of all attribute
// names and string values.
func itemSize(item attributeValues) int {
	n := 0
	for name, value := range item {
		n += len(name)
		if s, ok := value.(*types.AttributeValueMemberS); ok {
			n += len(s.Value)
		}
	}
	return n
}

// memberValue returns the attribute value for a member, or nil if the item does not have it.
func memberValue(m record.Member) types.AttributeValue {
	if m.Derived() || m.Optional() && m.Empty() {
		return nil
	}
	switch v := m.Value.(type) {
	case *string:
		return text(*v)
	case *int64:
		return number(*v)
	case *record.Time:
		return text(v.String())
	case *record.Attributes:
		return text(string(*v)) // JSON text, because a DynamoDB number has at most 38 digits and no trailing zeros
	}
	panic(fmt.Sprintf("dynamo: member %s has the type %T", m.Name, m.Value))
}

// itemReader reads attributes and keeps the first error. After an error, the values that it
// returns are meaningless.
type itemReader struct {
	item  attributeValues
	first error
}

func readItem(item attributeValues) *itemReader { return &itemReader{item: item} }

func (r *itemReader) text(name string) string {
	r.require(name)
	return r.optionalText(name)
}

func (r *itemReader) optionalText(name string) string {
	switch v := r.item[name].(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		r.fail(name, fmt.Sprintf("is a %T, not a string", v))
		return ""
	}
}

func (r *itemReader) binary(name string) string {
	v, ok := r.item[name].(*types.AttributeValueMemberB)
	if !ok {
		r.fail(name, "is not binary")
		return ""
	}
	return string(v.Value)
}

func (r *itemReader) number(name string) int64 {
	r.require(name)
	return r.optionalNumber(name)
}

func (r *itemReader) optionalNumber(name string) int64 {
	switch v := r.item[name].(type) {
	case nil:
		return 0
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			r.fail(name, "is not a 64-bit integer")
		}
		return n
	default:
		r.fail(name, fmt.Sprintf("is a %T, not a number", v))
		return 0
	}
}

func (r *itemReader) time(name string) record.Time {
	t, err := record.ParseTime(r.text(name))
	if err != nil {
		r.fail(name, "is "+err.Error())
	}
	return t
}

func (r *itemReader) position(name string) record.Position {
	p, err := record.ParsePosition(r.text(name))
	if err != nil {
		r.fail(name, "is "+err.Error())
	}
	return p
}

// members sets members to the attributes with their names, except those that the caller has set.
func (r *itemReader) members(members []record.Member, except ...string) {
	for _, m := range members {
		if m.Derived() || slices.Contains(except, m.Name) || m.Optional() && r.item[m.Name] == nil {
			continue
		}
		switch v := m.Value.(type) {
		case *string:
			*v = r.text(m.Name)
		case *int64:
			*v = r.optionalNumber(m.Name) // absent if a version without revisions has written the item
		case *record.Time:
			*v = r.time(m.Name)
		case *record.Attributes:
			*v = record.Attributes(r.text(m.Name))
		default:
			panic(fmt.Sprintf("dynamo: member %s has the type %T", m.Name, v))
		}
	}
}

func (r *itemReader) require(name string) {
	if r.item[name] == nil {
		r.fail(name, "is missing")
	}
}

func (r *itemReader) fail(name, detail string) {
	if r.first == nil {
		r.first = fmt.Errorf("attribute %s %s", name, detail)
	}
}

// err returns the first error, such as a missing attribute or an attribute of the wrong type.
func (r *itemReader) err() error { return r.first }

func each[R any](items []attributeValues, read func(attributeValues) (R, error)) ([]R, error) {
	records := make([]R, len(items))
	for i, item := range items {
		r, err := read(item)
		if err != nil {
			return nil, err
		}
		records[i] = r
	}
	return records, nil
}
